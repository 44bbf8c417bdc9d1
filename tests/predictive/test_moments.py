"""Moments of drawn functions against those that NumPy computes in float64 of the same outputs."""

import contextlib
import itertools
import tempfile
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import two_replicas
from absl.testing import parameterized

import tfbdl
from tfbdl import layers, likelihoods
from tfbdl.draws import accept_draws
from tfbdl.predictive.functions import DRAWS_PER_CALL

RNG = np.random.default_rng(0)
N, C, S = 11, 2, 2 * DRAWS_PER_CALL + 31
X = np.arange(N, dtype="float32")[:, None]
SCOPES = {
    "one device": contextlib.nullcontext,
    "two replicas": lambda: two_replicas.strategy().scope(),
}
SPREADS = ((0, 1e-4), (0, 1e4), (1, 1e-5), (1, 10), (1e4, 0.02), (1e4, 1e5), (1e6, 0.3))
FIRST = (0, 1e3)


class Listed(keras.layers.Layer):
    """Function number s has the outputs table[s], of shape (S, N, C), at the examples x."""

    def __init__(self) -> None:
        super().__init__()
        self.table = self.add_weight(shape=(S, N, C), trainable=False)
        accept_draws(self)

    def call(self, x: Any, draw: Any = None) -> Any:
        number = 0 if draw is None else draw[1]
        table = tf.convert_to_tensor(self.table)
        return tf.gather(table[number], tf.cast(x[:, 0], tf.int32))


def listed(scope: str = "one device") -> keras.Model:
    with SCOPES[scope]():
        return keras.Sequential([keras.Input((1,)), Listed()])


def drawn(mean: Any, spread: Any) -> Any:
    return (mean + spread * RNG.normal(size=(S, N, C))).astype("float32")


class AgainstFloat64Test(tf.test.TestCase, parameterized.TestCase):
    def check(self, mean: Any, variance: Any, table: Any) -> None:
        """The mean to the last digit of float32, or of the spread's 20."""
        exact = table.astype(np.float64)
        np.testing.assert_allclose(variance, exact.var(axis=0), rtol=1e-4)
        last_digit = 1e-7 * np.abs(exact.mean(axis=0)) + 5e-6 * exact.std(axis=0)
        self.assertLess(np.max(np.abs(mean - exact.mean(axis=0)) / last_digit), 1.0)

    @parameterized.parameters(*SCOPES)
    def test_however_large_the_mean(self, scope: Any) -> None:
        """Over several batches and more draws than a call computes.

        The first function, and that of the mean weights, may be far from all others.
        """
        model = listed(scope)
        for (mean, spread), distance in itertools.product(SPREADS, FIRST):
            table = drawn(mean, spread)
            table[0] += np.float32(distance * spread)
            model.layers[0].table.assign(table)
            got = tfbdl.predict(model, X, S, batch_size=6, verbose=0)
            self.check(got.mean, got.epistemic_variance, table)

    @parameterized.parameters(*SCOPES)
    def test_where_the_functions_are_kept(self, scope: Any) -> None:
        model, table = listed(scope), drawn(1e4, 0.02)
        model.layers[0].table.assign(table)
        got = tfbdl.predict(model, X, S, batch_size=6, return_samples=True, verbose=0)
        self.check(got.mean, got.epistemic_variance, table)
        self.assertAllEqual(got.outputs, table)

    def test_as_it_is_served(self) -> None:
        """One loop goes over all draws."""
        model = listed()
        for mean, spread in SPREADS:
            table = drawn(mean, spread)
            model.layers[0].table.assign(table)
            path = Path(self.enter_context(tempfile.TemporaryDirectory())) / "1"
            tfbdl.export(model, path, S)
            serve = tf.saved_model.load(str(path)).signatures["serving_default"]
            answer = {name: value.numpy() for name, value in serve(tf.constant(X)).items()}
            self.check(answer["mean"], answer["epistemic_stddev"].astype(np.float64) ** 2, table)
            self.assertAllEqual(answer["stddev"], answer["epistemic_stddev"])
            self.assertEqual({value.dtype for value in answer.values()}, {np.dtype("float32")})

    @parameterized.parameters(*SCOPES)
    def test_equal_functions_have_no_variance(self, scope: Any) -> None:
        model, likelihood = listed(scope), likelihoods.Normal("predicted")
        for value in (0.1, 12345.67, -3e6):
            table = np.full((S, N, C), value, "float32")
            model.layers[0].table.assign(table)
            got, one = (
                tfbdl.predict(model, X, num_samples, verbose=0, likelihood=likelihood)
                for num_samples in (S, 1)
            )
            self.assertAllEqual(got.mean, table[0, :, :1])
            self.assertAllEqual(got.epistemic_variance, np.zeros((N, 1)))
            self.assertAllClose(got.aleatoric_variance, one.aleatoric_variance, 3e-7, 0)
            self.assertAllClose(got.expected_entropy, one.expected_entropy, 3e-7, 0)

    @parameterized.parameters(
        likelihoods.Normal("predicted"), likelihoods.Categorical(), likelihoods.Poisson()
    )
    def test_of_likelihoods(self, likelihood: Any) -> None:
        """The means of variances and entropies, and the variance of means."""
        model, table = listed(), drawn(1.0, 0.01)
        model.layers[0].table.assign(table)
        got = tfbdl.predict(model, X, S, verbose=0, likelihood=likelihood)
        mean, variance, entropy = (
            np.array([f(tf.constant(row)) for row in table], np.float64)
            for f in (likelihood.mean, likelihood.variance, likelihood.entropy)
        )
        np.testing.assert_allclose(got.mean, mean.mean(axis=0), rtol=1e-6)
        np.testing.assert_allclose(got.epistemic_variance, mean.var(axis=0), rtol=1e-4)
        np.testing.assert_allclose(got.aleatoric_variance, variance.mean(axis=0), rtol=1e-6)
        np.testing.assert_allclose(got.expected_entropy, entropy.mean(axis=0), rtol=1e-6)

    def test_of_outputs_in_float64(self) -> None:
        """Float32 could not tell them apart."""
        layer = layers.BayesDense(2, num_data=9, seed=3, dtype="float64")
        model = keras.Sequential([keras.Input((4,)), layer])
        x = RNG.normal(size=(N, 4))
        variances = []
        for mean in (1e3, 1e9):
            layer.bias.mu.assign([mean, mean])
            variances.append(tfbdl.predict(model, x, S, seed=1, verbose=0).epistemic_variance)
        np.testing.assert_allclose(*variances, rtol=1e-4)


if __name__ == "__main__":
    tf.test.main()

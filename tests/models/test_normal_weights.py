"""Normal weights of one network: their law, draws, files."""

import tempfile
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

import tfbdl
from tfbdl.draws import DrawnModel, make_draw
from tfbdl.models import NormalWeights

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 3)).astype("float32")


def line() -> keras.Model:
    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])


def normalised() -> keras.Model:
    stack = [keras.layers.Dense(4), keras.layers.BatchNormalization(), keras.layers.Dense(2)]
    return keras.Sequential([keras.Input((3,)), *stack])


def made(build: Any = normalised, state: Any = None) -> NormalWeights:
    model = build()
    size = sum(int(np.prod(v.shape)) for v in model.trainable_variables)
    mean, stddev = RNG.normal(size=size), RNG.uniform(size=size)
    return NormalWeights(model, mean, stddev, state)


class NormalWeightsTest(tf.test.TestCase, parameterized.TestCase):
    def test_functions_of_a_linear_model_have_their_exact_law(self) -> None:
        mean, stddev = np.array([0.5, -1.0, 2.0, 0.3]), np.array([0.1, 0.0, 0.5, 0.2])
        drawn = NormalWeights(line(), mean, stddev)
        S = 4000
        prediction = tfbdl.predict(drawn, X, S, seed=0, return_samples=True, verbose=0)
        inputs = np.column_stack([X, np.ones(4)])
        exact_mean, covariance = inputs @ mean, (inputs * stddev**2) @ inputs.T
        variance = np.diag(covariance)
        z = (prediction.mean[:, 0] - exact_mean) / np.sqrt(variance / S)
        self.assertLess(np.abs(z).max(), 4)
        z = (prediction.epistemic_variance[:, 0] / variance - 1) / np.sqrt(2 / S)
        self.assertLess(np.abs(z).max(), 4)
        samples = prediction.samples[..., 0]
        error = np.sqrt((covariance**2 + np.outer(variance, variance)) / S)
        self.assertLess(np.abs((np.cov(samples.T) - covariance) / error).max(), 4.5)

    def test_one_draw_is_one_function(self) -> None:
        drawn = DrawnModel(made())
        whole = drawn(X, draw=make_draw(1, 2))
        parts = [drawn(X[i : i + 2], draw=make_draw(1, 2)) for i in (0, 2)]
        self.assertAllClose(whole, tf.concat(parts, axis=0), 1e-5)
        for other in (make_draw(1, 3), make_draw(2, 2)):
            self.assertNotAllClose(whole, drawn(X, draw=other))

    def test_without_a_draw_it_is_the_function_of_the_mean(self) -> None:
        state = np.array([0.1, 0.2, 0.3, 0.4, 1.0, 2.0, 3.0, 4.0])
        drawn = made(state=state)
        expected = normalised()
        weights = np.split(np.asarray(drawn.mean), [12, 16, 20, 24, 32])
        first, last = [weights[0].reshape(3, 4), *weights[1:4]], weights[4].reshape(4, 2)
        expected.set_weights([*first, state[:4], state[4:], last, weights[5]])
        self.assertAllClose(drawn(X), expected(X), 1e-5)

    def test_files(self) -> None:
        drawn = made(state=np.linspace(1.0, 2.0, 8))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "drawn.keras"
            drawn.save(path)
            again = keras.models.load_model(path)
        self.assertAllClose(again(X), drawn(X), 1e-6)
        before, after = (tfbdl.predict(m, X, 3, seed=1, verbose=0) for m in (drawn, again))
        self.assertAllClose(before.epistemic_stddev, after.epistemic_stddev, 1e-6)

    @parameterized.parameters(
        ([0.0] * 3, [1.0] * 4, r"^mean has shape \(3,\); give \(4,\)$"),
        ([0.0] * 4, [[1.0] * 4], r"^stddev has shape \(1, 4\); give \(4,\)$"),
        ([0.0] * 4, [1.0, -1.0, 1.0, 1.0], "^stddev has -1; give numbers of at least 0$"),
        ([np.nan] * 4, [1.0] * 4, "^mean "),
    )
    def test_refusals(self, mean: Any, stddev: Any, message: str) -> None:
        with self.assertRaisesRegex(ValueError, message):
            NormalWeights(line(), mean, stddev)


if __name__ == "__main__":
    tf.test.main()

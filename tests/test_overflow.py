"""Numbers of float64 that float32 does not hold: named where they are given, in one line."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

import tfbdl
from tfbdl import inference, likelihoods

N = 12
X = np.random.default_rng(0).normal(size=(N, 4))
Y = X[:, :1]


def huge(array: Any) -> Any:
    """The array with one number that is finite in float64 alone."""
    array = array.astype("float64")
    array[5, 0] = 1e300
    return array


def bayesian() -> Any:
    model = keras.Sequential(
        [keras.Input((4,)), tfbdl.layers.BayesDense(1, num_data=N, posterior="point")]
    )
    model.compile("sgd", likelihoods.Normal(1.0), jit_compile=False)
    return model


def plain() -> Any:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", likelihoods.Normal(1.0), jit_compile=False)
    return model


def batches(x: Any, y: Any) -> Any:
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(4)


def laplace() -> Any:
    return inference.Laplace(plain(), jit_compile=False)


def swag() -> Any:
    model = keras.Sequential(
        [keras.Input((4,)), keras.layers.BatchNormalization(), keras.layers.Dense(1)]
    )
    model.compile(keras.optimizers.SGD(0.01), likelihoods.Normal(1.0), jit_compile=False)
    return inference.SWAG(model, jit_compile=False).fit(X, Y, epochs=3, verbose=0)


def ensemble() -> Any:
    return inference.DeepEnsemble(plain, 1, jit_compile=False)


QUIET = {"epochs": 1, "batch_size": 4, "verbose": 0}
PLAINLY = {**QUIET, "jit_compile": False}
OF_X = {
    "train": lambda x: tfbdl.train(bayesian(), x, Y, **PLAINLY),
    "predict": lambda x: tfbdl.predict(bayesian(), x, 2, verbose=0),
    "predict, a data set": lambda x: tfbdl.predict(bayesian(), batches(x, Y), 2, verbose=0),
    "elbo": lambda x: tfbdl.elbo(bayesian(), x, Y, 2),
    "log_predictive_density": lambda x: tfbdl.log_predictive_density(bayesian(), x, Y, 2),
    "LogPosterior": lambda x: inference.LogPosterior(plain(), 1.0, x, Y),
    "Laplace.fit": lambda x: laplace().fit(x, Y),
    "predict, of Laplace": lambda x: tfbdl.predict(laplace().fit(X, Y), x, verbose=0),
    "NeuralLinear.fit": lambda x: inference.NeuralLinear(plain()).fit(x, Y),
    "predict, of NeuralLinear": lambda x: tfbdl.predict(
        inference.NeuralLinear(plain()).fit(X, Y), x, verbose=0
    ),
    "DeepEnsemble.fit": lambda x: ensemble().fit(x, Y, **QUIET),
    "SWAG.ensemble": lambda x: swag().ensemble(2, x=x),
}
OF_Y = {
    "train": lambda y: tfbdl.train(bayesian(), X, y, **PLAINLY),
    "elbo": lambda y: tfbdl.elbo(bayesian(), X, y, 2),
    "log_predictive_density": lambda y: tfbdl.log_predictive_density(bayesian(), X, y, 2),
    "LogPosterior": lambda y: inference.LogPosterior(plain(), 1.0, X, y),
    "Laplace.fit": lambda y: laplace().fit(X, y),
    "NeuralLinear.fit": lambda y: inference.NeuralLinear(plain()).fit(X, y),
    "DeepEnsemble.fit": lambda y: ensemble().fit(X, y, **QUIET),
}


class OverflowTest(parameterized.TestCase):
    def refuse(self, name: str, call: Any, values: Any) -> None:
        message = f"^{name}( of batch 1)? overflows float32 in "
        with self.assertRaisesRegex(ValueError, message) as caught:
            call(values)
        self.assertNotIn("\n", str(caught.exception))

    @parameterized.parameters(*OF_X)
    def test_x(self, name: str) -> None:
        self.refuse("x", OF_X[name], huge(X))

    @parameterized.parameters(*OF_Y)
    def test_y(self, name: str) -> None:
        self.refuse("y", OF_Y[name], huge(Y))

    @parameterized.parameters(*OF_X)
    def test_what_float32_holds_is_taken(self, name: str) -> None:
        OF_X[name](X)

    def test_chains_that_are_computed_in_float64_take_it(self) -> None:
        data = huge(X), Y
        wide = inference.LogPosterior(plain(), 1.0, *data, dtype="float64")
        self.assertEqual(wide.x.dtype, tf.float64)


if __name__ == "__main__":
    absltest.main()

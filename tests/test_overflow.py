"""Numbers of float64 that float32 does not hold: named where they are given, in one line."""

import keras
import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

import tfbdl
from tfbdl import inference, likelihoods, optimizers

N = 12
X = np.random.default_rng(0).normal(size=(N, 4))
Y = X[:, :1]


def huge(array):
    """The array with one number that is finite in float64 alone."""
    array = array.astype("float64")
    array[5, 0] = 1e300
    return array


def bayesian():
    model = keras.Sequential(
        [keras.Input((4,)), tfbdl.layers.BayesDense(1, num_data=N, posterior="point")]
    )
    model.compile("sgd", likelihoods.Normal(1.0), jit_compile=False)
    return model


def plain():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=False)
    return model


def batches(x, y):
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(4)


def path():
    samples = inference.WeightSnapshots()
    model = keras.Sequential(
        [keras.Input((4,)), keras.layers.BatchNormalization(), keras.layers.Dense(1)]
    )
    model.compile(optimizers.SGLD(0.01, num_data=N, seed=1), "mse", jit_compile=False)
    model.fit(X, Y, 6, 3, callbacks=[samples], verbose=0)
    return samples


def laplace():
    return inference.Laplace(plain(), "regression", jit_compile=False)


QUIET = {"epochs": 1, "batch_size": 4, "verbose": 0, "jit_compile": False}
OF_X = {
    "train": lambda x: tfbdl.train(bayesian(), x, Y, **QUIET),
    "predict": lambda x: tfbdl.predict(bayesian(), x, 2, verbose=0),
    "predict, a data set": lambda x: tfbdl.predict(bayesian(), batches(x, Y), 2, verbose=0),
    "elbo": lambda x: tfbdl.elbo(bayesian(), x, Y, 2),
    "log_predictive_density": lambda x: tfbdl.log_predictive_density(bayesian(), x, Y, 2),
    "LogPosterior": lambda x: inference.LogPosterior(plain(), likelihoods.Normal(1.0), 1.0, x, Y),
    "Laplace.fit": lambda x: laplace().fit(x, Y),
    "Laplace.predict": lambda x: laplace().fit(X, Y).predict(x),
    "NeuralLinear.fit": lambda x: inference.NeuralLinear(plain()).fit(x, Y),
    "NeuralLinear.predict": lambda x: inference.NeuralLinear(plain()).fit(X, Y).predict(x),
    "DeepEnsemble.fit": lambda x: inference.DeepEnsemble(plain, 1).fit(x, Y, **QUIET),
    "SWAG.ensemble": lambda x: inference.SWAG(path()).ensemble(2, x=x),
}
OF_Y = {
    "train": lambda y: tfbdl.train(bayesian(), X, y, **QUIET),
    "elbo": lambda y: tfbdl.elbo(bayesian(), X, y, 2),
    "log_predictive_density": lambda y: tfbdl.log_predictive_density(bayesian(), X, y, 2),
    "LogPosterior": lambda y: inference.LogPosterior(plain(), likelihoods.Normal(1.0), 1.0, X, y),
    "Laplace.fit": lambda y: laplace().fit(X, y),
    "NeuralLinear.fit": lambda y: inference.NeuralLinear(plain()).fit(X, y),
    "DeepEnsemble.fit": lambda y: inference.DeepEnsemble(plain, 1).fit(X, y, **QUIET),
}


class OverflowTest(parameterized.TestCase):
    def refuse(self, name, call, values):
        with self.assertRaisesRegex(ValueError, f"^{name} overflows float32 in ") as caught:
            call(values)
        self.assertNotIn("\n", str(caught.exception))

    @parameterized.parameters(*OF_X)
    def test_x(self, name):
        self.refuse("x", OF_X[name], huge(X))

    @parameterized.parameters(*OF_Y)
    def test_y(self, name):
        self.refuse("y", OF_Y[name], huge(Y))

    @parameterized.parameters(*OF_X)
    def test_what_float32_holds_is_taken(self, name):
        OF_X[name](X)

    def test_chains_that_are_computed_in_float64_take_it(self):
        data = huge(X), Y
        wide = inference.LogPosterior(plain(), likelihoods.Normal(1.0), 1.0, *data, dtype="float64")
        self.assertEqual(wide.x.dtype, tf.float64)


if __name__ == "__main__":
    absltest.main()

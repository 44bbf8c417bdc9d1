"""The method around IVON: predictions of its q, and a network that was trained elsewhere."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tfbdl
from tfbdl.inference import MeanFieldVI
from tfbdl.models import NormalWeights
from tfbdl.optimizers import IVON, DrawnWeights

N = 60
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3)).astype("float32")
Y = (X @ np.array([[1.0], [-0.5], [0.2]]) + 0.3 * RNG.normal(size=(N, 1))).astype("float32")


def line(optimizer: Any = None) -> keras.Model:
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    ivon = IVON(0.05, num_data=N, beta_2=0.99, initial_hessian=10.0, seed=1)
    model.compile(optimizer or ivon, tfbdl.likelihoods.Normal(0.3))
    return model


class MeanFieldVITest(tf.test.TestCase):
    def test_predictions_have_the_law_of_q(self) -> None:
        """A linear model has it in closed form."""
        posterior = MeanFieldVI(line()).fit(X, Y, epochs=30, batch_size=20, verbose=0)
        q, inputs, S = posterior.fitted_arrays(), np.column_stack([X, np.ones(N)]), 4000
        prediction = tfbdl.predict(posterior, X, S, seed=0, verbose=0)
        variance = inputs**2 @ q["stddev"] ** 2
        z = (prediction.mean[:, 0] - inputs @ q["mean"]) / np.sqrt(variance / S)
        self.assertLess(np.abs(z).max(), 4.5)
        z = (prediction.epistemic_variance[:, 0] / variance - 1) / np.sqrt(2 / S)
        self.assertLess(np.abs(z).max(), 4.5)
        self.assertAllClose(prediction.aleatoric_variance, np.full((N, 1), 0.09), 1e-5)

    def test_of_a_network_that_fit_has_trained(self) -> None:
        model = line()
        model.fit(X, Y, 20, epochs=3, verbose=0, callbacks=[DrawnWeights()])
        posterior = MeanFieldVI.of(model)
        weights = np.concatenate([w.ravel() for w in model.get_weights()])
        draws = posterior.sample(5000, seed=2)
        sigma = np.concatenate(
            [np.ravel(model.optimizer.stddev(v)) for v in model.trainable_variables]
        )
        error = np.abs(draws.mean(axis=0) - weights) / (sigma / np.sqrt(5000))
        self.assertLess(error.max(), 4)
        self.assertAllClose(draws.std(axis=0) / sigma, np.ones(4), rtol=4 / np.sqrt(2 * 5000))

    def test_predictions_hold_two_numbers_a_weight_and_are_compiled_once(self) -> None:
        posterior = MeanFieldVI(line()).fit(X, Y, epochs=1, verbose=0)
        first = posterior.functions(100, seed=0)
        self.assertIsInstance(first, NormalWeights)
        self.assertEqual(first.count_params(), 2 * 4)
        self.assertIs(posterior.functions(200, seed=1), first)
        posterior.fit(X, Y, epochs=2, verbose=0)
        again = posterior.functions(100, seed=0)
        self.assertAllEqual(again.mean, posterior.fitted_arrays()["mean"])
        self.assertNotAllEqual(again.mean, first.mean)

    def test_refusals(self) -> None:
        with self.assertRaisesRegex(
            ValueError, "^model=.* is compiled with Adam, .*optimizers.IVON$"
        ):
            MeanFieldVI(line(keras.optimizers.Adam()))
        with self.assertRaisesRegex(ValueError, "^model=.* has not been trained"):
            MeanFieldVI.of(line())


if __name__ == "__main__":
    tf.test.main()

"""The point mass: its KL is the log prior, which under a normal one is weight decay."""

from typing import Any

import keras
import numpy as np
import scipy.stats
import tensorflow as tf
from absl.testing import parameterized
from posterior_families import KEY, make

from tfbdl.layers import BayesDense

RNG = np.random.default_rng(0)
N = 24
X = RNG.normal(size=(N, 3)).astype("float32")
Y = RNG.normal(size=(N, 2)).astype("float32")


class PointTest(tf.test.TestCase, parameterized.TestCase):
    def test_kl_is_the_log_prior_up_to_a_constant(self) -> None:
        q = make("point", prior=0.5)
        expected = -np.sum(scipy.stats.norm.logpdf(q.mu.numpy(), scale=0.5))
        self.assertAllClose(q.kl(KEY), expected, 1e-12)

    def test_flat_prior_pulls_nowhere(self) -> None:
        self.assertAllEqual(make("point", "flat").kl(KEY), 0.0)

    @parameterized.parameters("posterior", "bias_posterior")
    def test_prior_without_a_bound_is_refused(self, argument: Any) -> None:
        """Its log density is infinite at 0, where biases start."""
        prior = argument.replace("posterior", "prior")
        with self.assertRaisesRegex(ValueError, "^prior=LogUniform is infinite at 0"):
            BayesDense(2, num_data=N, **{argument: "point", prior: "log_uniform"})

    def test_samples_are_the_mean(self) -> None:
        q = make("point")
        self.assertAllEqual(q.sample(KEY), q.mu.value)
        self.assertAllEqual(q.mean, q.mu.value)
        self.assertAllEqual(q.stddev, np.zeros((3, 4)))

    @parameterized.product(optimizer=("SGD", "Adam"), scale=(0.3, 2.0))
    def test_training_is_that_of_a_dense_layer_with_weight_decay(
        self, optimizer: Any, scale: Any
    ) -> None:
        """Step by step: -log N(w; 0, s^2) / N is Keras' L2 with 1 / (2 N s^2), and a constant."""
        l2 = keras.regularizers.L2(1 / (2 * N * scale**2))
        layers = (
            BayesDense(2, "tanh", num_data=N, prior=scale, posterior="point"),
            keras.layers.Dense(2, "tanh", kernel_regularizer=l2, bias_regularizer=l2),
        )
        point, dense = (keras.Sequential([keras.Input((3,)), layer]) for layer in layers)
        for a, b in zip(point.trainable_variables, dense.trainable_variables, strict=True):
            b.assign(a)
        for model in (point, dense):
            model.compile(getattr(keras.optimizers, optimizer)(0.05), "mse")
        constant = 8 * (np.log(scale) + 0.5 * np.log(2 * np.pi)) / N
        for step in range(30):
            batch = slice(8 * (step % 3), 8 * (step % 3) + 8)
            losses = [model.train_on_batch(X[batch], Y[batch]) for model in (point, dense)]
            self.assertAllClose(losses[0] - constant, losses[1], 1e-5, 1e-6)
            for a, b in zip(point.trainable_variables, dense.trainable_variables, strict=True):
                self.assertAllClose(a.value, b.value, 1e-6, 1e-6)


if __name__ == "__main__":
    tf.test.main()

"""A function of one vector of weights, for several chains, in each manner."""

from typing import Any
from unittest import mock

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

from tfbdl.inference import LogPosterior
from tfbdl.inference import over_chains as module
from tfbdl.inference.over_chains import manner_of, over_chains
from tfbdl.likelihoods import Normal

RNG = np.random.default_rng(0)
MANNERS = ("vectorised", "unrolled", "looped")


def always(manner: str) -> Any:
    return mock.patch.object(module, "manner_of", return_value=manner)


def value_and_gradient(function: Any, theta: Any) -> Any:
    theta = tf.constant(theta)

    @tf.function(jit_compile=True)
    def both() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(theta)
            value = function(theta)
        return value, tape.gradient(value, theta)

    return both()


class OverChainsTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(*MANNERS)
    def test_values_and_gradients(self, manner: Any) -> None:
        """The value and gradient of sum_i exp(theta_i) + theta_0 theta_1, in closed form."""
        theta = RNG.normal(size=(3, 5)).astype("float32")

        def function(one: Any) -> Any:
            return tf.reduce_sum(tf.exp(one)) + one[0] * one[1]

        with always(manner):
            value, gradient = value_and_gradient(lambda t: over_chains(function, t), theta)
        self.assertAllClose(value, np.exp(theta).sum(-1) + theta[:, 0] * theta[:, 1], 1e-5)
        expected = np.exp(theta)
        expected[:, :2] += theta[:, 1::-1]
        self.assertAllClose(gradient, expected, 1e-5)

    @parameterized.parameters(*MANNERS)
    def test_posteriors(self, manner: Any) -> None:
        """Chains have the log density and gradient that each has alone."""
        stack = [keras.Input((3,)), keras.layers.Dense(4, "tanh"), keras.layers.Dense(1)]
        x, y = RNG.normal(size=(20, 3)), RNG.normal(size=(20, 1))
        target = LogPosterior(keras.Sequential(stack), 1.0, x, y, likelihood=Normal(0.5))
        theta = RNG.normal(size=(3, target.size)).astype("float32")
        alone = [value_and_gradient(target, one) for one in theta]
        with always(manner):
            value, gradient = value_and_gradient(target, theta)
        self.assertAllClose(value, [one for one, _ in alone], 1e-5)
        self.assertAllClose(gradient, [one for _, one in alone], 1e-4, 1e-4)

    @parameterized.parameters(
        (4, 46, 100, "vectorised"),
        (4, 501, 200, "unrolled"),
        (4, 301, 9_000, "unrolled"),
        (17, 501, 200, "vectorised"),
        (4, 39_760, 1_000, "vectorised"),
        (None, 501, 200, "vectorised"),
        (4, 501, 0, "vectorised"),
    )
    def test_the_fastest_manner(
        self, num_chains: int | None, size: int, num_data: int, manner: str
    ) -> None:
        """Small regressions have operations of their own for each of a few chains."""

        def chosen(*devices: str, has_loops: bool = False) -> str:
            with mock.patch.object(tf.config, "list_logical_devices", return_value=devices):
                return manner_of(num_chains, size, num_data, has_loops=has_loops)

        self.assertEqual(chosen(), manner)
        self.assertEqual(chosen("GPU:0"), "vectorised")
        self.assertEqual(chosen(has_loops=True), "looped")


if __name__ == "__main__":
    tf.test.main()

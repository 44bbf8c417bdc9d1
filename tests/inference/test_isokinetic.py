"""Isokinetic dynamics: the turn by its differential equation, the step, and what MCLMC samples."""

from __future__ import annotations

import math
from typing import Any

import known_targets
import numpy as np
import scipy.integrate
import tensorflow as tf
from absl.testing import parameterized

from tfbdl.inference import MAMS, MCLMC, MCMC, ess
from tfbdl.inference.mcmc.kernels.isokinetic import Moving, any_direction, integrate, turn

RNG = np.random.default_rng(0)


def rows(*shape: int) -> np.ndarray:
    v = RNG.normal(size=shape)
    return v / np.linalg.norm(v, axis=-1, keepdims=True)


class TurnTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.product(size=(2, 3, 50), strength=(1e-3, 1.0, 30.0))
    def test_by_integration(self, size: int, strength: float) -> None:
        """du/dt = sqrt(D) / (D - 1) (g - u (u g)), dK/dt = sqrt(D) u g, over a time of 0.7."""
        u, g, time = rows(4, size), strength * rows(4, size), 0.7
        turned, gain = turn(tf.constant(u), tf.constant(g), tf.constant([time] * 4, tf.float64))
        for i in range(4):

            def slope(_: float, y: np.ndarray, force: np.ndarray = g[i]) -> np.ndarray:
                u, along = y[:-1], y[:-1] @ force
                rate = math.sqrt(size) / (size - 1) * (force - u * along)
                return np.append(rate, math.sqrt(size) * along)

            end = scipy.integrate.solve_ivp(
                slope, (0, time), np.append(u[i], 0.0), rtol=1e-10, atol=1e-12
            ).y[:, -1]
            self.assertAllClose(turned[i], end[:-1], 1e-6, 1e-8)
            self.assertAllClose(gain[i], end[-1], 1e-6, 1e-8)

    def test_gain_is_the_change_of_volume(self) -> None:
        """The determinant between the tangent planes, on the sphere in three dimensions."""
        u, g = rows(1, 3), 2.0 * rows(1, 3)
        time = tf.constant([0.5], tf.float64)
        with tf.GradientTape() as tape:
            start = tf.constant(u)
            tape.watch(start)
            unit = start / tf.norm(start)
            turned, gain = turn(unit, tf.constant(g), time)
        jacobian = tape.jacobian(turned, start)[0, :, 0].numpy()

        def tangent(v: np.ndarray) -> np.ndarray:
            return np.linalg.svd(v[None])[2][1:].T

        inner = tangent(turned[0].numpy()).T @ jacobian @ tangent(u[0])
        self.assertAllClose(np.log(abs(np.linalg.det(inner))), -gain[0], 1e-9)

    def test_strong_gradients_in_single_precision(self) -> None:
        u = tf.constant(rows(3, 10), tf.float32)
        g = tf.constant(1e4 * rows(3, 10), tf.float32)
        turned, _ = turn(u, g, tf.ones([3]))
        self.assertAllClose(turned, g / tf.norm(g, axis=-1, keepdims=True), 1e-5, 1e-5)
        same, gain = turn(u, tf.zeros_like(g), tf.ones([3]))
        self.assertAllClose(same, u, 1e-6)
        self.assertAllEqual(gain, np.zeros(3))


class StepTest(tf.test.TestCase):
    THETA = known_targets.from_standard(RNG.normal(size=(6, 5)))
    SCALE = tf.constant([[1.0, 1.4, 0.5, 1.0, 0.5]], tf.float64)

    def path(self, steps: int, length: float) -> tuple[Moving, tf.Tensor]:
        kernel = MAMS()
        state = kernel.init(known_targets.both, tf.constant(self.THETA), tf.constant([0, 1]))
        moving = Moving.of(state, any_direction(tf.constant([1, 2]), state.theta))
        return self.moved(moving, steps, length)

    def moved(self, moving: Moving, steps: int, length: float) -> tuple[Moving, tf.Tensor]:
        error = tf.zeros([6], tf.float64)
        step = tf.fill([6], tf.constant(length / steps, tf.float64))
        for _ in range(steps):
            moving, more = integrate(known_targets.both, moving, step, self.SCALE)
            error += more
        return moving, error

    def test_reversible(self) -> None:
        there, _ = self.path(20, 2.0)
        self.assertGreater(np.abs(there.theta - self.THETA).max(), 0.5)
        back, _ = self.moved(there._replace(direction=-there.direction), 20, 2.0)
        self.assertAllClose(back.theta, self.THETA, 1e-9, 1e-9)

    def test_energy_error_falls_with_the_square_of_the_step(self) -> None:
        errors = [self.path(steps, 1.0)[1].numpy() for steps in (40, 80, 160)]
        self.assertAllClose(errors[0] / errors[1], np.full(6, 4.0), 0.1)
        self.assertAllClose(errors[1] / errors[2], np.full(6, 4.0), 0.02)

    def test_speed_is_that_of_hamiltonian_dynamics(self) -> None:
        end, _ = self.path(1, 1e-6)
        moved = np.linalg.norm((end.theta - self.THETA) / self.SCALE, axis=1)
        self.assertAllClose(moved, np.full(6, 1e-6 * math.sqrt(5)), 1e-3)


class MCLMCTest(tf.test.TestCase):
    def test_direction_is_forgotten_over_the_decoherence_length(self) -> None:
        """Without forces, u_t . u_0 falls as exp(-t / L)."""
        kernel = MCLMC(decoherence_length=2.0)
        theta = tf.zeros([50, 500], tf.float64)
        flat = lambda theta: 0.0 * tf.reduce_sum(theta, axis=-1)  # noqa: E731
        start = kernel.init(flat, theta, tf.constant([0, 0]))
        state, one = start, tf.ones([50], tf.float64)
        for i in range(6):
            state, _ = kernel.step(flat, state, tf.constant([1, i]), 0.5 * one, one[:, None])
        left = tf.reduce_sum(state.direction * start.direction, axis=-1).numpy()
        error = left.std() / math.sqrt(50)
        self.assertAllClose(left.mean(), math.exp(-3.0 / 2.0), atol=5 * error + 0.005)
        self.assertAllClose(tf.norm(state.direction, axis=-1), one)

    def chains(self, scales: np.ndarray, **settings: Any) -> MCMC:
        def density(theta: tf.Tensor) -> tf.Tensor:
            scaled = theta / tf.constant(scales, theta.dtype)
            return -0.5 * tf.reduce_sum(tf.square(scaled), axis=-1)

        sizes = {"num_warmup": 1000, "num_samples": 500, "num_chains": 16, "thinning": 5}
        start = {"initial": np.zeros(20), "jitter": 1.0, "dtype": "float64", "seed": 2}
        mcmc = MCMC(density, kernel=MCLMC(**settings), jit_compile=False, **sizes, **start)
        return mcmc.fit(verbose=0)

    def test_variance_of_the_energy_is_the_one_asked_for(self) -> None:
        """Its logarithm: an error of a tenth in the step is one of 1.8 in the variance."""
        for variance in (5e-3, 5e-4):
            accepted = self.chains(np.ones(20), energy_variance=variance).draws.accept_prob
            measured = np.mean(-np.log(accepted)) * 8.0 * variance
            self.assertBetween(measured / variance, 1.0 / 1.8, 1.8)

    def test_bias(self) -> None:
        """Variances of N(0, s^2) with s from 0.1 to 10 are within 2 %."""
        scales = np.logspace(-1, 1, 20)
        mcmc = self.chains(scales, mass_matrix="diagonal")
        squares = (mcmc.theta / scales) ** 2
        size = ess(squares, "mean")
        self.assertGreater(size.min(), 500)
        away = np.abs(np.mean(squares, axis=(0, 1)) - 1.0)
        self.assertLess(np.max(away / (0.02 + 4.0 * np.sqrt(2.0 / size))), 1.0)

    def test_what_leaves_the_numbers_turns_back(self) -> None:
        def wall(theta: tf.Tensor) -> tf.Tensor:
            inside = 0.0 * tf.reduce_sum(theta, axis=1)
            return tf.where(theta[:, 0] < 1.0, inside, inside - float("inf"))

        theta = np.array([[0.999, 0.0]])
        state, info = known_targets.walk(
            MCLMC(decoherence_length=1e9), wall, theta, 30, step_size=0.1
        )
        self.assertTrue(np.isfinite(state.theta).all())
        self.assertLess(state.theta[0, 0], 1.0)
        self.assertEqual(info.num_gradients, [2])

    def test_arguments(self) -> None:
        for kernel in (MCLMC(), MAMS()):
            with self.assertRaisesRegex(ValueError, "needs two weights; take kernel='nuts'"):
                MCMC(known_targets.gaussian, kernel=kernel, initial=[0.0]).fit(verbose=0)
        with self.assertRaisesRegex(ValueError, "^energy_variance=0 must be a positive"):
            MCLMC(energy_variance=0)
        with self.assertRaisesRegex(ValueError, "^decoherence_length=-1 must be a positive"):
            MCLMC(decoherence_length=-1)


if __name__ == "__main__":
    tf.test.main()

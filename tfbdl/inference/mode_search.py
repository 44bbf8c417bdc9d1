"""The search for a mode of a log density: by L-BFGS, or by an optimizer of Keras."""

from __future__ import annotations

from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfbdl.graphs import Compiled
from tfbdl.inference.density import Density, value_and_gradient
from tfbdl.probability import tfp

STEPS_PER_CALL = 100
"""Steps of a Keras optimizer between two looks at the gradient."""
ROUNDINGS = 5.0
"""The multiple of its rounding error at which a gradient counts as zero."""


class Mode(NamedTuple):
    """The end of a search.

    theta: shape (D,).
    log_prob: the log density at theta, in nats.
    gradient_norm: the largest absolute element of the gradient there, in nats per unit of a weight.
    num_iterations: the number of iterations taken.
    """

    theta: np.ndarray
    log_prob: float
    gradient_norm: float
    num_iterations: int


class Search:
    """Ways to a mode of a log density."""

    def __init__(
        self, target: Density, jit_compile: bool | None, tolerance: float, max_iterations: int
    ) -> None:
        self._target, self._jit_compile = target, jit_compile
        self._tolerance, self._max_iterations = tolerance, max_iterations
        self._compiled_loss = Compiled(self._loss, jit_compile)

    def at(self, theta: np.ndarray, num_iterations: int) -> Mode:
        """The state of the search at theta."""
        loss, gradient = self._compiled_loss(tf.constant(theta))
        return Mode(theta, -float(loss), float(np.max(np.abs(gradient))), num_iterations)

    def at_mode(self, mode: Mode) -> bool:
        """Whether the gradient is within the tolerance, or no larger than rounding errors."""
        if mode.gradient_norm <= self._tolerance:
            return True
        signs = np.random.default_rng(0).choice([-np.inf, np.inf], mode.theta.shape)
        beside = np.nextafter(mode.theta, signs.astype(mode.theta.dtype))
        here, there = (self._compiled_loss(tf.constant(t))[1] for t in (mode.theta, beside))
        return mode.gradient_norm <= ROUNDINGS * float(np.max(np.abs(here - there)))

    def follow_curvature(self, start: Mode) -> Mode:
        """Searches by L-BFGS, begun anew where a search has ended, as long as that gains.

        In float32 a line search may end by the rounding of one density long before the mode.
        """

        def search(theta: tf.Tensor, most: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            end = tfp.optimizer.lbfgs_minimize(
                self._compiled_loss, theta, tolerance=self._tolerance, max_iterations=most
            )
            return end.position, end.num_iterations

        run = Compiled(search, self._jit_compile)
        mode, gain = start, np.inf
        while gain > 0 and mode.num_iterations < self._max_iterations and not self.at_mode(mode):
            left = self._max_iterations - mode.num_iterations
            theta, count = run(tf.constant(mode.theta), tf.constant(left))
            there = self.at(theta.numpy(), mode.num_iterations + int(count))
            gain = there.log_prob - mode.log_prob
            mode = there if gain > 0 else mode._replace(num_iterations=there.num_iterations)
        return mode

    def descend(self, start: Mode, optimizer: keras.optimizers.Optimizer) -> Mode:
        """Searches by a copy of a Keras optimizer."""
        optimizer = type(optimizer).from_config(optimizer.get_config())
        variable = keras.Variable(start.theta, dtype=start.theta.dtype.name)
        optimizer.build([variable])

        def step(i: tf.Tensor) -> tuple[tf.Tensor]:
            _, gradient = self._loss(tf.convert_to_tensor(variable.value))
            optimizer.apply([gradient], [variable])
            return (i + 1,)

        run = Compiled(
            lambda count: tf.while_loop(lambda i: i < count, step, (tf.constant(0),)),
            self._jit_compile,
        )
        mode = start
        while mode.num_iterations < self._max_iterations and not self.at_mode(mode):
            count = min(STEPS_PER_CALL, self._max_iterations - mode.num_iterations)
            run(tf.constant(count))
            mode = self.at(variable.numpy(), mode.num_iterations + count)
        return mode

    def _loss(self, theta: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The negative log density at theta, (D,), and its gradient."""
        log_prob, gradient = value_and_gradient(self._target, theta[None])
        return -log_prob[0], -gradient[0]

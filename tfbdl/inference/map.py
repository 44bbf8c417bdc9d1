"""The mode of the posterior: maximum a posteriori."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl import arguments
from tfbdl.arguments import positive_integer
from tfbdl.flat_model import FlatModel
from tfbdl.graphs import Compiled
from tfbdl.inference.kernels.base import positive, value_and_gradient
from tfbdl.inference.log_posterior import LogPosterior
from tfbdl.inference.starts import initial_points
from tfbdl.models import Ensemble
from tfbdl.probability import tfp

STEPS_PER_CALL = 100
"""Steps of a Keras optimizer between two looks at the gradient."""
ROUNDINGS = 5.0
"""How many times what rounding does to a gradient counts as none."""


class MAP:
    """The weights with the highest posterior density.

    Under a normal prior of scale s it is what weight decay finds: the minimum of Keras' mean loss
    with the regulariser `L2(1 / (2 N s^2))` on all weights. It is one function, and as a set of
    weights may look unlike any sample: the mode of a Laplace prior is sparse, its samples are not.

    Args:
        target: a `LogPosterior`, or any function of theta, shape (C, D), to its log density, (C,).
        optimizer: "lbfgs", or a Keras optimizer, its learning rate counted on the log posterior of
            all the data, such as `keras.optimizers.Adam(1e-2)`.
        max_iterations: of the optimizer.
        tolerance: where the largest element of the gradient is less, in nats per unit of a weight,
            the search ends; or no more than what rounding the weights does to it, five times over,
            which in float32 may be far more.
        initial: where the search starts: "model" at the weights that the model has, "prior" at a
            draw from it; or theta, shape (D,).
        seed: of a draw from the prior.
        jit_compile: whether XLA compiles the search; by default unless it convolves on a
            CPU, where XLA is slow.

    Attributes:
        theta: the mode, shape (D,).
        log_prob: there, in nats.
        gradient_norm: the largest element of the gradient there.
        num_iterations: that were taken.

    Raises:
        ValueError: if an argument is out of its range, the prior is discrete, or the density at
            the start is not finite.
    """

    def __init__(
        self,
        target: LogPosterior | Callable[[tf.Tensor], tf.Tensor],
        optimizer: str | keras.optimizers.Optimizer = "lbfgs",
        *,
        max_iterations: int = 1000,
        tolerance: float = 1e-3,
        initial: Any = "model",
        seed: int = 0,
        jit_compile: bool | None = None,
    ) -> None:
        if optimizer != "lbfgs" and not isinstance(optimizer, keras.optimizers.Optimizer):
            raise ValueError(f"optimizer={optimizer!r} must be 'lbfgs' or a keras optimizer")
        self.target = target
        self.optimizer = optimizer
        self.max_iterations = positive_integer("max_iterations", max_iterations)
        self.tolerance = positive("tolerance", tolerance)
        self.jit_compile = jit_compile
        if isinstance(target, LogPosterior) and any(p.discrete for p in target.priors or ()):
            raise ValueError("prior is discrete, which has no gradient to follow to a mode")
        self.theta = initial_points(target, initial, 1, 0.0, arguments.seed("seed", seed))[0]
        self._look(0)
        if not np.isfinite(self.log_prob):
            raise ValueError(f"initial has a log density of {self.log_prob}; start elsewhere")

    def run(self) -> MAP:
        """Searches from where it is; returns the object itself.

        Warns:
            UserWarning: if the search ended before it came to the mode.
        """
        if self.optimizer == "lbfgs":
            self._follow_curvature()
        else:
            self._descend()
        if not self._at_mode():
            warnings.warn(
                f"no mode after {self.num_iterations} iterations: the gradient is "
                f"{self.gradient_norm:.2g}; {self._advice()}",
                stacklevel=2,
            )
        return self

    def _advice(self) -> str:
        if self.num_iterations >= self.max_iterations:
            return "raise max_iterations, or take another optimizer"
        if self.theta.dtype == np.float32:
            return "steps gain nothing in float32; give a LogPosterior of dtype='float64'"
        return "steps gain nothing; take another optimizer"

    @functools.cached_property
    def model(self) -> Ensemble:
        """The network at the mode, as a model of one function for `tfbdl.predict`.

        Raises:
            ValueError: if the target is no `LogPosterior`.
        """
        if not isinstance(self.target, LogPosterior):
            raise ValueError("target is a function, which has no network; give a LogPosterior")
        ensemble = Ensemble(self.target.flat.model, self.theta[None])
        ensemble.compile(loss=self.target.likelihood)
        return ensemble

    def assign(self, model: keras.Model) -> None:
        """Puts the mode into a model with these weights, in the type that it has."""
        flat = FlatModel(model)
        flat.assign(tf.cast(self.theta, flat.dtype))

    def _loss(self, theta: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The negative log density at theta, (D,), and its gradient."""
        log_prob, gradient = value_and_gradient(self.target, theta[None])
        return -log_prob[0], -gradient[0]

    def _look(self, num_iterations: int) -> None:
        theta = tf.constant(self.theta)
        loss, gradient = self._compiled_loss(theta)
        self.log_prob = -float(loss)
        self.gradient_norm = float(np.max(np.abs(gradient)))
        self.num_iterations = num_iterations

    @functools.cached_property
    def _compiled_loss(self) -> Compiled:
        return Compiled(self._loss, self.jit_compile)

    def _at_mode(self) -> bool:
        """Whether the gradient is within the tolerance, or of the size of what rounding does."""
        if self.gradient_norm <= self.tolerance:
            return True
        signs = np.random.default_rng(0).choice([-np.inf, np.inf], self.theta.shape)
        beside = np.nextafter(self.theta, signs.astype(self.theta.dtype))
        here, there = (self._compiled_loss(tf.constant(t))[1] for t in (self.theta, beside))
        return self.gradient_norm <= ROUNDINGS * float(np.max(np.abs(here - there)))

    def _follow_curvature(self) -> None:
        """Searches until it is at the mode, and from where a search ended as long as that gains.

        In float32 a line search may end by the rounding of one density long before that.
        """

        def search(theta: tf.Tensor, most: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            found = tfp.optimizer.lbfgs_minimize(
                self._loss, theta, tolerance=self.tolerance, max_iterations=most
            )
            return found.position, found.num_iterations

        run = Compiled(search, self.jit_compile)
        gain, left = np.inf, self.max_iterations
        while gain > 0 and left > 0 and not self._at_mode():
            before, theta = self.log_prob, self.theta
            found, count = run(tf.constant(theta), tf.constant(left))
            self.theta = found.numpy()
            left -= int(count)
            self._look(self.max_iterations - left)
            gain = self.log_prob - before
            if not gain > 0:
                self.theta = theta
                self._look(self.num_iterations)

    def _descend(self) -> None:
        assert not isinstance(self.optimizer, str)
        optimizer = self.optimizer
        variable = keras.Variable(self.theta, dtype=self.theta.dtype.name)
        optimizer.build([variable])

        def step(i: tf.Tensor) -> tuple[tf.Tensor]:
            _, gradient = self._loss(tf.convert_to_tensor(variable.value))
            optimizer.apply([gradient], [variable])
            return (i + 1,)

        run = Compiled(
            lambda count: tf.while_loop(lambda i: i < count, step, (tf.constant(0),)),
            self.jit_compile,
        )
        done = 0
        while done < self.max_iterations and not self._at_mode():
            count = min(STEPS_PER_CALL, self.max_iterations - done)
            run(tf.constant(count))
            done += count
            self.theta = variable.numpy()
            self._look(done)

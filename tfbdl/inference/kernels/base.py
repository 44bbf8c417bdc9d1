"""What a transition of Markov chains is, and how a kernel of `tfp.mcmc` makes one.

C chains move at once, in lockstep, each with its own step size and metric.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeAlias

import tensorflow as tf

from tfbdl.arguments import number, option
from tfbdl.tensorflow_private import custom_gradient

Density: TypeAlias = Callable[[tf.Tensor], tf.Tensor]


class State(NamedTuple):
    """Where the chains are: theta (C, D), its log density (C,), and gradient (C, D or 0)."""

    theta: tf.Tensor
    log_prob: tf.Tensor
    gradient: tf.Tensor


class Info(NamedTuple):
    """What to look at after a step, each of shape (C,)."""

    accept_prob: tf.Tensor
    diverging: tf.Tensor
    num_gradients: tf.Tensor

    @classmethod
    def of(
        cls, log_accept_ratio: tf.Tensor, num_gradients: Any = 0, diverging: Any = False
    ) -> Info:
        """From the logarithm of the Metropolis ratio, (C,); -inf for what is not finite."""
        like = tf.zeros_like(log_accept_ratio, tf.int32)
        accept_prob = tf.exp(tf.minimum(log_accept_ratio, 0.0))
        return cls(accept_prob, diverging | (like > 0), num_gradients + like)


class Kernel:
    """A transition of Markov chains.

    Attributes:
        uses_gradients: whether it needs those of the density.
        adjusted: whether it ends in a Metropolis test, or in a draw that needs none.
    """

    uses_gradients: ClassVar[bool] = True
    adjusted: ClassVar[bool] = True

    def init(self, target: Density, theta: tf.Tensor) -> State:
        """The state of chains that are at theta, shape (C, D).

        Raises:
            ValueError: if a gradient is needed, and the density has none.
        """
        if not self.uses_gradients:
            return State(theta, target(theta), tf.zeros([theta.shape[0], 0], theta.dtype))
        return State(theta, *value_and_gradient(target, theta))

    def step(
        self, target: Density, state: State, seed: tf.Tensor, step_size: tf.Tensor, scale: tf.Tensor
    ) -> tuple[State, Info]:
        """The next state.

        Args:
            target: theta (C, D) to its log density (C,), in nats, up to a constant.
            state: where the chains are.
            seed: of the noise of this step, int32 of shape (2,).
            step_size: of each chain, shape (C,).
            scale: M^-1/2 for the diagonal mass matrix M, shape (C, D), or (C, 1) if it is a
                multiple of the identity. A step moves weight d in units of `step_size * scale[d]`.
        """
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Adaptive(Kernel):
    """A kernel with a step size and a metric, which warm-up can adapt.

    Args:
        step_size: of the proposals, in units of theta (of its standard deviations under
            `mass_matrix="diagonal"`); None for one that is adapted in warm-up, each chain its own.
        target_accept: the acceptance probability that the adaptation aims at.
        mass_matrix: "identity", or "diagonal" for the inverse variances of the weights, estimated
            in warm-up, each chain its own.

    Raises:
        ValueError: if an argument is out of its range.
    """

    step_size: float | None = None
    target_accept: float = 0.8
    mass_matrix: str = "identity"

    def __post_init__(self) -> None:
        if self.step_size is not None:
            positive("step_size", self.step_size)
        number("target_accept", self.target_accept, lambda p: 0 < p < 1, "in (0, 1)")
        option("mass_matrix", self.mass_matrix, ("identity", "diagonal"))

    def first_step_size(self, size: int) -> float:
        """Where the adaptation starts in D = `size` dimensions."""
        return 0.1


def one_step(kernel: Any, state: State, seed: tf.Tensor) -> tuple[State, Any]:
    """A step of a kernel of `tfp.mcmc`, and its results.

    The kernel's results before the step, which hold the density where the chains are, are made
    from what is known of it: nothing is computed twice.
    """

    @custom_gradient
    def known(theta: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        return tf.identity(state.log_prob), lambda upstream: upstream[:, None] * state.gradient

    before = kernel.copy(target_log_prob_fn=known).bootstrap_results(state.theta)
    theta, results = kernel.one_step(state.theta, before, seed=seed)
    here = getattr(results, "accepted_results", results)
    gradient = getattr(here, "grads_target_log_prob", [state.gradient])[0]
    return State(theta, here.target_log_prob, gradient), results


def value_and_gradient(target: Density, theta: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The log density of each chain, (C,), and its gradient, (C, D).

    Raises:
        ValueError: if the density has no gradient.
    """
    with tf.GradientTape() as tape:
        tape.watch(theta)
        log_prob = target(theta)
    gradient = tape.gradient(log_prob, theta)
    if gradient is None:
        raise ValueError("target has no gradient; use kernel='rwmh', which needs none")
    return log_prob, tf.convert_to_tensor(gradient)


def positive(name: str, value: float) -> float:
    """`value`, if it is a positive finite number; else a ValueError."""
    return number(name, value, lambda v: 0 < v < float("inf"), "a positive finite number")

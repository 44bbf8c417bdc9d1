"""What a transition of Markov chains is.

A kernel moves C chains at once, in lockstep. Chains share nothing: not their step sizes, not their
metrics, not their noise. So chain c of a seed is the same chain whichever others run beside it, on
whatever device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeAlias

import tensorflow as tf

from tfbdl.arguments import number, option
from tfbdl.inference.kernels.noise import Noise

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


class Kernel:
    """A transition of Markov chains."""

    uses_gradients: ClassVar[bool] = True

    def init(self, density: Density, theta: tf.Tensor) -> State:
        """The state of chains that are at theta, shape (C, D)."""
        if self.uses_gradients:
            return State(theta, *value_and_gradient(density, theta))
        return State(theta, density(theta), tf.zeros([theta.shape[0], 0], theta.dtype))

    def step(
        self, density: Density, state: State, noise: Noise, step_size: tf.Tensor, scale: tf.Tensor
    ) -> tuple[State, Info]:
        """The next state.

        Args:
            density: theta (C, D) to its log density (C,), in nats, up to a constant.
            state: where the chains are.
            noise: of this step.
            step_size: of each chain, shape (C,).
            scale: M^-1/2 for the diagonal mass matrix M, shape (C, D), or (C, 1) if it is a
                multiple of the identity. Momenta are z = M^-1/2 p ~ N(0, I), and a step moves
                weight d by `step_size * scale[d] * z[d]`.
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


def positive(name: str, value: float) -> float:
    """`value`, if it is a positive finite number; else a ValueError."""
    return number(name, value, lambda v: 0 < v < float("inf"), "a positive finite number")


def value_and_gradient(density: Density, theta: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The log density of each chain, (C,), and its gradient, (C, D).

    Raises:
        ValueError: if the density has no gradient.
    """
    with tf.GradientTape() as tape:
        tape.watch(theta)
        log_prob = density(theta)
    gradient = tape.gradient(log_prob, theta)
    if gradient is None:
        raise ValueError("target has no gradient; use kernel='rwmh', which needs none")
    return log_prob, tf.convert_to_tensor(gradient)

"""The interface of a transition of Markov chains, and the kernels of `tfp.mcmc` behind it.

C chains move at once, in lockstep, each with its own step size and metric.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, NamedTuple, TypeVar

import tensorflow as tf

from tfbdl.arguments import number, option, positive
from tfbdl.inference.density import Density, density_at, value_and_gradient
from tfbdl.priors import Prior
from tfbdl.tensorflow_private import custom_gradient

S = TypeVar("S")

DIVERGENCE = 1000.0
"""The energy error, in nats, beyond which a trajectory counts as divergent (as in Stan)."""


class State(NamedTuple):
    """The state of the chains: theta (C, D), its log density (C,), and gradient (C, D or 0).

    A kernel that carries more from step to step, such as momenta, has a state of its own: a
    `NamedTuple` of tensors whose first axis is that of the chains, with `theta` and `log_prob`.
    """

    theta: tf.Tensor
    log_prob: tf.Tensor
    gradient: tf.Tensor


class Info(NamedTuple):
    """Diagnostics of a step, each of shape (C,).

    energy: -log p(theta) + |p|^2 / 2 of the state with the momentum p that led there, in nats; NaN
        of kernels whose momenta are not drawn anew each step from N(0, I).
    """

    accept_prob: tf.Tensor
    diverging: tf.Tensor
    num_gradients: tf.Tensor
    energy: tf.Tensor

    @classmethod
    def of(
        cls,
        log_accept_ratio: tf.Tensor,
        num_gradients: Any = 0,
        diverging: Any = False,
        energy: tf.Tensor | None = None,
    ) -> Info:
        """The diagnostics from the log Metropolis ratio, (C,); -inf where it is not finite."""
        like = tf.zeros_like(log_accept_ratio, tf.int32)
        accept_prob = tf.exp(tf.minimum(log_accept_ratio, 0.0))
        energy = math.nan * tf.ones_like(accept_prob) if energy is None else energy
        return cls(accept_prob, diverging | (like > 0), num_gradients + like, energy)


def by_chain(taken: tf.Tensor, new: S, old: S) -> S:
    """The new states of those chains that have taken them, (C,), and the old ones of the others."""

    def choose(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        return tf.where(tf.reshape(taken, [-1, *[1] * (b.shape.rank - 1)]), a, b)

    return tf.nest.map_structure(choose, new, old)


def seed_key(seed: tf.Tensor) -> tf.Tensor:
    """The key of `tfbdl.random` whose halves are this seed of a step."""
    return tf.bitcast(tf.cast(seed, tf.int32), tf.int64)


class Kernel(abc.ABC):
    """A transition of Markov chains.

    Attributes:
        uses_gradients: whether it needs gradients of the log density.
        adjusted: whether it ends in a Metropolis test, or in a draw that needs none.
    """

    uses_gradients: ClassVar[bool] = True
    adjusted: ClassVar[bool] = True

    def for_priors(self, priors: Sequence[Prior]) -> Kernel:
        """The kernel with what the priors of the weights say of it filled in.

        Args:
            priors: the prior of each weight tensor; none where the density is a function or the
                prior joint.

        Raises:
            ValueError: if it cannot move weights under these priors.
        """
        discrete = [type(p).__name__ for p in priors if p.discrete]
        if discrete:
            raise ValueError(
                f"kernel={type(self).__name__} moves continuous weights, and the prior "
                f"{discrete[0]} is discrete; take kernel='flip'"
            )
        return self

    def for_warmup(self, num_warmup: int) -> Kernel:
        """The kernel with the number of steps of warm-up, where it learns in them by itself."""
        return self

    def init(self, target: Density, theta: tf.Tensor, seed: tf.Tensor) -> Any:
        """The state of chains that are at theta, shape (C, D).

        Args:
            target: as in `step`.
            theta: shape (C, D).
            seed: the seed of the random parts of a first state, such as momenta; int32 of shape
                (2,).

        Raises:
            ValueError: if the target is no density, or a gradient is needed, and it has none.
        """
        if not self.uses_gradients:
            log_prob = density_at(target, theta)
            return State(theta, log_prob, tf.zeros([theta.shape[0], 0], theta.dtype))
        return State(theta, *value_and_gradient(target, theta))

    @abc.abstractmethod
    def step(
        self, target: Density, state: Any, seed: tf.Tensor, step_size: tf.Tensor, scale: tf.Tensor
    ) -> tuple[Any, Info]:
        """The next state.

        Args:
            target: theta (C, D) to its log density (C,), in nats, up to a constant.
            state: the state of the chains, as `init` or the step before has left it.
            seed: the seed of the noise of this step, int32 of shape (2,).
            step_size: the step size of each chain, shape (C,).
            scale: M^-1/2 for the diagonal mass matrix M, shape (C, D), or (C, 1) if it is a
                multiple of the identity. A step moves weight d in units of `step_size * scale[d]`.
        """

    def get_config(self) -> dict[str, Any]:
        return asdict(self)  # type: ignore[call-overload]

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Kernel:
        return cls(**config)


@dataclass(frozen=True, kw_only=True)
class Adaptive(Kernel):
    """A kernel with a step size and a metric, which warm-up can adapt.

    Args:
        step_size: the step size of the proposals, in units of theta (of its standard deviations
            under `mass_matrix="diagonal"`); None for one that is adapted in warm-up, each chain its
            own.
        target_accept: the acceptance probability that the adaptation aims at, by default 0.8; only
            where the step size is adapted.
        mass_matrix: "identity", or "diagonal" for the inverse variances of the weights, estimated
            in warm-up, each chain its own.

    Raises:
        ValueError: if an argument is out of its range, or `target_accept` is given beside
            `step_size`.
    """

    step_size: float | None = None
    target_accept: float | None = None
    mass_matrix: str = "identity"

    best_accept: ClassVar[float] = 0.8

    def __post_init__(self) -> None:
        if self.step_size is not None:
            positive("step_size", self.step_size, "a positive finite number")
        if self.target_accept is not None:
            number("target_accept", self.target_accept, lambda p: 0 < p < 1, "in (0, 1)")
            if self.step_size is not None:
                raise ValueError(
                    f"target_accept={self.target_accept} is for a step size that is adapted; leave "
                    f"it or step_size={self.step_size} out"
                )
        option("mass_matrix", self.mass_matrix, ("identity", "diagonal"))

    @property
    def aim(self) -> float:
        """The acceptance probability that the adaptation aims at."""
        return self.best_accept if self.target_accept is None else self.target_accept

    def first_step_size(self, size: int) -> float:
        """The step size at which the adaptation starts in D = `size` dimensions."""
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

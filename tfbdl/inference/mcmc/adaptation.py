"""Step sizes and metrics, learned in warm-up: each chain its own.

The step size by dual averaging (Hoffman and Gelman 2014, section 3.2), the metric from variances of
the chain in windows that double in length (Stan reference manual, "HMC algorithm parameters").
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import tensorflow as tf

from tfbdl.inference.mcmc.kernels import Adaptive, Kernel
from tfbdl.inference.mcmc.kernels.base import by_chain

GAMMA, T_0, KAPPA = 0.05, 10.0, 0.75
FIRST, WINDOW, LAST = 75, 25, 50
FEWEST_FOR_METRIC = 20
"""Steps of warm-up below which no metric is learned."""

Estimate = TypeVar("Estimate", "Averaging", "Variance")


class Averaging(NamedTuple):
    """Dual averaging of log step sizes, each of shape (C,); its symbols are the paper's."""

    mu: tf.Tensor
    h_bar: tf.Tensor
    log_step_bar: tf.Tensor
    t: tf.Tensor

    @classmethod
    def around(cls, step_size: tf.Tensor) -> Averaging:
        """A start, drawn towards ten times the given step sizes."""
        zeros = tf.zeros_like(step_size)
        return cls(tf.math.log(10.0 * step_size), zeros, tf.math.log(step_size), zeros)

    def update(self, shortfall: tf.Tensor) -> tuple[Averaging, tf.Tensor]:
        """Equation 6, for delta - alpha; and the next step sizes."""
        t = self.t + 1.0
        h_bar = self.h_bar + (shortfall - self.h_bar) / (t + T_0)
        log_step = self.mu - tf.sqrt(t) / GAMMA * h_bar
        log_step_bar = self.log_step_bar + t**-KAPPA * (log_step - self.log_step_bar)
        return Averaging(self.mu, h_bar, log_step_bar, t), tf.exp(log_step)


class Variance(NamedTuple):
    """Welford's running mean and sum of squares, (C, D), of `count` draws, (C,), in float64.

    In float32 a spread that is small beside the mean would be lost.
    """

    count: tf.Tensor
    mean: tf.Tensor
    squares: tf.Tensor

    @classmethod
    def of_none(cls, like: tf.Tensor) -> Variance:
        """The moments of no draws yet."""
        zeros = tf.zeros_like(like, tf.float64)
        return cls(zeros[:, 0], zeros, zeros)

    def update(self, theta: tf.Tensor) -> Variance:
        """The moments with one more draw."""
        theta = tf.cast(theta, tf.float64)
        count = self.count + 1.0
        difference = theta - self.mean
        mean = self.mean + difference / count[:, None]
        return Variance(count, mean, self.squares + difference * (theta - mean))

    def scale(self) -> tf.Tensor:
        """Standard deviations, drawn to 1e-3 as in Stan where there are few draws."""
        n = self.count[:, None]
        variance = self.squares / (n - 1.0)
        return tf.sqrt(n / (n + 5.0) * variance + 1e-3 * 5.0 / (n + 5.0))


class Tuning(NamedTuple):
    """Step sizes (C,) and scales (C, D or 1) as they are now, and what they are learned from."""

    step_size: tf.Tensor
    scale: tf.Tensor
    averaging: Averaging
    variance: Variance


class Adaptation:
    """The tuning of a kernel in a warm-up of `num_warmup` steps.

    Args:
        kernel: the kernel, whose settings say what is tuned.
        num_warmup: steps; below 20 the metric stays as it is.
    """

    def __init__(self, kernel: Kernel, num_warmup: int) -> None:
        self.kernel = kernel if isinstance(kernel, Adaptive) else None
        self.num_warmup = num_warmup
        self.tunes_step = self.kernel is not None and self.kernel.step_size is None
        self.tests = self.tunes_step and not kernel.adjusted
        self.tunes_scale = self.kernel is not None and self.kernel.mass_matrix == "diagonal"
        self.starts, self.ends = windows(num_warmup)

    def init(self, theta: tf.Tensor) -> Tuning:
        """The tuning at its beginning, for chains at theta, shape (C, D)."""
        num_chains, size = theta.shape
        step = 1.0
        if self.kernel is not None:
            step = self.kernel.step_size or self.kernel.first_step_size(size)
        step_size = tf.fill([num_chains], tf.constant(step, theta.dtype))
        scale = tf.ones([num_chains, size if self.tunes_scale else 1], theta.dtype)
        return Tuning(step_size, scale, Averaging.around(step_size), Variance.of_none(scale))

    def tested(
        self, step: tf.Tensor, seed: tf.Tensor, before: Any, after: Any, accept_prob: tf.Tensor
    ) -> Any:
        """The state after step number `step`: a kernel without a Metropolis test is tuned by one.

        Args:
            step: counted from 0.
            seed: the seed of the step.
            before: the state.
            after: the theta to which the kernel leads.
            accept_prob: the acceptance probability of the test, shape (C,).
        """
        if not self.tests:
            return after
        u = tf.random.stateless_uniform(
            accept_prob.shape, tf.random.fold_in(seed, 1), dtype=accept_prob.dtype
        )
        return by_chain((u < accept_prob) | (step >= self.num_warmup), after, before)

    def update(
        self, tuning: Tuning, step: tf.Tensor, theta: tf.Tensor, accept_prob: tf.Tensor
    ) -> Tuning:
        """The tuning after step number `step`, from 0, which has led to theta, shape (C, D).

        The last step of the warm-up leaves the averaged step sizes; later ones change nothing.
        """
        if not (self.tunes_step or self.tunes_scale):
            return tuning
        return tf.cond(
            step < self.num_warmup,
            lambda: self._learn(tuning, step, theta, accept_prob),
            lambda: tuning,
        )

    def _learn(
        self, tuning: Tuning, step: tf.Tensor, theta: tf.Tensor, accept_prob: tf.Tensor
    ) -> Tuning:
        step_size, scale, averaging, variance = tuning
        if self.tunes_step and self.kernel is not None:
            averaging, step_size = averaging.update(self.kernel.aim - accept_prob)
            last = step == self.num_warmup - 1
            step_size = tf.where(last, tf.exp(averaging.log_step_bar), step_size)
        if self.tunes_scale and self.ends:
            inside = (step >= self.starts) & (step < self.ends[-1])
            variance = _where(inside, variance.update(theta), variance)
            complete = tf.reduce_any(step == tf.constant(self.ends) - 1)
            scale = tf.where(complete, tf.cast(variance.scale(), scale.dtype), scale)
            variance = _where(complete, Variance.of_none(theta), variance)
            averaging = _where(complete, Averaging.around(step_size), averaging)
        return Tuning(step_size, scale, averaging, variance)


def _where(condition: tf.Tensor, yes: Estimate, no: Estimate) -> Estimate:
    return tf.nest.map_structure(lambda a, b: tf.where(condition, a, b), yes, no)


def windows(num_warmup: int) -> tuple[int, list[int]]:
    """The start of the metric's first window, and the end of each window.

    Before and after them 75 and 50 steps tune the step size alone; the windows have 25, 50, 100 ...
    steps, the last one what is left. A warm-up too short for that is parted 15 : 75 : 10.
    """
    first, window, last = FIRST, WINDOW, LAST
    if num_warmup < FEWEST_FOR_METRIC:
        return 0, []
    if num_warmup < first + window + last:
        first, last = int(0.15 * num_warmup), int(0.1 * num_warmup)
        window = num_warmup - first - last
    ends, end = [], first
    while end < num_warmup - last:
        left = num_warmup - last - end
        end += left if left < 3 * window else window
        ends.append(end)
        window *= 2
    return first, ends

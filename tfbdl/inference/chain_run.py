"""Chains from their start, or from where they were, to their last sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tfbdl import random
from tfbdl.inference.kernels import Adaptive
from tfbdl.inference.progress import Pace, Progress
from tfbdl.inference.samples import Samples
from tfbdl.inference.transitions import Draws, Position, Transitions
from tfbdl.spread import Spread

NEVER = 1e-6
"""A probability of acceptance that counts as none."""

ENOUGH = 100
"""Proposals after which a chain that has accepted none is stopped."""


class SamplingError(RuntimeError):
    """Chains do not move, or have left the finite numbers; the message says what to do."""


class ChainRun:
    """Warm-up and sampling in compiled calls, each of about a second.

    After each the samples and the position are kept: where a run ends, and when it goes on, changes
    nothing of its samples.

    Args:
        transitions: of the chains.
        spread: over devices.
        num_warmup: steps before the samples.
        num_samples: S.
        thinning: steps from sample to sample.
    """

    def __init__(
        self,
        transitions: Transitions,
        spread: Spread,
        *,
        num_warmup: int,
        num_samples: int,
        thinning: int,
    ) -> None:
        self.num_warmup = num_warmup
        self.num_samples = num_samples
        self.thinning = thinning
        self._transitions = transitions
        self._spread = spread
        self._run = spread.compile(transitions.run)

    def start(self, theta: np.ndarray, seed: int) -> Position:
        """The position of chains at theta, shape (C, D), as arrays of NumPy.

        Raises:
            ValueError: if the density, or its gradient, is not finite there.
        """
        keys = random.split(random.key_of(seed, "chains"), self._spread.num_replicas)
        start = self._spread.compile(self._transitions.start)
        position = self._spread.gather(start(*self._spread.scatter((keys, theta))))
        for name, values in (
            ("a log density", position.state.log_prob[:, None]),
            ("a gradient", position.state.gradient),
        ):
            chains, places = np.nonzero(~np.isfinite(values))
            if len(chains):
                raise ValueError(
                    f"initial: chain {chains[0]} starts at {name} of "
                    f"{values[chains[0], places[0]]}; start elsewhere"
                )
        return position

    def to_the_end(self, position: Position, samples: Samples, progress: Progress) -> Position:
        """Fills `samples`, from `position`; and where the chains are then.

        Raises:
            SamplingError: if a chain moves nowhere, or out of the finite numbers.
        """
        spread = self._spread.scatter(position)
        pace = Pace(max(self.num_warmup, 1))
        while samples.steps < self.num_warmup:
            steps = pace.next(self.num_warmup - samples.steps)
            spread, draws, position = self._move(spread, samples.steps, 1, steps)
            samples.save(position, samples.steps + steps)
            progress.at("warm-up", samples.steps, self.num_warmup, _acceptance(draws))
        pace = Pace(self._transitions.block)
        while (done := self._samples_in(samples.steps)) < self.num_samples:
            count = pace.next(self.num_samples - done)
            spread, draws, position = self._move(spread, samples.steps, count, self.thinning)
            if count * self.thinning >= ENOUGH:
                self._check_moving(draws, position)
            samples.write(done, draws)
            samples.save(position, samples.steps + count * self.thinning)
            progress.at("samples", done + count, self.num_samples, _acceptance(draws))
        self._check_moving(samples.arrays, position)
        return position

    def _move(self, spread: Any, first: int, count: int, every: int) -> tuple[Any, Draws, Position]:
        """`count` samples of `every` steps; where the chains are then, on replicas and gathered."""
        scalars = (tf.constant(value) for value in (first, count, every))
        spread, draws = self._run(spread, *scalars)
        draws = Draws(*(a[:count] for a in self._spread.gather(draws, axis=1)))
        position = self._spread.gather(spread)
        gone = np.flatnonzero(~np.isfinite(position.state.log_prob))
        if len(gone):
            raise SamplingError(
                f"chain {gone[0]} left the finite numbers in its first {first + count * every} "
                f"steps; {self._remedy}"
            )
        return spread, draws, position

    def _samples_in(self, steps: int) -> int:
        return (steps - self.num_warmup) // self.thinning

    def _check_moving(self, draws: Draws, position: Position) -> None:
        stuck = np.max(draws.accept_prob, axis=0) < NEVER
        stuck &= (draws.theta[0] == draws.theta[-1]).all(axis=1)
        if stuck.any():
            chain = int(np.flatnonzero(stuck)[0])
            proposals = len(draws.theta) * self.thinning
            raise SamplingError(
                f"chain {chain} rejected all of {proposals} proposals at step size "
                f"{position.tuning.step_size[chain]:.3g}; {self._remedy}"
            )

    @property
    def _remedy(self) -> str:
        if isinstance(self._transitions.kernel, Adaptive):
            return "take a smaller step_size, or a longer warm-up that finds it"
        return "start elsewhere, or flip fewer weights a step"


def _acceptance(draws: Draws) -> str:
    return f"acceptance {np.mean(draws.accept_prob):.2f}"

"""Chains from their start, or from where they were, to their last sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tfbdl import random
from tfbdl.inference.density import Density
from tfbdl.inference.mcmc.adaptation import Adaptation
from tfbdl.inference.mcmc.kernels import Adaptive, Kernel
from tfbdl.inference.mcmc.progress import ChainProgress, Pace
from tfbdl.inference.mcmc.shared_steps import steps_of
from tfbdl.inference.mcmc.stepping import Draws, Position, Stepper
from tfbdl.inference.mcmc.storage import ChainStorage
from tfbdl.replicas import Replicas

LEAST_ACCEPTANCE = 1e-6
"""A probability of acceptance below it counts as none."""

PATIENCE = 100
"""Proposals after which a chain that has accepted none is stopped."""

BLOCK_BYTES = 2**26
"""The number of samples that one compiled call holds."""


class SamplingError(RuntimeError):
    """Chains do not move, or have left the finite numbers; the message says what to do."""


class Chains:
    """Warm-up and sampling in compiled calls, each of about a second.

    After each the samples and the position are kept: where a run ends, and when it goes on, changes
    nothing of its samples.

    Args:
        target: the log density.
        kernel: the kernel of the steps.
        replicas: the devices that the chains are on.
        theta: the start of the chains, shape (C, D).
        num_warmup: steps before the samples.
        num_samples: S.
        thinning: steps from sample to sample.
    """

    def __init__(
        self,
        target: Density,
        kernel: Kernel,
        replicas: Replicas,
        theta: np.ndarray,
        *,
        num_warmup: int,
        num_samples: int,
        thinning: int,
    ) -> None:
        self.num_warmup = num_warmup
        self.num_samples = num_samples
        self.thinning = thinning
        self._theta = theta
        block = int(np.clip(BLOCK_BYTES // theta.nbytes, 1, 1000))
        self._stepper = Stepper(target, kernel, Adaptation(kernel, num_warmup), block=block)
        self._replicas = replicas
        self._steps = steps_of(self._stepper, replicas, theta)

    def start(self, seed: int) -> Position:
        """The position of the chains before their first step, as arrays of NumPy.

        Raises:
            ValueError: if the density, or its gradient, is not finite there.
        """
        keys = random.split(random.key_of(seed, "chains"), self._replicas.num_replicas)
        scattered = self._replicas.scatter((keys, self._theta))
        position = self._replicas.gather(self._steps.start(*scattered))
        for field, values in position.state._asdict().items():
            name = {"log_prob": "a log density"}.get(field, f"a {field}")
            rows = values.reshape(len(values), -1)
            chains, places = np.nonzero(~np.isfinite(rows))
            if len(chains):
                raise ValueError(
                    f"initial: chain {chains[0]} starts at {name} of "
                    f"{rows[chains[0], places[0]]}; start elsewhere"
                )
        return position

    def settings(self, seed: int, start: Position) -> dict[str, Any]:
        """The settings that make a run the same run, as JSON values."""
        return {
            "kernel": repr(self._stepper.kernel),
            "num_warmup": self.num_warmup,
            "num_chains": len(self._theta),
            "thinning": self.thinning,
            "seed": seed,
            "replicas": len(start.key),
            "size": self._theta.shape[1],
            "dtype": str(start.state.theta.dtype),
            "log density at the start": start.state.log_prob.tolist(),
        }

    def to_the_end(
        self, position: Position, samples: ChainStorage, progress: ChainProgress
    ) -> Position:
        """Fills `samples`, from `position`; and where the chains are then.

        Raises:
            SamplingError: if a chain moves nowhere, or out of the finite numbers.
        """
        on_replicas = self._replicas.scatter(position)
        pace = Pace(max(self.num_warmup, 1))
        while samples.steps < self.num_warmup:
            steps = pace.next(self.num_warmup - samples.steps)
            on_replicas, draws, position = self._move(on_replicas, samples.steps, 1, steps)
            samples.save(position, samples.steps + steps)
            progress.at("warm-up", samples.steps, self.num_warmup, _acceptance(draws))
        pace = Pace(self._stepper.block)
        while (done := self._samples_in(samples.steps)) < self.num_samples:
            count = pace.next(self.num_samples - done)
            on_replicas, draws, position = self._move(
                on_replicas, samples.steps, count, self.thinning
            )
            if count * self.thinning >= PATIENCE:
                self._check_moving(draws, position)
            samples.write(done, draws)
            samples.save(position, samples.steps + count * self.thinning)
            progress.at("samples", done + count, self.num_samples, _acceptance(draws))
        self._check_moving(samples.arrays, position)
        return position

    def _move(
        self, on_replicas: Any, first: int, count: int, every: int
    ) -> tuple[Any, Draws, Position]:
        """`count` samples of `every` steps; where the chains are then, on replicas and gathered."""
        scalars = (tf.constant(value) for value in (first, count, every))
        on_replicas, draws = self._steps.run(on_replicas, *scalars)
        draws = Draws(*(a[:count] for a in self._replicas.gather(draws, axis=1)))
        position = self._replicas.gather(on_replicas)
        gone = np.flatnonzero(~np.isfinite(position.state.log_prob))
        if len(gone):
            raise SamplingError(
                f"chain {gone[0]} left the finite numbers in its first {first + count * every} "
                f"steps; {self._remedy}"
            )
        return on_replicas, draws, position

    def _samples_in(self, steps: int) -> int:
        return (steps - self.num_warmup) // self.thinning

    def _check_moving(self, draws: Draws, position: Position) -> None:
        stuck = np.max(draws.accept_prob, axis=0) < LEAST_ACCEPTANCE
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
        if isinstance(self._stepper.kernel, Adaptive):
            return "take a smaller step_size, or a longer warm-up that finds it"
        return "start elsewhere, or flip fewer weights a step"


def _acceptance(draws: Draws) -> str:
    return f"acceptance {np.mean(draws.accept_prob):.2f}"

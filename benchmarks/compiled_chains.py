"""Markov chains whose programs are compiled once, for the timings of many rounds.

`MCMC.fit` compiles anew; here chains go on in the same program.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tfbdl import random
from tfbdl.inference.log_posterior import LogPosterior
from tfbdl.inference.mcmc.adaptation import Tuning
from tfbdl.inference.mcmc.chains import Chains
from tfbdl.inference.mcmc.kernels import Kernel
from tfbdl.inference.mcmc.progress import ChainProgress
from tfbdl.inference.mcmc.stepping import Draws, Position
from tfbdl.inference.mcmc.storage import ChainStorage
from tfbdl.replicas import Replicas


def compiled_chains(
    target: LogPosterior,
    kernel: Kernel,
    theta: np.ndarray,
    num_samples: int,
    thinning: int = 1,
    *,
    tuned: tuple[np.ndarray, np.ndarray] | None = None,
) -> Callable[[], Draws]:
    """A function that samples without warm-up, from where it ended when it was called before.

    Args:
        target: the log density.
        kernel: the kernel of the steps.
        theta: where the chains start, shape (C, D).
        num_samples: S, of each chain.
        thinning: steps from sample to sample.
        tuned: the step sizes (C,) and scales (C, D or 1) of the chains; by default the kernel's.
    """
    chains = _chains(
        target, kernel, theta, num_warmup=0, num_samples=num_samples, thinning=thinning
    )
    position = chains.start(seed=0)
    if tuned is not None:
        step_size, scale = tuned
        tuning = position.tuning._replace(step_size=step_size, scale=scale)
        position = position._replace(tuning=tuning)

    def sample() -> Draws:
        nonlocal position
        arrays, position = _run(chains, position, num_samples)
        position = position._replace(key=random.split(position.key[0], 1).numpy())
        return arrays

    return sample


def warmed_up(
    target: LogPosterior, kernel: Kernel, theta: np.ndarray, num_warmup: int
) -> tuple[np.ndarray, Tuning]:
    """Where chains from theta, (C, D), are after so many steps, and their tuning."""
    kernel = kernel.for_warmup(num_warmup)
    chains = _chains(target, kernel, theta, num_warmup=num_warmup, num_samples=1, thinning=1)
    _, end = _run(chains, chains.start(seed=0), 1)
    return end.state.theta, end.tuning


def _chains(target: LogPosterior, kernel: Kernel, theta: np.ndarray, **numbers: int) -> Chains:
    return Chains(target, kernel, Replicas(None, None), theta, **numbers)


def _run(chains: Chains, position: Position, num_samples: int) -> tuple[Draws, Position]:
    storage = ChainStorage(Draws.like(position), num_samples, None, {})
    with ChainProgress(0) as progress:
        end = chains.to_the_end(position, storage, progress)
    return storage.arrays, end

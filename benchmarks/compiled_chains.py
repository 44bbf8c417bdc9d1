"""Markov chains whose programs are compiled once, for the timings of many rounds.

`MCMC.fit` compiles anew; here the same chains go through the same steps again.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tfbdl.inference.log_posterior import LogPosterior
from tfbdl.inference.mcmc.chains import Chains
from tfbdl.inference.mcmc.kernels import Kernel
from tfbdl.inference.mcmc.progress import Progress
from tfbdl.inference.mcmc.stepping import Draws
from tfbdl.inference.mcmc.storage import ChainStorage
from tfbdl.replicas import Replicas


def compiled_chains(
    target: LogPosterior, kernel: Kernel, theta: np.ndarray, num_samples: int, thinning: int = 1
) -> Callable[[], Draws]:
    """A function that samples, without warm-up.

    Args:
        target: the log density.
        kernel: of the steps.
        theta: where the chains start, shape (C, D).
        num_samples: S, of each chain.
        thinning: steps from sample to sample.
    """
    replicas = Replicas(None, None)
    chains = Chains(
        target, kernel, replicas, theta, num_warmup=0, num_samples=num_samples, thinning=thinning
    )
    start = chains.start(seed=0)

    def sample() -> Draws:
        storage = ChainStorage(Draws.like(start), num_samples, None, {})
        with Progress(0) as progress:
            chains.to_the_end(start, storage, progress)
        return storage.arrays

    return sample

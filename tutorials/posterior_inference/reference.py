"""The reference of `table`: Hamiltonian Monte Carlo until its chains agree."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.special

import tfbdl
from tfbdl.inference import HMC, MCMC, rhat
from tfbdl.models import WeightEnsemble
from tfbdl.whole_file import write_whole
from tutorials.posterior_inference.methods import markov_chains
from tutorials.posterior_inference.problems import Problem
from tutorials.posterior_inference.running import Run

IMAGES = 500
"""At which R-hat is computed."""


class Reference(NamedTuple):
    """What the chains say of the test images.

    p: class probabilities by each chain, shape (C, N, classes).
    rhat: the largest, and the median, of the class probabilities of the first test images.
    acceptance: mean of the Metropolis tests.
    leapfrog_steps: mean of a trajectory.
    seconds: the time of the chains together, warm-up and compilation included; NaN if they were
        stopped and went on.
    """

    p: np.ndarray
    rhat: np.ndarray
    acceptance: np.ndarray
    leapfrog_steps: np.ndarray
    seconds: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        """The mean of all chains, shape (N, classes)."""
        return self.p.mean(axis=0)

    def others(self, chain: int) -> np.ndarray:
        """The mean of all chains but one."""
        return np.delete(self.p, chain, axis=0).mean(axis=0)


def reference(problem: Problem, x_test: np.ndarray, run: Run, path: Path) -> Reference:
    """The reference kept in `path`, made if it is missing.

    Args:
        problem: the problem whose posterior it is.
        x_test: test inputs.
        run: the run of the chains, with a folder.
        path: the path of the file, `.npz`.
    """
    if not path.exists():
        made = sampled(problem, x_test, run)
        write_whole(path, lambda file: np.savez(file, **made._asdict()))
    with np.load(path) as file:
        return Reference(**file)


def sampled(problem: Problem, x_test: np.ndarray, run: Run) -> Reference:
    """Runs the chains, or goes on with them."""
    folder = run.folder("chains")
    anew = folder is None or not folder.exists()
    started = time.perf_counter()
    chains = markov_chains(problem, HMC(), 1, run)
    seconds = time.perf_counter() - started
    p = scipy.special.softmax(chains.outputs(x_test[:IMAGES]), axis=-1)
    of_predictions = rhat(p)
    return Reference(
        p=np.stack([of_chain(chains, problem, c, x_test) for c in range(run.num_chains)]),
        rhat=np.array([of_predictions.max(), np.median(of_predictions)]),
        acceptance=np.mean(chains.draws.accept_prob),
        leapfrog_steps=np.mean(chains.draws.num_gradients),
        seconds=np.array(seconds if anew else np.nan),
    )


def of_chain(chains: MCMC, problem: Problem, chain: int, x: np.ndarray) -> np.ndarray:
    """Class probabilities by all samples of one chain."""
    ensemble = WeightEnsemble(problem.network(0), chains.theta[:, chain])
    return tfbdl.predict(
        ensemble, x, len(chains.theta), likelihood=problem.likelihood, verbose=0
    ).mean

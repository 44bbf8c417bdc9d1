"""How a method runs, what it trains by, and what it predicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import keras
import numpy as np

import tfbdl
from tfbdl.inference import Method as InferenceMethod
from tfbdl.predictive import Prediction
from tutorials.posterior_inference.problems import Problem

STEPS_AN_EPOCH = 500
"""So that a line of `train.log`, and a checkpoint, stand for some work."""

Posterior: TypeAlias = keras.Model | InferenceMethod
Method: TypeAlias = Callable[[Problem, "Run"], Posterior]


@dataclass(frozen=True)
class Run:
    """How long a method runs, and where.

    Attributes:
        epochs: the epochs of all that trains or samples by stochastic gradients, 500 steps each.
        chain_steps: the steps of Markov chains, in the warm-up and after it.
        num_chains: C.
        seed: the seed of starts, noise and order.
        savedir: folder of logs, checkpoints and samples, from which it goes on; None for none.
    """

    epochs: int
    chain_steps: int
    num_chains: int
    seed: int
    savedir: Path | None = None

    @property
    def steps(self) -> int:
        """The steps of all epochs."""
        return STEPS_AN_EPOCH * self.epochs

    def folder(self, name: str) -> Path | None:
        """The folder of a part."""
        return None if self.savedir is None else self.savedir / name


def slug(name: str) -> str:
    """The name of a method's files."""
    return name.lower().replace(",", "").replace(" ", "_").replace("-", "_")


def predicted(
    posterior: Posterior, x: np.ndarray, num_samples: int, *, functions: bool = False
) -> Prediction:
    """The predictive distribution at x.

    Args:
        posterior: what a method has found, or a model with random layers.
        x: inputs.
        num_samples: functions, where they are drawn; of samples at most all.
        functions: whether those are kept.
    """
    return tfbdl.predict(posterior, x, num_samples, seed=0, return_samples=functions, verbose=0)


def trained(
    problem: Problem, model: keras.Model, optimizer: keras.optimizers.Optimizer, run: Run
) -> keras.Model:
    """The model, trained on mean loss, with epochs of as many passes as `STEPS_AN_EPOCH` take."""
    model.compile(optimizer, problem.likelihood)
    tfbdl.train(model, *repeated(problem), seed=run.seed, **settings(problem, run))
    return model


def repeated(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """The data of an epoch."""
    times = -(-STEPS_AN_EPOCH * problem.batch_size // problem.num_data)
    return np.repeat(problem.x, times, axis=0), np.repeat(problem.y, times, axis=0)


def settings(problem: Problem, run: Run) -> dict[str, Any]:
    """Arguments of `tfbdl.train`, and of `fit` of the methods that train by it."""
    return {
        "epochs": run.epochs,
        "batch_size": problem.batch_size,
        "savedir": run.savedir,
        "verbose": 0,
    }


def adam(run: Run) -> keras.optimizers.Adam:
    """Adam at a rate from 1e-2 to 0 along a cosine."""
    return keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(1e-2, run.steps))

"""Stochastic-gradient Markov chain Monte Carlo: snapshots of a sampling optimizer."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np

from tfbdl import arguments
from tfbdl.arguments import integer, keras_model, positive_integer
from tfbdl.flat_model import FlatModel
from tfbdl.inference.method import Method
from tfbdl.inference.weight_snapshots import WeightSnapshots
from tfbdl.inference.weight_table import WeightTable
from tfbdl.models import WeightEnsemble
from tfbdl.optimizers.base import SamplingOptimizer
from tfbdl.training.loop import train


class Samples(NamedTuple):
    """Weights along a training, shape (K, D), and what else differs between them, (K, E)."""

    theta: np.ndarray
    states: np.ndarray


@keras.saving.register_keras_serializable(package="tfbdl")
class SGMCMC(Method):
    """Samples of the posterior along a training by a sampler of `tfbdl.optimizers`.

    SGLD (Welling and Teh 2011), SGHMC (Chen, Fox, Guestrin 2014), their preconditioned forms and
    cycles (Zhang et al. 2020) add noise to the gradients of mini-batches, so that the weights do
    not come to rest but wander over the posterior. For networks and data that are too large for
    `MCMC`; samples are biased by the learning rate and follow one another closely.

    Args:
        model: a built network, compiled with a sampler, such as `tfbdl.optimizers.SGHMC`, and a
            loss. `fit` trains it.
        start: epochs to leave out at the beginning, while the chain is on its way.
        every: epochs between two samples; less correlated the more. Under a `CyclicalSchedule`
            epochs that end in its exploring part are left out too.
        seed: of the order of the examples.

    Raises:
        ValueError: if an argument is out of its range, or the model is not compiled with a sampler.
    """

    _result: Samples | None

    def __init__(
        self,
        model: keras.Model,
        *,
        start: int = 0,
        every: int = 1,
        seed: int = 0,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        self.model = keras_model("model", model)
        optimizer = getattr(model, "optimizer", None)
        if not isinstance(getattr(optimizer, "inner_optimizer", optimizer), SamplingOptimizer):
            raise ValueError(
                f"model={model.name} is compiled with {type(optimizer).__name__}, which finds a "
                "mode and samples nothing; compile it with one of tfbdl.optimizers, such as SGHMC"
            )
        if integer("start", start) < 0:
            raise ValueError(f"start={start} must be at least 0")
        self.start = start
        self.every = positive_integer("every", every)
        self.seed = arguments.seed("seed", seed)

    def fit(
        self,
        x: Any,
        y: Any = None,
        *,
        epochs: int,
        num_data: int | None = None,
        batch_size: int = 100,
        savedir: str | os.PathLike[str] | None = None,
        callbacks: Sequence[keras.callbacks.Callback] = (),
        verbose: int = 1,
    ) -> SGMCMC:
        """Trains the model by `tfbdl.train`, from where it is, and keeps its weights on the way.

        Args:
            x: as in `tfbdl.train`.
            y: as in `tfbdl.train`.
            epochs: number of the last epoch.
            num_data: as in `tfbdl.train`.
            batch_size: as in `tfbdl.train`.
            savedir: folder of the run and of its samples, one file each, so that memory does not
                grow and a stopped run loses none. None keeps them in memory.
            callbacks: as in `tfbdl.train`.
            verbose: as in `tfbdl.train`.

        Raises:
            ValueError: as `tfbdl.train`, and if no epoch was kept.
            OSError: as `tfbdl.train`.
            TrainingError: as `tfbdl.train`.
        """
        folder = None if savedir is None else Path(savedir) / "samples"
        snapshots = WeightSnapshots(self.start, self.every, savedir=folder)
        train(
            self.model,
            x,
            y,
            epochs=epochs,
            num_data=num_data,
            batch_size=batch_size,
            savedir=savedir,
            callbacks=[*callbacks, snapshots],
            seed=self.seed,
            verbose=verbose,
        )
        self._result = Samples(*snapshots.arrays())
        return self

    def sample(self, num_samples: int | None = None, *, seed: int = 0) -> np.ndarray:
        """Samples in random order, shape (num_samples, D); by default all K.

        Raises:
            ValueError: if there are fewer.
            NotFittedError: before `fit`.
        """
        return self._chosen(num_samples, seed).theta

    def ensemble(self, num_samples: int | None = None, *, seed: int = 0) -> WeightEnsemble:
        """The network with samples of its weights in random order, by default all."""
        kept = len(self._fitted("ensemble").theta)
        number = None if num_samples is None else min(num_samples, kept)
        ensemble = WeightEnsemble(self.model, *self._chosen(number, seed))
        ensemble.compile(loss=self.model.loss)
        return ensemble

    def summary(self) -> WeightTable:
        """Means and standard deviations of the samples, by weight tensor."""
        theta = self._fitted("summary").theta
        remarks = [f"{len(theta)} samples of {theta.shape[1]:,} weights"]
        mean, stddev = theta.mean(axis=0), theta.std(axis=0)
        return WeightTable.of(repr(self), FlatModel(self.model), mean, stddev, remarks)

    def fitted_arrays(self) -> dict[str, np.ndarray]:
        return self._fitted("fitted_arrays")._asdict()

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        self._result = Samples(**arrays)

    def _chosen(self, num_samples: int | None, seed: int) -> Samples:
        samples = self._fitted("sample")
        kept = len(samples.theta)
        number = kept if num_samples is None else positive_integer("num_samples", num_samples)
        if number > kept:
            raise ValueError(f"num_samples={number} is more than the {kept} that were kept")
        order = arguments.generator("seed", seed).permutation(kept)[:number]
        return Samples(samples.theta[order], samples.states[order])

"""Stochastic-gradient Markov chain Monte Carlo: snapshots of a sampling optimizer."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import numpy as np

from tfbdl import arguments
from tfbdl.arguments import boolean, integer, optional, positive_integer
from tfbdl.flat_model import FlatModel
from tfbdl.inference.arviz import to_arviz
from tfbdl.inference.method import at_most
from tfbdl.inference.training_method import Training, TrainingMethod, check_optimizer
from tfbdl.inference.weight_snapshots import WeightSnapshots
from tfbdl.inference.weight_table import WeightTable
from tfbdl.models import WeightEnsemble
from tfbdl.optimizers.base import SamplingOptimizer


class Samples(NamedTuple):
    """Weights along a training, shape (K, D), and their other state, (K, E)."""

    theta: np.ndarray
    states: np.ndarray


@keras.saving.register_keras_serializable(package="tfbdl")
class SGMCMC(TrainingMethod):
    """Samples of the posterior along a training by a sampler of `tfbdl.optimizers`.

    A step of SGLD (Welling and Teh 2011, equation 4, whose eps is 2 lr / N) is

        theta <- theta - lr grad U + sqrt(2 lr T / N) e,    e ~ N(0, I),

    where U = -(log p(y | x, theta) + log p(theta)) / N is estimated from a mini-batch: the weights
    do not come to rest but wander over the posterior, at temperature T = 1. SGHMC (Chen, Fox,
    Guestrin 2014) adds momenta; both have preconditioned forms, and cycles of the learning rate
    (Zhang et al. 2020). It is made for networks and data that are too large for `MCMC`. The price
    is a bias that grows with the learning rate, and samples that are strongly correlated.

    Args:
        model: a built network, compiled with a sampler, such as `tfbdl.optimizers.SGHMC`, and a
            loss. `fit` trains it.
        start: epochs to leave out at the beginning, while the chain is on its way.
        every: epochs between two samples; the more, the less these are correlated. Under a
            `CyclicalSchedule` epochs that end in its exploring part are left out too.
        seed: the seed of the order of the examples.
        jit_compile: whether XLA compiles the steps, as in `tfbdl.train`.

    Raises:
        ValueError: if an argument is out of its range, or the model is random, not built or not
            compiled with a sampler.
    """

    _result: Samples | None

    def __init__(
        self,
        model: keras.Model,
        *,
        start: int = 0,
        every: int = 1,
        seed: int = 0,
        jit_compile: bool | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        self._flat = FlatModel(model)
        self._flat.check_no_scales()
        self.model = model
        lacks = "finds a mode and samples nothing; compile it with one of tfbdl.optimizers, such as"
        check_optimizer(model, SamplingOptimizer, f"{lacks} SGHMC")
        self.start = integer("start", start, least=0)
        self.every = positive_integer("every", every)
        self.seed = arguments.seed("seed", seed)
        self.jit_compile = optional(boolean, "jit_compile", jit_compile)

    def _trained(self, training: Training) -> Samples:
        run, _, savedir, callbacks = training
        folder = savedir and savedir / "samples"
        snapshots = WeightSnapshots(self.start, self.every, savedir=folder)
        run(self.model, savedir=savedir, callbacks=[*callbacks, snapshots], seed=self.seed)
        return Samples(*snapshots.arrays())

    def sample(self, num_samples: int | None = None, *, seed: int = 0) -> np.ndarray:
        """Samples in random order, at most `num_samples` of the K, shape (S, D); by default all.

        Raises:
            NotFittedError: before `fit`.
        """
        return self._chosen("sample", num_samples, seed).theta

    def ensemble(self, num_samples: int | None = None, *, seed: int = 0) -> WeightEnsemble:
        """The network with samples of its weights in random order: all, or at most `num_samples`.

        Raises:
            NotFittedError: before `fit`.
        """
        ensemble = WeightEnsemble(self.model, *self._chosen("ensemble", num_samples, seed))
        ensemble.take_loss(self.model)
        return ensemble

    def summary(self) -> WeightTable:
        """Means and standard deviations of the samples, by weight tensor."""
        theta = self._fitted("summary").theta
        remarks = [f"{len(theta)} samples of {theta.shape[1]:,} weights"]
        mean, stddev = theta.mean(axis=0), theta.std(axis=0)
        return WeightTable.of(repr(self), self._flat.shapes, mean, stddev, remarks)

    def to_arviz(self) -> Any:
        """The samples as an `arviz.InferenceData`, of the weights by name, in order, as one chain.

        Raises:
            ImportError: if ArviZ is missing.
            NotFittedError: before `fit`.
        """
        theta = self._fitted("to_arviz").theta
        return to_arviz(self._flat.by_weight(theta[:, None]))

    def fitted_arrays(self) -> dict[str, np.ndarray]:
        return self._fitted("fitted_arrays")._asdict()

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        self._keep(Samples(**arrays))

    def _chosen(self, what: str, num_samples: int | None, seed: int) -> Samples:
        samples = self._fitted(what)
        kept = len(samples.theta)
        number = at_most(kept, num_samples)
        order = arguments.generator("seed", seed).permutation(kept)[:number]
        return Samples(samples.theta[order], samples.states[order])

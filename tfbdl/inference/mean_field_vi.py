"""Mean-field variational inference by an optimizer that keeps a distribution over the weights."""

from __future__ import annotations

from typing import NamedTuple

import keras
import numpy as np

from tfbdl import arguments
from tfbdl.arguments import boolean, optional, positive_integer
from tfbdl.flat_model import FlatModel, flatten
from tfbdl.inference.training_method import Training, TrainingMethod, check_optimizer
from tfbdl.inference.weight_table import WeightTable
from tfbdl.keras_private_training import inner_optimizer
from tfbdl.models import NormalWeights, WeightEnsemble
from tfbdl.models.reweighted import floats
from tfbdl.optimizers import IVON


class MeanField(NamedTuple):
    """Independent normals, mean and standard deviation of shape (D,); and the other state, (E,)."""

    mean: np.ndarray
    stddev: np.ndarray
    state: np.ndarray


@keras.saving.register_keras_serializable(package="tfbdl")
class MeanFieldVI(TrainingMethod):
    """q(w) = N(m, sigma^2), independent for each weight, from a training by `optimizers.IVON`.

    It seeks the member of this family that is nearest to the posterior in KL(q, p), as layers with
    random weights do, but for any network as it stands, and at about the price of Adam (Shen et al.
    2024). Two numbers a weight are kept. Predictions draw each function where it is used.

        model.compile(tfbdl.optimizers.IVON(0.1, num_data=len(x)), loss)
        posterior = MeanFieldVI(model).fit(x, y, epochs=20)

    Args:
        model: a built network, compiled with `tfbdl.optimizers.IVON` and a loss. `fit` trains it.
        seed: the seed of the order of the examples.
        jit_compile: whether XLA compiles the steps, as in `tfbdl.train`.

    Raises:
        ValueError: if an argument is out of its range, or the model is random, not built or
            compiled with another optimizer.
    """

    _result: MeanField | None
    _drawn: tuple[MeanField | None, NormalWeights | None] = (None, None)

    def __init__(
        self,
        model: keras.Model,
        *,
        seed: int = 0,
        jit_compile: bool | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        self._flat = FlatModel(model)
        self._flat.check_no_scales()
        self.model = model
        lacks = "keeps no distribution over the weights; compile it with tfbdl.optimizers.IVON"
        check_optimizer(model, IVON, lacks)
        self.seed = arguments.seed("seed", seed)
        self.jit_compile = optional(boolean, "jit_compile", jit_compile)

    @classmethod
    def of(cls, model: keras.Model) -> MeanFieldVI:
        """The posterior of a network that `model.fit` or `tfbdl.train` has trained with IVON.

        Raises:
            ValueError: as the constructor, and if the network has not been trained.
        """
        posterior = cls(model)
        if not inner_optimizer(model.optimizer).built:
            raise ValueError(f"model={model.name} has not been trained; train it, or call fit")
        posterior._keep(posterior._now())
        return posterior

    def _trained(self, training: Training) -> MeanField:
        run, _, savedir, callbacks = training
        run(self.model, savedir=savedir, callbacks=callbacks, seed=self.seed)
        return self._now()

    def _now(self) -> MeanField:
        stddev = inner_optimizer(self.model.optimizer).stddev
        sigma = flatten([stddev(v) for v in self.model.trainable_variables])
        tensors = self._flat.theta, sigma, floats(self._flat.state)
        return MeanField(*(tensor.numpy() for tensor in tensors))

    def sample(self, num_samples: int = 100, *, seed: int = 0) -> np.ndarray:
        """Draws of the weights, shape (num_samples, D).

        Raises:
            NotFittedError: before `fit`.
        """
        q = self._fitted("sample")
        number = positive_integer("num_samples", num_samples)
        noise = arguments.generator("seed", seed).standard_normal((number, len(q.mean)))
        return (q.mean + q.stddev * noise).astype(q.mean.dtype)

    def ensemble(self, num_samples: int = 100, *, seed: int = 0) -> WeightEnsemble:
        """The network with draws of its weights.

        Raises:
            NotFittedError: before `fit`.
        """
        q = self._fitted("ensemble")
        members = self.sample(num_samples, seed=seed)
        ensemble = WeightEnsemble(self.model, members, q.state[None])
        ensemble.take_loss(self.model)
        return ensemble

    def functions(self, num_samples: int, seed: int) -> NormalWeights:
        """The network with weights that are drawn where it is called: any number, by any seed.

        Raises:
            NotFittedError: before `fit`.
        """
        q = self._fitted("export")
        arguments.seed("seed", seed)
        of, drawn = self._drawn
        if drawn is None or of is not q:
            drawn = NormalWeights(self.model, *q)
            drawn.take_loss(self.model)
            self.__dict__["_drawn"] = q, drawn  # kept, and no part of a file
        return drawn

    def summary(self) -> WeightTable:
        """Means and standard deviations, by weight tensor."""
        q = self._fitted("summary")
        remarks = [f"{len(q.mean):,} independent normal weights"]
        return WeightTable.of(repr(self), self._flat.shapes, q.mean, q.stddev, remarks)

    def fitted_arrays(self) -> dict[str, np.ndarray]:
        return self._fitted("fitted_arrays")._asdict()

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        self._keep(MeanField(**arrays))

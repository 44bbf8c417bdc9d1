"""Deep ensembles: networks trained alike from different starts (Lakshminarayanan et al. 2017)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np

from tfbdl.arguments import function, integer, positive_integer
from tfbdl.flat_model import FlatModel
from tfbdl.inference.method import Method
from tfbdl.inference.weight_table import WeightTable
from tfbdl.models.ensemble import WeightEnsemble, floats
from tfbdl.training.loop import train


class Members(NamedTuple):
    """Weights of the members, shape (K, D), and what else differs between them, (K, E)."""

    theta: np.ndarray
    states: np.ndarray


@keras.saving.register_keras_serializable(package="tfbdl")
class DeepEnsemble(Method):
    """K networks that differ in where they start and in the order of the examples.

    Each finds a mode of its own; where they disagree, the data have not decided (Lakshminarayanan,
    Pritzel, Blundell 2017, "Simple and scalable predictive uncertainty estimation using deep
    ensembles"). Hard to beat, at K times the cost of one network; a mixture of K point masses and
    no posterior, so that K bounds what it can say.

    Args:
        build_model: makes a compiled model; called once for each member, under its own Keras seed.
            Or a compiled model, whose architecture each member has, with weights of its own.
        num_members: K; the paper's 5.
        seed: member k has the Keras seed `seed + k`, of 32 bits.

    Raises:
        ValueError: if an argument is out of its range.
    """

    _result: Members | None

    def __init__(
        self,
        build_model: Callable[[], keras.Model] | keras.Model,
        num_members: int = 5,
        *,
        seed: int = 0,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        if not isinstance(build_model, keras.Model):
            function("build_model", build_model, "a function that makes a compiled model")
        elif not (build_model.built and build_model.compiled):
            raise ValueError(f"build_model={build_model.name} must be built and compiled")
        self.build_model = build_model
        self.num_members = positive_integer("num_members", num_members)
        most = 2**32 - self.num_members
        self.seed = integer("seed", seed, "Keras' own seeds have 32 bits", least=0, most=most)
        self._network: keras.Model | None = None

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
    ) -> DeepEnsemble:
        """Trains the members one after the other by `tfbdl.train`.

        Args:
            x: as in `tfbdl.train`.
            y: as in `tfbdl.train`.
            epochs: number of the last epoch of each member.
            num_data: as in `tfbdl.train`.
            batch_size: as in `tfbdl.train`.
            savedir: folder, with one for each member in it; a stopped call goes on where it was.
            callbacks: as in `tfbdl.train`, of each member.
            verbose: as in `tfbdl.train`.

        Raises:
            ValueError: as `tfbdl.train`, and if the members differ in the shapes of their weights.
            OSError: as `tfbdl.train`.
            TrainingError: as `tfbdl.train`.
        """
        thetas, states = [], []
        for k in range(self.num_members):
            network = self._make(self.seed + k)
            folder = None if savedir is None else Path(savedir) / f"member_{k}"
            train(
                network,
                x,
                y,
                epochs=epochs,
                num_data=num_data,
                batch_size=batch_size,
                savedir=folder,
                callbacks=callbacks,
                seed=self.seed + k,
                verbose=verbose,
            )
            flat = FlatModel(network)
            thetas.append(flat.theta.numpy())
            states.append(floats(flat.state).numpy())
            if thetas[-1].shape != thetas[0].shape:
                raise ValueError("build_model makes networks of different shapes; make equal ones")
        self._network = network
        self._result = Members(np.stack(thetas), np.stack(states))
        return self

    def sample(self, num_samples: int | None = None, *, seed: int = 0) -> np.ndarray:
        """The weights of the first members, shape (num_samples, D); by default of all.

        Raises:
            ValueError: if there are fewer.
            NotFittedError: before `fit`.
        """
        theta = self._fitted("sample").theta
        number = self.num_members if num_samples is None else num_samples
        if positive_integer("num_samples", number) > len(theta):
            raise ValueError(f"num_samples={number} is more than the {len(theta)} members")
        return theta[:number]

    def ensemble(self, num_samples: int | None = None, *, seed: int = 0) -> WeightEnsemble:
        """The members, or the first of them, as one model, whose functions `tfbdl.predict` draws.

        Raises:
            NotFittedError: before `fit`.
        """
        members = self._fitted("ensemble")
        network = self.network()
        ensemble = WeightEnsemble(
            network, members.theta[:num_samples], members.states[:num_samples]
        )
        ensemble.compile(loss=network.loss)
        return ensemble

    def network(self) -> keras.Model:
        """A network of the architecture of all members, compiled; with the weights of one.

        Raises:
            NotFittedError: before `fit`.
        """
        self._fitted("network")
        assert self._network is not None
        return self._network

    def summary(self) -> WeightTable:
        """Means and standard deviations over the members, by weight tensor."""
        theta = self._fitted("summary").theta
        flat = FlatModel(self.network())
        remarks = [f"{len(theta)} members of {theta.shape[1]:,} weights"]
        return WeightTable.of(repr(self), flat, theta.mean(axis=0), theta.std(axis=0), remarks)

    def fitted_arrays(self) -> dict[str, np.ndarray]:
        return self._fitted("fitted_arrays")._asdict()

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        assert isinstance(self.build_model, keras.Model)
        self._network = self.build_model
        self._result = Members(**arrays)

    def get_config(self) -> dict:
        network = keras.saving.serialize_keras_object(self.network())
        return {**self._config_but("build_model"), "build_model": network}

    def _make(self, seed: int) -> keras.Model:
        keras.utils.set_random_seed(seed)
        if isinstance(self.build_model, keras.Model):
            return _fresh(self.build_model)
        return self.build_model()


def _fresh(model: keras.Model) -> keras.Model:
    """A model of the same architecture with weights of its own, compiled alike."""
    made = keras.models.clone_model(model)
    made.compile_from_config(model.get_compile_config())
    return made

"""Deep ensembles: networks trained alike from different starts (Lakshminarayanan et al. 2017)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np

from tfbdl import arguments
from tfbdl.arguments import boolean, function, integer, optional, positive_integer
from tfbdl.compilation import compile_like
from tfbdl.copying import copy_layer, copy_state
from tfbdl.flat_model import FlatModel
from tfbdl.inference.method import at_most
from tfbdl.inference.training_method import Training, TrainingMethod
from tfbdl.inference.weight_table import WeightTable
from tfbdl.keras_private import is_graph, pair_layers, rebuild
from tfbdl.model_arguments import symbolic_inputs
from tfbdl.models import WeightEnsemble
from tfbdl.models.alike import Alike


class Members(NamedTuple):
    """Weights of the members, and what else they have for themselves.

    theta: the weights, shape (K, D).
    states: the values of other variables that differ, shape (K, Q).
    own_states: their places among the floating ones; None for all.
    """

    theta: np.ndarray
    states: np.ndarray
    own_states: np.ndarray | None = None

    def ensemble(self, network: keras.Model, number: int) -> WeightEnsemble:
        """The first so many."""
        places = None if self.own_states is None else self.own_states.tolist()
        differ = places is None or len(places) > 0
        states = self.states[:number] if differ else None
        ensemble = WeightEnsemble(network, self.theta[:number], states, own_states=places)
        ensemble.take_loss(network)
        return ensemble


@keras.saving.register_keras_serializable(package="tfbdl")
class DeepEnsemble(TrainingMethod):
    """K networks that differ in where they start and in the order of the examples.

    Each finds a mode of its own; where they disagree, the data have not decided (Lakshminarayanan,
    Pritzel, Blundell 2017, "Simple and scalable predictive uncertainty estimation using deep
    ensembles"). Hard to beat, at K times the cost of one network; a mixture of K point masses and
    no posterior, so that K bounds what it can say.

    Args:
        build_model: makes a compiled model; called once for each member, under its own Keras seed.
            Or a compiled model, whose architecture each member has, with weights of its own; those
            of frozen layers are common to all.
        num_members: K; the paper's 5.
        seed: member k has the Keras seed `seed + k`, of 32 bits.
        jit_compile: whether XLA compiles the steps, as in `tfbdl.train`.

    Raises:
        ValueError: if an argument is out of its range; in `fit` also if the networks are random, or
            differ in more than their weights.
    """

    _result: Members | None

    def __init__(
        self,
        build_model: Callable[[], keras.Model] | keras.Model,
        num_members: int = 5,
        *,
        seed: int = 0,
        jit_compile: bool | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        if not isinstance(build_model, keras.Model):
            wanted = "a function without arguments that makes a compiled model"
            function("build_model", build_model, wanted, takes=0)
        elif not (build_model.built and build_model.compiled):
            raise ValueError(f"build_model={build_model.name} must be built and compiled")
        self.build_model = build_model
        self.num_members = positive_integer("num_members", num_members)
        most = 2**32 - self.num_members
        self.seed = integer("seed", seed, "Keras' own seeds have 32 bits", least=0, most=most)
        self.jit_compile = optional(boolean, "jit_compile", jit_compile)
        self._network: keras.Model | None = None

    def _trained(self, training: Training) -> Members:
        alike = Alike()
        for k in range(self.num_members):
            network = self._make(self.seed + k)
            if network.built:
                FlatModel(network)  # refuses random layers before they are trained
            folder = training.savedir and training.savedir / f"member_{k}"
            seed = self.seed + k
            training.run(network, savedir=folder, callbacks=training.callbacks, seed=seed)
            alike.add(network)
        self._network = alike.first
        theta, _ = alike.members(whole=True)
        states, own_states = alike.states()
        return Members(theta, states, np.array(own_states, np.int64))

    def sample(self, num_samples: int | None = None, *, seed: int = 0) -> np.ndarray:
        """The weights of the first members, shape (num_samples, D); by default of all.

        `seed` changes nothing: members have no other order than that of their training.

        Raises:
            ValueError: if there are fewer.
            NotFittedError: before `fit`.
        """
        theta = self._fitted("sample").theta
        arguments.seed("seed", seed)
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
        arguments.seed("seed", seed)
        return members.ensemble(self.network(), at_most(len(members.theta), num_samples))

    def network(self) -> keras.Model:
        """A network of the architecture of all members, compiled; with the weights of one.

        Raises:
            NotFittedError: before `fit`.
        """
        self._fitted("network")
        assert self._network is not None
        return self._network

    @property
    def input(self) -> Any:
        return symbolic_inputs(self.network())

    def summary(self) -> WeightTable:
        """Means and standard deviations over the members, by weight tensor."""
        theta = self._fitted("summary").theta
        shapes = FlatModel(self.network()).shapes
        remarks = [f"{len(theta)} members of {theta.shape[1]:,} weights"]
        return WeightTable.of(repr(self), shapes, theta.mean(axis=0), theta.std(axis=0), remarks)

    def fitted_arrays(self) -> dict[str, np.ndarray]:
        return self._fitted("fitted_arrays")._asdict()

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        assert isinstance(self.build_model, keras.Model)
        self._network = self.build_model
        self._result = Members(**arrays)

    def get_config(self) -> dict[str, Any]:
        made_by = self.build_model if self._network is None else self._network
        network = self._serialized("build_model", made_by)
        return {**self._config_but("build_model"), "build_model": network}

    def _make(self, seed: int) -> keras.Model:
        keras.utils.set_random_seed(seed)
        if isinstance(self.build_model, keras.Model):
            return _fresh(self.build_model)
        return self.build_model()


def _fresh(model: keras.Model) -> keras.Model:
    """A model of the same architecture with weights of its own, compiled alike.

    What layers have been adapted to, such as the scales of a Normalization, and the weights of
    frozen layers are no weights to train: they stay.
    """
    made: dict[int, tuple[Any, Any]] = {}

    def again(layer: Any) -> Any:
        if id(layer) not in made:
            new = rebuild(layer, again) if is_graph(layer) else copy_layer(layer)
            if isinstance(layer, keras.layers.Layer):
                new.trainable = layer.trainable
            made[id(layer)] = layer, new
        return made[id(layer)][1]

    if is_graph(model):
        copy = again(model)
    else:
        copy = keras.models.clone_model(model)
        made[id(model)] = model, copy
    for pair in made.values():
        is_layer = isinstance(pair[0], keras.layers.Layer) and not is_graph(pair[0])
        for old, new in pair_layers(*pair) if is_layer else ():
            if hasattr(old, "adapt") or not old.trainable:
                copy_state(old, new)
    compile_like(model, copy)
    return copy

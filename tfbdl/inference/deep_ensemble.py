"""Deep ensembles: networks trained alike from different starts (Lakshminarayanan et al. 2017)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from tfbdl import arguments
from tfbdl.arguments import boolean, function, integer, optional, positive_integer
from tfbdl.compilation import compile_like
from tfbdl.copying import copy_layer, copy_state
from tfbdl.flat_model import FlatModel
from tfbdl.inference.joint_training import train_together
from tfbdl.inference.members import HeldMembers, Members, StoredMembers, members_of
from tfbdl.inference.method import at_most
from tfbdl.inference.training_method import Training, TrainingMethod
from tfbdl.inference.weight_table import WeightTable
from tfbdl.keras_private import is_graph, pair_layers
from tfbdl.keras_private_graphs import rebuild
from tfbdl.model_arguments import symbolic_inputs
from tfbdl.models import WeightEnsemble
from tfbdl.models.alike import Alike
from tfbdl.predictive.predict import Request
from tfbdl.sources import Source


@keras.saving.register_keras_serializable(package="tfbdl")
class DeepEnsemble(TrainingMethod):
    """K networks that differ in where they start and in the order of the examples.

    Their predictions are mixed with equal weights,

        p(y | x) = 1/K sum_k p(y | f(theta_k, x))

    (Lakshminarayanan, Pritzel, Blundell 2017, "Simple and scalable predictive uncertainty
    estimation using deep ensembles", section 2.4). Each finds a mode of its own; where they
    disagree, the data have not decided. It is hard to beat, at K times the cost of one network; but
    it is a mixture of K point masses and no posterior, so that K bounds what it can say.

    Args:
        build_model: makes a compiled model; called once for each member, under its own Keras seed.
            Or a compiled model, whose architecture each member has, with weights of its own; the
            weights of frozen layers are common to all.
        num_members: K; the paper's 5.
        seed: member k has the Keras seed `seed + k`, of 32 bits.
        in_memory: whether all members are held in memory. If not, they stay in the `savedir` of
            `fit`, and `tfbdl.predict` reads one after the other, going through the inputs once for
            each: memory for one member, whatever their number. Files of the ensemble name that
            folder, which has to stay as it is.
        jit_compile: whether XLA compiles the steps, as in `tfbdl.train`.

    Raises:
        ValueError: if an argument is out of its range; in `fit` also if the networks are random, or
            differ in more than their weights, or there is no `savedir` for members to stay in.
    """

    _result: Members | None

    def __init__(
        self,
        build_model: Callable[[], keras.Model] | keras.Model,
        num_members: int = 5,
        *,
        seed: int = 0,
        in_memory: bool = True,
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
        self.in_memory = boolean("in_memory", in_memory)
        self.jit_compile = optional(boolean, "jit_compile", jit_compile)
        self._network: keras.Model | None = None

    def _trained(self, training: Training) -> Members:
        if not self.in_memory and training.savedir is None:
            raise ValueError(
                "savedir=None: in_memory=False leaves the members there; name a folder"
            )
        alike = Alike()
        for k in range(self.num_members):
            network = self._make(self.seed + k)
            if network.built:
                FlatModel(network)  # refuses random layers before they are trained
            folder = training.savedir and training.savedir / f"member_{k}"
            seed = self.seed + k
            training.run(network, savedir=folder, callbacks=training.callbacks, seed=seed)
            alike.add(network, keep=self.in_memory)
        self._network = alike.first
        if training.savedir is None or self.in_memory:
            return HeldMembers.of_alike(alike)
        return StoredMembers(training.savedir, self.num_members)

    def fit_together(
        self, x: Any, y: Any = None, *, epochs: int, batch_size: int | None = None
    ) -> DeepEnsemble:
        """Trains all members side by side in one compiled step; returns the object itself.

        They are the members of `fit` on the same arrays, but for rounding. This is faster for
        networks so small that most of a step is not arithmetic. There is no log, no folder and no
        validation.

        Args:
            x: examples, shape (N, ...), a structure of such arrays, or a `pandas.DataFrame`.
            y: targets, shape (N, ...); None if the models need none.
            epochs: epochs of each member.
            batch_size: examples a step, by default 100, at most N. The last examples of an epoch
                are left out where they fill no batch, as in `tfbdl.train`.

        Raises:
            ValueError: as `tfbdl.train`; if x is no arrays, or members stay in a folder; or if they
                would not train as they do alone: with dropout or batch statistics, constraints,
                frozen weights that differ, or an optimizer that looks at several weights at once.
            TrainingError: if weights are not finite after an epoch.
        """
        if not self.in_memory:
            raise ValueError("in_memory=False: members that train together are in memory; call fit")
        networks = [self._make(self.seed + k) for k in range(self.num_members)]
        train_together(
            networks,
            x,
            y,
            epochs=epochs,
            batch_size=batch_size,
            seed=self.seed,
            jit_compile=self.jit_compile,
        )
        alike = Alike()
        for network in networks:
            alike.add(network)
        self._network = alike.first
        self._keep(HeldMembers.of_alike(alike))
        return self

    def predictive(self, x: Source, request: Request) -> Any:
        members = self._fitted("predict")
        if isinstance(members, StoredMembers):
            return members.predict(self.network(), x, request)
        return super().predictive(x, request)

    def sample(self, num_samples: int | None = None, *, seed: int = 0) -> np.ndarray:
        """The weights of the first members, at most `num_samples`, shape (S, D); by default of all.

        `seed` changes nothing: members have no other order than that of their training.

        Raises:
            NotFittedError: before `fit`.
        """
        members = self._fitted("sample")
        arguments.seed("seed", seed)
        return members.theta(self.network(), at_most(len(members), num_samples))

    def ensemble(self, num_samples: int | None = None, *, seed: int = 0) -> WeightEnsemble:
        """The first members, at most `num_samples`, as one model; by default all.

        Raises:
            NotFittedError: before `fit`.
        """
        members = self._fitted("ensemble")
        arguments.seed("seed", seed)
        ensemble = members.ensemble(self.network(), at_most(len(members), num_samples))
        ensemble.take_loss(self.network())
        return ensemble

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
        members = self._fitted("summary")
        shapes = FlatModel(self.network()).shapes
        mean, stddev = members.moments(self.network())
        remarks = [f"{len(members)} members of {len(mean):,} weights"]
        return WeightTable.of(repr(self), shapes, mean, stddev, remarks)

    def fitted_arrays(self) -> dict[str, np.ndarray]:
        return self._fitted("fitted_arrays").arrays()

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        assert isinstance(self.build_model, keras.Model)
        self._network = self.build_model
        self._keep(members_of(arrays))

    def get_config(self) -> dict[str, Any]:
        made_by = self.build_model if self._network is None else self._network
        return self._config_but(build_model=made_by)

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

"""Several weight samples of one network: members of an ensemble, or samples of a chain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl.arguments import integer, shown
from tfbdl.examples import as_array
from tfbdl.flat_model import FlatModel
from tfbdl.inherited_arguments import LayerArguments, Unpack
from tfbdl.keras_private import keras_mask, own_variables
from tfbdl.keras_private_training import compiled_with
from tfbdl.likelihoods.positions import with_masks
from tfbdl.models.alike import Alike
from tfbdl.models.places import Places
from tfbdl.models.reweighted import Reweighted, floating, network_of, parts_of
from tfbdl.programs import Programs
from tfbdl.shared_part import SharedPart


@keras.saving.register_keras_serializable(package="tfbdl")
class WeightEnsemble(Reweighted):
    """K functions f(theta_k, x) of one network, each as probable as the others.

    Draw number s is member s modulo K, whatever the seed, so that `tfbdl.predict` takes each once.
    Called without a draw it gives the mean of the members' outputs.

    What members have in common is kept once, and what lies before the first layer with weights of
    their own is computed once for all: for an ensemble of last layers, the features.

    Args:
        model: the network, built; where members share weights, they have its present ones.
        members: theta_1 .. theta_K, shape (K, D), in the order of `model.trainable_variables`; or,
            with `own_weights`, the P numbers of these, shape (K, P).
        states: other differences between members (statistics of BatchNormalization), shape (K, E)
            in the order of the floating `model.non_trainable_variables`; by default those of
            `model` for all.
        own_weights: names of the weights, or of their layers, that members have for themselves;
            None for all.
        own_states: the places, among the floating `model.non_trainable_variables`, of those that
            are in `states`; None for all.
        theta: all weights, shape (D,), from which the shared ones are taken in place of those of
            `model`.
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.Model`.

    Attributes:
        members: the weights that members have for themselves, shape (K, P), as `shapes` names them.
        states: the other variables of members, shape (K, E).

    Raises:
        ValueError: if `model` is not built or random, the shapes do not fit, or a number is not
            finite.
    """

    def __init__(
        self,
        model: keras.Model,
        members: Any,
        states: Any = None,
        *,
        own_weights: Sequence[str] | None = None,
        own_states: Sequence[int] | None = None,
        theta: Any = None,
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        super().__init__(model, **kwargs)
        self._programs = Programs(model)
        self._weights = Places(model.trainable_variables, self._named(own_weights))
        most = len(floating(model)) - 1
        places = (
            None
            if own_states is None
            else [integer("own_states", place, least=0, most=most) for place in own_states]
        )
        self._states = Places(floating(model), places)
        if states is None:
            states = self._states.own_row(self._own_state)[None]
        self.members = self._hold("members", members, self._weights.size, several=True)
        self.states = self._hold("states", states, self._states.size, several=True)
        if theta is None:
            shared = [np.asarray(v) for v in self._weights.shared]
        else:
            shared = self._weights.shared_parts(as_array("theta", theta), self._flat.size)
        shared += [np.asarray(v) for v in self._states.shared]
        variables = [*self._weights.shared, *self._states.shared]
        self._shared = [
            self._add(v.name, v.dtype, value) for v, value in zip(variables, shared, strict=True)
        ]
        varying = self._weights.own + (self._states.own if self.states.shape[0] > 1 else [])
        self._num_varying = len(varying)
        own = set(map(id, varying))
        self._part = SharedPart(
            model, lambda layer: any(id(v) in own for v in own_variables(layer))
        )

    @classmethod
    def of(cls, models: Sequence[keras.Model], *, name: str | None = None) -> WeightEnsemble:
        """An ensemble of networks of equal architecture, with copies of their weights.

        Weights that are the same in all are kept once.

        Args:
            models: the networks, built.
            name: the name of the ensemble.

        Raises:
            ValueError: if there is none, or they differ in their layers or in weights that are
                integers, as those of quantized layers.
        """
        if not isinstance(models, (list, tuple)) or not models:
            raise ValueError(f"models={shown(models)} must be a list of models, at least one")
        alike = Alike()
        for model in models:
            alike.add(model)
        return cls.of_alike(alike, name=name)

    @classmethod
    def of_alike(cls, alike: Alike, *, name: str | None = None) -> WeightEnsemble:
        """An ensemble of networks that have been taken up one by one."""
        assert alike.first is not None
        members, own_weights = alike.members()
        states, own_states = alike.states()
        return cls(
            alike.first,
            members,
            states if own_states else None,
            own_weights=own_weights,
            own_states=own_states,
            name=name,
        )

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the weights that members have for themselves, by their path, in their order."""
        items = list(self._flat.shapes.items())
        return dict(items[i] for i in self._weights.places)

    @property
    def num_functions(self) -> int:
        """K, the number of members; further draws repeat them."""
        return self.members.shape[0]

    def theta(self, k: int) -> np.ndarray:
        """The weights of member number k, shape (D,), in the order of `trainable_variables`.

        Raises:
            ValueError: if there is none of that number.
        """
        k = integer("k", k, least=0, most=self.num_functions - 1)
        own = parts_of(tf.convert_to_tensor(self.members)[k], self._weights.shapes_of_own)
        shared = [tf.convert_to_tensor(v.value) for v in self._shared]
        parts = self._weights.merged(list(own), shared[: len(self._weights.shared)])
        return np.concatenate([np.ravel(part) for part in parts])

    def state(self, k: int) -> np.ndarray:
        """The other floating variables of member number k, shape (E,), in their order.

        Raises:
            ValueError: if there is none of that number.
        """
        k = integer("k", k, least=0, most=self.num_functions - 1)
        row = tf.convert_to_tensor(self.states)[k if self.states.shape[0] > 1 else 0]
        own = list(parts_of(row, self._states.shapes_of_own))
        shared = [tf.convert_to_tensor(v.value) for v in self._shared[len(self._weights.shared) :]]
        parts = [np.ravel(part) for part in self._states.merged(own, shared)]
        return np.concatenate([np.zeros(0, np.float32), *parts])

    def take(self, other: WeightEnsemble) -> bool:
        """Takes the weights of an ensemble of the same network; False if it is of another kind."""

        def kind(ensemble: WeightEnsemble) -> tuple[Any, ...]:
            return (
                id(ensemble.network),
                ensemble._weights.places,
                ensemble._states.places,
                [tuple(v.shape) for v in ensemble.variables],
                keras.saving.serialize_keras_object(ensemble.loss),
                compiled_with(ensemble).get("loss_weights"),
            )

        if kind(self) != kind(other):
            return False
        for mine, new in zip(self.variables, other.variables, strict=True):
            mine.assign(new)
        return True

    def call(self, x: Any, training: bool = False, draw: tf.Tensor | None = None) -> Any:
        if draw is not None:
            return self._member(tf.cast(draw[1] % self.num_functions, tf.int32), x)
        if tf.executing_eagerly():  # op by op, a thousand members would take seconds
            mean = self._programs.of("mean", self._graphs_of_mean).get_concrete_function(x)
            return with_masks(*mean(x))
        return with_masks(*self._mean(x))

    def _graphs_of_mean(self) -> Any:
        return tf.function(self._mean, autograph=False, reduce_retracing=True)

    def _mean(self, x: Any) -> tuple[Any, list[tf.Tensor | None]]:
        """The mean of the members' outputs, and the masks that they have."""
        first = self._member(tf.constant(0), x)
        _, total = tf.while_loop(
            lambda k, total: k < self.num_functions,
            lambda k, total: (k + 1, tf.nest.map_structure(tf.add, total, self._member(k, x))),
            (tf.constant(1), first),
        )
        mean = tf.nest.map_structure(lambda total: total / self.num_functions, total)
        return mean, [keras_mask(output) for output in keras.tree.flatten(first)]

    def _member(self, k: tf.Tensor, x: Any) -> Any:
        own = [*map(tf.identity, self._own_values(k))]
        with self._part.known(x, own[: self._num_varying]):
            values = self._with_shared(own)
            return self.network.stateless_call(*values, x, **self._flat.inference)[0]

    def _own_values(self, k: Any) -> list[tf.Tensor]:
        """The values that member k has for itself."""
        row = tf.convert_to_tensor(self.members)[k]
        states = tf.convert_to_tensor(self.states)
        state = states[k if self.states.shape[0] > 1 else 0]
        return [
            *parts_of(row, self._weights.shapes_of_own),
            *parts_of(state, self._states.shapes_of_own),
        ]

    def _with_shared(self, own: Sequence[tf.Tensor]) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        """All weights, and all variables that are not trained."""
        shared = [tf.convert_to_tensor(v.value) for v in self._shared]
        number, size = len(self._weights.own), len(self._weights.shared)
        weights = self._weights.merged(own[:number], shared[:size])
        states = self._states.merged(own[number:], shared[size:])
        return list(weights), self._restore(states)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_members": self.num_functions,
            "num_states": self.states.shape[0],
            "own_weights": self._weights.places,
            "own_states": self._states.places,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> WeightEnsemble:
        model = network_of(config)
        weights = Places(model.trainable_variables, config.get("own_weights"))
        states = Places(floating(model), config.get("own_states"))
        paths = list(FlatModel(model).shapes)
        return cls(
            model,
            np.zeros((config["num_members"], weights.size)),
            np.zeros((config["num_states"], states.size)),
            own_weights=[paths[i] for i in weights.places],
            own_states=states.places,
            name=config["name"],
        )

    def _named(self, names: Sequence[str] | None) -> list[int] | None:
        """The places of the weights that these names mean."""
        if names is None:
            return None
        paths = list(self._flat.shapes)
        meant = [path for n in names for path in ([n] if n in paths else self._flat.named(n))]
        unknown = [n for n in names if n not in paths and not self._flat.named(n)]
        if unknown or isinstance(names, str):
            raise ValueError(
                f"own_weights={shown(names)} must be names of layers or weights; the weights are "
                + ", ".join(paths)
            )
        return [i for i, path in enumerate(paths) if path in meant]

"""Several weight samples of one network: members of an ensemble, or samples of a chain."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl.arguments import shown
from tfbdl.copying import lora_of, set_lora
from tfbdl.draws import accept_draws
from tfbdl.examples import as_array, check_finite
from tfbdl.flat_model import FlatModel, flatten
from tfbdl.keras_private import own_variables, walk
from tfbdl.programs import Programs


@keras.saving.register_keras_serializable(package="tfbdl")
class WeightEnsemble(keras.Model):
    """K functions f(theta_k, x) of one network, each as probable as the others.

    Draw number s is member s modulo K, whatever the seed, so that `tfbdl.predict` takes each once.
    Called without a draw it gives the mean of the members' outputs.

    Args:
        model: the network, built; its weights are not used.
        members: theta_1 .. theta_K, shape (K, D), in the order of `model.trainable_variables`.
        states: other differences between members (statistics of BatchNormalization), shape (K, E)
            in the order of the floating `model.non_trainable_variables`; by default those of
            `model` for all.

    Raises:
        ValueError: if `model` is not built or random, the shapes do not fit, or a number is not
            finite.
    """

    def __init__(
        self,
        model: keras.Model,
        members: Any,
        states: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._flat = FlatModel(model)
        self._programs = Programs(model)
        states = floats(self._flat.state)[None] if states is None else states
        self.members = self._hold("members", members, self._flat.size)
        self.states = self._hold("states", states, int(floats(self._flat.state).shape[0]))
        self._integers = [self._add(v.name, v.dtype, np.asarray(v)) for v in _integers(model)]
        accept_draws(self)
        self.built = True

    @classmethod
    def of(cls, models: Sequence[keras.Model], **kwargs: Any) -> WeightEnsemble:
        """An ensemble of networks of equal architecture, with copies of their weights.

        Raises:
            ValueError: if there is none, or they differ in their layers or in weights that are
                integers, as those of quantized layers.
        """
        if not isinstance(models, (list, tuple)) or not models:
            raise ValueError(f"models={shown(models)} must be a list of models, at least one")
        flats = [FlatModel(model) for model in models]
        if len({tuple(flat.shapes.values()) for flat in flats}) > 1:
            raise ValueError("models differ in the shapes of their weights; give equal networks")
        first = models[0]
        for k, other in enumerate(models[1:], start=1):
            if _architecture(other) != _architecture(first):
                raise ValueError(
                    f"models[{k}] has other layers than models[0], or has adapted them to other "
                    "data; give networks that differ in their weights alone"
                )
            pairs = zip(_integers(first), _integers(other), strict=True)
            changed = next((v for v, w in pairs if not np.array_equal(v, w)), None)
            if changed is not None:
                raise ValueError(
                    f"models[{k}] differs from models[0] in the integers of {changed.path}, which "
                    "members share; give networks that are not quantized"
                )
        members = np.stack([flat.theta.numpy() for flat in flats])
        states = np.stack([floats(flat.state).numpy() for flat in flats])
        return cls(models[0], members, states, **kwargs)

    def _hold(self, name: str, values: Any, width: int) -> keras.Variable:
        values = as_array(name, values)
        check_finite(name, values, self._flat.dtype.name)
        if values.ndim != 2 or len(values) == 0 or values.shape[1] != width:
            raise ValueError(f"{name} has shape {values.shape}; give (K, {width})")
        return self._add(name, self._flat.dtype.name, values)

    def _add(self, name: str, dtype: str, values: np.ndarray) -> keras.Variable:
        return self.add_weight(
            shape=values.shape,
            dtype=dtype,
            initializer=lambda shape, dtype: tf.constant(values, dtype),
            trainable=False,
            autocast=False,
            name=name,
        )

    @property
    def network(self) -> keras.Model:
        """The network. Its weights are not used; the state of adapted layers is."""
        return self._flat.model

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the network's weights, by their path, in the order of the members' columns."""
        return self._flat.shapes

    @property
    def inputs(self) -> list[keras.KerasTensor] | None:
        """The symbolic inputs of the network, as a list; None where it has none."""
        return getattr(self._flat.model, "inputs", None)

    @property
    def input(self) -> Any:
        """The symbolic inputs of the network, in their structure."""
        network = self._flat.model
        return network.inputs[0] if isinstance(network, keras.Sequential) else network.input

    def get_build_config(self) -> dict[str, Any] | None:
        """The build config of the network, with the shape of its input."""
        return self._flat.model.get_build_config()

    def build_from_config(self, config: dict[str, Any]) -> None:
        """Nothing: the network is built by its own config."""

    @property
    def num_functions(self) -> int:
        """K, the number of members; further draws repeat them."""
        return self.members.shape[0]

    def call(self, x: Any, training: bool = False, draw: tf.Tensor | None = None) -> Any:
        if draw is not None:
            return self._member(tf.cast(draw[1] % self.num_functions, tf.int32), x)
        if tf.executing_eagerly():  # op by op, a thousand members would take seconds
            return self._programs.of("mean", self._graphs_of_mean).get_concrete_function(x)(x)
        return self._mean(x)

    def _graphs_of_mean(self) -> Any:
        return tf.function(self._mean, autograph=False, reduce_retracing=True)

    def _mean(self, x: Any) -> Any:
        """The mean of the members' outputs."""
        _, total = tf.while_loop(
            lambda k, total: k < self.num_functions,
            lambda k, total: (k + 1, tf.nest.map_structure(tf.add, total, self._member(k, x))),
            (tf.constant(1), self._member(tf.constant(0), x)),
        )
        return tf.nest.map_structure(lambda total: total / self.num_functions, total)

    def _member(self, k: tf.Tensor, x: Any) -> Any:
        theta = tf.convert_to_tensor(self.members)[k]
        states = tf.convert_to_tensor(self.states)
        last = self.states.shape[0] - 1  # one state may serve all members
        return self._flat(theta, x, self._restore(states[tf.minimum(k, last)]))

    def _restore(self, floats: tf.Tensor) -> list[tf.Tensor]:
        """All variables that are not trained, the floating ones from one vector."""
        integers = dict(zip(map(id, _integers(self.network)), self._integers, strict=True))
        state, start = [], 0
        for source, variable in zip(
            self.network.non_trainable_variables, self._flat.state, strict=True
        ):
            if id(source) in integers:
                state.append(tf.convert_to_tensor(integers[id(source)].value))
            elif variable.dtype.is_floating:
                size = int(np.prod(variable.shape))
                part = floats[start : start + size]
                state.append(tf.cast(tf.reshape(part, variable.shape), variable.dtype))
                start += size
            else:
                state.append(variable)
        return state

    def get_config(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "model": keras.saving.serialize_keras_object(self._flat.model),
            "num_members": self.num_functions,
            "num_states": self.states.shape[0],
            "weights": [[v.name, v.trainable] for v in self.network.weights],
            "lora": [lora_of(layer) for layer in walk(self.network)],
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> WeightEnsemble:
        model = keras.saving.deserialize_keras_object(config["model"])
        for layer, lora in zip(walk(model), config["lora"], strict=True):
            set_lora(layer, *lora)
        if [v.name for v in model.weights] != [name for name, _ in config["weights"]]:
            raise ValueError(
                f"the network {model.name!r} has other weights, or in another order, than that of "
                "the members; save ensembles of networks that are not quantized"
            )
        for v, (_, trainable) in zip(model.weights, config["weights"], strict=True):
            v.trainable = trainable  # the config of a layer is silent of its single weights
        flat = FlatModel(model)
        members = np.zeros((config["num_members"], flat.size))
        states = np.zeros((config["num_states"], int(floats(flat.state).shape[0])))
        return cls(model, members, states, name=config["name"])


def _integers(model: keras.Model) -> list[keras.Variable]:
    """The weights that are in no member's theta or states, such as those of quantized layers."""
    return [v for v in model.weights if "float" not in v.dtype]


_OF_TRAINING = re.compile(
    "name|seed|trainable|rate|stddev|dropout|recurrent_dropout|momentum|"
    ".*_(initializer|regularizer|constraint)"
)


def _architecture(model: keras.Model) -> list[tuple[str, str, str]]:
    """The layers of a network, by the dependence of their outputs in inference mode."""

    def kept(config: Any) -> Any:
        if isinstance(config, dict):
            return {k: kept(v) for k, v in config.items() if not _OF_TRAINING.fullmatch(k)}
        return [kept(c) for c in config] if isinstance(config, list) else config

    configs = []
    for layer in walk(model):
        try:
            config = {} if isinstance(layer, keras.Model) else layer.get_config()
        except NotImplementedError:
            config = {}
        adapted = []
        if hasattr(layer, "finalize_state"):  # what it computes with is no variable
            adapted = [np.asarray(v).tolist() for v in own_variables(layer)]
            adapted += layer.get_vocabulary() if hasattr(layer, "get_vocabulary") else []
        configs.append((type(layer).__name__, repr(kept(config)), repr(adapted)))
    return configs


def floats(state: Sequence[tf.Tensor]) -> tf.Tensor:
    """The floating variables among these as one vector, in float32 at least."""
    parts = [tf.cast(v, tf.float32) for v in state if v.dtype.is_floating]
    return flatten(parts) if parts else tf.zeros([0])

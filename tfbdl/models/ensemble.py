"""Several weight samples of one network: members of an ensemble, or samples of a chain."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl.arguments import shown
from tfbdl.flat_model import FlatModel
from tfbdl.keras_private import own_variables, walk
from tfbdl.models.reweighted import Reweighted, floats, integers, network_of
from tfbdl.programs import Programs


@keras.saving.register_keras_serializable(package="tfbdl")
class WeightEnsemble(Reweighted):
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
        super().__init__(model, **kwargs)
        self._programs = Programs(model)
        own = self._own_state
        states = own[None] if states is None else states
        self.members = self._hold("members", members, self._flat.size, several=True)
        self.states = self._hold("states", states, len(own), several=True)

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
            pairs = zip(integers(first), integers(other), strict=True)
            changed = next((v for v, w in pairs if not np.array_equal(v, w)), None)
            if changed is not None:
                raise ValueError(
                    f"models[{k}] differs from models[0] in the integers of {changed.path}, which "
                    "members share; give networks that are not quantized"
                )
        members = np.stack([flat.theta.numpy() for flat in flats])
        states = np.stack([floats(flat.state).numpy() for flat in flats])
        return cls(models[0], members, states, **kwargs)

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
        return self._function(theta, states[tf.minimum(k, last)], x)

    def get_config(self) -> dict[str, Any]:
        sizes = {"num_members": self.num_functions, "num_states": self.states.shape[0]}
        return {**super().get_config(), **sizes}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> WeightEnsemble:
        model = network_of(config)
        flat = FlatModel(model)
        members = np.zeros((config["num_members"], flat.size))
        states = np.zeros((config["num_states"], int(floats(flat.state).shape[0])))
        return cls(model, members, states, name=config["name"])


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

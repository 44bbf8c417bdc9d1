"""One network with normally distributed weights, drawn where it is called."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl import random
from tfbdl.flat_model import FlatModel
from tfbdl.inherited_arguments import LayerArguments, Unpack
from tfbdl.models.reweighted import Reweighted, network_of


@keras.saving.register_keras_serializable(package="tfbdl")
class NormalWeights(Reweighted):
    """f(theta, x) with theta ~ N(mean, stddev^2), independent for each weight.

    A draw (`tfbdl.draws`) makes its own theta of noise, so that 2 D numbers are held, whatever the
    number of functions. Called without a draw it is the function of the mean.

    Args:
        model: the network, built; its weights are not used.
        mean: shape (D,), in the order of `model.trainable_variables`.
        stddev: shape (D,), at least 0.
        state: the floating `model.non_trainable_variables` (statistics of BatchNormalization) as
            one vector, shape (E,); by default those of `model`.
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.Model`.

    Raises:
        ValueError: if `model` is not built, random or in float8, a shape does not fit, a number is
            not finite, or one of `stddev` is negative.
    """

    def __init__(
        self,
        model: keras.Model,
        mean: Any,
        stddev: Any,
        state: Any = None,
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        super().__init__(model, **kwargs)
        self._flat.check_no_scales()
        own = self._own_state
        self.mean = self._hold("mean", mean, self._flat.size)
        self.stddev = self._hold("stddev", stddev, self._flat.size)
        self.state = self._hold("state", own if state is None else state, len(own))
        if np.min(self.stddev) < 0:
            raise ValueError(f"stddev has {np.min(self.stddev):g}; give numbers of at least 0")
        self._key = random.key_of(0, "weights")

    def call(self, x: Any, training: bool = False, draw: tf.Tensor | None = None) -> Any:
        theta = tf.convert_to_tensor(self.mean)
        if draw is not None:
            key = random.fold_in(random.fold_in(self._key, draw[0]), draw[1])
            theta += self.stddev * random.normal(key, theta.shape, theta.dtype)
        return self._function(theta, tf.convert_to_tensor(self.state), x)

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> NormalWeights:
        model = network_of(config)
        size = FlatModel(model).size
        return cls(model, np.zeros(size), np.zeros(size), name=config["name"])

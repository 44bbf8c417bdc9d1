"""The improper flat prior: a weight that is estimated, not inferred."""

from __future__ import annotations

import keras
import tensorflow as tf

from tfbdl.inherited_arguments import LayerArguments, Unpack
from tfbdl.priors.base import Prior


@keras.saving.register_keras_serializable(package="tfbdl.priors")
class Flat(Prior):
    """p(w) proportional to 1: no pull on a point estimate. It cannot be sampled from.

    Args:
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.
    """

    def __init__(self, **kwargs: Unpack[LayerArguments]) -> None:
        super().__init__(**kwargs)
        self.built = True

    def log_prob(self, w: tf.Tensor) -> tf.Tensor:
        return tf.zeros_like(w)

    def sample(self, key: tf.Tensor, shape: tuple[int, ...]) -> tf.Tensor:
        raise ValueError("prior=Flat() is improper: nothing can be drawn from it")

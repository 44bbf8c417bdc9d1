"""The normal prior, p(w) = N(0, scale^2)."""

from __future__ import annotations

import math

import keras
import tensorflow as tf

from tfbdl import random
from tfbdl.arguments import number
from tfbdl.priors.base import Prior


@keras.saving.register_keras_serializable(package="tfbdl.priors")
class Normal(Prior):
    """p(w) = N(0, scale^2), independently for each weight.

    Args:
        scale: the standard deviation, > 0 (the slides' `gamma`, which multiplies I in their
            formula but is a scale in their code; the code counts).

    Raises:
        ValueError: if `scale` is not a positive finite number.
    """

    def __init__(self, scale: float = 1.0, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.scale = number(
            "scale", scale, lambda s: 0 < s < math.inf, "a positive number: a standard deviation"
        )
        self.built = True

    def log_prob(self, w: tf.Tensor) -> tf.Tensor:
        return -0.5 * tf.square(w / self.scale) - math.log(self.scale * math.sqrt(2 * math.pi))

    def sample(self, key: tf.Tensor, shape: tuple[int, ...]) -> tf.Tensor:
        return self.scale * random.normal(key, shape)

    def kl_from_normal(self, mu: tf.Tensor, sigma: tf.Tensor) -> tf.Tensor:
        """Sum of log(scale / sigma) + (sigma^2 + mu^2) / (2 scale^2) - 1/2."""
        ratio, shift = sigma / self.scale, mu / self.scale
        terms = tf.square(ratio) + tf.square(shift) - 1.0 - 2.0 * tf.math.log(ratio)
        return 0.5 * tf.reduce_sum(terms)

    def get_config(self) -> dict:
        return {**super().get_config(), "scale": self.scale}

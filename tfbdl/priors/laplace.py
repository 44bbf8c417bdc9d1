"""The Laplace prior, whose mode sets weights to zero (and whose samples do not)."""

from __future__ import annotations

import math
from typing import Any

import keras
import tensorflow as tf

from tfbdl import random
from tfbdl.elementary import log
from tfbdl.inherited_arguments import NameAndType, Unpack
from tfbdl.priors.base import Prior
from tfbdl.priors.scale import Scale

NEGLIGIBLE = 1e-30
"""A distance of weights that no likelihood sees, by which float32 still divides."""


@keras.saving.register_keras_serializable(package="tfbdl.priors")
class Laplace(Prior):
    """p(w) = exp(-|w| / scale) / (2 scale), independently for each weight.

    Args:
        scale: b > 0; the standard deviation is b sqrt(2). An L1 penalty of l |w| beside a mean
            loss is b = 1 / (l N).
        trainable: whether `scale` is learned through the bound.
        **kwargs: `name` and `dtype`, as in `keras.layers.Layer`.

    Raises:
        ValueError: if `scale` is not a positive finite number.
    """

    def __init__(
        self, scale: float = 1.0, *, trainable: bool = False, **kwargs: Unpack[NameAndType]
    ) -> None:
        super().__init__(trainable=trainable, **kwargs)
        self._scale = Scale(self, "scale", scale)
        self.built = True

    @property
    def scale(self) -> tf.Tensor:
        """The scale b as it is now."""
        return self._scale.now()

    def log_prob(self, w: tf.Tensor) -> tf.Tensor:
        scale = self._scale.now(w.dtype)
        return -tf.abs(w) / scale - tf.math.log(2.0 * scale)

    def sample(self, key: tf.Tensor, shape: tuple[int, ...]) -> tf.Tensor:
        below, above = random.tails(key, shape)
        return self.scale * tf.where(below < above, log(2.0 * below), -log(2.0 * above))

    def expected_log_prob(self, mu: tf.Tensor, sigma: tf.Tensor) -> tf.Tensor:
        """The expectation: a folded normal has the mean sigma sqrt(2/pi) exp(-z^2) + mu erf(z)."""
        scale = self._scale.now(mu.dtype)
        unit = math.sqrt(2.0) * tf.maximum(sigma, NEGLIGIBLE)
        z = tf.maximum(tf.minimum(mu, 10.0 * unit), -10.0 * unit) / unit
        folded = math.sqrt(2.0 / math.pi) * sigma * tf.exp(-tf.square(z)) + mu * tf.math.erf(z)
        return -folded / scale - tf.math.log(2.0 * scale)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "scale": self._scale.initial}

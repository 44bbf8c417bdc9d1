"""The normal prior, p(w) = N(0, scale^2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tfbdl import random
from tfbdl.arguments import shown
from tfbdl.inherited_arguments import NameAndType, Unpack
from tfbdl.priors.base import HALF_LOG_2PI, Prior
from tfbdl.priors.scale import Scale

FAN_IN = "fan_in"


@keras.saving.register_keras_serializable(package="tfbdl.priors")
class Normal(Prior):
    """p(w) = N(0, scale^2), independently for each weight.

    Args:
        scale: the standard deviation, > 0 (the slides' `gamma`, which multiplies I in their
            formula but is a scale in their code; the code counts), or `"fan_in"` for
            sigma / sqrt(H), H the number of inputs that a unit adds up, with which networks of
            growing width tend to a Gaussian process (Neal 1995). A bias has H = 1.
        sigma: the numerator of `"fan_in"`, > 0 and 1 by default; only for `"fan_in"`.
        trainable: whether `scale`, or `sigma`, is learned through the bound.
        **kwargs: `name` and `dtype`, as in `keras.layers.Layer`.

    Raises:
        ValueError: if `scale` or `sigma` is not a positive finite number, or `sigma` is given
            beside a number.
    """

    def __init__(
        self,
        scale: float | str = 1.0,
        *,
        sigma: float | None = None,
        trainable: bool = False,
        **kwargs: Unpack[NameAndType],
    ) -> None:
        super().__init__(trainable=trainable, **kwargs)
        self.by_fan_in = isinstance(scale, str) and scale == FAN_IN
        if self.by_fan_in:
            self._scale = Scale(self, "sigma", 1.0 if sigma is None else sigma)
        elif sigma is None:
            self._scale = Scale(self, "scale", scale)
        else:
            raise ValueError(
                f"sigma={shown(sigma)} is for scale='fan_in', not {shown(scale)}; leave one out"
            )
        self.built = True

    @property
    def scale(self) -> tf.Tensor:
        """The standard deviation, or sigma, as it is now."""
        return self._scale.now()

    def _scale_of(self, shape: Sequence[int], dtype: tf.DType) -> tf.Tensor:
        fan_in = math.prod(shape[:-1]) if self.by_fan_in else 1
        return self._scale.now(dtype) / math.sqrt(fan_in)

    def log_prob(self, w: tf.Tensor) -> tf.Tensor:
        scale = self._scale_of(w.shape, w.dtype)
        return -0.5 * tf.square(w / scale) - tf.math.log(scale) - HALF_LOG_2PI

    def sample(self, key: tf.Tensor, shape: tuple[int, ...]) -> tf.Tensor:
        return self._scale_of(shape, tf.float32) * random.normal(key, shape)

    def expected_log_prob(self, mu: tf.Tensor, sigma: tf.Tensor) -> tf.Tensor:
        """-(mu^2 + sigma^2) / (2 scale^2) - log scale - log(2 pi) / 2."""
        scale = self._scale_of(mu.shape, mu.dtype)
        second_moment = tf.square(mu / scale) + tf.square(sigma / scale)
        return -0.5 * second_moment - tf.math.log(scale) - HALF_LOG_2PI

    def get_config(self) -> dict[str, Any]:
        initial = self._scale.initial
        scales = {"scale": FAN_IN, "sigma": initial} if self.by_fan_in else {"scale": initial}
        return {**super().get_config(), **scales}

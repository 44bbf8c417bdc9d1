"""Student's t prior: heavy tails, and an influence that falls off for large weights."""

from __future__ import annotations

import math
from typing import Any

import keras
import tensorflow as tf

from tfbdl import random
from tfbdl.arguments import positive
from tfbdl.inherited_arguments import NameAndType, Unpack
from tfbdl.priors.base import Prior
from tfbdl.priors.gamma import log_gamma
from tfbdl.priors.scale import Scale

_FAR = 1e9
"""Ratios r beyond which log(1 + r^2) is 2 log r in float64."""


@keras.saving.register_keras_serializable(package="tfbdl.priors")
class StudentT(Prior):
    """p(w) = t(w / scale; df) / scale, independently for each weight.

    It is N(0, tau^2) with tau^2 ~ InverseGamma(df / 2, df scale^2 / 2) integrated out; for that
    hierarchy with its own posterior over tau see `InverseGammaScale`.

    Args:
        df: degrees of freedom, > 0; 1 is the Cauchy distribution, and the variance exists above 2.
        scale: > 0.
        trainable: whether `scale` is learned through the bound.
        **kwargs: `name` and `dtype`, as in `keras.layers.Layer`.

    Raises:
        ValueError: if `df` or `scale` is not a positive finite number.
    """

    def __init__(
        self,
        df: float = 3.0,
        scale: float = 1.0,
        *,
        trainable: bool = False,
        **kwargs: Unpack[NameAndType],
    ) -> None:
        super().__init__(trainable=trainable, **kwargs)
        self.df = positive("df", df, "positive: degrees of freedom")
        self._scale = Scale(self, "scale", scale)
        self.built = True

    @property
    def scale(self) -> tf.Tensor:
        """The scale as it is now."""
        return self._scale.now()

    def log_prob(self, w: tf.Tensor) -> tf.Tensor:
        scale, half = self._scale.now(w.dtype), 0.5 * (self.df + 1.0)
        constant = math.lgamma(half) - math.lgamma(half - 0.5) - 0.5 * math.log(math.pi * self.df)
        unit, size = math.sqrt(self.df) * scale, tf.abs(w)
        far = size > _FAR * unit
        near = tf.square(tf.where(far, tf.zeros_like(w), w) / unit)
        logarithm = tf.math.log(tf.where(far, size, 1.0 + near))
        log_1_plus_square = tf.where(far, 2.0 * (logarithm - tf.math.log(unit)), logarithm)
        return constant - tf.math.log(scale) - half * log_1_plus_square

    def sample(self, key: tf.Tensor, shape: tuple[int, ...]) -> tf.Tensor:
        """Normal noise over the root of a Gamma(df / 2) precision of mean 1."""
        log_precision = log_gamma(random.fold_in(key, 0), 0.5 * self.df, shape)
        stddev = tf.exp(0.5 * (math.log(0.5 * self.df) - log_precision))
        return self.scale * stddev * random.normal(random.fold_in(key, 1), shape)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "df": self.df, "scale": self._scale.initial}

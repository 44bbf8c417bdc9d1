"""The base of the laws of y = loc + scale t: t, from numbers of any size."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from tfbdl.likelihoods.base import positive, split_halves, wide
from tfbdl.tensorflow_private import custom_gradient

MEANS_AND_SCALES = "means and raw scales"


class LocationScale(NamedTuple):
    """Location, scale and log scale, each of the shape of y.

    Densities take their gradient through the logarithm: its slope in a raw scale is at most 1,
    while that of 1 / scale may overflow before softplus, whose slope vanishes, makes it small.
    """

    loc: tf.Tensor
    scale: tf.Tensor
    log_scale: tf.Tensor

    @classmethod
    def of(cls, outputs: tf.Tensor, scale: float | str, family: str) -> LocationScale:
        """The location and scale of a network's outputs, for a number or "predicted"."""
        outputs = wide(outputs)
        if isinstance(scale, str):
            loc, raw = split_halves(outputs, family)
            return cls(loc, positive(raw), _log_positive(raw))
        of_all = tf.zeros_like(outputs)
        return cls(outputs, of_all + scale, of_all + math.log(scale))

    def half_distance(self, y: tf.Tensor) -> tf.Tensor:
        """(y - loc) / 2, which does not overflow."""
        return 0.5 * y - 0.5 * self.loc

    def standardised(self, y: tf.Tensor) -> tf.Tensor:
        """(y - loc) / scale."""
        of_log_scale = tf.exp(tf.stop_gradient(self.log_scale) - self.log_scale)  # 1
        return 2.0 * (self.half_distance(y) / tf.stop_gradient(self.scale)) * of_log_scale

    def is_beyond(self, limit: float, y: tf.Tensor) -> tf.Tensor:
        """Whether |t| > limit."""
        return tf.abs(self.half_distance(y)) > 0.5 * limit * self.scale

    def cdf(
        self, y: tf.Tensor, of_standard: Callable[[tf.Tensor], tf.Tensor], limit: float
    ) -> tf.Tensor:
        """P(Y <= y) for that of t, which is 0 or 1 where |t| > limit."""
        y = tf.cast(y, self.loc.dtype)
        beyond = self.is_beyond(limit, y)
        p = of_standard(self.standardised(tf.where(beyond, self.loc, y)))
        return tf.where(beyond, tf.cast(y > self.loc, p.dtype), p)


@custom_gradient
def _log_positive(raw: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
    """The logarithm of `positive(raw)`."""
    scale = positive(raw)
    return tf.math.log(scale), lambda upstream: upstream * (tf.sigmoid(raw) / scale)

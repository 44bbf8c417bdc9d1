"""The base of laws of loc + scale t: t from y of any size, without overflow."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tfbdl.arguments import positive as positive_number
from tfbdl.inherited_arguments import LossArguments, Unpack
from tfbdl.likelihoods.base import Likelihood, positive, split_halves
from tfbdl.likelihoods.positions import sum_counted
from tfbdl.likelihoods.targets import wide
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
            return cls.of_raw(*split_halves(outputs, family))
        of_all = tf.zeros_like(outputs)
        return cls(outputs, of_all + scale, of_all + math.log(scale))

    @classmethod
    def of_raw(cls, loc: tf.Tensor, raw: tf.Tensor) -> LocationScale:
        """The law of locations and raw scales, whose softplus are the scales."""
        return cls(loc, positive(raw), _log_positive(raw))

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
        """P(Y <= y), from the distribution function of t, 0 or 1 where |t| > limit."""
        y = tf.cast(y, self.loc.dtype)
        beyond = self.is_beyond(limit, y)
        p = of_standard(self.standardised(tf.where(beyond, self.loc, y)))
        return tf.where(beyond, tf.cast(y > self.loc, p.dtype), p)


class LocationScaleLikelihood(Likelihood):
    """The base of likelihoods whose outputs are locations, and raw scales if `scale` says so.

    Args:
        scale: a positive number, or "predicted".
        name: the name of the loss.
        **kwargs: as in `keras.losses.Loss`.

    Raises:
        ValueError: if `scale` is neither.
    """

    def __init__(self, scale: float | str, name: str, **kwargs: Unpack[LossArguments]) -> None:
        super().__init__(name=name, **kwargs)
        is_word = isinstance(scale, str) and scale == "predicted"
        wanted = "a positive number or 'predicted'"
        self.scale = scale if is_word else positive_number("scale", scale, wanted)

    @property
    def outputs_per_function(self) -> int:
        return 2 if self.scale == "predicted" else 1

    def expected_log_prob(self, y: tf.Tensor, outputs: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
        """E[log p], exact: the log probability is quadratic in f, with the factor 1 / scale^2."""
        scale, counted = self._law(outputs).scale, self.counted(y, outputs)
        return self.log_prob(y, outputs) - sum_counted(counted, 0.5 * variance / tf.square(scale))

    def _law(self, outputs: tf.Tensor) -> LocationScale:
        return LocationScale.of(outputs, self.scale, f"{type(self).__name__}('predicted')")

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "scale": self.scale}


@custom_gradient
def _log_positive(raw: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
    """The logarithm of `positive(raw)`."""
    scale = positive(raw)
    return tf.math.log(scale), lambda upstream: upstream * tf.sigmoid(raw) / scale

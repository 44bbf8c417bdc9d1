"""Positive numbers whose logarithms have normal noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl.inherited_arguments import LossArguments, Unpack
from tfbdl.likelihoods.base import HALF_LOG_2PI_E
from tfbdl.likelihoods.location_scale import LocationScale, LocationScaleLikelihood
from tfbdl.likelihoods.positions import sum_over_position
from tfbdl.likelihoods.targets import match
from tfbdl.probability import tfp
from tfbdl.tensorflow_private import custom_gradient


@keras.saving.register_keras_serializable(package="tfbdl.likelihoods")
class LogNormal(LocationScaleLikelihood):
    """log y ~ N(outputs, scale^2), elementwise: positive y with relative noise, such as prices.

    The outputs are means of log y, so that their exponentials are medians of y; the mean of y is
    exp(outputs + scale^2 / 2). The log probability is a density of y, in its units, and not of
    log y. A y that is not positive has the log probability NaN. Mean and variance overflow to
    infinity where outputs + scale^2 / 2, or twice outputs + scale^2, is above 88.7 in float32 and
    709.7 in float64; `tfbdl.predict` refuses that.

    Args:
        scale: the standard deviation of log y, > 0; or `"predicted"`: the outputs have shape
            (B, ..., 2 D), the first D means of log y and the others raw scales, as in `Normal`.
        **kwargs: `reduction` and `dtype`; like `name` as in `keras.losses.Loss`.

    Raises:
        ValueError: if `scale` is neither.
    """

    def __init__(
        self, scale: float | str = 1.0, name: str = "log_normal", **kwargs: Unpack[LossArguments]
    ) -> None:
        super().__init__(scale, name, **kwargs)

    def distribution(self, outputs: tf.Tensor) -> tfp.distributions.Distribution:
        law = self._law(outputs)
        return tfp.distributions.LogNormal(law.loc, law.scale)

    @property
    def outputs_hold(self) -> str:
        return "means of log y" + (" and raw scales" if self.scale == "predicted" else "")

    def log_prob_of_elements(self, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        law = self._law(outputs)
        y = match(y, law.loc.shape)
        log_y = tf.math.log(tf.where(y > 0, y, tf.constant(math.nan, y.dtype)))
        t = law.standardised(log_y)
        return -0.5 * t * t - law.log_scale - (HALF_LOG_2PI_E - 0.5) - log_y

    @property
    def has_expectation(self) -> bool:
        return True

    def mean(self, outputs: tf.Tensor) -> tf.Tensor:
        law = self._law(outputs)
        return tf.exp(law.loc + _half_square(law))

    def variance(self, outputs: tf.Tensor) -> tf.Tensor:
        """exp(2 m + s^2) (exp(s^2) - 1) for the mean m of log y and its standard deviation s."""
        law = self._law(outputs)
        return tf.exp(2.0 * (law.loc + _half_square(law) + _half_log_expm1(law)))

    def entropy(self, outputs: tf.Tensor) -> tf.Tensor:
        law = self._law(outputs)
        return sum_over_position(law.loc + law.log_scale + HALF_LOG_2PI_E)

    def cdf(self, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        law = self._law(outputs)
        y = tf.cast(y, law.loc.dtype)
        log_y = tf.math.log(tf.where(y > 0, y, tf.ones_like(y)))
        p = law.cdf(log_y, lambda t: 0.5 * tf.math.erfc(-math.sqrt(0.5) * t), 40.0)
        return tf.where(y > 0, p, tf.zeros_like(p))

    def check_targets(self, y: Any, outputs: tf.Tensor) -> None:
        super().check_targets(y, outputs)
        check_positive(y)


def check_positive(y: Any) -> None:
    """Raises ValueError unless all targets are positive."""
    y = np.asarray(y)
    wrong = y[~(y > 0)]
    if wrong.size:
        raise ValueError(f"y has the value {wrong[0]:g}; give positive numbers")


def _half_square(law: LocationScale) -> tf.Tensor:
    """scale^2 / 2, of which log_scale takes the gradient."""
    of_log_scale = tf.exp(2.0 * (law.log_scale - tf.stop_gradient(law.log_scale)))  # 1
    scale = tf.stop_gradient(law.scale)
    return 0.5 * scale * scale * of_log_scale


def _half_log_expm1(law: LocationScale) -> tf.Tensor:
    """log(exp(scale^2) - 1) / 2, from -infinity for no scale to scale^2 / 2 for large ones."""

    @custom_gradient
    def of_log_scale(log_scale: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        half = 0.5 * law.scale * law.scale
        less = -tf.math.expm1(-2.0 * half)
        return half + 0.5 * tf.math.log(less), lambda upstream: upstream * (2.0 * half / less)

    return of_log_scale(law.log_scale)

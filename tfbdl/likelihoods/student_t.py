"""Real numbers with outliers."""

from __future__ import annotations

import math
from typing import Any

import keras
import scipy.special
import scipy.stats
import tensorflow as tf

from tfbdl.arguments import LARGEST_SCALE, number
from tfbdl.inherited_arguments import LossArguments, Unpack
from tfbdl.likelihoods.location_scale import MEANS_AND_SCALES, LocationScaleLikelihood
from tfbdl.likelihoods.positions import sum_over_position
from tfbdl.likelihoods.targets import match
from tfbdl.probability import tfp

_FAR = 1e9
"""The t / sqrt(df) from which on the 1 in 1 + t^2 / df is lost."""


@keras.saving.register_keras_serializable(package="tfbdl.likelihoods")
class StudentT(LocationScaleLikelihood):
    """y = outputs + scale * t, t of Student's law with `df` degrees of freedom, elementwise.

    Args:
        df: degrees of freedom, > 2 so that the variance is finite. 4 bears outliers well.
        scale: > 0, or `"predicted"` as in `Normal`. It is not the standard deviation, which is
            scale * sqrt(df / (df - 2)).
        **kwargs: `reduction` and `dtype`; like `name` as in `keras.losses.Loss`.

    Raises:
        ValueError: if an argument is out of its range.
    """

    def __init__(
        self,
        df: float = 4.0,
        scale: float | str = 1.0,
        name: str = "student_t",
        **kwargs: Unpack[LossArguments],
    ) -> None:
        super().__init__(scale, name, **kwargs)
        self.df = number(
            "df", df, lambda v: 2 < v <= LARGEST_SCALE, "> 2, so that the variance is finite"
        )

    def distribution(self, outputs: tf.Tensor) -> tfp.distributions.Distribution:
        law = self._law(outputs)
        return tfp.distributions.StudentT(tf.constant(self.df, law.loc.dtype), law.loc, law.scale)

    @property
    def outputs_hold(self) -> str | None:
        return MEANS_AND_SCALES if self.scale == "predicted" else None

    def log_prob_of_elements(self, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        law, log_df = self._law(outputs), math.log(self.df)
        y = match(y, law.loc.shape)
        far = law.is_beyond(_FAR * math.sqrt(self.df), y)
        t = law.standardised(tf.where(far, law.loc, y)) / math.sqrt(self.df)
        half = tf.where(far, law.half_distance(y), tf.ones_like(y))
        log_t = tf.math.log(tf.abs(half)) + (math.log(2.0) - 0.5 * log_df) - law.log_scale
        log_of_squares = tf.where(far, 2.0 * log_t, tf.math.log1p(t * t))
        normaliser = scipy.special.betaln(0.5, 0.5 * self.df) + 0.5 * log_df
        return -0.5 * (self.df + 1.0) * log_of_squares - law.log_scale - normaliser

    def mean(self, outputs: tf.Tensor) -> tf.Tensor:
        return self._law(outputs).loc

    def variance(self, outputs: tf.Tensor) -> tf.Tensor:
        return tf.square(math.sqrt(self.df / (self.df - 2.0)) * self._law(outputs).scale)

    def entropy(self, outputs: tf.Tensor) -> tf.Tensor:
        of_standard = float(scipy.stats.t(self.df).entropy())
        return sum_over_position(self._law(outputs).log_scale + of_standard)

    def cdf(self, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        def of_standard(t: tf.Tensor) -> tf.Tensor:
            one = tf.ones([], t.dtype)
            return tfp.distributions.StudentT(self.df * one, 0.0 * one, one).cdf(t)

        return self._law(outputs).cdf(y, of_standard, 1e18)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "df": self.df}

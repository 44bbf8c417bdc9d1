"""Real numbers with outliers."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tfbdl.arguments import LARGEST_SCALE, number
from tfbdl.likelihoods.base import Likelihood
from tfbdl.likelihoods.normal import check_scale, location_and_scale
from tfbdl.probability import tfp


@keras.saving.register_keras_serializable(package="tfbdl.likelihoods")
class StudentT(Likelihood):
    """y = outputs + scale * t, t of Student's law with `df` degrees of freedom, elementwise.

    Args:
        df: degrees of freedom, > 2 so that the variance is finite. 4 bears outliers well.
        scale: > 0, or `"predicted"` as in `Normal`. Not the standard deviation, which is
            scale * sqrt(df / (df - 2)).

    Raises:
        ValueError: if an argument is out of its range.
    """

    def __init__(
        self,
        df: float = 4.0,
        scale: float | str = 1.0,
        name: str = "student_t",
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        self.df = number(
            "df", df, lambda v: 2 < v <= LARGEST_SCALE, "> 2, so that the variance is finite"
        )
        self.scale = check_scale(scale)

    def distribution(self, outputs: tf.Tensor) -> tfp.distributions.Distribution:
        loc, scale = location_and_scale(outputs, self.scale, "StudentT")
        return tfp.distributions.StudentT(tf.constant(self.df, loc.dtype), loc, scale)

    def get_config(self) -> dict:
        return {**super().get_config(), "df": self.df, "scale": self.scale}

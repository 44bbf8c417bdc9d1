"""Real numbers with normal noise."""

from __future__ import annotations

import math
from typing import Any

import keras
import tensorflow as tf

from tfbdl.arguments import positive as positive_number
from tfbdl.likelihoods.base import HALF_LOG_2PI_E, Likelihood, match, sum_over_example
from tfbdl.likelihoods.location_scale import MEANS_AND_SCALES, LocationScale
from tfbdl.probability import tfp


@keras.saving.register_keras_serializable(package="tfbdl.likelihoods")
class Normal(Likelihood):
    """y ~ N(outputs, scale^2), elementwise.

    Args:
        scale: the noise's standard deviation, > 0; or `"predicted"`: the outputs have shape
            (B, ..., 2 D), the first D means and the others raw scales, whose softplus is the
            standard deviation. A network whose last layer predicts both has noise that differs
            with x; one whose last layer is `tfbdl.layers.LearnedScale` learns one noise for all.

    Raises:
        ValueError: if `scale` is neither.
    """

    def __init__(self, scale: float | str = 1.0, name: str = "normal", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self.scale = check_scale(scale)

    def distribution(self, outputs: tf.Tensor) -> tfp.distributions.Distribution:
        law = self._law(outputs)
        return tfp.distributions.Normal(law.loc, law.scale)

    @property
    def outputs_hold(self) -> str | None:
        return MEANS_AND_SCALES if self.scale == "predicted" else None

    def log_prob_of_elements(self, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        law = self._law(outputs)
        t = law.standardised(match(y, law.loc.shape))
        return -0.5 * t * t - law.log_scale - (HALF_LOG_2PI_E - 0.5)

    @property
    def has_expectation(self) -> bool:
        return True

    @property
    def outputs_per_function(self) -> int:
        return 2 if self.scale == "predicted" else 1

    def expected_log_prob(self, y: tf.Tensor, outputs: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
        scale = self._law(outputs).scale
        return self.log_prob(y, outputs) - sum_over_example(0.5 * variance / tf.square(scale))

    def mean(self, outputs: tf.Tensor) -> tf.Tensor:
        return self._law(outputs).loc

    def variance(self, outputs: tf.Tensor) -> tf.Tensor:
        return tf.square(self._law(outputs).scale)

    def entropy(self, outputs: tf.Tensor) -> tf.Tensor:
        return sum_over_example(self._law(outputs).log_scale + HALF_LOG_2PI_E)

    def cdf(self, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        return self._law(outputs).cdf(y, lambda t: 0.5 * tf.math.erfc(-math.sqrt(0.5) * t), 40.0)

    def _law(self, outputs: tf.Tensor) -> LocationScale:
        return LocationScale.of(outputs, self.scale, "Normal")

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "scale": self.scale}


def check_scale(scale: Any) -> float | str:
    """A positive number, or `"predicted"`."""
    if isinstance(scale, str) and scale == "predicted":
        return scale
    return positive_number("scale", scale, "a positive number or 'predicted'")

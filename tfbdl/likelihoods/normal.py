"""Real numbers with normal noise."""

from __future__ import annotations

import math

import keras
import tensorflow as tf

from tfbdl.inherited_arguments import LossArguments, Unpack
from tfbdl.likelihoods.base import HALF_LOG_2PI_E
from tfbdl.likelihoods.location_scale import MEANS_AND_SCALES, LocationScaleLikelihood
from tfbdl.likelihoods.positions import sum_over_position
from tfbdl.likelihoods.targets import match
from tfbdl.probability import tfp


@keras.saving.register_keras_serializable(package="tfbdl.likelihoods")
class Normal(LocationScaleLikelihood):
    """y ~ N(outputs, scale^2), elementwise.

    Args:
        scale: the noise's standard deviation, > 0; or `"predicted"`: the outputs have shape
            (B, ..., 2 D), the first D means and the others raw scales, whose softplus is the
            standard deviation. A network whose last layer predicts both has noise that differs
            with x; one whose last layer is `tfbdl.layers.LearnedScale` learns one noise for all.
        **kwargs: `reduction` and `dtype`; like `name` as in `keras.losses.Loss`.

    Raises:
        ValueError: if `scale` is neither.
    """

    def __init__(
        self, scale: float | str = 1.0, name: str = "normal", **kwargs: Unpack[LossArguments]
    ) -> None:
        super().__init__(scale, name, **kwargs)

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

    def mean(self, outputs: tf.Tensor) -> tf.Tensor:
        return self._law(outputs).loc

    def variance(self, outputs: tf.Tensor) -> tf.Tensor:
        return tf.square(self._law(outputs).scale)

    def entropy(self, outputs: tf.Tensor) -> tf.Tensor:
        return sum_over_position(self._law(outputs).log_scale + HALF_LOG_2PI_E)

    def cdf(self, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        return self._law(outputs).cdf(y, lambda t: 0.5 * tf.math.erfc(-math.sqrt(0.5) * t), 40.0)

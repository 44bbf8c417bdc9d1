"""Real numbers with normal noise."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tfbdl.arguments import positive as positive_number
from tfbdl.likelihoods.base import Likelihood, positive, split_halves, wide
from tfbdl.probability import tfp


@keras.saving.register_keras_serializable(package="tfbdl.likelihoods")
class Normal(Likelihood):
    """y ~ N(outputs, scale^2), elementwise.

    Args:
        scale: the noise's standard deviation, > 0; or `"predicted"`: the outputs have shape
            (B, ..., 2 D), the first D means and the others raw scales, softplus of which is the
            standard deviation. A network whose last layer predicts both has noise that differs
            with x; one whose last layer is `tfbdl.layers.LearnedScale` learns one noise for all.

    Raises:
        ValueError: if `scale` is neither.
    """

    def __init__(self, scale: float | str = 1.0, name: str = "normal", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self.scale = check_scale(scale)

    def distribution(self, outputs: tf.Tensor) -> tfp.distributions.Distribution:
        loc, scale = location_and_scale(outputs, self.scale, "Normal")
        return tfp.distributions.Normal(loc, scale)

    def get_config(self) -> dict:
        return {**super().get_config(), "scale": self.scale}


def check_scale(scale: Any) -> float | str:
    """A positive number, or `"predicted"`."""
    if isinstance(scale, str) and scale == "predicted":
        return scale
    return positive_number("scale", scale, "a positive number or 'predicted'")


def location_and_scale(
    outputs: tf.Tensor, scale: float | str, family: str
) -> tuple[tf.Tensor, tf.Tensor]:
    """What the outputs say of a location-scale family."""
    outputs = wide(outputs)
    if isinstance(scale, str):
        loc, raw = split_halves(outputs, family)
        return loc, positive(raw)
    return outputs, tf.constant(scale, outputs.dtype)

"""A Gamma prior over a positive scale that is stored before its softplus."""

from __future__ import annotations

import math
from typing import Any

import keras
import tensorflow as tf

from tfbdl.arguments import positive
from tfbdl.elementary import log_of_softplus
from tfbdl.inherited_arguments import LayerArguments, Unpack
from tfbdl.priors.base import Prior
from tfbdl.priors.gamma import log_gamma


@keras.saving.register_keras_serializable(package="tfbdl.priors")
class GammaScale(Prior):
    """softplus(w) ~ Gamma(concentration, rate): for the raw scale of `tfbdl.layers.LearnedScale`.

    The default is the lecture's prior of the noise, sigma0 ~ Gamma(1/2, 1).

    Args:
        concentration: > 0; the mean is concentration / rate.
        rate: > 0.
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.

    Raises:
        ValueError: if either is not a positive finite number.
    """

    def __init__(
        self, concentration: float = 0.5, rate: float = 1.0, **kwargs: Unpack[LayerArguments]
    ) -> None:
        kwargs.setdefault("trainable", False)
        super().__init__(**kwargs)
        self.concentration = positive("concentration", concentration)
        self.rate = positive("rate", rate)
        self.built = True

    def log_prob(self, w: tf.Tensor) -> tf.Tensor:
        """The log density of the scale, and the logarithm of its slope in w, sigmoid(w)."""
        a, b = (tf.constant(v, w.dtype) for v in (self.concentration, self.rate))
        scale = tf.math.softplus(w)
        constant = self.concentration * math.log(self.rate) - math.lgamma(self.concentration)
        log_density = constant + (a - 1.0) * log_of_softplus(w, scale) - b * scale
        return log_density + tf.math.log_sigmoid(w)

    def sample(self, key: tf.Tensor, shape: tuple[int, ...]) -> tf.Tensor:
        log_scale = log_gamma(key, self.concentration, shape) - math.log(self.rate)
        scale = tf.exp(log_scale)
        exact = scale + tf.math.log(-tf.math.expm1(-scale))
        return tf.where(scale < 1e-3, log_scale + 0.5 * scale, exact)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "concentration": self.concentration, "rate": self.rate}

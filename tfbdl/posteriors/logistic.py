"""The logistic posterior: a bell with tails that fall off as exp(-|w|)."""

from __future__ import annotations

import math

import keras
import tensorflow as tf

from tfbdl.elementary import log
from tfbdl.posteriors.inverse_cdf import InverseCDF

_SCALE = math.sqrt(3.0) / math.pi


@keras.saving.register_keras_serializable(package="tfbdl.posteriors")
class Logistic(InverseCDF):
    """w = mu + s log(u / (1 - u)) with s = sigma sqrt(3) / pi, for each weight on its own.

    sigma = softplus(rho) is the standard deviation.

    Args:
        rho_initializer: the start of rho. The default, uniform in [-3, -2] as in the slides, is a
            sigma between 0.05 and 0.13.
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.
    """

    symmetric = True
    standard_entropy = 2.0 + math.log(_SCALE)

    def quantile(self, below: tf.Tensor, above: tf.Tensor) -> tf.Tensor:
        return _SCALE * log(below / above)

    def standard_log_prob(self, z: tf.Tensor) -> tf.Tensor:
        y = tf.abs(z) / _SCALE
        return -y - 2.0 * tf.math.softplus(-y) - math.log(_SCALE)

"""The Laplace posterior: a peak at the mean, and tails heavier than the normal's."""

from __future__ import annotations

import math

import keras
import tensorflow as tf

from tfbdl import priors
from tfbdl.elementary import log
from tfbdl.posteriors.inverse_cdf import InverseCDF
from tfbdl.priors.laplace import NEGLIGIBLE

_SCALE = math.sqrt(0.5)


@keras.saving.register_keras_serializable(package="tfbdl.posteriors")
class Laplace(InverseCDF):
    """q(w) = exp(-|w - mu| / b) / (2 b) with b = sigma / sqrt(2), for each weight on its own.

    sigma = softplus(rho) is the standard deviation.

    Args:
        rho_initializer: the start of rho. The default, uniform in [-3, -2] as in the slides, is a
            sigma between 0.05 and 0.13.
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.
    """

    symmetric = True
    standard_entropy = 1.0 + math.log(2.0 * _SCALE)

    def quantile(self, below: tf.Tensor, above: tf.Tensor) -> tf.Tensor:
        return _SCALE * tf.where(below < above, log(2.0 * below), -log(2.0 * above))

    def standard_log_prob(self, z: tf.Tensor) -> tf.Tensor:
        return -tf.abs(z) / _SCALE - math.log(2.0 * _SCALE)

    def exact_kl(self) -> tf.Tensor | None:
        """Against a Laplace prior, whose log density is linear in |w|, through E|w|."""
        if not isinstance(self.prior, priors.Laplace):
            return super().exact_kl()
        b, distance = _SCALE * self.stddev, tf.abs(self.mean)
        unit = tf.maximum(b, NEGLIGIBLE)
        ratio = tf.minimum(distance, 100.0 * unit) / unit
        return self.kl_given(self.prior.log_prob(distance + b * tf.exp(-ratio)))

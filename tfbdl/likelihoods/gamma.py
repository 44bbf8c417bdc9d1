"""Positive numbers with a constant coefficient of variation."""

from __future__ import annotations

import math
from typing import Any

import keras
import tensorflow as tf

from tfbdl import random
from tfbdl.arguments import positive as positive_number
from tfbdl.inherited_arguments import LossArguments, Unpack
from tfbdl.likelihoods.base import Likelihood
from tfbdl.likelihoods.location_scale import LocationScale
from tfbdl.likelihoods.log_normal import check_positive
from tfbdl.likelihoods.positions import sum_over_position
from tfbdl.likelihoods.remainders import exp_remainder
from tfbdl.likelihoods.stirling import HALF_LOG_2PI, digamma_rest, stirling_error
from tfbdl.likelihoods.targets import check_numbers, match
from tfbdl.probability import tfp


@keras.saving.register_keras_serializable(package="tfbdl.likelihoods")
class Gamma(Likelihood):
    """y > 0 of mean m and variance m^2 / a, elementwise: waiting times, amounts, intensities.

    The outputs are log means, so that noise grows with the mean as under `LogNormal`, with a
    lighter tail to the right and, for a < 1, a density that is infinite at 0. The log probability
    is a density of y. A y that is not positive has the log probability NaN. The distribution
    function is not given: TensorFlow's loses its digits where a is large.

    Args:
        shape: `"predicted"`: the outputs have shape (B, ..., 2 D), D log means, then as many raw
            shapes, whose softplus is a; or a, a positive number, 1 for exponential laws, and the
            outputs are log means alone.
        **kwargs: `reduction` and `dtype`; like `name` as in `keras.losses.Loss`.

    Raises:
        ValueError: if `shape` is neither.
    """

    def __init__(
        self, shape: float | str = "predicted", name: str = "gamma", **kwargs: Unpack[LossArguments]
    ) -> None:
        super().__init__(name=name, **kwargs)
        is_word = isinstance(shape, str) and shape == "predicted"
        wanted = "a positive number or 'predicted'"
        self.shape = shape if is_word else positive_number("shape", shape, wanted)

    @property
    def outputs_per_function(self) -> int:
        return 2 if self.shape == "predicted" else 1

    @property
    def outputs_hold(self) -> str:
        return "log means" + (" and raw shapes" if self.shape == "predicted" else "")

    def log_prob_of_elements(self, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """The log probability, a (d - exp(d) + 1) less Stirling's normaliser, and log y.

        d is log(y / m).
        """
        log_mean, a, log_a = self._law(outputs)
        y = match(y, log_mean.shape)
        log_y = tf.math.log(tf.where(y > 0, y, tf.constant(math.nan, y.dtype)))
        d, zero = log_y - log_mean, tf.zeros_like(y)
        far = d > 1.0  # where exp(d) may overflow, and a exp(d) does not
        one = tf.exp(log_a - tf.stop_gradient(log_a))
        held = tf.stop_gradient(a) * one
        near = held * exp_remainder(tf.where(far, zero, d))
        above = tf.exp(tf.where(far, d + log_a, zero)) - held * tf.where(far, 1.0 + d, zero)
        peak = 0.5 * log_a - HALF_LOG_2PI - stirling_error(a, log_a)
        return peak - tf.where(far, above, near) - log_y

    def mean(self, outputs: tf.Tensor) -> tf.Tensor:
        return tf.exp(self._law(outputs).loc)

    def variance(self, outputs: tf.Tensor) -> tf.Tensor:
        log_mean, _, log_a = self._law(outputs)
        return tf.exp(2.0 * log_mean - log_a)

    def entropy(self, outputs: tf.Tensor) -> tf.Tensor:
        log_mean, a, log_a = self._law(outputs)
        rest = digamma_rest(a, log_a)
        of_shape = stirling_error(a, log_a) - 0.5 * log_a + rest * tf.exp(-log_a) - rest
        return sum_over_position(log_mean + of_shape + HALF_LOG_2PI)

    def sample(self, key: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        log_mean, a, log_a = self._law(outputs)
        return tf.exp(log_gamma(key, a) - log_a + log_mean)

    def check(self, outputs: tf.Tensor) -> None:
        self._law(outputs)

    def check_targets(self, y: Any, outputs: tf.Tensor) -> None:
        check_numbers(y, self._law(outputs[:1]).loc.shape)
        check_positive(y)

    def _law(self, outputs: tf.Tensor) -> LocationScale:
        """Log means, shapes and their logarithms.

        Raises:
            ValueError: if shapes are predicted and the last axis has an odd length.
        """
        return LocationScale.of(outputs, self.shape, "Gamma('predicted')")

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "shape": self.shape}


def log_gamma(key: tf.Tensor, shape: tf.Tensor) -> tf.Tensor:
    """Logarithms of numbers of the Gamma laws of these shapes and rate 1."""
    law = tfp.distributions.ExpGamma(shape, log_rate=tf.zeros_like(shape))
    return law.sample(seed=random.halves(key))

"""Counts that vary more than Poisson's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from tfbdl import random
from tfbdl.inherited_arguments import LossArguments, Unpack
from tfbdl.likelihoods.base import Likelihood
from tfbdl.likelihoods.gamma import log_gamma
from tfbdl.likelihoods.location_scale import LocationScale
from tfbdl.likelihoods.poisson import check_counts
from tfbdl.likelihoods.remainders import log_remainder
from tfbdl.likelihoods.stirling import HALF_LOG_2PI, digamma_rest, stirling_error
from tfbdl.likelihoods.targets import check_numbers, match
from tfbdl.probability import tfp
from tfbdl.tensorflow_private import custom_gradient


@keras.saving.register_keras_serializable(package="tfbdl.likelihoods")
class NegativeBinomial(Likelihood):
    """Counts of mean m and variance m + m^2 / r, elementwise: a Poisson law of Gamma rates.

    The outputs have shape (B, ..., 2 D): D log means, then as many raw dispersions, whose softplus
    is r. Large r is nearly `Poisson`, small r has many zeros and a long tail. This is "NB2" of
    Cameron and Trivedi (2013, section 3.3), r the shape of the rates. Mean and log probabilities
    overflow as those of `Poisson` do. A negative count has the log probability NaN. The entropy and
    the distribution function, which have no closed form, are not given.

    Args:
        **kwargs: `reduction` and `dtype`; like `name` as in `keras.losses.Loss`.
    """

    is_discrete = True

    def __init__(self, name: str = "negative_binomial", **kwargs: Unpack[LossArguments]) -> None:
        super().__init__(name=name, **kwargs)

    @property
    def outputs_per_function(self) -> int:
        return 2

    @property
    def outputs_hold(self) -> str:
        return "log means and raw dispersions"

    def log_prob_of_elements(self, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        log_mean, r, log_r = self._law(outputs)
        return _log_prob(match(y, log_mean.shape), log_mean, r, log_r)

    def mean(self, outputs: tf.Tensor) -> tf.Tensor:
        return tf.exp(self._law(outputs).loc)

    def variance(self, outputs: tf.Tensor) -> tf.Tensor:
        log_mean, _, log_r = self._law(outputs)
        return tf.exp(log_mean) + tf.exp(2.0 * log_mean - log_r)

    def sample(self, key: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        log_mean, r, log_r = self._law(outputs)
        log_rate = log_gamma(random.fold_in(key, 0), r) - log_r + log_mean
        seed = random.halves(random.fold_in(key, 1))
        return tfp.distributions.Poisson(log_rate=log_rate).sample(seed=seed)

    def check(self, outputs: tf.Tensor) -> None:
        self._law(outputs)

    def check_targets(self, y: Any, outputs: tf.Tensor) -> None:
        check_numbers(y, self._law(outputs[:1]).loc.shape)
        check_counts(y)

    def _law(self, outputs: tf.Tensor) -> LocationScale:
        """Log means, dispersions and their logarithms.

        Raises:
            ValueError: if the last axis has an odd length.
        """
        return LocationScale.of(outputs, "predicted", "NegativeBinomial")


class _Parts(NamedTuple):
    """The log probability and its slopes by log m and log r."""

    log_p: tf.Tensor
    by_log_mean: tf.Tensor
    by_log_r: tf.Tensor


def _log_prob(y: tf.Tensor, log_mean: tf.Tensor, r: tf.Tensor, log_r: tf.Tensor) -> tf.Tensor:
    @custom_gradient
    def of_both(
        log_mean: tf.Tensor, log_r: tf.Tensor
    ) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]]:
        parts = _parts(y, log_mean, r, log_r)
        return parts.log_p, lambda up: (up * parts.by_log_mean, up * parts.by_log_r)

    return of_both(log_mean, log_r)


def _parts(y: tf.Tensor, log_mean: tf.Tensor, r: tf.Tensor, log_r: tf.Tensor) -> _Parts:
    """The saddle-point form of Loader (2000), whose terms do not cancel.

    With t = r (y - m) / (r + m), the slope by log m, it is r d(t / r) + y d(-t / y) below the
    largest log probability of any m, d(e) = e - log(1 + e) >= 0.
    """
    one, zero = tf.ones_like(y), tf.zeros_like(y)
    above = log_mean > log_r  # m > r
    high, low = tf.where(above, log_mean, log_r), tf.where(above, log_r, log_mean)
    inverse, mean = tf.exp(-high), tf.exp(low)
    share = r * inverse  # r / m
    t_above = r * ((y * inverse - 1.0) / (1.0 + share))
    t = tf.where(above, t_above, (y - mean) / (1.0 + mean / r))
    some = y > 0
    k = tf.where(some, y, one)
    log_of_first = tf.math.log(y + r) - high - tf.math.log1p(share)
    log_of_second = tf.math.log1p(k / r) + low - tf.math.log(k) - tf.math.log1p(mean / r)
    first = log_remainder(t / r, log_of_first)
    second = tf.where(some, y * log_remainder(-t / k, log_of_second), -t)
    sum_, log_sum = y + r, tf.math.log(y + r)
    errors = stirling_error(sum_, log_sum) - stirling_error(r, log_r)
    errors -= stirling_error(k, tf.math.log(k))
    largest = errors - 0.5 * (tf.math.log1p(k / r) + tf.math.log(k)) - HALF_LOG_2PI
    log_p = tf.where(some, largest, zero) - r * first - second
    rise = r / sum_ * digamma_rest(sum_, log_sum) - digamma_rest(r, log_r)
    return _Parts(tf.where(y < 0, tf.constant(math.nan, y.dtype), log_p), t, rise - r * first)

"""Real numbers strictly between 0 and 1, such as shares and rates."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfbdl import random
from tfbdl.inherited_arguments import LossArguments, Unpack
from tfbdl.likelihoods.base import Likelihood
from tfbdl.likelihoods.gamma import log_gamma
from tfbdl.likelihoods.location_scale import LocationScale
from tfbdl.likelihoods.positions import sum_over_position
from tfbdl.likelihoods.remainders import exp_remainder, log_remainder
from tfbdl.likelihoods.stirling import HALF_LOG_2PI, digamma_rest, stirling_error, trigamma_rest
from tfbdl.likelihoods.targets import check_numbers, match
from tfbdl.tensorflow_private import custom_gradient

_NEAR = 0.35
Gradients = Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]


@keras.saving.register_keras_serializable(package="tfbdl.likelihoods")
class Beta(Likelihood):
    """y in (0, 1) of mean m and variance m (1 - m) / (1 + s), elementwise.

    The outputs have shape (B, ..., 2 D): D logits of m, then as many raw precisions, whose softplus
    is s: beta regression (Ferrari and Cribari-Neto 2004), y ~ Beta(m s, (1 - m) s). A y outside of
    (0, 1), 0 and 1 too, has the log probability NaN; for those take `ContinuousBernoulli`. The
    distribution function is not given: TensorFlow's loses its digits where s is large.

    Args:
        **kwargs: `reduction` and `dtype`; like `name` as in `keras.losses.Loss`.
    """

    def __init__(self, name: str = "beta", **kwargs: Unpack[LossArguments]) -> None:
        super().__init__(name=name, **kwargs)

    @property
    def outputs_per_function(self) -> int:
        return 2

    @property
    def outputs_hold(self) -> str:
        return "logits of means and raw precisions"

    def log_prob_of_elements(self, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        law = self._law(outputs)
        y = match(y, law.loc.shape)
        inside = (y > 0) & (y < 1)
        return _log_prob(tf.where(inside, y, tf.constant(math.nan, y.dtype)), law)

    def mean(self, outputs: tf.Tensor) -> tf.Tensor:
        return tf.sigmoid(self._law(outputs).loc)

    def variance(self, outputs: tf.Tensor) -> tf.Tensor:
        logit, precision, _ = self._law(outputs)
        return tf.sigmoid(logit) * tf.sigmoid(-logit) / (1.0 + precision)

    def entropy(self, outputs: tf.Tensor) -> tf.Tensor:
        return sum_over_position(_entropy(self._law(outputs)))

    def sample(self, key: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Samples a / (a + b) of two Gamma laws, kept from rounding to 0 and 1."""
        law = self._law(outputs)
        info = np.finfo(law.loc.dtype.as_numpy_dtype)
        first, second = (
            log_gamma(random.fold_in(key, i), tf.maximum(shape.x, info.tiny))
            for i, shape in enumerate(_shapes(*law))
        )
        return tf.clip_by_value(tf.sigmoid(first - second), info.tiny, 1.0 - info.epsneg)

    def check(self, outputs: tf.Tensor) -> None:
        self._law(outputs)

    def check_targets(self, y: Any, outputs: tf.Tensor) -> None:
        check_numbers(y, self._law(outputs[:1]).loc.shape)
        y = np.asarray(y)
        wrong = y[~((y > 0) & (y < 1))]
        if wrong.size:
            raise ValueError(f"y has the value {wrong[0]:g}; give numbers strictly between 0 and 1")

    def _law(self, outputs: tf.Tensor) -> LocationScale:
        """Logits of means, precisions and their logarithms.

        Raises:
            ValueError: if the last axis has an odd length.
        """
        return LocationScale.of(outputs, "predicted", "Beta")


class _Rests(NamedTuple):
    """A number and what `stirling` knows of it."""

    x: tf.Tensor
    log_x: tf.Tensor

    @property
    def error(self) -> tf.Tensor:
        return stirling_error(self.x, self.log_x)

    @property
    def digamma(self) -> tf.Tensor:
        return digamma_rest(self.x, self.log_x)

    @property
    def trigamma(self) -> tf.Tensor:
        return trigamma_rest(self.x)


def _shapes(
    logit: tf.Tensor, precision: tf.Tensor, log_precision: tf.Tensor
) -> tuple[_Rests, _Rests]:
    """A = m s and b = (1 - m) s, also where m or 1 - m underflows beside a large s."""

    def at(h: tf.Tensor) -> _Rests:
        log_x = log_precision + tf.math.log_sigmoid(h)
        underflows = h < math.log(np.finfo(h.dtype.as_numpy_dtype).tiny) + 1.0
        x = tf.exp(tf.where(underflows, log_x, tf.zeros_like(log_x)))
        return _Rests(tf.where(underflows, x, precision * tf.sigmoid(h)), log_x)

    return at(logit), at(-logit)


def _log_normaliser(logit: tf.Tensor, a: _Rests, b: _Rests, s: _Rests) -> tf.Tensor:
    """Log p + log y (1 - y) at y = m."""
    log_weights = tf.math.log_sigmoid(logit) + tf.math.log_sigmoid(-logit)
    return 0.5 * (s.log_x + log_weights) - HALF_LOG_2PI + s.error - a.error - b.error


def _log_prob(y: tf.Tensor, law: LocationScale) -> tf.Tensor:
    """The normaliser less s KL(m, y), the divergence of two coins, and the logarithms of y, 1 - y.

    Its slope by the logit is s m (1 - m) (logit y - psi(a) + psi(b)).
    """
    log_y, log_rest = tf.math.log(y), tf.math.log1p(-y)
    precision = law.scale

    @custom_gradient
    def of_both(logit: tf.Tensor, log_precision: tf.Tensor) -> tuple[tf.Tensor, Gradients]:
        a, b = _shapes(logit, precision, log_precision)
        s = _Rests(precision, log_precision)
        d = (log_y - log_rest) - logit
        distance = precision * _divergence(logit, log_y - log_rest)
        value = _log_normaliser(logit, a, b, s) - distance - log_y - log_rest
        p, q = tf.sigmoid(logit), tf.sigmoid(-logit)
        rarer = tf.where(logit > 0, p * b.x, q * a.x)  # s m (1 - m)
        by_logit = rarer * d - q * a.digamma + p * b.digamma
        by_log = s.digamma - a.digamma - b.digamma - distance
        return value, lambda upstream: (upstream * by_logit, upstream * by_log)

    return of_both(law.loc, law.log_scale)


def _divergence(logit: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
    """KL of coins with these logits, seen from the rarer side of the first."""
    flip = logit > 0
    h, to = tf.where(flip, -logit, logit), tf.where(flip, -other, other)
    p, d = tf.sigmoid(h), to - h
    near = tf.abs(d) < _NEAR
    small = tf.where(near, d, tf.zeros_like(d))
    u = p * tf.math.expm1(small)
    by_series = p * exp_remainder(small) - log_remainder(u, u)
    direct = tf.math.softplus(to) - tf.math.softplus(h) - p * d
    return tf.where(near, by_series, direct)


def _entropy(law: LocationScale) -> tf.Tensor:
    """Entropies in nats; with E(x) = x (x - 1) (psi'(x) - 1 / x), slopes without cancellation."""
    precision = law.scale

    @custom_gradient
    def of_both(logit: tf.Tensor, log_precision: tf.Tensor) -> tuple[tf.Tensor, Gradients]:
        a, b = _shapes(logit, precision, log_precision)
        s = _Rests(precision, log_precision)
        log_weights = tf.math.log_sigmoid(logit) + tf.math.log_sigmoid(-logit)
        rests = s.digamma * (1.0 - 2.0 / s.x) + a.digamma * (1.0 / a.x - 1.0)
        rests += b.digamma * (1.0 / b.x - 1.0)
        value = rests + log_weights - _log_normaliser(logit, a, b, s)
        of_a, of_b = (x.trigamma * (1.0 - 1.0 / x.x) for x in (a, b))
        by_logit = tf.sigmoid(logit) * (of_b - 1.0) - tf.sigmoid(-logit) * (of_a - 1.0)
        by_log = s.trigamma * (1.0 - 2.0 / s.x) - of_a - of_b
        return value, lambda upstream: (upstream * by_logit, upstream * by_log)

    return of_both(law.loc, law.log_scale)

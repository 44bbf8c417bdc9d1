"""Real numbers with several likely values."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from tfbdl import random
from tfbdl.arguments import positive_integer
from tfbdl.inherited_arguments import LossArguments, Unpack
from tfbdl.likelihoods.base import HALF_LOG_2PI_E, Likelihood
from tfbdl.likelihoods.location_scale import LocationScale
from tfbdl.likelihoods.targets import check_numbers, match, wide

_LEAST_LOG_WEIGHT = -2000.0
"""Below it a component moves no moment, not even if its mean is the largest float64."""


@keras.saving.register_keras_serializable(package="tfbdl.likelihoods")
class NormalMixture(Likelihood):
    """Each element of y is of one of K normal laws, with weights, means and scales of its own.

    It is for y that may be one of several things given x, as in a mixture density network (Bishop
    1994). The outputs have shape (B, ..., 3 D K): D K logits of the weights, D K means, D K raw
    scales, whose softplus is the standard deviation; each by elements first, so that column d K + k
    of a part is of component k of element d. The entropy, which has no closed form, is not given.

    Args:
        num_components: K, at least 1.
        **kwargs: `reduction` and `dtype`; like `name` as in `keras.losses.Loss`.

    Raises:
        ValueError: if it is less.
    """

    def __init__(
        self, num_components: int = 2, name: str = "normal_mixture", **kwargs: Unpack[LossArguments]
    ) -> None:
        super().__init__(name=name, **kwargs)
        self.num_components = positive_integer("num_components", num_components)

    @property
    def outputs_per_function(self) -> int:
        return 3 * self.num_components

    @property
    def outputs_hold(self) -> str:
        return "logits, means and raw scales"

    def log_prob_of_elements(self, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """The logarithm of the sum of all components; those out of reach have no gradient."""
        log_weight, law = self._parts(outputs)
        y = match(y, law.loc.shape[:-1])[..., None]
        largest = y.dtype.max
        far = law.is_beyond(0.5 * math.sqrt(largest), y)
        t = law.standardised(tf.where(far, law.loc, y))
        log_density = -0.5 * t * t - law.log_scale - (HALF_LOG_2PI_E - 0.5)
        log_density = tf.where(far, tf.constant(-0.25 * largest, y.dtype), log_density)
        return tf.reduce_logsumexp(log_weight + log_density, axis=-1)

    def mean(self, outputs: tf.Tensor) -> tf.Tensor:
        log_weight, law = self._parts(outputs)
        return _Weights.of(log_weight).mean(law.loc)

    def variance(self, outputs: tf.Tensor) -> tf.Tensor:
        log_weight, law = self._parts(outputs)
        weights = _Weights.of(log_weight)
        mean = tf.stop_gradient(weights.mean(law.loc))  # the derivative by it is 0
        squares = weights.mean_square(law.half_distance(mean[..., None]))
        return 4.0 * squares + weights.mean_square(law.scale)

    def cdf(self, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        log_weight, law = self._parts(outputs)
        y = tf.cast(y, law.loc.dtype)[..., None] + tf.zeros_like(law.loc)
        p = law.cdf(y, lambda t: 0.5 * tf.math.erfc(-math.sqrt(0.5) * t), 40.0)
        return tf.reduce_sum(tf.exp(log_weight) * p, axis=-1)

    def sample(self, key: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """The component of the largest log weight and Gumbel noise, and normal noise."""
        log_weight, law = self._parts(outputs)
        shape, dtype = tf.shape(log_weight), log_weight.dtype
        below, _ = random.tails(random.fold_in(key, 0), shape, dtype)
        gumbel = -tf.math.log(-tf.math.log1p(-below))
        chosen = tf.argmax(log_weight + gumbel, axis=-1)
        loc, scale = (tf.gather(x, chosen, axis=-1, batch_dims=chosen.shape.rank) for x in law[:2])
        return loc + scale * random.normal(random.fold_in(key, 1), tf.shape(loc), dtype)

    def check(self, outputs: tf.Tensor) -> None:
        self._parts(outputs)

    def check_targets(self, y: Any, outputs: tf.Tensor) -> None:
        check_numbers(y, self._parts(outputs[:1])[1].loc.shape[:-1])

    def _parts(self, outputs: tf.Tensor) -> tuple[tf.Tensor, LocationScale]:
        """Log weights, means and scales, each of shape (B, ..., D, K).

        Raises:
            ValueError: if the last axis is no multiple of 3 K.
        """
        outputs, columns = wide(outputs), self.outputs_per_function
        last = outputs.shape[-1]
        if last is None or last % columns:
            raise ValueError(
                f"outputs has shape {tuple(outputs.shape)}; NormalMixture({self.num_components}) "
                f"needs a last axis of a multiple of {columns}: logits, means and raw scales"
            )
        shape = tf.concat([tf.shape(outputs)[:-1], [last // columns, self.num_components]], 0)
        logits, loc, raw = (tf.reshape(part, shape) for part in tf.split(outputs, 3, axis=-1))
        return tf.nn.log_softmax(logits), LocationScale.of_raw(loc, raw)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "num_components": self.num_components}


class _Weights(NamedTuple):
    """Roots of weights w, without a gradient, and ones, with that of log w in w.

    Products of a weight and what is large neither under- nor overflow where they are taken by the
    root twice.
    """

    root: tf.Tensor
    one: tf.Tensor

    @classmethod
    def of(cls, log_weight: tf.Tensor) -> _Weights:
        log_weight = tf.maximum(log_weight, _LEAST_LOG_WEIGHT)
        held = tf.stop_gradient(log_weight)
        return cls(tf.exp(0.5 * held), tf.exp(log_weight - held))

    def mean(self, x: tf.Tensor) -> tf.Tensor:
        """The sum of w x over the components."""
        return tf.reduce_sum(self.one * (self.root * (self.root * x)), axis=-1)

    def mean_square(self, x: tf.Tensor) -> tf.Tensor:
        """The sum of w x^2 over the components."""
        return tf.reduce_sum(self.one * tf.square(self.root * x), axis=-1)

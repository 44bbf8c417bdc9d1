"""The prior over binary weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tfbdl import random
from tfbdl.arguments import LARGEST_SCALE, number, shown
from tfbdl.inherited_arguments import LayerArguments, Unpack
from tfbdl.priors.base import Prior


@keras.saving.register_keras_serializable(package="tfbdl.priors")
class Bernoulli(Prior):
    """p(w = high) = prob and p(w = low) = 1 - prob, independently for each weight.

    It goes with `posterior="relaxed_bernoulli"`. Outputs of a layer with d_in inputs of size 1
    have a standard deviation near sqrt(d_in) under the default values; smaller ones, such as
    +-1 / sqrt(d_in), keep them at 1.

    Args:
        prob: in (0, 1).
        values: (low, high), the two values a weight can take.
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.

    Raises:
        ValueError: if `prob` is out of range, or `values` are not two numbers, the lower first.
    """

    discrete = True

    def __init__(
        self,
        prob: float = 0.5,
        values: Sequence[float] = (-1.0, 1.0),
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.prob = number("prob", prob, lambda p: 0 < p < 1, "in (0, 1)")
        self.values = low, high = _two_values(values)
        self.mean = low + (high - low) * self.prob
        self.built = True

    def log_prob(self, w: tf.Tensor) -> tf.Tensor:
        """Log probability of each element, -inf where it is neither value."""
        log_probs = [tf.constant(p, w.dtype) for p in (math.log1p(-self.prob), math.log(self.prob))]
        return log_prob_at(w, self.values, log_probs)

    def sample(self, key: tf.Tensor, shape: tuple[int, ...]) -> tf.Tensor:
        low, high = self.values
        return tf.where(random.bernoulli(key, shape, self.prob) > 0, high, low)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "prob": self.prob, "values": list(self.values)}


def log_prob_at(w: tf.Tensor, values: Sequence[float], log_probs: Sequence[tf.Tensor]) -> tf.Tensor:
    """The log probability of each w; -inf where w is none of the values."""
    result = tf.fill(tf.shape(w), tf.constant(-math.inf, w.dtype))
    for value, log_prob in zip(values, log_probs, strict=True):
        result = tf.where(w == tf.constant(value, w.dtype), log_prob, result)
    return result


def _two_values(values: Sequence[float]) -> tuple[float, float]:
    try:
        low, high = (float(value) for value in values)
    except (TypeError, ValueError):
        low, high = math.nan, math.nan
    if not -LARGEST_SCALE < low < high < LARGEST_SCALE:
        raise ValueError(f"values={shown(values)} must be two finite numbers, the lower first")
    return low, high

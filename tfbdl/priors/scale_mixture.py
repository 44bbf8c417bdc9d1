"""The scale mixture of two normals (Blundell et al. 2015, section 3.3)."""

from __future__ import annotations

import math
from typing import Any

import keras
import tensorflow as tf

from tfbdl import random
from tfbdl.arguments import number
from tfbdl.inherited_arguments import NameAndType, Unpack
from tfbdl.priors.base import HALF_LOG_2PI, Prior
from tfbdl.priors.scale import Scale

_FAR = 1e18
"""Weights in narrow scales beyond which the narrow normal has no share."""


@keras.saving.register_keras_serializable(package="tfbdl.priors")
class ScaleMixture(Prior):
    """p(w) = pi N(w; 0, sigma1^2) + (1 - pi) N(w; 0, sigma2^2), independently for each weight.

    The first normal is a slab and, with a small sigma2, the second a spike. Defaults are those of
    the notebook, among the values of the paper's search. Densities are added as logarithms, so that
    gradients are exact however far in the tails.

    Args:
        pi: weight of the first normal, in (0, 1).
        sigma1: standard deviation of the first normal, > 0.
        sigma2: standard deviation of the second, > 0; small, to pull weights to zero.
        trainable: whether both are learned through the bound. Blundell et al. found fixed ones
            better.
        **kwargs: `name` and `dtype`, as in `keras.layers.Layer`.

    Raises:
        ValueError: if an argument is out of its range.
    """

    def __init__(
        self,
        pi: float = 0.25,
        sigma1: float = math.exp(-1),
        sigma2: float = math.exp(-7),
        *,
        trainable: bool = False,
        **kwargs: Unpack[NameAndType],
    ) -> None:
        super().__init__(trainable=trainable, **kwargs)
        self.pi = number("pi", pi, lambda p: 0 < p < 1, "in (0, 1): the weight of sigma1")
        self._sigma1 = Scale(self, "sigma1", sigma1)
        self._sigma2 = Scale(self, "sigma2", sigma2)
        self.built = True

    @property
    def sigma1(self) -> tf.Tensor:
        """Standard deviation of the first normal as it is now."""
        return self._sigma1.now()

    @property
    def sigma2(self) -> tf.Tensor:
        """Standard deviation of the second normal as it is now."""
        return self._sigma2.now()

    def log_prob(self, w: tf.Tensor) -> tf.Tensor:
        """The log density of the wider normal, and the softplus of what the other has above it."""
        sigma1, sigma2 = self._sigma1.now(w.dtype), self._sigma2.now(w.dtype)
        log_odds = math.log1p(-self.pi) - math.log(self.pi) + tf.math.log(sigma1 / sigma2)
        first_is_wide = sigma1 >= sigma2
        wide, narrow = tf.maximum(sigma1, sigma2), tf.minimum(sigma1, sigma2)
        shares = (tf.constant(p, w.dtype) for p in (math.log(self.pi), math.log1p(-self.pi)))
        log_wide = tf.where(first_is_wide, *shares) - tf.math.log(wide) - 0.5 * tf.square(w / wide)
        seen = tf.minimum(tf.abs(w), _FAR * narrow) / narrow
        fall = 0.5 * (1.0 - narrow / wide) * (1.0 + narrow / wide) * tf.square(seen)
        log_ratio = tf.where(first_is_wide, log_odds, -log_odds) - fall
        return log_wide + tf.math.softplus(log_ratio) - HALF_LOG_2PI

    def sample(self, key: tf.Tensor, shape: tuple[int, ...]) -> tf.Tensor:
        first = random.bernoulli(random.fold_in(key, 0), shape, self.pi) > 0
        sigma = tf.where(first, self.sigma1, self.sigma2)
        return sigma * random.normal(random.fold_in(key, 1), shape)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "pi": self.pi,
            "sigma1": self._sigma1.initial,
            "sigma2": self._sigma2.initial,
        }

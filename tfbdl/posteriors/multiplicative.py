"""Multiplicative normal noise: the posterior of variational dropout (Kingma et al. 2015)."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl import random
from tfbdl.arguments import number
from tfbdl.inherited_arguments import LayerArguments, Unpack
from tfbdl.kl import normal_log_prob
from tfbdl.posteriors.base import Posterior
from tfbdl.priors import LogUniform, Prior


@keras.saving.register_keras_serializable(package="tfbdl.posteriors")
class MultiplicativeNormal(Posterior):
    """q(w) = N(mu, alpha mu^2) with a learned alpha for each weight, at most 1.

    The bound is that of the paper: beyond it dropout's rate alpha / (1 + alpha) exceeds 1/2 and
    the approximated KL does not hold. The optimizer is kept within it by a constraint, so that an
    alpha that reaches 1 can come back.

    Args:
        initial_alpha: the first alpha, in (0, 1]. Dropout at rate p has alpha = p / (1 - p).
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.

    Raises:
        ValueError: if `initial_alpha` is out of range, the prior is not log-uniform, or the KL is
            to be sampled.
    """

    def __init__(self, initial_alpha: float = 0.25, **kwargs: Unpack[LayerArguments]) -> None:
        super().__init__(**kwargs)
        self.initial_alpha = number(
            "initial_alpha", initial_alpha, lambda a: 0 < a <= 1, "in (0, 1]"
        )

    independent_normal = True
    symmetric = True
    sampled_kl = False  # it has no value either where mu = 0 and q(w) is a point

    def check_prior(self, prior: Prior) -> None:
        if not isinstance(prior, LogUniform):
            raise ValueError(
                f"prior={type(prior).__name__} does not go with multiplicative noise, whose KL is "
                "known for 'log_uniform'"
            )

    def build(self, shape: tuple[int, ...]) -> None:
        start = keras.initializers.Constant(math.log(self.initial_alpha))
        self.mu = self.add_parameter("mu", shape, self.initializer)
        self.raw_log_alpha = self.add_parameter("log_alpha", shape, start, _AtMostZero())
        self.built = True

    @property
    def log_alpha(self) -> tf.Tensor:
        return tf.minimum(tf.convert_to_tensor(self.raw_log_alpha), 0.0)

    @property
    def mean(self) -> tf.Tensor:
        return tf.convert_to_tensor(self.mu)

    @property
    def stddev(self) -> tf.Tensor:
        return tf.exp(0.5 * self.log_alpha) * tf.abs(self.mean)

    def remove(self, where: np.ndarray) -> None:
        self.mu.assign(np.where(where, 0.0, self.mu))

    def sample(self, key: tf.Tensor) -> tf.Tensor:
        return self.mean + self.stddev * random.normal(key, self.mu.shape, self.mu.dtype)

    def log_prob(self, w: tf.Tensor) -> tf.Tensor:
        sigma = self.stddev
        return normal_log_prob((w - self.mean) / sigma, tf.math.log(sigma))

    def exact_kl(self) -> tf.Tensor:
        return self.prior.kl_from_log_alpha(self.log_alpha)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "initial_alpha": self.initial_alpha}


class _AtMostZero(keras.constraints.Constraint):
    def __call__(self, w: tf.Tensor) -> tf.Tensor:
        return tf.minimum(w, 0.0)

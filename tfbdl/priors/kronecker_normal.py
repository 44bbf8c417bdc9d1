"""Normal priors over all weights of a tensor together, their covariance a Kronecker product."""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import tensorflow as tf

from tfbdl import random
from tfbdl.inherited_arguments import NameAndType, Unpack
from tfbdl.priors.base import HALF_LOG_2PI, Prior
from tfbdl.priors.covariance import Covariance
from tfbdl.priors.normal import Normal
from tfbdl.priors.scale import Scale


class KroneckerNormal(Prior):
    """vec(w) ~ N(0, scale^2 C_1 x C_2 x ... x I), with the weights in row-major order.

    A family says what the C_k are: covariances along the leading axes of the weight, after a
    reshape where the sizes ask for one; the axes that are left are independent. Biases that are
    given no prior of their own have `Normal(1.0)`.

    Args:
        scale: multiplies all standard deviations, > 0.
        trainable: whether `scale` is learned through the bound.
        **kwargs: `name` and `dtype`, as in `keras.layers.Layer`.

    Raises:
        ValueError: if `scale` is not a positive finite number, or when it is given to a weight
            whose shape does not fit.
    """

    def __init__(
        self, scale: float = 1.0, *, trainable: bool = False, **kwargs: Unpack[NameAndType]
    ) -> None:
        super().__init__(trainable=trainable, **kwargs)
        self._scale = Scale(self, "scale", scale)
        self.built = True

    @abc.abstractmethod
    def factors(self, shape: Sequence[int]) -> list[Covariance]:
        """C_1, C_2, ... for a weight of `shape`.

        Raises:
            ValueError: if they do not fit a weight of this shape.
        """

    def attach(self, shape: tuple[int, ...]) -> None:
        self.factors(shape)

    def for_bias(self) -> Prior:
        return Normal(1.0)

    @property
    def scale(self) -> tf.Tensor:
        """The scale as it is now."""
        return self._scale.now()

    def log_prob(self, w: tf.Tensor) -> tf.Tensor:
        """Log density of all weights together, in nats, shape ()."""
        size = math.prod(w.shape)
        distance = tf.reduce_sum(tf.square(self._whiten(w)))
        return -0.5 * distance - self._half_log_det(w.shape, w.dtype) - size * HALF_LOG_2PI

    def kl_from_normal(
        self, mu: tf.Tensor, sigma: tf.Tensor, log_sigma: tf.Tensor | None = None
    ) -> tf.Tensor:
        """KL(N(mu, diag sigma^2) || p) = 1/2 [tr(S^-1 diag sigma^2) + mu^T S^-1 mu - D + ...]."""
        precision = reduce(
            np.multiply.outer, [c.precision_diagonal for c in self.factors(mu.shape)]
        )
        sigma_in_scales = tf.reshape(sigma / self._scale.now(mu.dtype), (precision.size, -1))
        weights = tf.constant(precision.reshape(-1, 1), mu.dtype)
        trace = tf.reduce_sum(weights * tf.square(sigma_in_scales))
        distance = tf.reduce_sum(tf.square(self._whiten(mu)))
        log_sigma = tf.math.log(sigma) if log_sigma is None else log_sigma
        entropy = tf.reduce_sum(log_sigma + 0.5)
        return 0.5 * (trace + distance) + self._half_log_det(mu.shape, mu.dtype) - entropy

    def sample(self, key: tf.Tensor, shape: tuple[int, ...]) -> tf.Tensor:
        cholesky = [c.cholesky for c in self.factors(shape)]
        return self.scale * _along_axes(cholesky, random.normal(key, shape))

    def _whiten(self, w: tf.Tensor) -> tf.Tensor:
        """The standard normal numbers from which `sample` would make w."""
        whitening = [c.whitening for c in self.factors(w.shape)]
        return _along_axes(whitening, w) / self._scale.now(w.dtype)

    def _half_log_det(self, shape: Sequence[int], dtype: tf.DType) -> tf.Tensor:
        size = math.prod(shape)
        of_factors = sum(size // c.size * c.half_log_det for c in self.factors(shape))
        return of_factors + size * tf.math.log(self._scale.now(dtype))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "scale": self._scale.initial}


def _along_axes(matrices: Sequence[np.ndarray], w: tf.Tensor) -> tf.Tensor:
    """(M_1 x M_2 x ... x I) vec(w), in the shape of w."""
    result, before = w, 1
    for matrix in matrices:
        result = tf.reshape(result, (before, len(matrix), -1))
        result = tf.matmul(tf.constant(matrix, w.dtype), result)
        before *= len(matrix)
    return tf.reshape(result, w.shape)

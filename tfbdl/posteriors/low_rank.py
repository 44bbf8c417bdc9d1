"""The normal posterior with a covariance that is diagonal plus low rank."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tfbdl import random
from tfbdl.arguments import positive_integer
from tfbdl.elementary import log_of_softplus, norm, softplus
from tfbdl.inherited_arguments import LayerArguments, Unpack
from tfbdl.memory import require
from tfbdl.posteriors import capacitance
from tfbdl.posteriors.correlated import CorrelatedNormal


@keras.saving.register_keras_serializable(package="tfbdl.posteriors")
class LowRankNormal(CorrelatedNormal):
    """w = mu + d * e + V z with e and z standard normal; Cov(w) = diag(d^2) + V V^T.

    This is the factor covariance of Ong, Nott, Smith 2018, "Gaussian variational approximation with
    a factor covariance structure"; SLANG (Mishkin et al. 2018) has the same structure in the
    precision. Entropy and density go through R columns (`capacitance`), so that all costs are
    linear in the D elements of the weight. d = softplus(rho).

    V starts near zero, where q is almost mean field, but not at zero, where its gradient vanishes.

    Args:
        rank: R, the number of columns of V, of which there are D at most. The default asks for 6
            numbers a weight; D - 1 columns reach every covariance.
        rho_initializer: the start of rho. The default, uniform in [-3, -2] as in the slides, is a
            d between 0.05 and 0.13.
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.

    Raises:
        ValueError: if `rank` is not a positive integer.
    """

    def __init__(
        self,
        rank: int = 4,
        rho_initializer: str | keras.initializers.Initializer | None = None,
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        super().__init__(rho_initializer, **kwargs)
        self.rank = positive_integer("rank", rank, ": the number of columns of V")

    def build(self, shape: tuple[int, ...]) -> None:
        super().build(shape)
        self.columns = min(self.rank, self.size)
        require(
            8 * self.size * self.columns,
            f"rank={self.rank} over {self.size} weights",
            "take a smaller",
        )
        near_zero = keras.initializers.RandomNormal(stddev=0.01)
        self.rho = self.add_parameter("rho", (self.size,), self.rho_initializer)
        self.raw_v = self.add_parameter("v", (self.size, self.columns), near_zero)

    @property
    def d(self) -> tf.Tensor:
        """Standard deviations of the independent part, shape (D,)."""
        return softplus(tf.convert_to_tensor(self.rho))

    @property
    def v(self) -> tf.Tensor:
        """V, shape (D, R)."""
        return tf.convert_to_tensor(self.raw_v)

    @property
    def stddev(self) -> tf.Tensor:
        columns = tf.concat([self.d[:, tf.newaxis], self.v], axis=1)
        return tf.reshape(norm(columns), self.mu.shape)

    def covariance(self) -> tf.Tensor:
        return tf.linalg.diag(tf.square(self.d)) + tf.matmul(self.v, self.v, transpose_b=True)

    def sample(self, key: tf.Tensor) -> tf.Tensor:
        return self._sample(key)[0]

    def _sample(self, key: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """One w, with the e and z that it is made of."""
        e = random.normal(random.fold_in(key, 0), (self.size,), self.mu.dtype)
        z = random.normal(random.fold_in(key, 1), (self.columns,), self.mu.dtype)
        deviation = self.d * e + tf.linalg.matvec(self.v, z)
        return self.mean + tf.reshape(deviation, self.mu.shape), e, z

    def sample_and_log_prob(self, key: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        w, e, z = self._sample(key)
        return w, self.log_prob_at(self._squared_distance(e, z))

    def product_variance(self, x: tf.Tensor) -> tf.Tensor:
        v, d = tf.reshape(self.v, (*self.mu.shape, self.rank)), tf.reshape(self.d, self.mu.shape)
        correlated = tf.reduce_sum(tf.square(tf.einsum("bi,iur->bur", x, v)), axis=-1)
        return tf.matmul(tf.square(x), tf.square(d)) + correlated

    def half_log_det(self) -> tf.Tensor:
        return capacitance.half_log_det(self.v, self._log_d)

    def squared_distance(self, deviation: tf.Tensor) -> tf.Tensor:
        e = tf.reshape(deviation, (self.size,)) / self.d
        return self._squared_distance(e, tf.zeros((self.columns,), e.dtype))

    def _squared_distance(self, e: tf.Tensor, z: tf.Tensor) -> tf.Tensor:
        """The squared distance of d * e + V z."""
        return capacitance.squared_distance(self.v, self._log_d, e, z)

    @property
    def _log_d(self) -> tf.Tensor:
        return log_of_softplus(tf.convert_to_tensor(self.rho), self.d)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "rank": self.rank}

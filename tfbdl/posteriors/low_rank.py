"""The normal posterior with a covariance that is diagonal plus low rank."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tfbdl import random
from tfbdl.arguments import positive_integer
from tfbdl.elementary import softplus
from tfbdl.memory import require
from tfbdl.posteriors.correlated import CorrelatedNormal


@keras.saving.register_keras_serializable(package="tfbdl.posteriors")
class LowRankNormal(CorrelatedNormal):
    """w = mu + d * e + V z with e and z standard normal; Cov(w) = diag(d^2) + V V^T.

    The factor covariance of Ong, Nott, Smith 2018, "Gaussian variational approximation with a
    factor covariance structure"; SLANG (Mishkin et al. 2018) has the same structure in the
    precision. Entropy and density go through the capacitance matrix I + V^T diag(d^-2) V of R
    rows, so that all costs are linear in the D elements of the weight. d = softplus(rho).

    V starts near zero, where q is almost mean field, but not at zero, where its gradient vanishes.

    Args:
        rank: R, the number of columns of V. The default asks for 6 numbers a weight; D - 1 columns
            reach every covariance.
        rho_initializer: the start of rho. The default, uniform in [-3, -2] as in the slides, is a
            d between 0.05 and 0.13.

    Raises:
        ValueError: if `rank` is not a positive integer.
    """

    def __init__(
        self,
        rank: int = 4,
        rho_initializer: str | keras.initializers.Initializer | None = None,
        **kwargs: object,
    ) -> None:
        super().__init__(rho_initializer, **kwargs)
        self.rank = positive_integer("rank", rank, ": the number of columns of V")

    def build(self, shape: tuple[int, ...]) -> None:
        super().build(shape)
        require(
            8 * self.size * self.rank,
            f"rank={self.rank} over {self.size} weights",
            "take a smaller",
        )
        near_zero = keras.initializers.RandomNormal(stddev=0.01)
        self.rho = self.add_parameter("rho", (self.size,), self.rho_initializer)
        self.raw_v = self.add_parameter("v", (self.size, self.rank), near_zero)

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
        variance = tf.square(self.d) + tf.reduce_sum(tf.square(self.v), axis=1)
        return tf.reshape(tf.sqrt(variance), self.mu.shape)

    def covariance(self) -> tf.Tensor:
        return tf.linalg.diag(tf.square(self.d)) + tf.matmul(self.v, self.v, transpose_b=True)

    def sample(self, key: tf.Tensor) -> tf.Tensor:
        e = random.normal(random.fold_in(key, 0), (self.size,), self.mu.dtype)
        z = random.normal(random.fold_in(key, 1), (self.rank,), self.mu.dtype)
        return self.mean + tf.reshape(self.d * e + tf.linalg.matvec(self.v, z), self.mu.shape)

    def half_log_det(self) -> tf.Tensor:
        diagonal = tf.linalg.diag_part(self._capacitance_factor())
        return tf.reduce_sum(tf.math.log(self.d)) + tf.reduce_sum(tf.math.log(diagonal))

    def squared_distance(self, deviation: tf.Tensor) -> tf.Tensor:
        """|r - U z|^2 + |z|^2 in units of d, at the z that minimises it: a sum without differences.

        It is what the formula of Woodbury gives, which loses digits where V is large against d.
        """
        r = tf.reshape(deviation, (self.size, 1)) / self.d[:, tf.newaxis]
        u = self._scaled_factor()
        z = tf.linalg.cholesky_solve(self._capacitance_factor(), tf.matmul(u, r, transpose_a=True))
        return tf.reduce_sum(tf.square(r - u @ z)) + tf.reduce_sum(tf.square(z))

    def _scaled_factor(self) -> tf.Tensor:
        """U = diag(d^-1) V, shape (D, R)."""
        return self.v / self.d[:, tf.newaxis]

    def _capacitance_factor(self) -> tf.Tensor:
        u = self._scaled_factor()
        gram = tf.matmul(u, u, transpose_a=True)
        return tf.linalg.cholesky(gram + tf.eye(self.rank, dtype=gram.dtype))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "rank": self.rank}

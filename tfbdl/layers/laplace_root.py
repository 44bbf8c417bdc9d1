"""The root of a covariance, from a precision that is added up over a pass through the data."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tfbdl.inherited_arguments import LayerArguments, Unpack
from tfbdl.replicas import summed


@keras.saving.register_keras_serializable(package="tfbdl")
class LaplaceRoot(keras.layers.Layer):
    """R with R R^T = Lambda^-1, for Lambda = ridge I + sum_i h_i phi_i phi_i^T over N examples.

    There may be several, for weights h of several outputs. All is added up in float64: where
    examples are many and alike, float32 would lose the ridge beside them.

    Args:
        num_data: N.
        ridge: the prior precision.

    Attributes:
        number: the number of matrices.
    """

    def __init__(self, num_data: int, ridge: float, **kwargs: Unpack[LayerArguments]) -> None:
        super().__init__(**kwargs)
        self.num_data, self.ridge = num_data, ridge

    def build(self, shape: tuple[int, int]) -> None:
        """Makes the weights for so many matrices of a size."""
        self.number, size = shape
        fixed: dict[str, Any] = {"trainable": False, "autocast": False}
        self.total = self.add_weight(
            shape=(self.number, size, size),
            dtype="float64",
            initializer="zeros",
            name="total",
            **fixed,
        )
        self.seen = self.add_weight(
            shape=(), dtype="int64", initializer="zeros", name="seen", **fixed
        )
        self.root = self.add_weight(
            shape=(self.number, size, size),
            initializer=lambda shape, dtype: (
                tf.eye(shape[1], batch_shape=shape[:1], dtype=dtype) * self.ridge**-0.5
            ),
            name="root",
            **fixed,
        )
        self.built = True

    def add(self, phi: tf.Tensor, h: tf.Tensor) -> None:
        """Takes up examples with features (B, D) and weights (B, number).

        After the last of N the sum becomes the root, and begins anew.
        """
        weights = tf.transpose(tf.sqrt(tf.cast(h, tf.float64)))
        weighted = tf.cast(phi, tf.float64) * weights[:, :, tf.newaxis]  # (number, B, D)
        of_batch = tf.matmul(weighted, weighted, transpose_a=True)
        total = tf.convert_to_tensor(self.total) + summed(of_batch)
        seen = tf.convert_to_tensor(self.seen) + summed(tf.shape(phi, tf.int64)[0])
        done = seen >= self.num_data
        scale = tf.cast(self.num_data, tf.float64) / tf.cast(seen, tf.float64)
        root = tf.convert_to_tensor(self.root)
        self.root.assign(tf.cond(done, lambda: self._root_of(scale * total), lambda: root))
        self.total.assign(tf.where(done, tf.zeros_like(total), total))
        self.seen.assign(tf.where(done, tf.zeros_like(seen), seen))

    def variance(self, phi: tf.Tensor) -> tf.Tensor:
        """phi^T Lambda^-1 phi of each row, shape (B, number)."""
        scaled = tf.einsum("bd,kde->kbe", phi, tf.convert_to_tensor(self.root))
        return tf.transpose(tf.reduce_sum(tf.square(scaled), axis=-1))

    def times(self, noise: tf.Tensor) -> tf.Tensor:
        """Draws of N(0, Lambda^-1), shape (D, C), from standard normal noise (D, C)."""
        root = tf.convert_to_tensor(self.root)
        if self.number == 1:
            return tf.matmul(root[0], noise)
        return tf.einsum("kde,ek->dk", root, noise)

    def _root_of(self, total: tf.Tensor) -> tf.Tensor:
        eye = tf.eye(total.shape[-1], dtype=total.dtype)
        lower = tf.linalg.cholesky(total + self.ridge * eye)
        inverse = tf.linalg.triangular_solve(lower, tf.broadcast_to(eye, total.shape))
        return tf.cast(tf.linalg.matrix_transpose(inverse), self.root.dtype)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "num_data": self.num_data, "ridge": self.ridge}

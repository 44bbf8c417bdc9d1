"""Sigma = diag(d^2) + V V^T: its determinant and the distances it measures, whatever the sizes.

With the D + R rows of B = (diag(d)^-1 V; I), det Sigma = det(diag(d^2)) det(B^T B). The capacitance
matrix B^T B has elements as large as 1 / d^2, and floats do not see the small ones beside them. So
B is eliminated with all pivots to choose from, B = L S U (Peters and Wilkinson 1970, "The least
squares problem and pseudo-inverses"): elements of L are 1 at most, so that L^T L is as good as a
matrix can be, and S holds what scales 1 / d differ by. All is float64.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from tfbdl.tensorflow_private import custom_gradient

_LARGEST = 300.0
"""Largest log(1 / d): beyond, V is all that counts (unless its elements are below exp(-150))."""


@custom_gradient
def half_log_det(v: tf.Tensor, log_d: tf.Tensor) -> tuple[tf.Tensor, Any]:
    """Half the log determinant of Sigma, for V of shape (D, R) and log d of shape (D,)."""
    eliminated, size = _eliminate(v, log_d), v.shape[0]
    wide = tf.cast(log_d, tf.float64)
    of_rest = tf.reduce_sum(tf.where(eliminated.is_pivot, tf.zeros_like(wide), wide))
    of_pivots = tf.reduce_sum(tf.math.log(tf.abs(tf.linalg.diag_part(eliminated.upper))))
    of_lower = tf.reduce_sum(tf.math.log(tf.linalg.diag_part(eliminated.cholesky)))

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Sigma^-1 V = diag(1 / d) L (L^T L)^-1 S^-1 U^-T, and 1 - diag(B (B^T B)^-1 B^T)."""
        weight, inverse = tf.cast(upstream, tf.float64), eliminated.inverse_gram
        weights = eliminated.solve(inverse / eliminated.pivot_scale[:, tf.newaxis])
        of_v = tf.matmul(
            eliminated.lower * eliminated.scale, weights, transpose_a=True, transpose_b=True
        )[:size]
        kept = tf.reduce_sum(tf.matmul(inverse, eliminated.lower) * eliminated.lower, axis=0)[:size]
        return tf.cast(weight * of_v, v.dtype), tf.cast(weight * (1.0 - kept), v.dtype)

    return tf.cast(of_rest + of_pivots + of_lower, v.dtype), gradient


@custom_gradient
def squared_distance(
    v: tf.Tensor, log_d: tf.Tensor, e: tf.Tensor, z: tf.Tensor
) -> tuple[tf.Tensor, Any]:
    """x^T Sigma^-1 x of x = d e + V z: |e|^2 + |z|^2 of the least e and z that give the same x.

    Woodbury's formula gives it as a difference, which loses all digits where V is large against d.
    """
    eliminated, size = _eliminate(v, log_d), v.shape[0]
    b = tf.cast(tf.concat([e, -z], axis=0), tf.float64)
    onto = tf.linalg.matvec(eliminated.inverse_gram, tf.linalg.matvec(eliminated.lower, b))
    least = eliminated.normal_to_pivots(
        b - tf.linalg.matvec(eliminated.lower, onto, transpose_a=True)
    )

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, ...]:
        weight = 2.0 * tf.cast(upstream, tf.float64)
        step = eliminated.solve((onto / eliminated.pivot_scale)[:, tf.newaxis])[:, 0]
        of_v = -tf.tensordot((least * eliminated.scale)[:size], step, axes=0)
        of_log_d = (least * (b - least))[:size]
        all_four = (of_v, of_log_d, least[:size], -least[size:])
        return tuple(tf.cast(weight * each, v.dtype) for each in all_four)

    return tf.cast(tf.reduce_sum(tf.square(least)), v.dtype), gradient


class _Elimination(NamedTuple):
    """B = L S U, whose columns are in the order of the pivots.

    Attributes:
        lower: L^T, (R, D + R); the columns of the pivots are upper triangular with ones.
        upper: U, (R, R), upper triangular.
        scale: 1 / d and ones, (D + R,), the largest compressed; of the pivots' rows, it is S.
        cholesky: the factor of L^T L.
        rows: the rows of the pivots, (R,).
        columns: the columns of the pivots, (R,).
    """

    lower: tf.Tensor
    upper: tf.Tensor
    scale: tf.Tensor
    cholesky: tf.Tensor
    rows: tf.Tensor
    columns: tf.Tensor

    @property
    def inverse_gram(self) -> tf.Tensor:
        """(L^T L)^-1, of a matrix as good as any to invert."""
        return tf.linalg.cholesky_solve(self.cholesky, tf.eye(*self.upper.shape, dtype=tf.float64))

    @property
    def pivot_scale(self) -> tf.Tensor:
        """The diagonal of S."""
        return tf.gather(self.scale, self.rows)

    @property
    def is_pivot(self) -> tf.Tensor:
        """Whether the row of each of the D elements is a pivot's."""
        rank, size = self.lower.shape
        return tf.reduce_any(tf.equal(tf.range(size - rank)[:, tf.newaxis], self.rows), axis=1)

    def solve(self, right: tf.Tensor) -> tf.Tensor:
        """U^-1 right, its rows in the order of V's columns."""
        solved = tf.linalg.triangular_solve(self.upper, right, lower=False)
        return tf.gather(solved, tf.argsort(self.columns))

    def normal_to_pivots(self, x: tf.Tensor) -> tf.Tensor:
        """x, normal to L, whose elements at the pivots follow from the others with all digits."""
        at = tf.one_hot(self.rows, x.shape[0], dtype=x.dtype)
        others = x * (1.0 - tf.reduce_sum(at, axis=0))
        right = -tf.linalg.matvec(self.lower, others)[:, tf.newaxis]
        square = tf.gather(self.lower, self.rows, axis=1)
        pivots = tf.linalg.triangular_solve(square, right, lower=False)[:, 0]
        return others + tf.linalg.matvec(at, pivots, transpose_a=True)


def _eliminate(v: tf.Tensor, log_d: tf.Tensor) -> _Elimination:
    rank = v.shape[1]
    rest = tf.concat([tf.cast(tf.transpose(v), tf.float64), tf.eye(rank, dtype=tf.float64)], axis=1)
    scale = tf.concat([_scale(-tf.cast(log_d, tf.float64)), tf.ones((rank,), tf.float64)], axis=0)

    done = []
    for _ in range(rank):
        row = tf.argmax(tf.reduce_max(tf.abs(rest), axis=0) * scale, output_type=tf.int32)
        pivots = tf.gather(rest, row, axis=1)
        column = tf.argmax(tf.abs(pivots), output_type=tf.int32)
        multiple = tf.gather(rest, column) / tf.gather(pivots, column)
        done.append((multiple * (scale / tf.gather(scale, row)), pivots, row, column))
        is_other = 1.0 - tf.one_hot(column, rank, dtype=rest.dtype)
        rest = (rest - pivots[:, tf.newaxis] * multiple) * is_other[:, tf.newaxis]
    lower, upper, rows, columns = map(tf.stack, zip(*done, strict=True))
    factor = tf.linalg.cholesky(tf.matmul(lower, lower, transpose_b=True))
    upper = tf.gather(upper, columns, axis=1)
    return _Elimination(lower, upper, scale, factor, rows, columns)


def _scale(log_scale: tf.Tensor) -> tf.Tensor:
    """1 / d, the largest moved together to where float64 can hold them."""
    beyond = tf.nn.relu(tf.reduce_max(log_scale) - _LARGEST)
    moved = tf.maximum(tf.minimum(log_scale, 0.5 * _LARGEST), log_scale - beyond)
    return tf.exp(moved)

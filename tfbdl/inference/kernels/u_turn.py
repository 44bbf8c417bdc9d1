"""When a trajectory turns back: the criterion of Betancourt (2017), on all balanced subtrees.

The leaves of a branch come one by one. The subtrees that leaf n completes begin at leaves whose
momenta were marked; how many subtrees, and which marks, is in the binary digits of n (Phan et al.
2019, appendix A; Lao and Dillon 2020), so that log2 of the leaves are kept.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf


class Marks(NamedTuple):
    """First momenta of subtrees that are not complete, (C, K, D), and the branch's z sums there."""

    z: tf.Tensor
    z_sum: tf.Tensor

    @classmethod
    def none(cls, z: tf.Tensor, number: int) -> Marks:
        """Room for `number` marks, for branches of up to 2^number leaves."""
        room = tf.zeros([z.shape[0], number, z.shape[1]], z.dtype)
        return cls(room, room)

    def add(self, leaf: tf.Tensor, z: tf.Tensor, z_sum: tf.Tensor) -> Marks:
        """Marks leaf number `leaf`, shape (C,), if a subtree begins there: if it is even.

        Args:
            leaf: its number in the branch.
            z: its momentum, shape (C, D).
            z_sum: of the branch up to and with this leaf.
        """
        place = tf.where(leaf % 2 == 0, _last_mark(leaf), -1)
        here = (tf.range(self.z.shape[1]) == place[:, None])[:, :, None]
        return Marks(tf.where(here, z[:, None], self.z), tf.where(here, z_sum[:, None], self.z_sum))

    def is_turning(self, leaf: tf.Tensor, z: tf.Tensor, z_sum: tf.Tensor) -> tf.Tensor:
        """Whether any subtree that ends at this leaf turns back, shape (C,)."""
        last = _last_mark(leaf)
        number = _count_ones(tf.bitwise.bitwise_xor(leaf, leaf + 1)) - 1
        places = tf.range(self.z.shape[1])
        ends_here = (places <= last[:, None]) & (places > (last - number)[:, None])
        sums = z_sum[:, None] - self.z_sum + self.z
        return tf.reduce_any(ends_here & is_turning(self.z, z[:, None], sums), axis=1)


def is_turning(first: tf.Tensor, last: tf.Tensor, z_sum: tf.Tensor) -> tf.Tensor:
    """Whether one end moves towards the other.

    The way between the ends is the sum of the momenta by the trapezoidal rule.

    Args:
        first: momentum of one end, shape (..., D).
        last: momentum of the other.
        z_sum: of all points, the ends with them.
    """
    way = z_sum - 0.5 * (first + last)
    return (tf.reduce_sum(first * way, -1) <= 0) | (tf.reduce_sum(last * way, -1) <= 0)


def _last_mark(leaf: tf.Tensor) -> tf.Tensor:
    """Where the last subtree that holds the leaf is marked."""
    return _count_ones(tf.bitwise.right_shift(leaf, 1))


def _count_ones(number: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.raw_ops.PopulationCount(x=number), tf.int32)

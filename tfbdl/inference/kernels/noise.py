"""Noise of chains: a function of (seed, step, number of the chain) alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from tfbdl import random


class Noise(NamedTuple):
    """The noise of one step: a key (see `tfbdl.random`), and the numbers of the chains, (C,)."""

    key: tf.Tensor
    chains: tf.Tensor

    @classmethod
    def at(cls, seed: int, step: tf.Tensor | int, chains: tf.Tensor) -> Noise:
        """The noise of a step of these chains."""
        step = tf.cast(step, tf.int32)
        return cls(tf.stack([tf.constant(seed & 0x7FFFFFFF), step, 0]), chains)

    def fold_in(self, purpose: int | tf.Tensor) -> Noise:
        """Noise independent of this, for another purpose."""
        return Noise(random.fold_in(self.key, purpose), self.chains)

    def normal(self, size: int, dtype: tf.DType) -> tf.Tensor:
        """Standard normal, shape (C, size)."""
        return self._of_each(lambda key: random.normal(key, (size,), dtype))

    def uniform(self, size: int, dtype: tf.DType) -> tf.Tensor:
        """Uniform on (0, 1), shape (C, size)."""
        return self._of_each(lambda key: random.uniform(key, (size,), dtype))

    def shared_uniform(self, dtype: tf.DType) -> tf.Tensor:
        """One number for all chains, shape ()."""
        return random.uniform(self.key, (), dtype)

    def _of_each(self, draw: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
        return tf.vectorized_map(lambda chain: draw(random.fold_in(self.key, chain)), self.chains)

"""A metric that needs all examples at once, and so keeps a score and a flag of each."""

from __future__ import annotations

import math
from collections import deque

import keras
import numpy as np
import tensorflow as tf

from tfbdl.metrics import array_checks


class KeptScores(keras.metrics.Metric):
    """A value of the scores and flags of all examples since the last reset.

    They are kept in the host's memory, 9 bytes an example, and the value is computed there by
    NumPy. XLA cannot compile that: use `compile(jit_compile=False)`. Keras asks for the value after
    each batch, which sorts all that was kept, so this is for evaluation rather than training. Call
    `reset_state` outside of a `tf.function`, as Keras does.

    `sample_weight` is refused.

    Args:
        name: the name in logs.
        dtype: the type of the result.
    """

    def __init__(self, name: str | None = None, dtype: str = "float64") -> None:
        super().__init__(**array_checks.of_keras(name, dtype))
        self.count = self.add_variable((), "zeros", dtype="int64", name="count")
        self._kept: deque[tuple[np.ndarray, np.ndarray]] = deque()

    def value(self, flags: np.ndarray, scores: np.ndarray, /) -> float:
        """The metric of all examples, from booleans and finite scores of shape (N,), N > 0."""
        raise NotImplementedError

    def keep(self, scores: tf.Tensor, flags: tf.Tensor, sample_weight: object) -> None:
        """Keeps a batch: float64 scores, and flags that are 0 or not, both of shape (B,).

        Raises:
            ValueError: if there is a sample_weight.
        """
        if sample_weight is not None:
            raise ValueError(
                f"sample_weight is given, but {self.name} knows no weights; compile it in "
                "metrics, not in weighted_metrics"
            )
        size = tf.numpy_function(self._keep, (scores, flags), tf.int64)
        # The result reads the count, and so comes after the batch is kept, in a graph too.
        self.count.assign(self.count + tf.ensure_shape(size, []))

    def result(self) -> tf.Tensor:
        count = tf.convert_to_tensor(self.count.value)
        value = tf.numpy_function(self._value_of_all, [count], tf.float64)
        return tf.cast(tf.ensure_shape(value, []), self.dtype)

    def reset_state(self) -> None:
        super().reset_state()
        self._kept.clear()

    def _keep(self, scores: np.ndarray, flags: np.ndarray) -> np.int64:
        self._kept.append((scores, flags > 0))
        return np.int64(len(scores))

    def _value_of_all(self, _: np.ndarray) -> np.float64:
        if not self._kept:
            return np.float64(math.nan)
        scores, flags = (np.concatenate(parts) for parts in zip(*self._kept, strict=True))
        known = np.isfinite(scores).all()
        return np.float64(self.value(flags, scores) if known else math.nan)

"""Sums over batches, per event and bin of its probability."""

from __future__ import annotations

from typing import Any, ClassVar

import keras
import tensorflow as tf

from tfbdl.arguments import boolean
from tfbdl.metrics import array_checks, tensor_checks
from tfbdl.metrics.bins import number_of_bins, sums_in_bins
from tfbdl.metrics.tensor_positions import as_examples


class BinnedMetric(keras.metrics.Metric):
    """What follows from sums in bins of events that are forecast with a probability.

    A subclass names its `sums`, and gives by `summands` what each adds up, by `events` what is
    forecast.

    Args:
        num_bins: bins of each forecast, closed on the right.
        from_logits: whether the outputs are logits.
        name: the name in logs.
        dtype: the type of the sums.

    Raises:
        ValueError: if num_bins is no positive integer.
    """

    sums: ClassVar[tuple[str, ...]]

    def __init__(self, num_bins: int, from_logits: bool, name: str | None, dtype: str) -> None:
        super().__init__(**array_checks.of_keras(name, dtype))
        self.num_bins = number_of_bins(num_bins)
        self.from_logits = boolean("from_logits", from_logits)

    def add_sums(self, shape: tuple[int, ...]) -> None:
        """Makes a variable of each of the sums; the last axis of the shape are bins."""
        for each in self.sums:
            setattr(self, each, self.add_variable(shape, "zeros", dtype=self.dtype, name=each))

    def totals(self) -> list[tf.Tensor]:
        """The sums so far, each of shape (K, num_bins)."""
        shape = (-1, self.num_bins)
        return [tf.reshape(tf.convert_to_tensor(getattr(self, each)), shape) for each in self.sums]

    def events(self, label: tf.Tensor, p: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Forecasts and outcomes, shape (B, K), from labels (B,) and probabilities (B, C)."""
        raise NotImplementedError

    @staticmethod
    def summands(p: tf.Tensor, outcome: tf.Tensor) -> list[tf.Tensor]:
        """What each of `sums` adds up: shape (B, K), as are forecasts and outcomes."""
        raise NotImplementedError

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Adds a batch.

        Args:
            y_true: integer labels, shape (B,) or (B, 1); or (B, ...) of positions.
            y_pred: class probabilities or logits, shape (B, C) or (B, ..., C); or of class 1,
                shape (B, 1).
            sample_weight: a weight an example, or a position, or None.

        Raises:
            ValueError: if a shape is another.
        """
        y_true, y_pred, sample_weight = as_examples(y_true, y_pred, sample_weight)
        p = tensor_checks.class_probabilities(y_pred, self.from_logits)
        p, outcome = self.events(*tensor_checks.labels(y_true, p))
        weight = tensor_checks.unless_nan(p, tf.ones_like(p))
        if sample_weight is not None:
            weight *= tensor_checks.weights_of(sample_weight, p)[:, tf.newaxis]
        values = [weight * each for each in self.summands(p, outcome)]
        for name, added in zip(self.sums, sums_in_bins(p, self.num_bins, values), strict=True):
            total = getattr(self, name)
            total.assign(total + tf.cast(tf.reshape(added, total.shape), self.dtype))

    def get_config(self) -> dict[str, Any]:
        config = {"num_bins": self.num_bins, "from_logits": self.from_logits}
        return {**super().get_config(), **config}

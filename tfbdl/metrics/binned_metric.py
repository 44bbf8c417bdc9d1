"""Sums over batches, per event and bin of the probability that it is forecast with."""

from __future__ import annotations

from typing import Any, ClassVar

import keras
import tensorflow as tf

from tfbdl.arguments import boolean, integer
from tfbdl.memory import require
from tfbdl.metrics import array_checks, tensor_checks
from tfbdl.metrics.bins import number_of_bins, sums_in_bins
from tfbdl.metrics.tensor_positions import as_examples


class BinnedMetric(keras.metrics.Metric):
    """What follows from sums in bins of K events that are forecast with a probability.

    Args:
        shape: the shape of the sums, (num_bins,) or (K, num_bins).
        from_logits: whether the outputs are logits.
        name: the name in logs.
        dtype: the type of the sums.

    Attributes:
        sums: the names of the variables.
    """

    sums: ClassVar[tuple[str, ...]]

    def __init__(
        self, shape: tuple[int, ...], from_logits: bool, name: str | None, dtype: str
    ) -> None:
        super().__init__(**array_checks.of_keras(name, dtype))
        self.num_bins = shape[-1]
        self.from_logits = boolean("from_logits", from_logits)
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
    def summands(p: Any, outcome: Any) -> list[Any]:
        """What each of `sums` adds up, of the shape of forecasts and outcomes, (B, K)."""
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
        weight = tensor_checks.weights_of(sample_weight, p)[:, tf.newaxis]
        values = [weight * tensor_checks.unless_nan(p, each) for each in self.summands(p, outcome)]
        for name, added in zip(self.sums, sums_in_bins(p, self.num_bins, values), strict=True):
            total = getattr(self, name)
            total.assign(total + tf.cast(tf.reshape(added, total.shape), self.dtype))

    def get_config(self) -> dict[str, Any]:
        config = {"num_bins": self.num_bins, "from_logits": self.from_logits}
        return {**super().get_config(), **config}


class BinnedClasses(BinnedMetric):
    """Each class is an event that is forecast with its probability, in bins of that.

    `sample_weight` is taken: an example of weight 2 counts as two.

    Args:
        num_classes: C, at least 2; for one output that speaks of class 1, 2.
        num_bins: bins of each class's forecast, closed on the right.
        from_logits: whether the outputs are logits; probabilities by default.
        name: the name in logs.
        dtype: the type of the sums; float64 by default, so that they are exact over many batches.

    Raises:
        ValueError: if num_classes is no integer > 1 or num_bins no positive integer.
    """

    def __init__(
        self, num_classes: int, num_bins: int, from_logits: bool, name: str | None, dtype: str
    ) -> None:
        C = integer("num_classes", num_classes, "; one output has 2", least=2)
        num_bins = number_of_bins(num_bins)
        what = f"num_classes={num_classes} with num_bins={num_bins}"
        require(len(self.sums) * 8 * C * num_bins, what, "take fewer bins")
        super().__init__((C, num_bins), from_logits, name, dtype)
        self.num_classes = C

    def events(self, label: tf.Tensor, p: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        if p.shape[1] != self.num_classes:
            raise ValueError(
                f"y_pred has {p.shape[1]} classes; give num_classes={p.shape[1]} "
                f"instead of {self.num_classes}"
            )
        return p, tf.one_hot(label, self.num_classes, dtype=p.dtype)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "num_classes": self.num_classes}

"""Sums over batches, per class and bin of its probability."""

from __future__ import annotations

from typing import Any, ClassVar

import keras
import tensorflow as tf

from tfbdl.arguments import boolean, integer
from tfbdl.memory import require
from tfbdl.metrics import array_checks, tensor_checks
from tfbdl.metrics.bins import inner_edges, number_of_bins
from tfbdl.metrics.tensor_positions import as_examples


class BinnedClasses(keras.metrics.Metric):
    """Each class is an event that is forecast with its probability, in bins of that.

    `sample_weight` is taken: an example of weight 2 counts as two. A subclass names its `sums`, and
    gives by `summands` what each adds up.

    Args:
        num_classes: C, at least 2; for one output that speaks of class 1, 2.
        num_bins: bins of each class's forecast, closed on the right.
        from_logits: whether the outputs are logits; probabilities by default.
        name: the name in logs.
        dtype: the type of the sums; float64 by default, so that they are exact over many batches.

    Raises:
        ValueError: if num_classes is no integer > 1 or num_bins no positive integer.
    """

    sums: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        num_classes: int,
        num_bins: int = 15,
        from_logits: bool = False,
        name: str | None = None,
        dtype: str = "float64",
    ) -> None:
        super().__init__(**array_checks.of_keras(name, dtype))
        self.num_classes = integer("num_classes", num_classes, "; one output has 2", least=2)
        self.num_bins = number_of_bins(num_bins)
        self.from_logits = boolean("from_logits", from_logits)
        require(
            len(self.sums) * 8 * self.num_classes * self.num_bins,
            f"num_classes={num_classes} with num_bins={num_bins}",
            "take fewer bins",
        )
        shape = (self.num_classes, self.num_bins)
        for each in self.sums:
            setattr(self, each, self.add_variable(shape, "zeros", dtype=self.dtype, name=each))

    def summands(self, p: tf.Tensor, outcome: tf.Tensor) -> list[tf.Tensor]:
        """What each of `sums` adds up: shape (B, C), as are p and the one-hot outcome."""
        raise NotImplementedError

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Adds a batch.

        Args:
            y_true: integer labels, shape (B,) or (B, 1); or (B, ...) of positions.
            y_pred: class probabilities or logits, shape (B, C) or (B, ..., C); or of class 1,
                shape (B, 1).
            sample_weight: a weight an example, or a position, or None.

        Raises:
            ValueError: if a shape is another, or C is not num_classes.
        """
        y_true, y_pred, sample_weight = as_examples(y_true, y_pred, sample_weight)
        p = tensor_checks.class_probabilities(y_pred, self.from_logits)
        if p.shape[1] != self.num_classes:
            raise ValueError(
                f"y_pred has {p.shape[1]} classes; give num_classes={p.shape[1]} "
                f"instead of {self.num_classes}"
            )
        label, p = tensor_checks.labels(y_true, p)
        weight = tensor_checks.unless_nan(p, tf.ones_like(p))
        if sample_weight is not None:
            weight *= tensor_checks.weights_of(sample_weight, p)[:, tf.newaxis]
        outcome = tf.one_hot(label, self.num_classes, dtype=p.dtype)
        edges = tf.constant(inner_edges(self.num_bins), p.dtype)
        bin_of_class = tf.range(self.num_classes) * self.num_bins
        index = tf.searchsorted(edges, tf.reshape(p, [-1]), side="left")
        index = tf.reshape(index, tf.shape(p)) + bin_of_class
        for name, values in zip(self.sums, self.summands(p, outcome), strict=True):
            total = getattr(self, name)
            added = tf.math.unsorted_segment_sum(
                weight * values, index, self.num_classes * self.num_bins
            )
            total.assign(total + tf.cast(tf.reshape(added, total.shape), self.dtype))

    def get_config(self) -> dict[str, Any]:
        config = {
            "num_classes": self.num_classes,
            "num_bins": self.num_bins,
            "from_logits": self.from_logits,
        }
        return {**super().get_config(), **config}

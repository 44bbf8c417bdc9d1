"""The decomposition of the Brier score over batches, from sums per class and bin."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tfbdl.arguments import boolean, integer
from tfbdl.memory import require
from tfbdl.metrics import array_checks, tensor_checks
from tfbdl.metrics.bins import inner_edges, number_of_bins
from tfbdl.metrics.tensor_positions import as_examples


@keras.saving.register_keras_serializable(package="tfbdl")
class BrierDecomposition(keras.metrics.Metric):
    """`brier_decomposition` over batches, exact.

    The result is a dict of scalars, one for each attribute of `BrierComponents`, named
    `<name>_reliability` and so on; Keras logs each. `sample_weight` is taken: an example of weight
    2 counts as two.

    Args:
        num_classes: C, at least 2; for one output that speaks of class 1, 2.
        num_bins: bins of each class's forecast, closed on the right.
        from_logits: whether the outputs are logits; probabilities by default.
        name: the beginning of the parts' names.
        dtype: the type of the sums; float64 by default, so that they are exact over many batches.

    Raises:
        ValueError: if num_classes is no integer > 1 or num_bins no positive integer.
    """

    def __init__(
        self,
        num_classes: int,
        num_bins: int = 15,
        from_logits: bool = False,
        name: str = "brier",
        dtype: str = "float64",
    ) -> None:
        super().__init__(**array_checks.of_keras(name, dtype))
        self.num_classes = integer("num_classes", num_classes, "; one output has 2", least=2)
        self.num_bins = number_of_bins(num_bins)
        self.from_logits = boolean("from_logits", from_logits)
        require(
            5 * 8 * self.num_classes * self.num_bins,
            f"num_classes={num_classes} with num_bins={num_bins}",
            "take fewer bins",
        )
        self.weight, self.p, self.outcome, self.p_squared, self.p_outcome = (
            self.add_variable(
                (self.num_classes, self.num_bins), "zeros", dtype=self.dtype, name=name
            )
            for name in ("weight", "p", "outcome", "p_squared", "p_outcome")
        )

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
        for total, values in (
            (self.weight, tf.ones_like(p)),
            (self.p, p),
            (self.outcome, outcome),
            (self.p_squared, tf.square(p)),
            (self.p_outcome, p * outcome),
        ):
            sums = tf.math.unsorted_segment_sum(
                weight * values, index, self.num_classes * self.num_bins
            )
            total.assign(total + tf.cast(tf.reshape(sums, total.shape), self.dtype))

    def result(self) -> dict[str, tf.Tensor]:
        total = tf.reduce_sum(self.weight, axis=1, keepdims=True)
        share = tf.math.divide_no_nan(self.weight, total)
        mean_p, mean_outcome, mean_square, mean_product = (
            tf.math.divide_no_nan(tf.convert_to_tensor(of_bin), self.weight)
            for of_bin in (self.p, self.outcome, self.p_squared, self.p_outcome)
        )
        base_rate = tf.reduce_sum(share * mean_outcome, axis=1, keepdims=True)
        parts = {
            "reliability": share * tf.square(mean_p - mean_outcome),
            "resolution": share * tf.square(mean_outcome - base_rate),
            "uncertainty": base_rate * (1.0 - base_rate),
            "within_bin_variance": share * (mean_square - tf.square(mean_p)),
            "within_bin_covariance": 2.0 * share * (mean_product - mean_p * mean_outcome),
        }
        return {f"{self.name}_{part}": tf.reduce_sum(each) for part, each in parts.items()}

    def get_config(self) -> dict[str, Any]:
        config = {
            "num_classes": self.num_classes,
            "num_bins": self.num_bins,
            "from_logits": self.from_logits,
        }
        return {**super().get_config(), **config}

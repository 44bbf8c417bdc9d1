"""The decomposition of the Brier score over batches, from sums per class and bin."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tfbdl.arguments import integer, positive_integer
from tfbdl.metrics import outputs
from tfbdl.metrics.bins import inner_edges


@keras.saving.register_keras_serializable(package="tfbdl")
class BrierParts(keras.metrics.Metric):
    """`brier_decomposition` over batches, exact.

    The result is a dict of scalars, one for each attribute of `BrierDecomposition`, named
    `<name>_reliability` and so on; Keras logs each. `sample_weight` is taken: an example of weight
    2 counts as two.

    Args:
        num_classes: C, at least 2; for one output that speaks of class 1, 2.
        num_bins: bins of each class's forecast, closed on the right.
        from_logits: whether the outputs are logits; probabilities by default.
        name: what the names of the parts begin with.
        dtype: of the sums; float64 by default, so that they are exact over many batches.

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
        super().__init__(dtype=dtype, name=name)
        if integer("num_classes", num_classes) < 2:
            raise ValueError(f"num_classes={num_classes} must be at least 2; one output has 2")
        self.num_classes = int(num_classes)
        self.num_bins = positive_integer("num_bins", num_bins)
        self.from_logits = from_logits
        self.weight, self.p, self.outcome, self.p_squared, self.p_outcome = (
            self.add_variable(
                (self.num_classes, self.num_bins), "zeros", dtype=self.dtype, name=name
            )
            for name in ("weight", "p", "outcome", "p_squared", "p_outcome")
        )

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Adds a batch.

        Args:
            y_true: integer labels, shape (B,) or (B, 1).
            y_pred: class probabilities or logits, shape (B, C); or of class 1, shape (B, 1).
            sample_weight: a weight an example, or None.

        Raises:
            ValueError: if a shape is another, or C is not num_classes.
        """
        p = outputs.class_probabilities(y_pred, self.from_logits)
        if p.shape[1] != self.num_classes:
            raise ValueError(
                f"y_pred has {p.shape[1]} classes; give num_classes={p.shape[1]} "
                f"instead of {self.num_classes}"
            )
        label, p = outputs.labels(y_true, p)
        weight = outputs.unless_nan(p, tf.ones_like(p))
        if sample_weight is not None:
            weight *= tf.reshape(tf.cast(sample_weight, p.dtype), [-1, 1])
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

    def get_config(self) -> dict:
        config = {
            "num_classes": self.num_classes,
            "num_bins": self.num_bins,
            "from_logits": self.from_logits,
        }
        return {**super().get_config(), **config}

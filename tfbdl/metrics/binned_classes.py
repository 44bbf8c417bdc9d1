"""Sums over batches, per class and bin of its probability."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfbdl.arguments import integer
from tfbdl.memory import require
from tfbdl.metrics.binned_metric import BinnedMetric


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
        self,
        num_classes: int,
        num_bins: int = 15,
        from_logits: bool = False,
        name: str | None = None,
        dtype: str = "float64",
    ) -> None:
        super().__init__(num_bins, from_logits, name, dtype)
        self.num_classes = integer("num_classes", num_classes, "; one output has 2", least=2)
        require(
            len(self.sums) * 8 * self.num_classes * self.num_bins,
            f"num_classes={num_classes} with num_bins={num_bins}",
            "take fewer bins",
        )
        self.add_sums((self.num_classes, self.num_bins))

    def events(self, label: tf.Tensor, p: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        if p.shape[1] != self.num_classes:
            raise ValueError(
                f"y_pred has {p.shape[1]} classes; give num_classes={p.shape[1]} "
                f"instead of {self.num_classes}"
            )
        return p, tf.one_hot(label, self.num_classes, dtype=p.dtype)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "num_classes": self.num_classes}

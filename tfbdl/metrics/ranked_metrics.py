"""Metrics that rank all examples, and so must keep something of each."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl.arguments import positive_integer
from tfbdl.metrics import outputs
from tfbdl.metrics.calibration import adaptive_error
from tfbdl.metrics.detection import area_of_errors, risks


class RankedMetric(keras.metrics.Metric):
    """A value of the confidences max_c p_c of all examples since the last reset.

    They are kept in the host's memory, 9 bytes an example, and the value is computed there by
    NumPy. XLA cannot compile that: use `compile(jit_compile=False)`. Keras asks for the value after
    each batch, which sorts all that was kept, so this is for evaluation rather than training. Call
    `reset_state` outside of a `tf.function`, as Keras does.

    `sample_weight` is refused.

    Args:
        from_logits: whether the outputs are logits; probabilities by default.
        name: the name in logs.
        dtype: of the result.
    """

    def __init__(
        self, from_logits: bool = False, name: str | None = None, dtype: str = "float64"
    ) -> None:
        super().__init__(dtype=dtype, name=name)
        self.from_logits = from_logits
        self.count = self.add_variable((), "zeros", dtype="int64", name="count")
        self._kept: deque[tuple[np.ndarray, np.ndarray]] = deque()

    def value(self, confidence: np.ndarray, correct: np.ndarray) -> float:
        """The metric of all examples, from arrays of shape (N,)."""
        raise NotImplementedError

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Keeps a batch.

        Args:
            y_true: integer labels, shape (B,) or (B, 1).
            y_pred: class probabilities or logits, shape (B, C); or of class 1, shape (B, 1).
            sample_weight: must be None.

        Raises:
            ValueError: if there is a sample_weight.
        """
        if sample_weight is not None:
            raise ValueError(
                f"sample_weight is given, but {self.name} knows no weights; compile it in "
                "metrics, not in weighted_metrics"
            )
        p = outputs.class_probabilities(y_pred, self.from_logits)
        size = tf.numpy_function(self._keep, outputs.top_class(y_true, p), tf.int64)
        # The result reads the count, and so comes after the batch is kept, in a graph too.
        self.count.assign(self.count + tf.ensure_shape(size, []))

    def result(self) -> tf.Tensor:
        count = tf.convert_to_tensor(self.count.value)
        value = tf.numpy_function(self._value_of_all, [count], tf.float64)
        return tf.cast(tf.ensure_shape(value, []), self.dtype)

    def reset_state(self) -> None:
        super().reset_state()
        self._kept.clear()

    def get_config(self) -> dict:
        return {**super().get_config(), "from_logits": self.from_logits}

    def _keep(self, confidence: np.ndarray, correct: np.ndarray) -> np.int64:
        self._kept.append((confidence, correct > 0))
        return np.int64(len(confidence))

    def _value_of_all(self, _: np.ndarray) -> np.float64:
        if not self._kept:
            return np.float64(math.nan)
        confidence, correct = (np.concatenate(parts) for parts in zip(*self._kept, strict=True))
        known = np.isfinite(confidence).all()
        return np.float64(self.value(confidence, correct) if known else math.nan)


@keras.saving.register_keras_serializable(package="tfbdl")
class AdaptiveCalibrationError(RankedMetric):
    """`adaptive_calibration_error` over batches; arguments as in `RankedMetric`, and num_bins.

    Raises:
        ValueError: if num_bins is no positive integer.
    """

    def __init__(
        self,
        num_bins: int = 15,
        from_logits: bool = False,
        name: str = "adaptive_calibration_error",
        dtype: str = "float64",
    ) -> None:
        super().__init__(from_logits, name, dtype)
        self.num_bins = positive_integer("num_bins", num_bins)

    def value(self, confidence: np.ndarray, correct: np.ndarray) -> float:
        return adaptive_error(confidence, correct, self.num_bins)

    def get_config(self) -> dict:
        return {**super().get_config(), "num_bins": self.num_bins}


@keras.saving.register_keras_serializable(package="tfbdl")
class ErrorAUROC(RankedMetric):
    """`error_auroc` over batches, of the uncertainty -max_c p_c; arguments as in `RankedMetric`.

    NaN while there are no errors, or nothing else.
    """

    def __init__(
        self, from_logits: bool = False, name: str = "error_auroc", dtype: str = "float64"
    ) -> None:
        super().__init__(from_logits, name, dtype)

    def value(self, confidence: np.ndarray, correct: np.ndarray) -> float:
        return area_of_errors(~correct, -confidence)


@keras.saving.register_keras_serializable(package="tfbdl")
class AreaUnderRiskCoverage(RankedMetric):
    """`area_under_risk_coverage` over batches, of the uncertainty -max_c p_c.

    Arguments as in `RankedMetric`.
    """

    def __init__(
        self,
        from_logits: bool = False,
        name: str = "area_under_risk_coverage",
        dtype: str = "float64",
    ) -> None:
        super().__init__(from_logits, name, dtype)

    def value(self, confidence: np.ndarray, correct: np.ndarray) -> float:
        return float(risks(~correct, -confidence).risk.mean())

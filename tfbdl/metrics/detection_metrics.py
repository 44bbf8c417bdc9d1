"""Detection of data out of distribution by uncertainty, over batches."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np

from tfbdl.metrics import tensor_checks
from tfbdl.metrics.detection import area_of_flags, passing, precision_of_flags, rate_in
from tfbdl.metrics.kept_scores import KeptScores


class DetectionMetric(KeptScores):
    """The base of metrics that tell examples out of the distribution by their uncertainty.

    The targets say which is which, the outputs are the uncertainties. Memory, XLA, and weights are
    as in `KeptScores`; so are the arguments.
    """

    def update_state(self, is_out: Any, uncertainty: Any, sample_weight: Any = None) -> None:
        """Keeps a batch.

        Args:
            is_out: 1 or True for an example out of the distribution, else 0, shape (B,) or (B, 1).
            uncertainty: larger where less certain, such as the entropy, shape (B,) or (B, 1).
            sample_weight: must be None.

        Raises:
            ValueError: if a shape is another, the lengths differ, or there is a sample_weight.
        """
        flags, scores = tensor_checks.flags_and_scores(is_out, uncertainty)
        self.keep(scores, flags, sample_weight)


@keras.saving.register_keras_serializable(package="tfbdl")
class AUROC(DetectionMetric):
    """`auroc` over batches, exact; arguments as in `KeptScores`.

    NaN until there are examples of both kinds.
    """

    def __init__(self, name: str = "auroc", dtype: str = "float64") -> None:
        super().__init__(name, dtype)

    value = staticmethod(area_of_flags)


@keras.saving.register_keras_serializable(package="tfbdl")
class AUPR(DetectionMetric):
    """`aupr` over batches, exact; arguments as in `KeptScores`.

    NaN until there is an example out of the distribution.
    """

    def __init__(self, name: str = "aupr", dtype: str = "float64") -> None:
        super().__init__(name, dtype)

    value = staticmethod(precision_of_flags)


@keras.saving.register_keras_serializable(package="tfbdl")
class FalsePositiveRate(DetectionMetric):
    """`false_positive_rate` over batches, exact; arguments as in `KeptScores`, and the rate.

    NaN until there are examples of both kinds.

    Raises:
        ValueError: if true_positive_rate is not in (0, 1].
    """

    def __init__(
        self,
        true_positive_rate: float = 0.95,
        name: str = "false_positive_rate",
        dtype: str = "float64",
    ) -> None:
        super().__init__(name, dtype)
        self.true_positive_rate = rate_in("true_positive_rate", true_positive_rate)

    def value(self, flags: np.ndarray, scores: np.ndarray) -> float:
        if flags.all() or not flags.any():
            return math.nan
        return passing(scores[~flags], scores[flags], self.true_positive_rate)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "true_positive_rate": self.true_positive_rate}

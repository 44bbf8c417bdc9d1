"""The decomposition of the Brier score, of all examples at once and over batches."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import keras
import tensorflow as tf
from numpy.typing import ArrayLike

from tfbdl.metrics import array_checks
from tfbdl.metrics.array_or_tensor import operations, ratio
from tfbdl.metrics.binned_metric import BinnedClasses
from tfbdl.metrics.bins import of_events


@dataclass(frozen=True)
class BrierComponents:
    """The parts of a Brier score, see `brier_decomposition`.

    Attributes:
        reliability: the distance of forecasts from what follows them; 0 is best.
        resolution: the differences between what follows forecasts; large is good.
        uncertainty: the score of the base rates, which no forecast changes.
        within_bin_variance: the variance of forecasts that share a bin.
        within_bin_covariance: twice that of forecasts and outcomes in a bin.
    """

    reliability: float
    resolution: float
    uncertainty: float
    within_bin_variance: float
    within_bin_covariance: float

    @property
    def score(self) -> float:
        """The Brier score, the sum of the parts."""
        within = self.within_bin_variance - self.within_bin_covariance
        return self.reliability - self.resolution + self.uncertainty + within


def brier_decomposition(y: ArrayLike, p: ArrayLike, num_bins: int = 15) -> BrierComponents:
    """The Brier score as reliability - resolution + uncertainty + what binning leaves over.

    Each class c is a binary event forecast with p_c, and the parts are summed over classes. Were
    examples grouped by the value of p_c itself, the first three parts would add up to the score
    (Murphy 1973). Equal bins of [0, 1] take different values together, which leaves a variance
    and a covariance within bins (Stephenson, Coelho and Jolliffe 2008): with them the parts
    add up exactly for any number of bins. They vanish where each bin holds one value.

    Args:
        y: integer labels, shape (N,), or (N, ...) of positions, each of which is an example.
        p: class probabilities, shape (N, C) or (N, ..., C); or P(y = 1), shape (N,) or (N, 1).
        num_bins: bins of each class's forecast, closed on the right; 15 as in the calibration
            error.

    Raises:
        ValueError: if y are no labels, p no probabilities, or num_bins no positive integer.
    """
    of_class = of_events(moments, parts, *array_checks.class_events(y, p), num_bins)
    return BrierComponents(*of_class.sum(axis=1).tolist())


def moments(p: Any, outcome: Any) -> list[Any]:
    """What is summed in bins: 1, p, the outcome, and products of them; all of the shape of p."""
    return [operations(p).ones_like(p), p, outcome, p * p, p * outcome]


def parts(weight: Any, *sums: Any) -> Any:
    """Each event's parts, in the order of `BrierComponents`, shape (5, K).

    Args:
        weight: the sum of the examples in each bin, shape (K, num_bins).
        *sums: the sums of the other `moments`.
    """
    ops = operations(weight)
    share = ratio(weight, ops.sum(weight, axis=1, keepdims=True) + ops.zeros_like(weight))
    mean_p, mean_outcome, mean_square, mean_product = (ratio(each, weight) for each in sums)
    base_rate = ops.sum(share * mean_outcome, axis=1, keepdims=True)
    of_bins = (
        share * ops.square(mean_p - mean_outcome),
        share * ops.square(mean_outcome - base_rate),
        base_rate * (1.0 - base_rate),
        share * ops.maximum(mean_square - ops.square(mean_p), 0.0),
        2.0 * share * (mean_product - mean_p * mean_outcome),
    )
    return ops.stack([ops.sum(part, axis=1) for part in of_bins])


@keras.saving.register_keras_serializable(package="tfbdl")
class BrierDecomposition(BinnedClasses):
    """`brier_decomposition` over batches, exact; arguments as in `BinnedClasses`.

    The result is a dict of scalars, one for each attribute of `BrierComponents`, named
    `<name>_reliability` and so on; Keras logs each.
    """

    sums = ("weight", "p", "outcome", "p_squared", "p_outcome")
    summands = staticmethod(moments)

    def __init__(
        self,
        num_classes: int,
        num_bins: int = 15,
        from_logits: bool = False,
        name: str = "brier",
        dtype: str = "float64",
    ) -> None:
        super().__init__(num_classes, num_bins, from_logits, name, dtype)

    def result(self) -> dict[str, tf.Tensor]:
        made = tf.unstack(tf.reduce_sum(parts(*self.totals()), axis=1))
        names = [f"{self.name}_{part.name}" for part in fields(BrierComponents)]
        return dict(zip(names, made, strict=True))

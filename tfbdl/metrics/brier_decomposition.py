"""The decomposition of the Brier score, of all examples at once and over batches."""

from __future__ import annotations

from dataclasses import dataclass, fields

import keras
import tensorflow as tf
from numpy.typing import ArrayLike

from tfbdl.metrics.binned_classes import BinnedClasses
from tfbdl.metrics.events import of_classes


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
    return BrierComponents(*of_classes(moments, parts, y, p, num_bins).sum(axis=1).tolist())


def moments(p: tf.Tensor, outcome: tf.Tensor) -> list[tf.Tensor]:
    """What is summed in bins: 1, p, the outcome, and products of them; all of the shape of p."""
    return [tf.ones_like(p), p, outcome, tf.square(p), p * outcome]


def parts(*sums: tf.Tensor) -> tf.Tensor:
    """Each event's parts, in the order of `BrierComponents`, shape (5, K).

    Args:
        *sums: those of the `moments` over the examples in each bin, shape (K, num_bins).
    """
    weight = sums[0]
    share = tf.math.divide_no_nan(weight, tf.reduce_sum(weight, axis=1, keepdims=True))
    mean_p, mean_outcome, mean_square, mean_product = (
        tf.math.divide_no_nan(each, weight) for each in sums[1:]
    )
    base_rate = tf.reduce_sum(share * mean_outcome, axis=1, keepdims=True)
    made = (
        share * tf.square(mean_p - mean_outcome),
        share * tf.square(mean_outcome - base_rate),
        base_rate * (1.0 - base_rate),
        share * (mean_square - tf.square(mean_p)),
        2.0 * share * (mean_product - mean_p * mean_outcome),
    )
    return tf.stack([tf.reduce_sum(each, axis=1) for each in made])


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

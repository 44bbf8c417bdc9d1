"""Proper scores of class probabilities: the log score and the Brier score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import ArrayLike

from tfbdl.metrics import array_checks, tensor_checks
from tfbdl.metrics.bins import bin_index, number_of_bins
from tfbdl.metrics.class_mean import ClassMean


def negative_log_likelihood(y: ArrayLike, p: ArrayLike) -> float:
    """Mean of -log p[y], in nats per example.

    Nothing is clipped: a label that was given probability 0 makes it infinite, as the score says
    of a forecast that calls impossible what happens. Probabilities that only underflowed to 0 in
    float32 do so too; `NegativeLogLikelihood(from_logits=True)` is finite for all logits.

    Args:
        y: integer labels, shape (N,), or (N, ...) of positions, each of which is an example.
        p: class probabilities, shape (N, C) or (N, ..., C); or P(y = 1), shape (N,) or (N, 1).

    Raises:
        ValueError: if y are no labels or p no probabilities.
    """
    y, p = array_checks.classes(y, p)
    with np.errstate(divide="ignore"):
        return float(-np.log(p[np.arange(len(y)), y]).mean())


def brier_score(y: ArrayLike, p: ArrayLike) -> float:
    """Mean of sum_c (p_c - 1[y = c])^2, between 0 and 2 (Brier 1950).

    For two classes it is twice the score that counts class 1 alone.

    Args:
        y: integer labels, shape (N,), or (N, ...) of positions, each of which is an example.
        p: class probabilities, shape (N, C) or (N, ..., C); or P(y = 1), shape (N,) or (N, 1).

    Raises:
        ValueError: if y are no labels or p no probabilities.
    """
    y, p = array_checks.classes(y, p)
    return float(np.square(p - np.eye(p.shape[1])[y]).sum(axis=1).mean())


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
    y, p = array_checks.classes(y, p)
    num_bins = number_of_bins(num_bins)
    outcomes = np.eye(p.shape[1])[y]
    parts = [_parts(p_c, o_c, num_bins) for p_c, o_c in zip(p.T, outcomes.T, strict=True)]
    return BrierComponents(*(float(part) for part in np.sum(parts, axis=0)))


def _parts(p: np.ndarray, outcome: np.ndarray, num_bins: int) -> tuple[float, ...]:
    """The five parts of the forecasts p of a binary event, both of shape (N,)."""
    index = bin_index(p, num_bins)
    count = np.maximum(np.bincount(index), 1)
    mean_p = (np.bincount(index, weights=p) / count)[index]
    mean_outcome = (np.bincount(index, weights=outcome) / count)[index]
    base_rate = outcome.mean()
    return (
        np.square(mean_p - mean_outcome).mean(),
        np.square(mean_outcome - base_rate).mean(),
        base_rate * (1.0 - base_rate),
        np.square(p - mean_p).mean(),
        2.0 * ((p - mean_p) * (outcome - mean_outcome)).mean(),
    )


@keras.saving.register_keras_serializable(package="tfbdl")
class NegativeLogLikelihood(ClassMean):
    """`negative_log_likelihood` over batches, in nats; arguments as in `ClassMean`."""

    def __init__(
        self,
        from_logits: bool = False,
        name: str = "negative_log_likelihood",
        dtype: str = "float64",
    ) -> None:
        super().__init__(from_logits, name, dtype)

    def values(self, y_true: Any, y_pred: Any) -> tf.Tensor:
        log_p = tensor_checks.class_log_probabilities(y_pred, self.from_logits)
        label, log_p = tensor_checks.labels(y_true, log_p)
        of_label = -tf.gather(log_p, label, axis=1, batch_dims=1)
        return tensor_checks.unless_nan(tf.reduce_sum(log_p, axis=-1), of_label)


@keras.saving.register_keras_serializable(package="tfbdl")
class BrierScore(ClassMean):
    """`brier_score` over batches; arguments as in `ClassMean`."""

    def __init__(
        self, from_logits: bool = False, name: str = "brier_score", dtype: str = "float64"
    ) -> None:
        super().__init__(from_logits, name, dtype)

    def values(self, y_true: Any, y_pred: Any) -> tf.Tensor:
        p = tensor_checks.class_probabilities(y_pred, self.from_logits)
        label, p = tensor_checks.labels(y_true, p)
        outcome = tf.one_hot(label, tf.shape(p)[1], dtype=p.dtype)
        return tf.reduce_sum(tf.square(p - outcome), axis=-1)

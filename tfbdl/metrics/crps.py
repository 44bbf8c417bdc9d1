"""The continuous ranked probability score of distributions predicted for real numbers.

Arrays may have any shape, all arguments the same one; means are over all of their elements.
"""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import ArrayLike

from tfbdl.arguments import boolean
from tfbdl.metrics import array_checks, tensor_checks
from tfbdl.metrics.array_or_tensor import erf, operations
from tfbdl.metrics.means import ExampleMean


def crps_normal(y: ArrayLike, mean: ArrayLike, stddev: ArrayLike) -> float:
    """Mean continuous ranked probability score of N(mean, stddev^2), in the units of y.

    The integral over t of (P(Y <= t) - 1[y <= t])^2, small is good; for z = (y - mean) / stddev it
    is stddev (z (2 Phi(z) - 1) + 2 phi(z) - 1 / sqrt(pi)), the negative of what Gneiting
    and Raftery 2007, section 4.2, maximise.

    Args:
        y: targets, shape (N, ...).
        mean: predicted means, of the shape of y.
        stddev: predicted standard deviations, > 0, of the shape of y.

    Raises:
        ValueError: if the shapes differ, a value is not finite, or a stddev is not positive.
    """
    y, mean, stddev = array_checks.alike(y=y, mean=mean, stddev=stddev)
    if (stddev <= 0).any():
        raise ValueError(
            f"stddev has {array_checks.first(stddev, stddev <= 0)}; give positive standard "
            "deviations"
        )
    with np.errstate(over="ignore"):
        return float(np.mean(of_normal(y, mean, stddev)))


def crps_samples(y: ArrayLike, samples: ArrayLike, *, fair: bool = False) -> float:
    """Mean continuous ranked probability score of the samples, in the units of y.

    E|X - y| - 1/2 E|X - X'| (Gneiting and Raftery 2007, section 4.2), with X and X' drawn with
    replacement from the S samples: the score of the distribution they make. As an estimate of the
    score of the distribution that they come from, it is E|X - X'| / (2 S) too large on average,
    unless it is `fair`. It takes O(S log S).

    Args:
        y: targets, shape (N, ...).
        samples: predicted samples, shape (S, N, ...).
        fair: whether X and X' are two different samples, which is unbiased for the law that they
            come from (Ferro 2014); it needs two samples.

    Raises:
        ValueError: if the shapes do not fit, a value is not finite, or one sample is to be fair.
    """
    fair = boolean("fair", fair)
    y, samples = array_checks.with_samples(y, samples)
    if fair and len(samples) < 2:
        raise ValueError(f"fair={fair} needs two samples at least; samples has {len(samples)}")
    return float(np.mean(of_samples(y, samples, axis=0, fair=fair)))


def of_normal(y: Any, mean: Any, stddev: Any) -> Any:
    """The score of N(mean, stddev^2), in the units of y; all of one shape, as the scores are."""
    ops, error = operations(y), y - mean
    z = error / stddev
    density = ops.exp(-0.5 * ops.square(z)) / math.sqrt(2.0 * math.pi)
    of_z = erf(ops.clip(z, -10.0, 10.0) / math.sqrt(2.0))  # NaN far outside
    return error * of_z + stddev * (2.0 * density - 1.0 / math.sqrt(math.pi))


def of_samples(y: Any, samples: Any, axis: int, fair: bool = False) -> Any:
    """The score of the empirical law of S samples along an axis, of the shape of y.

    Sorted samples x_(1) <= ... <= x_(S) have E|X - X'| = 2 / S^2 sum_i (2 i - S - 1) x_(i); for
    two different ones (`fair`) S (S - 1) is in the place of S^2.
    """
    ops = operations(y)
    deviations = ops.sort(samples - ops.expand_dims(y, axis), axis=axis)
    ranks = ops.arange(1, ops.shape(deviations)[axis] + 1, dtype="float64")
    S = ops.sum(ops.ones_like(ranks))
    half_difference = ops.tensordot(deviations, 2.0 * ranks - S - 1.0, axes=[[axis], [0]])
    half_difference /= S * (S - 1.0 if fair else S)
    return ops.mean(abs(deviations), axis=axis) - half_difference


@keras.saving.register_keras_serializable(package="tfbdl")
class NormalCRPS(ExampleMean):
    """`crps_normal` over batches.

    The outputs have shape (B, 2 D): D means and D standard deviations; the targets have shape
    (B, D), or (B,) for D = 1. `sample_weight` is taken, as Keras' own metrics do.

    Args:
        from_raw: whether the second half are raw scales, whose softplus (and 1e-6) is the
            standard deviation, as `tfbdl.likelihoods.Normal("predicted")` has it; standard
            deviations by default.
        name: the name in logs.
        dtype: the type of the sums; float64 by default, so that they are exact over many batches.
    """

    def __init__(
        self, from_raw: bool = False, name: str = "normal_crps", dtype: str = "float64"
    ) -> None:
        super().__init__(name, dtype)
        self.from_raw = boolean("from_raw", from_raw)

    def values(self, y_true: Any, y_pred: Any) -> tf.Tensor:
        meaning = "D means, then D standard deviations"
        y, mean, stddev = tensor_checks.halves(y_true, y_pred, meaning)
        if self.from_raw:
            stddev = tf.math.softplus(stddev) + 1e-6
        message = "y_pred has a standard deviation that is not positive"
        return of_normal(y, mean, tensor_checks.refuse(stddev, stddev <= 0, message))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "from_raw": self.from_raw}


@keras.saving.register_keras_serializable(package="tfbdl")
class SampleCRPS(ExampleMean):
    """`crps_samples` over batches.

    The outputs are S samples of each target: shape (B, S, D) for targets of shape (B, D), or
    (B, S) for targets of shape (B,) or (B, 1). `sample_weight` is taken, as Keras' own metrics do.

    Args:
        fair: whether the score is unbiased for the law that the samples come from (Ferro 2014),
            which needs two of them; else it is that of the law that they make.
        name: the name in logs.
        dtype: the type of the sums; float64 by default, so that they are exact over many batches.

    Raises:
        ValueError: if `fair` is no truth value.
    """

    def __init__(
        self, fair: bool = False, name: str = "sample_crps", dtype: str = "float64"
    ) -> None:
        super().__init__(name, dtype)
        self.fair = boolean("fair", fair)

    def values(self, y_true: Any, y_pred: Any) -> tf.Tensor:
        y, samples = tensor_checks.samples_of(y_true, y_pred)
        if self.fair and samples.shape[1] == 1:
            raise ValueError("fair=True needs two samples at least; y_pred has one of each target")
        return of_samples(y, samples, axis=1, fair=self.fair)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "fair": self.fair}

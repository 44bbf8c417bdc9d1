"""The mean of the prior around which a Laplace approximation has its evidence."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tfbdl.arguments import shown
from tfbdl.inference.prior_precision import in_float64
from tfbdl.inference.weight_subset import WeightSubset


def checked_prior_mean(value: Any, subset: WeightSubset, theta: tf.Tensor) -> tf.Tensor:
    """The mean, () or (P,), in float64.

    Args:
        value: a number, an array, or "current" for the weights that there are.
        subset: the weights that have a prior.
        theta: all weights that there are, shape (D,).

    Raises:
        ValueError: if it is another word, has another shape or is not finite.
    """
    if isinstance(value, str):
        if value != "current":
            raise ValueError(f"prior_mean={shown(value)} must be 'current', a number, or an array")
        value = subset.take(theta.numpy())
    mean = in_float64("prior_mean", value)
    if tuple(mean.shape) not in [(), (subset.size,)]:
        raise ValueError(
            f"prior_mean has shape {tuple(mean.shape)}; give a number, 'current', or an array "
            f"of shape ({subset.size},)"
        )
    if not np.isfinite(mean.numpy()).all():
        raise ValueError(f"prior_mean={shown(value)} must be finite")
    return mean

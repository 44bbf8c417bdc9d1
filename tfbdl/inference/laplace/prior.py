"""The prior N(0, 1 / delta) of the weights, with one delta for all, for each tensor, for each."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfbdl.inference.laplace.subset import Subset

PRIOR_STRUCTURES = ("scalar", "layerwise", "diag")


def prior_precision(value: Any, subset: Subset, structure: str) -> tf.Tensor:
    """Delta in float64.

    Args:
        value: a number, or an array of shape (L,), one for each of the L weight tensors, or of
            shape (P,), one for each weight.
        subset: the weights.
        structure: of the posterior; "kron" takes no delta for each weight.

    Raises:
        ValueError: if it is not positive, or has another shape.
    """
    if tf.is_tensor(value) or isinstance(value, tf.Variable):
        delta = tf.cast(value, tf.float64)
    else:
        delta = tf.constant(value, tf.float64)
    if tf.executing_eagerly() and not tf.reduce_all((delta > 0) & tf.math.is_finite(delta)):
        raise ValueError(f"prior_precision={value!r} must be positive")
    count = len(subset.sizes)
    allowed = [(), (count,)] if structure == "kron" else [(), (count,), (subset.size,)]
    if tuple(delta.shape) not in allowed:
        shapes = " or ".join(map(str, allowed[1:]))
        raise ValueError(
            f"prior_precision has shape {tuple(delta.shape)}; hessian_structure={structure!r} "
            f"takes a number or shape {shapes}"
        )
    return delta


def of_each_weight(delta: tf.Tensor, subset: Subset) -> tf.Tensor:
    """Delta of each weight, shape (P,)."""
    if delta.shape.rank == 0:
        return tf.fill([subset.size], delta)
    if delta.shape[0] == len(subset.sizes):
        return tf.repeat(delta, subset.sizes)
    return delta


def in_structure(delta: tf.Tensor, subset: Subset, structure: str) -> tf.Tensor:
    """Delta as "scalar" (), "layerwise" (L,) or "diag" (P,); means where it is finer than that."""
    each = of_each_weight(delta, subset)
    if structure == "scalar":
        return tf.reduce_mean(each)
    if structure == "layerwise":
        return tf.stack([tf.reduce_mean(part) for part in subset.split(each)])
    return each

"""The prior N(0, 1 / delta) of the weights, with one delta for all, for each tensor, for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfbdl.arguments import LARGEST_SCALE, SMALLEST_SCALE, shown
from tfbdl.examples import as_array

PRIOR_STRUCTURES = ("scalar", "layerwise", "diag")
_SMALLEST, _LARGEST = LARGEST_SCALE**-2, SMALLEST_SCALE**-2
"""Precisions of the smallest and the largest scale."""


def prior_precision(value: Any, sizes: Sequence[int], *, for_each: bool = True) -> tf.Tensor:
    """Delta in float64.

    Args:
        value: a number, or an array of shape (L,), one for each of the L weight tensors, or of
            shape (P,), one for each weight.
        sizes: the numbers of weights of the tensors, P in all.
        for_each: whether there may be one for each weight.

    Raises:
        ValueError: if it is out of the range of precisions, or has another shape.
    """
    delta = in_float64("prior_precision", value)
    if not _is_between(delta, _SMALLEST, _LARGEST):
        raise ValueError(
            f"prior_precision={shown(value)} must be positive, from {_SMALLEST:g} to {_LARGEST:g}"
        )
    shapes = [(len(sizes),), (sum(sizes),)] if for_each else [(len(sizes),)]
    if tuple(delta.shape) not in [(), *shapes]:
        raise ValueError(
            f"prior_precision has shape {tuple(delta.shape)}; give a number, or an array of shape "
            + " or ".join(map(str, shapes))
        )
    return delta


def noise(value: Any) -> tf.Tensor:
    """Sigma in float64.

    Raises:
        ValueError: if it is not one number in the range of scales.
    """
    sigma = in_float64("sigma_noise", value)
    if sigma.shape != () or not _is_between(sigma, SMALLEST_SCALE, LARGEST_SCALE):
        raise ValueError(
            f"sigma_noise={shown(value)} must be a positive number, from {SMALLEST_SCALE:g} to "
            f"{LARGEST_SCALE:g}"
        )
    return sigma


def in_float64(name: str, value: Any) -> tf.Tensor:
    """A number, array or tensor as a tensor in float64, differentiable.

    Raises:
        ValueError: if it is none of real numbers.
    """
    if isinstance(value, (tf.Tensor, tf.Variable)):
        if not (value.dtype.is_floating or value.dtype.is_integer):
            raise ValueError(f"{name}={shown(value)} must be of numbers")
        return tf.cast(value, tf.float64)
    return tf.constant(as_array(name, value), tf.float64)


def _is_between(values: tf.Tensor, least: float, most: float) -> bool:
    """Whether all are, as far as they are known."""
    if not tf.executing_eagerly():
        return True
    return bool(tf.reduce_all((values >= least) & (values <= most)))


def of_each_weight(delta: tf.Tensor, sizes: Sequence[int]) -> tf.Tensor:
    """Delta of each weight, shape (P,)."""
    if delta.shape.rank == 0:
        return tf.fill([sum(sizes)], delta)
    if delta.shape[0] == len(sizes):
        return tf.repeat(delta, sizes)
    return delta


def in_structure(delta: tf.Tensor, sizes: Sequence[int], structure: str) -> tf.Tensor:
    """Delta as "scalar" (), "layerwise" (L,) or "diag" (P,); means where it is finer than that."""
    each = of_each_weight(delta, sizes)
    if structure == "scalar":
        return tf.reduce_mean(each)
    if structure == "layerwise":
        return tf.stack([tf.reduce_mean(part) for part in tf.split(each, sizes)])
    return each

"""The interface of one block of the posterior's precision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np
import tensorflow as tf

from tfbdl.inference.laplace.covariance import Covariance
from tfbdl.inference.laplace.information import Information
from tfbdl.inference.laplace.parts import Part

Tensors: TypeAlias = tuple[tf.Tensor, ...]
Inputs: TypeAlias = Sequence[Any]
"""The inputs of each of a block's weight tensors, None of those of another head."""


class Block:
    """The precision c H + diag(delta) of p weights, for data curvature H = sum_b J_b^T J_b.

    H is gathered over batches: `statistics` of each, in a graph, then `add`, then `finish`. What
    follows is in float64, and differentiable in delta and c where it says so.

    Args:
        size: p.

    Attributes:
        fields: names of the tensors that `finish` leaves, from which a block can be restored.
    """

    fields: ClassVar[tuple[str, ...]] = ()

    def __init__(self, size: int) -> None:
        self.size = size

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays that `finish` has left, by field."""
        return {name: np.asarray(getattr(self, name)) for name in self.fields}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Restores the state from `arrays`."""
        for name in self.fields:
            setattr(self, name, tf.constant(arrays[name]))

    @property
    def bytes(self) -> int:
        """Memory that the block takes once it is fitted."""
        raise NotImplementedError

    def statistics(self, parts: Sequence[Part], weights: tf.Tensor) -> Tensors:
        """Statistics of H in a batch, from J of the block, and the weights of the examples."""
        raise NotImplementedError

    def statistics_at(
        self, inputs: Inputs, information: Information, weights: tf.Tensor
    ) -> Tensors:
        """Statistics of H at R positions of a head, where J is a x I; in a graph, in float64.

        Args:
            inputs: the inputs a of each of the block's weight tensors, shape (R, I).
            information: the information of y about the head's outputs, already weighted.
            weights: how much each position counts, shape (R,).
        """
        raise NotImplementedError

    def add(self, total: Tensors | None, statistics: Tensors) -> Tensors:
        """The statistics of both, in float64."""
        wide = tuple(tf.cast(s, tf.float64) for s in statistics)
        return wide if total is None else tuple(a + b for a, b in zip(total, wide, strict=True))

    def finish(self, total: Tensors) -> None:
        """Takes the statistics of all data."""
        raise NotImplementedError

    @property
    def total(self) -> Tensors:
        """The statistics that `finish` was given."""
        return tuple(getattr(self, name) for name in self.fields)

    def quadratic(self, d: tf.Tensor) -> tf.Tensor:
        """d^T H d, differentiable, for d of shape (p,), in float64 or float32 as d is."""
        raise NotImplementedError

    def log_det(self, delta: tf.Tensor, c: tf.Tensor) -> tf.Tensor:
        """Log det(c H + diag(delta)), differentiable, for delta of shape (p,)."""
        raise NotImplementedError

    def factors(self, delta: tf.Tensor, c: tf.Tensor) -> Tensors:
        """Factors of c H + diag(delta) from which `variance` and `sample` work."""
        raise NotImplementedError

    def variance(self, parts: Sequence[Part], factors: Tensors) -> tf.Tensor:
        """J (c H + diag(delta))^-1 J^T of each example, shape (B, K, K); in a graph."""
        raise NotImplementedError

    def variances_of_weights(self, factors: Tensors) -> tf.Tensor:
        """The diagonal of (c H + diag(delta))^-1, shape (p,)."""
        raise NotImplementedError

    def covariance_at(self, inputs: Inputs, factors: Tensors) -> Covariance:
        """J (c H + diag(delta))^-1 J^T at R positions of a head, (R, O, O); in a graph.

        Args:
            inputs: as in `statistics_at`.
            factors: what `factors` gave.
        """
        raise NotImplementedError

    def sample(self, noise: tf.Tensor, factors: Tensors) -> tf.Tensor:
        """Draws of N(0, (c H + diag(delta))^-1), shape (n, p), from `noise` of that shape."""
        raise NotImplementedError


def rows(parts: Sequence[Part], dtype: Any) -> tf.Tensor:
    """J of all the weights together, shape (B, K, p)."""
    return tf.cast(tf.concat([part.dense() for part in parts], axis=2), dtype)


def rows_at(inputs: Inputs, information: Information, sizes: Sequence[int]) -> tf.Tensor:
    """J at R positions of a head times roots of the information, shape (R K, p), in float64.

    Args:
        inputs: as in `Block.statistics_at`.
        information: the information of y about the head's outputs.
        sizes: the numbers of elements of the weight tensors, p together.
    """
    root = information.root()  # (R, O, K)
    number = root.shape[0] * root.shape[2]
    columns = [
        tf.zeros([number, size], tf.float64)
        if a is None
        else tf.reshape(tf.einsum("ni,nok->nkio", a, root), [number, size])
        for a, size in zip(inputs, sizes, strict=True)
    ]
    return tf.concat(columns, axis=1)

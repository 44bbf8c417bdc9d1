"""The precision of the posterior, c H + diag(delta), block by block."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfbdl.inference.laplace.blocks import (
    Block,
    DiagonalBlock,
    FullBlock,
    KroneckerBlock,
    LowRankBlock,
)
from tfbdl.inference.laplace.blocks.base import Tensors
from tfbdl.inference.laplace.jacobian import Jacobian
from tfbdl.inference.laplace.parts import Part
from tfbdl.inference.weight_subset import WeightSubset

STRUCTURES = ("full", "kron", "diag", "lowrank")
JOINT = ("full", "lowrank")
"""Structures that have one block for all weights."""


class Precision:
    """C H + diag(delta) of P weights, for blocks that do not correlate.

    Args:
        subset: the weights.
        blocks: each with the places of its weights in the subset; in their order.
    """

    def __init__(self, subset: WeightSubset, blocks: Sequence[tuple[Block, Sequence[int]]]) -> None:
        self._blocks = blocks
        self._sizes = [block.size for block, _ in blocks]
        self.size = subset.size
        self.bytes = sum(block.bytes for block, _ in blocks)

    def statistics(self, parts: Sequence[Part], weights: tf.Tensor) -> list[Tensors]:
        """Statistics of H in a batch; runs in a graph."""
        return [b.statistics([parts[p] for p in places], weights) for b, places in self._blocks]

    def add(self, total: list[Tensors] | None, statistics: Sequence[Tensors]) -> list[Tensors]:
        """The statistics of both."""
        before = [None] * len(statistics) if total is None else total
        blocks = [block for block, _ in self._blocks]
        return [b.add(t, s) for b, t, s in zip(blocks, before, statistics, strict=True)]

    def finish(self, total: Sequence[Tensors]) -> None:
        """Takes the statistics of all data."""
        for (block, _), statistics in zip(self._blocks, total, strict=True):
            block.finish(statistics)

    def arrays(self) -> dict[str, np.ndarray]:
        """The statistics of all data that the blocks hold, by number and field."""
        return {
            f"{i}/{name}": array
            for i, (block, _) in enumerate(self._blocks)
            for name, array in block.arrays().items()
        }

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Restores the state from `arrays`."""
        for i, (block, _) in enumerate(self._blocks):
            block.restore({name: arrays[f"{i}/{name}"] for name in block.fields})

    def log_det(self, delta: tf.Tensor, c: tf.Tensor) -> tf.Tensor:
        """Log det(c H + diag(delta)), differentiable, for delta of shape (P,)."""
        return tf.add_n(self._each(delta, lambda block, d: block.log_det(d, c)))

    def factors(self, delta: tf.Tensor, c: tf.Tensor) -> list[Tensors]:
        """Factors of c H + diag(delta) from which `variance` and `sample` work."""
        return self._each(delta, lambda block, d: block.factors(d, c))

    def variance(self, parts: Sequence[Part], factors: Sequence[Tensors]) -> tf.Tensor:
        """J (c H + diag(delta))^-1 J^T of each example, shape (B, K, K), in float64; in a graph."""
        variances = [
            block.variance([parts[p] for p in places], f)
            for (block, places), f in zip(self._blocks, factors, strict=True)
        ]
        return tf.add_n([tf.cast(v, tf.float64) for v in variances])

    def sample(self, noise: tf.Tensor, factors: Sequence[Tensors]) -> tf.Tensor:
        """Draws of N(0, (c H + diag(delta))^-1), shape (n, P), from `noise` of that shape."""
        noises = tf.split(noise, self._sizes, axis=1)
        draws = [
            block.sample(z, f)
            for (block, _), z, f in zip(self._blocks, noises, factors, strict=True)
        ]
        return tf.concat(draws, axis=1)

    def _each(self, delta: tf.Tensor, function: Callable[[Block, tf.Tensor], object]) -> list[Any]:
        deltas = tf.split(delta, self._sizes)
        return [function(block, d) for (block, _), d in zip(self._blocks, deltas, strict=True)]


def precision_of(structure: str, subset: WeightSubset, jacobian: Jacobian, rank: int) -> Precision:
    """The blocks of a structure, before they have seen data.

    Args:
        structure: one of `STRUCTURES`. Under "kron" kernels of dense layers and convolutions get a
            Kronecker product, their biases all correlations, and all other weights a diagonal.
        subset: the weights.
        jacobian: the Jacobian, which knows the forms of their gradients.
        rank: the rank of "lowrank".
    """
    places = range(len(subset.index))
    if structure == "full":
        return Precision(subset, [(FullBlock(subset.size), places)])
    if structure == "lowrank":
        return Precision(subset, [(LowRankBlock(subset.size, rank), places)])

    def block_of(place: int) -> Block:
        size = subset.sizes[place]
        if structure == "kron" and place in jacobian.positions:
            return KroneckerBlock(size, size // subset.shapes[place][-1])
        if structure == "kron" and place in jacobian.biases:
            return FullBlock(size)
        return DiagonalBlock(size)

    return Precision(subset, [(block_of(place), [place]) for place in places])

"""The precision of the posterior, c H + diag(delta), block by block."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from tfbdl.arguments import optional, positive_integer, shown
from tfbdl.inference.laplace.blocks import (
    Block,
    DiagonalBlock,
    FullBlock,
    KroneckerBlock,
    LowRankBlock,
    SubnetworkBlock,
)
from tfbdl.inference.laplace.blocks.base import Tensors
from tfbdl.inference.laplace.covariance import Covariance
from tfbdl.inference.laplace.information import Information
from tfbdl.inference.laplace.jacobian import Jacobian
from tfbdl.inference.laplace.parts import Part
from tfbdl.inference.weight_subset import WeightSubset
from tfbdl.memory import require

Total: TypeAlias = list[Tensors | None] | None
"""Statistics of some of the data, by block; None of none."""
STRUCTURES = ("full", "kron", "diag", "lowrank", "subnetwork")
_NUMBERS = 3_000_000
"""Numbers of draws that are made at once: 24 MB, and as much for each step on the way."""


class Precision:
    """C H + diag(delta) of P weights, for blocks that do not correlate.

    Args:
        subset: the weights.
        blocks: each with the places of its weights in the subset; in their order.
        is_joint: whether there is one block for all weights.

    Attributes:
        size: P.
        bytes: memory that the blocks take.
    """

    def __init__(
        self, subset: WeightSubset, blocks: Sequence[tuple[Block, Sequence[int]]], is_joint: bool
    ) -> None:
        self._blocks, self.is_joint = blocks, is_joint
        self._sizes = [block.size for block, _ in blocks]
        self.size = subset.size
        self.bytes = sum(block.bytes for block, _ in blocks)

    def statistics(self, parts: Sequence[Part], weights: tf.Tensor) -> list[Tensors]:
        """Statistics of H in a batch; runs in a graph."""
        return [b.statistics([parts[p] for p in places], weights) for b, places in self._blocks]

    def statistics_at(
        self, inputs: Mapping[int, tf.Tensor], information: Information, weights: tf.Tensor
    ) -> list[Tensors | None]:
        """Statistics of H at R positions of a head; None for blocks that have no part in it.

        Args:
            inputs: the inputs of each of its weights, by the place in the subset, shape (R, I).
            information: the information of y about the head's outputs.
            weights: how much each position counts, shape (R,).
        """
        weights = tf.cast(weights, tf.float64)
        information = information.scaled(weights)
        return [
            b.statistics_at(_at(inputs, places), information, weights)
            if _has(inputs, places)
            else None
            for b, places in self._blocks
        ]

    def covariances_at(
        self, inputs: Mapping[int, tf.Tensor], factors: Sequence[Tensors]
    ) -> list[Covariance]:
        """The covariances of the outputs of a head whose sum is J (c H + diag(delta))^-1 J^T.

        Args:
            inputs: as in `statistics_at`.
            factors: what `factors` gave.
        """
        return [
            b.covariance_at(_at(inputs, places), f)
            for (b, places), f in zip(self._blocks, factors, strict=True)
            if _has(inputs, places)
        ]

    def add(self, total: Total, statistics: Sequence[Tensors | None]) -> Total:
        """The statistics of both."""
        before = [None] * len(statistics) if total is None else total
        blocks = [block for block, _ in self._blocks]
        return [
            t if s is None else b.add(t, s)
            for b, t, s in zip(blocks, before, statistics, strict=True)
        ]

    def finish(self, total: Sequence[Tensors | None]) -> None:
        """Takes the statistics of all data."""
        for (block, _), statistics in zip(self._blocks, total, strict=True):
            assert statistics is not None
            block.finish(statistics)

    @property
    def total(self) -> Total:
        """The statistics of all data, as `finish` was given them."""
        return [block.total for block, _ in self._blocks]

    @property
    def quadratics(self) -> list[tuple[Sequence[int], Callable[[tf.Tensor], tf.Tensor]]]:
        """The places of each block's weights, and d^T H d as a function of their d."""
        return [(places, block.quadratic) for block, places in self._blocks]

    def largest_variances(self, number: int, delta: tf.Tensor, c: tf.Tensor) -> np.ndarray:
        """The places of the weights of the largest variances under "diag", in rising order."""
        variances = self.variances_of_weights(self.factors(delta, c))
        return np.sort(np.argsort(-variances, kind="stable")[:number])

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

    def variances_of_weights(self, factors: Sequence[Tensors]) -> np.ndarray:
        """The diagonal of (c H + diag(delta))^-1, shape (P,)."""
        pairs = zip(self._blocks, factors, strict=True)
        return np.concatenate([block.variances_of_weights(f).numpy() for (block, _), f in pairs])

    def sample(self, noise: tf.Tensor, factors: Sequence[Tensors]) -> np.ndarray:
        """Draws of N(0, (c H + diag(delta))^-1), shape (n, P), from `noise` of that shape."""
        draws = np.empty(noise.shape)
        step = max(_NUMBERS // noise.shape[1], 1)
        for start in range(0, len(draws), step):
            rows = slice(start, start + step)
            draws[rows] = self._some(noise[rows], factors).numpy()
        return draws

    def _some(self, noise: tf.Tensor, factors: Sequence[Tensors]) -> tf.Tensor:
        noises = tf.split(noise, self._sizes, axis=1)
        draws = [
            block.sample(z, f)
            for (block, _), z, f in zip(self._blocks, noises, factors, strict=True)
        ]
        return tf.concat(draws, axis=1)

    def _each(self, delta: tf.Tensor, function: Callable[[Block, tf.Tensor], object]) -> list[Any]:
        deltas = tf.split(delta, self._sizes)
        return [function(block, d) for (block, _), d in zip(self._blocks, deltas, strict=True)]


def check_structure(
    structure: str, size: int, rank: int | None, subnetwork_size: int | None
) -> None:
    """Raises ValueError if a number does not go with a structure of P weights, or memory not."""
    optional(positive_integer, "rank", rank)
    if rank is not None and structure != "lowrank":
        raise ValueError(f"rank={rank} is for hessian_structure='lowrank'")
    if structure == "subnetwork":
        meaning = ", of the weights that could have a posterior"
        size = positive_integer("subnetwork_size", subnetwork_size, meaning, most=size)
    elif subnetwork_size is not None:
        raise ValueError(
            f"subnetwork_size={shown(subnetwork_size)} is for hessian_structure='subnetwork'"
        )
    if structure in ("full", "subnetwork"):
        whole = f"hessian_structure={structure!r} over {size:,} weights"
        require(16 * size**2, whole, "use 'kron', 'diag', or fewer weights")


def precision_of(
    structure: str,
    subset: WeightSubset,
    jacobian: Jacobian,
    *,
    rank: int,
    chosen: np.ndarray | None,
) -> Precision:
    """The blocks of a structure, before they have seen data.

    Args:
        structure: one of `STRUCTURES`. Under "kron" kernels of dense layers and convolutions get a
            Kronecker product, their biases all correlations, and all other weights a diagonal.
        subset: the weights.
        jacobian: the Jacobian, which knows the forms of their gradients.
        rank: the rank of "lowrank".
        chosen: the weights of "subnetwork"; None before they are, which makes it "diag".
    """
    places = range(len(subset.index))
    if structure == "full":
        return Precision(subset, [(FullBlock(subset.sizes), places)], True)
    if structure == "lowrank":
        return Precision(subset, [(LowRankBlock(subset.sizes, rank), places)], True)
    if structure == "subnetwork" and chosen is not None:
        return Precision(subset, [(SubnetworkBlock(subset.sizes, chosen), places)], True)

    def block_of(place: int) -> Block:
        size = subset.sizes[place]
        if structure == "kron" and place in jacobian.positions:
            return KroneckerBlock(size, size // jacobian.columns(place))
        if structure == "kron" and place in jacobian.biases:
            return FullBlock([size])
        return DiagonalBlock(size)

    return Precision(subset, [(block_of(place), [place]) for place in places], False)


def _at(inputs: Mapping[int, tf.Tensor], places: Sequence[int]) -> list[tf.Tensor | None]:
    return [inputs.get(place) for place in places]


def _has(inputs: Mapping[int, tf.Tensor], places: Sequence[int]) -> bool:
    return any(place in inputs for place in places)

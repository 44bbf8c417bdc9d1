"""Heads: layers whose outputs before the activation are the network's own outputs.

Where z = W^T a + b of a last layer is an output f of the network, J is a x I at each position, for
the layer's inputs a, so that neither J nor a backward pass is needed. Positions, such as pixels and
tokens, are then examples of their own. Where the network ends in a softmax, f is its logarithm, and
df / dz = I - 1 p^T.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tfbdl.inference.laplace.output_parts import OutputPart
from tfbdl.likelihoods import Categorical

AGREES = 0.05
"""Relative difference up to which two gradients are the same; others are off by about 1."""


class Head(NamedTuple):
    """A layer whose z are outputs number `start` to `stop` - 1 of an example.

    kernel, bias: the places of its weights in the subset; -1 for one that is not in it.
    outputs: O, the numbers of a position.
    of_softmax: whether those outputs are the logarithm of a softmax of z.
    """

    kernel: int
    bias: int
    start: int
    stop: int
    outputs: int
    of_softmax: bool

    @classmethod
    def of_numbers(cls, row: np.ndarray) -> Head:
        """The head whose fields are the numbers of a row."""
        kernel, bias, start, stop, outputs, of_softmax = (int(value) for value in row)
        return cls(kernel, bias, start, stop, outputs, bool(of_softmax))

    @property
    def places(self) -> list[int]:
        """The places of its weights in the subset."""
        return [place for place in (self.kernel, self.bias) if place >= 0]

    @property
    def positions(self) -> int:
        """T, the positions of an example."""
        return (self.stop - self.start) // self.outputs


def find_heads(
    layers: Mapping[int, Head],
    outputs: np.ndarray,
    direction: np.ndarray,
    gradients: Mapping[int, np.ndarray],
    parts: Sequence[OutputPart],
) -> list[Head]:
    """The heads among layers, if all of them are; else none.

    Args:
        layers: the places of their weights, and the length of the last axis of z, or 0.
        outputs: the outputs of B examples, shape (B, F).
        direction: weights of the outputs in a sum, of that shape.
        gradients: the gradients of that sum in the z of each layer, shape (B, T O).
        parts: the outputs, one by one.
    """
    heads = []
    for key, head in layers.items():
        if key not in gradients:
            return []
        size = gradients[key].shape[1]
        candidates = [c for part in parts for c in _of_part(head, part, size)]
        errors = [_error(c, outputs, direction, gradients[key]) for c in candidates]
        best = int(np.argmin(errors)) if errors else -1
        if best < 0 or not errors[best] < AGREES:
            return []
        heads.append(candidates[best])
    different = len({head.start for head in heads}) == len(heads)
    return sorted(heads, key=lambda head: head.start) if different else []


def _of_part(head: Head, part: OutputPart, size: int) -> list[Head]:
    """The layer as the head of an output, with a softmax behind it or not; none if sizes differ."""
    whole = part.stop - part.start
    of_position = head.outputs == part.last and part.event() in (1, part.last)
    if size != whole or not of_position:
        return []
    head = head._replace(start=part.start, stop=part.stop)
    of_classes = isinstance(part.likelihood, Categorical)
    return [head, head._replace(of_softmax=True)] if of_classes else [head]


def _error(head: Head, outputs: np.ndarray, direction: np.ndarray, gradient: np.ndarray) -> float:
    """The relative difference between the gradient in z and what it is if this is a head."""
    f, along = (
        v[:, head.start : head.stop].reshape(-1, head.outputs).astype(np.float64)
        for v in (outputs, direction)
    )
    if head.of_softmax:
        along = along - np.exp(f) * along.sum(axis=1, keepdims=True)
    difference = np.linalg.norm(gradient.reshape(along.shape) - along)
    return float(difference / max(np.linalg.norm(along), 1e-30))

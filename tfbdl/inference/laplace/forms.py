"""The forms of the gradients of a network's weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfbdl.batches import batches
from tfbdl.flat_model import FlatModel
from tfbdl.inference.laplace.heads import Head
from tfbdl.inference.laplace.scaled_likelihood import ScaledLikelihood
from tfbdl.inference.weight_subset import WeightSubset, check_kernel
from tfbdl.keras_private import walk
from tfbdl.quantization import has_integers
from tfbdl.recording import recorded
from tfbdl.sources import NO_TARGETS, Source

_FEW = 3


class Forms(NamedTuple):
    """The form in which the gradients of a network's weights come, found out on a few examples.

    positions: the positions of the kernels whose part is `Factored`, by their place in the subset:
        T.
    biases: places of the biases of such layers.
    has_loops: whether there are loops in the network's graph.
    heads: the layers whose z the outputs are, if all weights are theirs; else none.
    """

    positions: dict[int, int]
    biases: list[int]
    has_loops: bool
    heads: list[Head]

    def arrays(self) -> dict[str, np.ndarray]:
        """Rows (place, T), T = 0 for biases, behind a row that says whether there are loops.

        Behind these there is a row for each head.
        """
        rows = [(-1, int(self.has_loops)), *self.positions.items(), *((p, 0) for p in self.biases)]
        heads = np.array(self.heads, np.int64).reshape(-1, len(Head._fields))
        return {"forms": np.array(rows, np.int64), "heads": heads}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Forms:
        """The forms from `arrays`."""
        (_, has_loops), *others = ((int(place), int(t)) for place, t in arrays["forms"])
        positions = {place: t for place, t in others if t}
        biases = [place for place, t in others if not t]
        heads = [Head.of_numbers(row) for row in arrays["heads"]]
        return cls(positions, biases, bool(has_loops), heads)


def few_examples(
    flat: FlatModel,
    theta: tf.Tensor,
    state: Any,
    *,
    data: Source,
    likelihood: ScaledLikelihood,
    subset: WeightSubset,
) -> tuple[Any, tf.Tensor]:
    """A few inputs, and what the likelihood takes of the outputs there.

    Raises:
        ValueError: if the first batch does not fit the network or its likelihood.
    """
    inputs, targets, _ = data.first(flat.dtype)
    if targets is None:
        raise ValueError(NO_TARGETS)
    head = keras.tree.map_structure(lambda a: a[:_FEW], (inputs, targets))
    x = next(batches(Source(*head), _FEW, flat.dtype, one_shape=True).parts).x
    flat.check_deterministic(x)
    outputs = flat(theta, x, state)
    likelihood.of_network(1.0).check(outputs)
    _check_last(flat, subset, x)
    return x, likelihood.link(outputs)


def _check_last(flat: FlatModel, subset: WeightSubset, x: Any) -> None:
    """Raises ValueError unless of all layers with weights the one taken is called last."""
    if subset.last_layer is None:
        return
    quantized = filter(has_integers, walk(flat.model))
    with recorded([*subset.owners, *quantized]) as calls:
        flat(flat.theta, x)
    last, taken = calls[-1].layer, subset.last_layer
    if last is not taken:
        check_kernel(last, last.name)
        raise ValueError(
            f"subset_of_weights='last_layer' would take {taken.name!r}, but the last to be called "
            f"is {last.name!r}; name the layer"
        )

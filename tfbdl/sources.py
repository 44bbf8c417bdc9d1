"""What a user gives as examples: one form for all that Keras takes, with the weights in it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfbdl.arguments import optional, positive_integer
from tfbdl.checked_arrays import checked_arrays
from tfbdl.example_weights import ClassWeights, sample_weights, weights_like
from tfbdl.frames import as_inputs, is_frame
from tfbdl.keras_private_data import batches_of
from tfbdl.lengths import check_one_length
from tfbdl.lookups import check_lookups


class Element(NamedTuple):
    """Examples, checked: all of the arrays, or a batch of a data set.

    x: the inputs.
    y: the targets; None where there are none.
    weights: how often each counts, shape (N,), in float64; None where each counts once. Where a
        model trains on them, they are in the structure of y, and may be of its positions.
    """

    x: Any
    y: Any
    weights: Any

    @property
    def size(self) -> int:
        """The number of examples."""
        return num_examples((self.x,))


class Source:
    """Examples in any form that Keras takes, given batch by batch, as often as they are asked for.

    Args:
        x: an array, a structure of arrays, or a `pandas.DataFrame`; or batches x, (x, y) or (x, y,
            weights): a `tf.data.Dataset`, a `keras.utils.PyDataset`, or a generator.
        y: the targets, an array or a structure of arrays, or None; None beside batches.
        sample_weight: the weights of the examples, shape (N,); None beside batches.
        class_weight: weights by class, as in Keras' `fit`; None if there are other weights.
        steps: the number of batches to take; None for all there are.
        model: the model, or a posterior of one, whose named inputs the columns of a DataFrame are,
            and whose embeddings have rows for what x looks up.
        trains: whether weights may be of positions and of outputs, as losses take them.

    Attributes:
        is_arrays: whether all examples are there at once.
        number: the number of elements, where it is known; else None.

    Raises:
        ValueError: if arguments do not go together, or endless data are given without `steps`.
    """

    def __init__(
        self,
        x: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        class_weight: Any = None,
        steps: int | None = None,
        model: Any = None,
        trains: bool = False,
    ) -> None:
        self.trains, self.model = trains, model
        self.x = as_inputs(x, model) if is_frame(x) else x
        self.y, self.sample_weight = y, sample_weight
        self.kind = kind_of(x)
        self.is_arrays = self.kind is None
        self.class_weight = optional(lambda _, v: ClassWeights(v), "class_weight", class_weight)
        self._once: Iterator[Any] | None = self.x if self.kind == GENERATOR else None
        self._spent = False
        steps = optional(positive_integer, "steps", steps)
        if class_weight is not None and sample_weight is not None:
            raise ValueError("class_weight and sample_weight are both given; leave one out")
        if self.is_arrays:
            if steps is not None:
                raise ValueError(f"steps={steps} is for data sets and generators; leave it out")
        else:
            for name, value in (("y", y), ("sample_weight", sample_weight)):
                if value is not None:
                    raise ValueError(
                        f"{name} is given, but x is {self.kind}; let it hold x, y and weights, and "
                        f"leave {name} out"
                    )
        self.steps = steps
        length = 1 if self.is_arrays else length_of(x)
        if length == ENDLESS and steps is None:
            raise ValueError(f"x is {self.kind} without an end; give steps, the batches to take")
        self.number = steps if steps is not None else length

    @classmethod
    def of(cls, x: Any, model: Any = None, *, steps: int | None = None) -> Source:
        """The inputs x, as `Source` takes them, for a model; a source as it is, for that model."""
        if not isinstance(x, Source):
            return cls(x, steps=steps, model=model)
        x.model = x.model if model is None else model
        return x

    def elements(self, dtype: tf.DType | None = None, *, needs_y: bool = True) -> Iterator[Element]:
        """The batches, or all of the arrays: as NumPy arrays, if dense.

        Args:
            dtype: the type whose range numbers must be in.
            needs_y: whether targets and weights are taken, or left out.

        Raises:
            ValueError: if data are empty, of unequal lengths, not finite or out of range, if there
                are fewer batches than `steps`, or a generator is to give its batches again.
        """
        if self.is_arrays:
            yield self._element(self.x, self.y, self.sample_weight, dtype)
            return
        count = 0
        for data in itertools.islice(self.batches(), self.steps):
            yield self._of_batch(data, count, dtype, needs_y=needs_y)
            count += 1
        if self.steps is not None and count < self.steps:
            raise ValueError(f"x gave {count} batches, not steps={self.steps}; give fewer steps")

    def first(self, dtype: tf.DType | None = None) -> Element:
        """The first element; a generator gives it again.

        Raises:
            ValueError: as `elements`, or if there is none.
        """
        if self.kind == PY_DATASET and self.number:
            return self._of_batch(self.x[0], 0, dtype)  # this begins no epoch
        if self._once is None:
            return next(self.elements(dtype), None) or _no_batches()
        taken = list(itertools.islice(self._once, 1)) or _no_batches()
        self._once = itertools.chain(taken, self._once)
        return self._of_batch(taken[0], 0, dtype)

    def whole(self, dtype: tf.DType | None = None, *, needs_y: bool = True) -> Element:
        """All examples, one after the other.

        Raises:
            ValueError: as `elements`, or if there is none, or no targets where they are needed.
        """
        parts = list(self.elements(dtype, needs_y=needs_y)) or [_no_batches()]
        if len({part.weights is None for part in parts}) > 1:
            raise ValueError("x has sample weights in some batches only; give them in all")
        if needs_y and any(part.y is None for part in parts):
            raise ValueError(NO_TARGETS)
        x, y, weights = zip(*parts, strict=True)
        return Element(
            _joined("arrays", x),
            None if y[0] is None else _joined("targets", y),
            None if weights[0] is None else _joined("weights", weights),
        )

    def batches(self) -> Iterator[Any]:
        """The batches as they are.

        Raises:
            ValueError: if a generator is to give its batches again.
        """
        if self.kind != GENERATOR:
            return batches_of(self.x) if self.kind == PY_DATASET else iter(self.x)
        if self._spent:
            raise ValueError(
                "x is a generator, whose batches are gone after one pass; give arrays, a "
                "tf.data.Dataset or a keras.utils.PyDataset"
            )
        self._spent = True
        assert self._once is not None
        return self._once

    def _of_batch(
        self, data: Any, number: int, dtype: tf.DType | None, *, needs_y: bool = True
    ) -> Element:
        x, y, weights = unpacked(data)
        where = f" of batch {number}"
        if not needs_y:
            x, _ = checked_arrays(x, None, dtype, where)
            check_lookups(self.model, x, where)
            return Element(x, None, None)
        return self._element(x, y, weights, dtype, where)

    def _element(
        self, x: Any, y: Any, weights: Any, dtype: tf.DType | None, where: str = ""
    ) -> Element:
        x, y = checked_arrays(x, y, dtype, where)
        check_lookups(self.model, x, where)
        num = num_examples((x,))
        if self.class_weight is not None:
            if weights is not None:
                raise ValueError("class_weight is given beside weights in x; leave it out")
            weights = self.class_weight(y).numpy()
        elif weights is not None:
            of_all = self.trains and y is not None
            weights = (
                weights_like(y, weights, num, where)
                if of_all
                else sample_weights(weights, num, where)
            )
        return Element(x, y, weights)


ENDLESS = -1
GENERATOR, PY_DATASET = "a generator", "a keras.utils.PyDataset"
NO_INPUTS = "x=None: give inputs"
NO_TARGETS = "y=None: give targets, or a data set of batches (x, y)"


def kind_of(x: Any) -> str | None:
    """What batches come from, in words; None of arrays."""
    if isinstance(x, tf.data.Dataset):
        return "a tf.data.Dataset"
    if isinstance(x, keras.utils.PyDataset):
        return PY_DATASET
    return GENERATOR if isinstance(x, Iterator) else None


def length_of(x: Any) -> int | None:
    """The number of batches, `ENDLESS`, or None where it is not known."""
    if isinstance(x, keras.utils.PyDataset):
        return ENDLESS if x.num_batches is None else int(x.num_batches)
    if isinstance(x, tf.data.Dataset):
        length = int(x.cardinality())
        return None if length == tf.data.UNKNOWN_CARDINALITY else length
    return None


def unpacked(data: Any) -> tuple[Any, Any, Any]:
    """x, y and weights of a batch as data sets give them, None where there are none.

    Raises:
        ValueError: if it is no batch.
    """
    parts = tuple(data) if isinstance(data, (list, tuple)) else (data,)
    if not 1 <= len(parts) <= 3:
        raise ValueError(
            f"x gives batches of {len(parts)} parts; let it give x, (x, y) or (x, y, weights)"
        )
    x, y, weights = (*parts, None, None)[:3]
    return x, y, weights


def num_examples(data: tuple[Any, ...]) -> int:
    """The number of examples of (x, y)."""
    return int(keras.tree.flatten(data[0])[0].shape[0])


def _no_batches() -> Any:
    raise ValueError("x has no batches; give at least one example")


def _joined(name: str, parts: Any) -> Any:
    for part in parts:
        check_one_length(name, parts[0], part)
    return keras.tree.map_structure(lambda *p: np.concatenate(p), *parts)

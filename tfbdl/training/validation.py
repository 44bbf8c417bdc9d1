"""Validation data, on which Keras evaluates the model after each epoch, as in its `fit`."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import keras
import tensorflow as tf

from tfbdl.arguments import number, optional, positive_integer
from tfbdl.examples import map_arrays, structure_of_arrays
from tfbdl.frames import is_frame
from tfbdl.sources import ENDLESS, GENERATOR, Source, kind_of, length_of, unpacked
from tfbdl.training import checks, workers

Arrays: TypeAlias = tuple[Any, Any, Any]
"""x, y and weights."""


class Validation:
    """Held-out data, and what `model.evaluate` says of them: "val_loss" and metrics.

    Args:
        model: the model that is trained.
        data: (x, y) or (x, y, weights) of arrays, x alone for a model without targets, or a
            `tf.data.Dataset`, a `keras.utils.PyDataset` or a generator of batches. A generator is
            read once, into memory, and its examples serve in every epoch.
        batch_size: examples of arrays at a time.
        steps: the number of batches to take of a data set; None for all.

    Raises:
        ValueError: if it is none of these, or several workers train.
    """

    def __init__(
        self, model: keras.Model, data: Any, *, batch_size: int | None, steps: int | None
    ) -> None:
        optional(positive_integer, "validation_steps", steps)
        if workers.are_several(model.distribute_strategy):
            raise ValueError("validation_data is for one worker; evaluate after the training")
        self.model = model
        try:
            self._given = self._arguments(data, batch_size, steps)
        except ValueError as error:
            raise ValueError(f"validation_data: {error}") from error

    def logs(self) -> dict[str, float]:
        """The values at the weights as they are, by names that begin with "val_"."""
        values = self.model.evaluate(**self._given, verbose=0, return_dict=True)
        flat: dict[str, Any] = {}
        for name, value in values.items():
            flat |= value if isinstance(value, dict) else {name: value}
        return {f"val_{name}": float(value) for name, value in flat.items()}

    def _arguments(self, data: Any, batch_size: int | None, steps: int | None) -> dict[str, Any]:
        """The arguments of `evaluate`."""
        if kind_of(data) is None:
            if steps is not None:
                raise ValueError(f"validation_steps={steps} is for data sets and generators")
            x, y, weights = unpacked(data)
            data = Source(x, y, sample_weight=weights, model=self.model, trains=True)
        elif kind_of(data) == GENERATOR:
            data = Source(data, steps=steps, trains=True)
        else:
            if steps is None and length_of(data) == ENDLESS:
                raise ValueError("they have no end; give validation_steps")
            return {"x": data, "steps": steps}
        floatx = tf.as_dtype(keras.config.floatx())
        has_targets = data.first(floatx).y is not None
        x, y, weights = data.whole(floatx, needs_y=has_targets)
        checks.check_examples(self.model, x, y)
        checks.check_has_targets(self.model, (x, y) if has_targets else (x,))
        return {"x": x, "y": y, "sample_weight": weights, "batch_size": batch_size}


def split(data: Arrays, share: float) -> tuple[Arrays, Arrays]:
    """The examples to train on, and the last ones to validate on, as `validation_split` of `fit`.

    Args:
        data: x, y and weights: arrays, structures of arrays, a `pandas.DataFrame`; or None.
        share: the share of the examples that is held out.

    Raises:
        ValueError: if it is not in [0, 1) or leaves no example on one side, or they are no arrays.
    """
    share = number("validation_split", share, lambda v: 0 <= v < 1, "in [0, 1)")
    kind = "a function" if callable(data[0]) else kind_of(data[0])
    if kind is not None:
        raise ValueError(f"validation_split is for arrays, but x is {kind}; give validation_data")
    names = ("x", "y", "sample_weight")
    parts = [_arrays(*pair) for pair in zip(names, data, strict=True)]
    given = [part for part in parts if part is not None]
    lengths = {len(array) for array in keras.tree.flatten(given)} or {0}
    num = min(lengths)
    first = math.floor(num * (1.0 - share))
    if not 0 < first < num:
        raise ValueError(f"validation_split={share:g} of {num} examples leaves one side empty")
    if len(lengths) > 1:
        raise ValueError(
            f"x, y and sample_weight have {sorted(lengths)} examples; give equally many of each"
        )
    return _rows(parts, slice(first)), _rows(parts, slice(first, None))


def _arrays(name: str, values: Any) -> Any:
    """The values with a length each; a table stays one, since its columns may be inputs."""
    if values is None or is_frame(values):
        return values
    return structure_of_arrays(name, values, text=name == "x")


def _rows(parts: list[Any], rows: slice) -> Arrays:
    """Some of the examples of each part."""
    x, y, weights = (
        part.iloc[rows]
        if is_frame(part)
        else map_arrays(lambda a: None if a is None else a[rows], part)
        for part in parts
    )
    return x, y, weights

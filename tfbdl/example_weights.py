"""Weights of examples: w_n log p(y_n | f(x_n)) in the place of log p(y_n | f(x_n)).

An example of weight 2 counts as two equal ones, and one of weight 0 not at all. A power of a
likelihood is in general no likelihood, but what follows from it is a posterior all the same
(Bissiri, Holmes, Walker 2016, "A general framework for updating belief distributions").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl.arguments import shown
from tfbdl.examples import examples


def sample_weights(values: Any, num: int, where: str = "") -> np.ndarray:
    """One weight for each of `num` examples, shape (N,), in float64.

    Raises:
        ValueError: if they are other than `num` finite numbers of at least 0; `where` says of which
            batch they are.
    """
    if isinstance(values, (Mapping, list, tuple)) and any(map(_is_array, _parts(values))):
        raise ValueError(f"sample_weight{where} has several arrays; give one weight an example")
    weights = examples(f"sample_weight{where}", values).astype(np.float64)
    if weights.shape not in {(num,), (num, 1)}:
        raise ValueError(
            f"sample_weight{where} has shape {weights.shape}; give one weight for each of the "
            f"{num} examples, shape ({num},)"
        )
    return _not_negative(weights.reshape(num), where)


def weights_like(y: Any, values: Any, num: int, where: str = "") -> Any:
    """The weights of each output, in the structure of y, as Keras' `fit` takes them.

    Args:
        y: the targets, an array or a structure of arrays.
        values: weights of the examples, (N,), or of positions, such as (N, H, W) beside y of shape
            (N, H, W) or (N, H, W, 1); for several outputs one array for all, or one for each.
        num: N.
        where: the batch that they are of, for messages.

    Raises:
        ValueError: if they are not such, or `sample_weights` refuses them.
    """
    if not keras.tree.is_nested(y):
        return _of_output(values, np.shape(y), num, where)
    if not isinstance(values, (Mapping, tuple)) and not (
        isinstance(values, list) and any(hasattr(part, "shape") for part in values)
    ):
        return keras.tree.map_structure(lambda own: _of_output(values, own.shape, num, where), y)
    try:
        keras.tree.assert_same_structure(y, values)
    except (ValueError, TypeError):
        raise ValueError(
            f"sample_weight{where} has another structure than y; give one array for all outputs, "
            "or one for each"
        ) from None
    return keras.tree.map_structure(
        lambda own, part: _of_output(part, own.shape, num, where), y, values
    )


def _of_output(values: Any, shape: tuple[int, ...], num: int, where: str) -> np.ndarray:
    """Weights of examples, (N,), or of positions of y, of its `shape`."""
    given = np.shape(values) if hasattr(values, "shape") else ()
    if len(given) > 1 and given != (num, 1) and given in {shape, shape[:-1], (*shape, 1)}:
        return _not_negative(examples(f"sample_weight{where}", values).astype(np.float64), where)
    return sample_weights(values, num, where)


def _not_negative(weights: np.ndarray, where: str) -> np.ndarray:
    if (weights < 0).any():
        example = int(np.argwhere(weights < 0)[0][0])
        raise ValueError(
            f"sample_weight{where} is {weights[weights < 0][0]:g} in example {example}; give "
            "weights of at least 0"
        )
    if not where and not weights.any():
        raise ValueError("sample_weight is 0 for all examples; give one that counts")
    return weights


class ClassWeights:
    """The weight of an example by its class, as the `class_weight` of Keras' `fit`.

    Args:
        class_weight: weights of at least 0 by the number of the class; 1 for all others.

    Raises:
        ValueError: if it is something else.
    """

    def __init__(self, class_weight: Any) -> None:
        wanted = "a dictionary of weights of at least 0 by the number of the class"
        if not isinstance(class_weight, Mapping) or not class_weight:
            raise ValueError(f"class_weight={shown(class_weight)} must be {wanted}")
        for label, weight in class_weight.items():
            is_label = isinstance(label, (int, np.integer)) and not isinstance(label, bool)
            is_weight = isinstance(weight, (int, float, np.number)) and np.isfinite(weight)
            if not is_label or not is_weight or weight < 0:
                raise ValueError(f"class_weight has {label!r}: {weight!r}; give {wanted}")
        labels = sorted(class_weight)
        self._labels = tf.constant(labels, tf.int64)
        self._weights = tf.constant([float(class_weight[label]) for label in labels], tf.float64)

    def __call__(self, y: Any) -> tf.Tensor:
        """The weights, shape (N,), of labels of shape (N,) or (N, 1), or of one-hot rows, (N, C).

        Raises:
            ValueError: if y is of another shape, or a structure.
        """
        if y is None or keras.tree.is_nested(y):
            raise ValueError("class_weight is for one output with targets; give sample_weight")
        y = tf.convert_to_tensor(y)
        if y.shape.rank not in {1, 2} or y.dtype == tf.string:
            raise ValueError(
                f"class_weight is for y of labels, (N,) or (N, 1), or one-hot, (N, C), not of "
                f"shape {tuple(y.shape)}; give sample_weight"
            )
        if y.shape.rank == 2:
            y = tf.argmax(y, axis=1) if y.shape[1] != 1 else y[:, 0]
        labels = tf.cast(tf.round(y) if y.dtype.is_floating else y, tf.int64)
        places = tf.minimum(tf.searchsorted(self._labels, labels), tf.size(self._labels) - 1)
        known = tf.equal(tf.gather(self._labels, places), labels)
        return tf.where(known, tf.gather(self._weights, places), tf.ones([], tf.float64))


def _parts(values: Any) -> Any:
    return values.values() if isinstance(values, Mapping) else values


def _is_array(value: Any) -> bool:
    return isinstance(value, (Mapping, list, tuple)) or getattr(value, "shape", ()) != ()

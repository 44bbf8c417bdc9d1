"""What nobody should pass: values of wrong types, and good values that are spoiled."""

from __future__ import annotations

import datetime
import decimal
import fractions
import math
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf


class Hostile:
    """An object that answers nothing."""

    def __repr__(self) -> str:
        raise RuntimeError("two\nlines")

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise RuntimeError("two\nlines")


ANYTHING: tuple[Callable[[], Any], ...] = (
    *(lambda v=v: v for v in (None, True, False, 0, 1, -1, 2, 7, 0.5, -0.5, 1e-3, -0.0)),
    *(lambda v=v: v for v in (2**31, -(2**31) - 1, 2**63, -(2**63) - 1, 10**30, -(10**30))),
    *(lambda v=v: v for v in (math.nan, math.inf, -math.inf, 1e300, -1e300, 1e-300, 5e-324, 1e39)),
    *(lambda v=v: v for v in ("", " ", "abc", "é\n", "0", "none", "a" * 10_000, b"abc", "../..")),
    lambda: 10**5000,
    list,
    dict,
    tuple,
    set,
    object,
    Hostile,
    lambda: int,
    lambda: keras.layers.Dense,
    lambda: len,
    lambda: lambda *_, **__: None,
    lambda: (i for i in range(3)),
    lambda: range(3),
    lambda: 1j,
    lambda: decimal.Decimal("0.5"),
    lambda: fractions.Fraction(1, 2),
    lambda: datetime.date(2000, 1, 1),
    lambda: Path("/nowhere/at/all"),
    lambda: np.int64(3),
    lambda: np.float32(0.5),
    lambda: np.float64("nan"),
    lambda: np.bool_(True),
    lambda: np.array(3.0),
    lambda: np.array(["a", "b"]),
    lambda: np.array([object()]),
    lambda: np.zeros(0),
    lambda: np.zeros((0, 3)),
    lambda: np.zeros((3, 0)),
    lambda: np.ones((2, 3)),
    lambda: np.full((6, 4), 1e300),
    lambda: np.full((6, 4), np.nan),
    lambda: [1],
    lambda: [1, 2, 3],
    lambda: [[1], [2, 3]],
    lambda: [None, None],
    lambda: ["a", "b"],
    lambda: {"a": 1},
    lambda: {1: 2},
    lambda: {"class_name": "Nothing", "config": {}},
    lambda: {"class_name": "Dense", "config": {"units": -1}},
    lambda: {"module": "builtins", "class_name": "function", "config": "exec"},
    lambda: tf.constant(0.5),
    lambda: tf.constant([1.0, 2.0]),
    lambda: tf.constant("abc"),
    lambda: tf.Variable(1),
    lambda: tf.ragged.constant([[1.0], [2.0, 3.0]]),
    lambda: tf.sparse.from_dense([[0.0, 1.0]]),
    lambda: tf.data.Dataset.from_tensor_slices([1.0, 2.0]),
    lambda: tf.data.Dataset.from_tensor_slices((np.ones((4, 4)), [1, 2, 3, 4])).batch(2),
    lambda: tf.data.Dataset.range(0),
    lambda: keras.Input((4,)),
    lambda: keras.Sequential([keras.layers.Dense(3)]),
    lambda: keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)]),
    lambda: keras.Sequential([keras.Input((7,)), keras.layers.Dropout(0.5)]),
    lambda: keras.layers.Dense(3),
    keras.optimizers.SGD,
    keras.losses.MeanSquaredError,
    keras.initializers.Zeros,
    keras.callbacks.Callback,
)


COUNTS = (
    *("epochs", "every", "max_iterations", "num_members", "num_samples"),
    *("num_warmup", "samples", "thinning"),
)
"""Arguments of which a large number is a long run, and no mistake."""

FUNCTIONS = (
    *("activation", "build", "layers", "loss", "prior", "recurrent_activation", "target", "x"),
    "statistic",
    *("bias_initializer", "embeddings_initializer", "kernel_initializer"),
    "recurrent_initializer",
)
"""Arguments that may be functions of the user's own, whose errors are not the package's."""


def bad(chance: random.Random, name: str, good: Any) -> Any:
    """A value in the place of a good one: anything at all, or the good one spoiled."""
    spoiled = _spoiled(chance, name, good)
    value = chance.choice(spoiled if spoiled and chance.random() < 0.6 else ANYTHING)()
    return None if name in FUNCTIONS and callable(value) and not _is_empty(value) else value


def _is_empty(value: Any) -> bool:
    """Whether it is the function here that gives None."""
    return getattr(value, "__name__", "") == "<lambda>"


def _spoiled(chance: random.Random, name: str, good: Any) -> list[Callable[[], Any]]:
    """Values that are nearly this one."""
    if isinstance(good, bool) or good is None:
        actual: list[Callable[[], Any]] = []
    elif isinstance(good, (int, float)):
        actual = _spoiled_number(name, good)
    elif isinstance(good, str):
        changed = (good.upper(), f" {good}", good[:-1], [good], good.encode(), f"{good}\n", {good})
        actual = [lambda v=v: v for v in changed]
    elif isinstance(good, Path):
        actual = [good.parent.as_posix, lambda: good / "x" / "y", lambda: str(good) + "\0"]
    elif isinstance(good, np.ndarray) or (isinstance(good, list) and good and _is_number(good[0])):
        actual = _spoiled_array(chance, np.asarray(good))
    elif isinstance(good, Mapping):
        actual = _spoiled_mapping(chance, good)
    elif isinstance(good, (list, tuple)) and good:
        actual = _spoiled_list(chance, good)
    else:
        actual = [lambda: type(good), lambda: [good], lambda: {"a": good}]
    return actual


def _spoiled_number(name: str, good: float) -> list[Callable[[], Any]]:
    large = 10**9 if isinstance(good, int) and name not in COUNTS else good * 1e30
    return [
        *(lambda v=v: v for v in (-good, 100 * good, large, float(good), str(good), [good])),
        *(lambda v=v: v for v in (good + 0.5, np.float32(good), np.array([good]), good + 1e9j)),
    ]


def _spoiled_mapping(chance: random.Random, good: Mapping[Any, Any]) -> list[Callable[[], Any]]:
    return [
        lambda: {name: chance.choice(ANYTHING)() for name in good},
        lambda: {**good, chance.choice(["a", 1, "", None]): chance.choice(ANYTHING)()},
        lambda: list(good.values()),
        lambda: list(good),
    ]


def _spoiled_list(chance: random.Random, good: Any) -> list[Callable[[], Any]]:
    return [
        lambda: good[:-1],
        lambda: (*good, chance.choice(ANYTHING)()),
        lambda: (chance.choice(ANYTHING)(), *good[1:]),
        lambda: [*good, *good],
    ]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float))


def _spoiled_array(chance: random.Random, good: np.ndarray) -> list[Callable[[], Any]]:
    def with_one(value: float) -> np.ndarray:
        array = np.array(good, np.float64)
        array.ravel()[chance.randrange(array.size)] = value
        return array

    values = (math.nan, math.inf, -math.inf, 1e300, -1e300, 1e39, -1.0, 2.0, 0.5, 1e9, 1e-300)
    return [
        *(lambda v=v: with_one(v) for v in values),
        lambda: good[:-1],
        lambda: good[:0],
        lambda: good[:1],
        lambda: np.concatenate([good, good]),
        lambda: good[..., None],
        lambda: good[None],
        lambda: good.T,
        good.ravel,
        lambda: good[..., :-1] if good.ndim > 1 else good[:, None] * good,
        lambda: good.astype(str),
        lambda: good.astype(object),
        lambda: good.astype(complex),
        lambda: good.astype("float16"),
        lambda: good.astype("int8"),
        lambda: good > 0,
        good.tolist,
        lambda: tf.constant(good),
        lambda: -good.astype("float64"),
        lambda: 1000 * good.astype("float64"),
        lambda: np.zeros_like(good),
        lambda: [good, good],
        lambda: {"x": good},
        lambda: np.ma.masked_array(good, good > 0),
        lambda: tf.data.Dataset.from_tensor_slices(good).batch(2),
    ]

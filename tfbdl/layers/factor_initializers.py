"""The starts of the factors of an ensemble's members."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tfbdl import identifiers, random
from tfbdl.keras_private import make_default_seed


@keras.saving.register_keras_serializable(package="tfbdl")
class RandomSign(keras.initializers.Initializer):
    """+1 or -1 with probability 1/2 each.

    Args:
        seed: an integer of 64 bits, or None for one from Keras' global seed. As with those of
            Keras, one object gives the same numbers in all its calls.
    """

    def __init__(self, seed: int | None = None) -> None:
        self._given = seed
        self.seed = make_default_seed() if seed is None else seed

    def __call__(self, shape: Any, dtype: Any = None) -> tf.Tensor:
        key = random.key_of(self.seed, "initializer")
        return random.rademacher(key, shape, dtype or keras.config.floatx())

    def get_config(self) -> dict[str, Any]:
        return {"seed": self._given}


def factor_initializer(name: str, value: Any) -> Any:
    """The initializer that a user means: one of `STARTS` by its name, or one of Keras.

    Raises:
        ValueError: if it is none.
    """
    if isinstance(value, str) and value in STARTS:
        return STARTS[value]()
    return identifiers.initializer(name, value)


STARTS: dict[str, Callable[[], keras.initializers.Initializer]] = {
    "random_sign": RandomSign,
    "near_one": lambda: keras.initializers.RandomNormal(1.0, 0.1),
}
"""Initializers by name: +1 and -1, and what leaves the kernels nearly as they are."""

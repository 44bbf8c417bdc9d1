"""Reparameterised noise that is equally fast and bit-identical eager, in graphs, and under XLA.

TensorFlow's own generators are slow where it matters (Philox under XLA on the CPU) or exist only
there (threefry), so the bits come from Threefry-2x32 with 20 rounds (Salmon et al. 2011, "Parallel
random numbers: as easy as 1, 2, 3") written in integer operations: a pure function of a key and a
counter.

A *key* is an int32 tensor of shape (3,): (seed, step, salt). Equal keys give equal noise; keys that
differ in any word give independent noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import keras
import numpy as np
import tensorflow as tf

from tfbdl import arguments
from tfbdl.elementary import normal_quantile
from tfbdl.keras_private import make_default_seed

Shape: TypeAlias = Sequence[int | tf.Tensor] | tf.Tensor | tf.TensorShape

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_SALT_MULTIPLIER = 1_000_003
_DRAW_SALT = 0x5F3759DF
_STREAM_MULTIPLIER = 0x3C6EF373
_RESOLUTION = {tf.bfloat16: 7, tf.float16: 10, tf.float32: 23, tf.float64: 32}


def word(seed: int) -> int:
    """What keys and draws hold of a seed."""
    return seed & 0x7FFFFFFF


def threefry2x32(
    key: tuple[tf.Tensor, tf.Tensor], counter: tuple[tf.Tensor, tf.Tensor]
) -> tuple[tf.Tensor, tf.Tensor]:
    """Encrypts a two-word counter with a two-word key (Salmon et al. 2011, section 4.2).

    Args:
        key: two uint32 tensors that broadcast against the counter.
        counter: two uint32 tensors of one shape.

    Returns:
        Two uint32 tensors of the counter's shape, uniform over 32 bits.
    """
    k0, k1 = key
    schedule = (k0, k1, tf.bitwise.bitwise_xor(tf.bitwise.bitwise_xor(k0, k1), _word(_PARITY)))
    x0, x1 = counter[0] + k0, counter[1] + k1
    for block in range(5):
        for rotation in _ROTATIONS[block % 2]:
            x0 += x1
            x1 = tf.bitwise.bitwise_or(
                tf.bitwise.left_shift(x1, _word(rotation)),
                tf.bitwise.right_shift(x1, _word(32 - rotation)),
            )
            x1 = tf.bitwise.bitwise_xor(x0, x1)
        x0 += schedule[(block + 1) % 3]
        x1 += schedule[(block + 2) % 3] + _word(block + 1)
    return x0, x1


def fold_in(key: tf.Tensor, data: int | tf.Tensor) -> tf.Tensor:
    """Derives the key of sub-stream `data` (a small integer) from `key`."""
    first, second, salt = tf.unstack(key)
    salt = salt * _SALT_MULTIPLIER + (tf.cast(data, tf.int32) + 1) * _STREAM_MULTIPLIER
    return tf.stack([first, second, salt])


def split(key: tf.Tensor, num: int | tf.Tensor) -> tf.Tensor:
    """The keys of the sub-streams 0 to num - 1, as `fold_in` gives them, shape (num, 3)."""
    salts = tf.range(1, num + 1) * _STREAM_MULTIPLIER + key[2] * _SALT_MULTIPLIER
    return tf.stack([tf.fill([num], key[0]), tf.fill([num], key[1]), salts], axis=1)


def bits(key: tf.Tensor, shape: Shape) -> tf.Tensor:
    """Uniform 32-bit words, a uint32 tensor of `shape`."""
    size = _size(shape)
    index = tf.range((size + 1) // 2)
    return tf.reshape(_words(key, index)[:size], shape)


@tf.function(
    input_signature=(tf.TensorSpec([3], tf.int32), tf.TensorSpec([None], tf.int32)),
    autograph=False,
)
def _words(key: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
    """Two words for each counter of `index`: one graph for all shapes, traced once."""
    words = tf.cast(key & 0x7FFFFFFF, tf.uint32)
    index = tf.cast(index, tf.uint32)
    x0, x1 = threefry2x32((words[0], words[1]), (index, tf.zeros_like(index) + words[2]))
    return tf.concat([x0, x1], axis=0)


def uniform(key: tf.Tensor, shape: Shape, dtype: str | tf.DType = "float32") -> tf.Tensor:
    """Uniform noise on (0, 1), open at both ends, so that its logarithms and quantiles are finite.

    It has as many equidistant values as its type can hold: 2^23 in float32, 2^32 in float64.
    """
    dtype = tf.as_dtype(dtype)
    resolution = _RESOLUTION[dtype]
    high = tf.bitwise.right_shift(bits(key, shape), _word(32 - resolution))
    if dtype == tf.float64:
        return (tf.cast(high, dtype) + 0.5) * 2.0**-resolution
    return tf.cast((tf.cast(tf.cast(high, tf.int32), tf.float32) + 0.5) * 2.0**-resolution, dtype)


def normal(key: tf.Tensor, shape: Shape, dtype: str | tf.DType = "float32") -> tf.Tensor:
    """Standard normal noise, through the inverse distribution function; never infinite."""
    dtype = tf.as_dtype(dtype)
    wide = tf.float64 if dtype == tf.float64 else tf.float32
    u = 2.0 * uniform(key, shape, wide) - 1.0
    return tf.cast(normal_quantile(u), dtype)


def logistic(key: tf.Tensor, shape: Shape, dtype: str | tf.DType = "float32") -> tf.Tensor:
    """Standard logistic noise, log u - log(1 - u)."""
    dtype = tf.as_dtype(dtype)
    u = uniform(key, shape, tf.float64 if dtype == tf.float64 else tf.float32)
    return tf.cast(tf.math.log(u) - tf.math.log1p(-u), dtype)


def bernoulli(
    key: tf.Tensor, shape: Shape, prob: float, dtype: str | tf.DType = "float32"
) -> tf.Tensor:
    """Ones with probability `prob` in [0, 1], to the 32-bit resolution of the noise, else zeros."""
    if prob >= 1.0:
        return tf.ones(shape, dtype)
    return tf.cast(bits(key, shape) < _word(int(prob * 2.0**32)), dtype)


def relaxed_bernoulli(
    key: tf.Tensor, logits: tf.Tensor, temperature: float, shape: Shape
) -> tf.Tensor:
    """A sample of `tfp.distributions.RelaxedBernoulli(temperature, logits=logits)`.

    Drawn as sigmoid((logits + logistic noise) / temperature) (Maddison et al. 2017, appendix B),
    because the gradient of TFP's own sampler is NaN at low temperatures. It exceeds 1/2 with
    probability sigmoid(logits), whatever the temperature.
    """
    return tf.sigmoid((logits + logistic(key, shape, logits.dtype)) / temperature)


def rademacher(key: tf.Tensor, shape: Shape, dtype: str | tf.DType = "float32") -> tf.Tensor:
    """Signs, +1 or -1 with probability 1/2 each."""
    top_bit = tf.bitwise.right_shift(bits(key, shape), _word(31))
    return tf.cast(1 - 2 * tf.cast(top_bit, tf.int32), dtype)


@keras.saving.register_keras_serializable(package="tfbdl")
class Seed(keras.layers.Layer):
    """The random state of a layer, saved with its model: (seed, number of keys handed out).

    A `keras.random.SeedGenerator` is stored neither in `.keras` files nor in checkpoints; a weight
    is stored in all of them, so that a resumed run goes on with the noise it would have had.

    Args:
        seed: an integer, or None for one from Python's generator (which
            `keras.utils.set_random_seed` fixes). As in Keras, layers given the same integer draw
            the same noise.

    Raises:
        ValueError: if `seed` is no integer of 64 bits.
    """

    def __init__(self, seed: int | None = None, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.seed = arguments.optional(arguments.seed, "seed", seed)
        start = word(make_default_seed() if self.seed is None else self.seed)
        self.state = self.add_weight(
            shape=(2,),
            dtype="int32",
            initializer=lambda shape, dtype: tf.constant([start, 0], dtype),
            trainable=False,
            aggregation="none",
            name="state",
        )
        self.built = True

    def key(self, training: bool, draw: tf.Tensor | None) -> tf.Tensor | None:
        """The key of this call's noise: `at(draw)`, else `next()` in training, else None."""
        if draw is not None:
            return self.at(draw)
        return self.next() if training else None

    def at(self, draw: tf.Tensor) -> tf.Tensor:
        """The key that a draw (see `tfbdl.sampling`) and nothing else determines."""
        salt = draw[0] * _SALT_MULTIPLIER + _DRAW_SALT
        return tf.stack([self.state.value[0], draw[1], salt])

    def next(self) -> tf.Tensor:
        """A key not handed out before, different on every replica of a `tf.distribute` strategy."""
        state = tf.identity(self.state.value)
        self.state.assign(state + tf.constant([0, 1]))
        return tf.stack([state[0], state[1], _replica_id()])

    def get_config(self) -> dict:
        return {**super().get_config(), "seed": self.seed}


def _replica_id() -> int | tf.Tensor:
    context = tf.distribute.get_replica_context()
    return 0 if context is None else context.replica_id_in_sync_group


def _word(value: int) -> tf.Tensor:
    return tf.constant(value & 0xFFFFFFFF, tf.uint32)


def _size(shape: Shape) -> int | tf.Tensor:
    static = tf.get_static_value(tf.convert_to_tensor(shape, tf.int32))
    return tf.reduce_prod(shape) if static is None else int(np.prod(static))

"""Reparameterised noise that is equally fast and bit-identical eager, in graphs, and under XLA.

TensorFlow's own generators are slow where it matters (Philox under XLA on the CPU) or exist only
there (threefry), so the bits come from Threefry-2x32 with 20 rounds (Salmon et al. 2011, "Parallel
random numbers: as easy as 1, 2, 3") written in integer operations: a pure function of a key and a
counter.

A *key* is an int64 scalar, all of whose bits count. Equal keys give equal noise, keys that differ
independent noise. `key_of` makes one of a user's seed, and `fold_in` makes others of it, as
SplitMix64 does (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators"). The
sub-streams of one key have different keys. Among n keys with different origins, some two are equal
with a probability of n^2 / 2^65: 2e-8 for a million keys.
"""

from __future__ import annotations

import numbers
import zlib
from collections.abc import Sequence
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import keras
import numpy as np
import tensorflow as tf

from tfbdl import arguments
from tfbdl.elementary import log, normal_quantile
from tfbdl.inherited_arguments import LayerArguments, Unpack
from tfbdl.keras_private import forward_pass, make_default_seed
from tfbdl.tensorflow_private import is_in_reach
from tfbdl.tensorflow_private_lanes import bitcast

Shape: TypeAlias = Sequence[int | tf.Tensor] | tf.Tensor | tf.TensorShape

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_INSIDE = {
    tf.bfloat16: (2.0**-33, 1.0 - 2.0**-8),
    tf.float16: (2.0**-14, 1.0 - 2.0**-11),
    tf.float32: (2.0**-33, 1.0 - 2.0**-24),
    tf.float64: (2.0**-33, 1.0 - 2.0**-33),
}
"""The ends of uniform noise in each type; float16 has no normal number below 2^-14."""
_GOLDEN_RATIO = 0x9E3779B97F4A7C15
_MIXING = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_DRAWS = -1
"""The sub-stream of a layer's key from which draws come; those of training are counted from 0."""


def word(seed: int) -> int:
    """`seed` as a signed integer of 64 bits, as keys and draws hold it: -1 for 2^64 - 1."""
    return (int(seed) + 2**63) % 2**64 - 2**63


def key_of(seed: int, purpose: str) -> tf.Tensor:
    """The key of a user's seed for one purpose: equal seeds of other purposes have other keys."""
    with tf.init_scope():
        return fold_in(tf.constant(word(seed), tf.int64), zlib.crc32(purpose.encode()))


def fold_in(key: tf.Tensor, data: int | tf.Tensor) -> tf.Tensor:
    """Derives the key of sub-stream `data`, any integer of 64 bits, from `key`."""
    if isinstance(data, numbers.Integral):
        data = tf.constant(word(int(data)), tf.int64)
    return tf.ensure_shape(_sub_stream(key, tf.cast(data, tf.int64)), [])


def split(key: tf.Tensor, num: int | tf.Tensor) -> tf.Tensor:
    """The keys of the sub-streams 0 to num - 1, as `fold_in` gives them, shape (num,)."""
    return tf.ensure_shape(_sub_stream(key, tf.range(tf.cast(num, tf.int64))), [None])


@tf.function(input_signature=2 * (tf.TensorSpec(None, tf.int64),), autograph=False)
def _sub_stream(key: tf.Tensor, data: tf.Tensor) -> tf.Tensor:
    """Number data + 1 of the generator SplitMix64 in the state `key`; one graph for all shapes."""
    number = tf.cast(data, tf.uint64) + tf.constant(1, tf.uint64)
    x = tf.cast(key, tf.uint64) + number * tf.constant(_GOLDEN_RATIO, tf.uint64)
    for shift, multiplier in _MIXING:
        x = _xor_shift(x, shift) * tf.constant(multiplier, tf.uint64)
    return tf.cast(_xor_shift(x, 31), tf.int64)


def _xor_shift(x: tf.Tensor, shift: int) -> tf.Tensor:
    return tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, tf.constant(shift, tf.uint64)))


def halves(key: tf.Tensor) -> tf.Tensor:
    """The two words of a key, int32 of shape (2,): a seed as TensorFlow Probability wants it."""
    return bitcast(key, tf.int32)


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


def bits(key: tf.Tensor, shape: Shape) -> tf.Tensor:
    """Uniform 32-bit words, a uint32 tensor of `shape`."""
    size = _size(shape)
    index = tf.range((size + 1) // 2)
    return tf.reshape(_words(key, index)[:size], shape)


@tf.function(
    input_signature=(tf.TensorSpec([], tf.int64), tf.TensorSpec([None], tf.int32)),
    autograph=False,
)
def _words(key: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
    """Two words for each counter of `index`: one graph for all shapes, traced once."""
    k0, k1 = tf.unstack(bitcast(key, tf.uint32))
    index = tf.cast(index, tf.uint32)
    return tf.concat(threefry2x32((k0, k1), (index, tf.zeros_like(index))), axis=0)


def uniform(key: tf.Tensor, shape: Shape, dtype: str | tf.DType = "float32") -> tf.Tensor:
    """Uniform noise on (0, 1), open at both ends, so that its logarithms and quantiles are finite.

    It has 2^32 equidistant values, each rounded to its type: float32 and wider types hold all those
    near 0, and the least is 2^-33. Near 1 they are as dense as the type allows; where both
    ends count, take `tails`.
    """
    dtype = tf.as_dtype(dtype)
    below, _ = tails(key, shape, dtype)
    low, high = _INSIDE[dtype]
    return tf.cast(tf.clip_by_value(below, low, high), dtype)


def tails(
    key: tf.Tensor, shape: Shape, dtype: str | tf.DType = "float32"
) -> tuple[tf.Tensor, tf.Tensor]:
    """The noise u of `uniform`, and 1 - u: the probabilities below and above a random point.

    Each has all digits of float32, or of float64 where that is asked for, however near to 0 it is;
    the least is 2^-33. So a quantile has both tails of its law if it is computed from the lesser.
    """
    wide = tf.float64 if tf.as_dtype(dtype) == tf.float64 else tf.float32
    words = bits(key, shape)
    below, above = ((tf.cast(w, wide) + 0.5) * 2.0**-32 for w in (words, tf.bitwise.invert(words)))
    return below, above


def normal(key: tf.Tensor, shape: Shape, dtype: str | tf.DType = "float32") -> tf.Tensor:
    """Standard normal noise, through the inverse distribution function; at most 6.34 from 0."""
    return tf.cast(normal_quantile(*tails(key, shape, dtype)), dtype)


def logistic(key: tf.Tensor, shape: Shape, dtype: str | tf.DType = "float32") -> tf.Tensor:
    """Standard logistic noise, log u - log(1 - u); at most 22.9 from 0."""
    below, above = tails(key, shape, dtype)
    return tf.cast(log(below / above), dtype)


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
    """The random state of a layer, saved with its model: (key, number of keys handed out).

    A `keras.random.SeedGenerator` is stored neither in `.keras` files nor in checkpoints; a weight
    is stored in all of them, so that a resumed run goes on with the noise it would have had.

    Args:
        seed: an integer of 64 bits, with or without a sign, or None for one from Python's generator
            (which `keras.utils.set_random_seed` fixes). As in Keras, layers given the same integer
            draw the same noise.

    Raises:
        ValueError: if `seed` is neither.
    """

    def __init__(self, seed: int | None = None, **kwargs: Unpack[LayerArguments]) -> None:
        super().__init__(**kwargs)
        self.seed = arguments.optional(arguments.seed, "seed", seed)
        key = key_of(make_default_seed() if self.seed is None else self.seed, "layer")
        self.state = self.add_weight(
            shape=(2,),
            dtype="int64",
            initializer=lambda shape, dtype: tf.stack([key, tf.zeros_like(key)]),
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
        """The key that a draw (see `tfbdl.draws`) and nothing else determines."""
        key = fold_in(self.state.value[0], _DRAWS)
        return fold_in(fold_in(key, draw[0]), draw[1])

    def next(self) -> tf.Tensor:
        """A key not handed out before, different on every replica of a `tf.distribute` strategy."""
        state = tf.identity(self.state.value)
        self.state.assign(state + tf.constant([0, 1], tf.int64))
        key, count = tf.unstack(state)
        return fold_in(fold_in(key, count), _replica_id())

    def of_pass(self) -> tf.Tensor:
        """`next()`, and the same again for all further calls in a forward pass of a model.

        One w governs the whole likelihood of an example, so a layer that is called several times
        for it, such as a tower on two inputs, has one sample of its weights in all these calls.
        """
        now = forward_pass()
        if now is None:
            return self.next()
        keys = _keys_of_passes.setdefault(now, {})
        if id(self) not in keys or not is_in_reach(keys[id(self)]):
            keys[id(self)] = self.next()
        return keys[id(self)]

    def is_in_use(self) -> bool:
        """Whether `of_pass` has been asked before in this forward pass."""
        now = forward_pass()
        return now is not None and id(self) in _keys_of_passes.get(now, {})

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "seed": self.seed}


_keys_of_passes: WeakKeyDictionary[object, dict[int, tf.Tensor]] = WeakKeyDictionary()
"""Keys that are in use in each forward pass, by the identities of `Seed`s, as long as it runs."""


def _replica_id() -> int | tf.Tensor:
    context = tf.distribute.get_replica_context()
    return 0 if context is None else context.replica_id_in_sync_group


def _word(value: int) -> tf.Tensor:
    return tf.constant(value & 0xFFFFFFFF, tf.uint32)


def _size(shape: Shape) -> int | tf.Tensor:
    static = tf.get_static_value(tf.convert_to_tensor(shape, tf.int32))
    return tf.reduce_prod(shape) if static is None else int(np.prod(static))

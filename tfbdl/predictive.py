"""Monte-Carlo prediction: many drawn functions on the same inputs."""

from __future__ import annotations

from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from tfbdl.sampling import Sampler, make_draw

BATCH = 1000
"""Examples at a time."""


def sample(
    model: keras.Model,
    x: np.ndarray,
    num_samples: int,
    *,
    seed: int = 0,
    transform: Callable[[tf.Tensor], tf.Tensor] = tf.identity,
) -> np.ndarray:
    """The outputs of drawn functions, shape (num_samples, N, ...).

    Each draw is one function for all x: one weight sample, one dropout mask per unit. The model is
    in inference mode otherwise.

    Args:
        model: with layers of this package.
        x: inputs, shape (N, ...).
        num_samples: S, the number of functions.
        seed: equal seeds draw equal functions.
        transform: applied to the outputs, as `tf.nn.softmax`.

    Raises:
        ValueError: if `num_samples` is less than 1.
    """
    if num_samples < 1:
        raise ValueError(f"num_samples={num_samples} must be at least 1")
    sampler = Sampler(model)
    batches = [
        tf.constant(x[start : start + BATCH], keras.config.floatx())
        for start in range(0, len(x), BATCH)
    ]

    @tf.function(jit_compile=True)
    def function(batch: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
        return transform(sampler(batch, draw=make_draw(seed, index)))

    index = tf.TensorSpec([], tf.int32)
    shapes = {batch.shape: tf.TensorSpec(batch.shape, batch.dtype) for batch in batches}
    compiled = {
        shape: function.get_concrete_function(spec, index) for shape, spec in shapes.items()
    }
    return np.stack(
        [
            np.concatenate([compiled[b.shape](b, tf.constant(s)).numpy() for b in batches])
            for s in range(num_samples)
        ]
    )

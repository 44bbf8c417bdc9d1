"""Classes whose labels are noisy where x is hard: logits with noise that is integrated out."""

from __future__ import annotations

import math
from typing import Any

import keras
import tensorflow as tf

from tfbdl import random
from tfbdl.arguments import integer, positive, positive_integer
from tfbdl.inherited_arguments import LayerArguments, Unpack

_INFERENCE = -1
"""The sub-stream of the layer's key from which noise outside of training comes."""


@keras.saving.register_keras_serializable(package="tfbdl")
class HeteroscedasticLogits(keras.layers.Layer):
    """log E[softmax(u / T)], u ~ N(mu, V V^T + diag(s^2)): the last layer before `Categorical()`.

    This is heteroscedastic classification (Collier et al. 2021, "Correlated input-dependent label
    noise in large-scale image classification"): a label is the largest of utilities u that are
    noisy as x says, and the noise of classes that are taken for each other is correlated through
    the R columns of V. Take it where labels themselves are uncertain, such as labels by several
    raters or from the web; its noise is aleatoric. The expectation is a mean over `num_samples`
    draws of the noise, which all examples of a call share.

    Input (..., (2 + R) C): C logits mu, C raw scales, whose softplus is s, and C R numbers V, by
    class first. Output (..., C): log probabilities, whose softmax are the probabilities. A dense
    layer before it, of any kind, gives the input:

        last = keras.layers.Dense((2 + 6) * num_classes)
        model = keras.Sequential([..., last, HeteroscedasticLogits(rank=6)])
        model.compile("adam", likelihoods.Categorical())

    In training each call has noise of its own; else it is always the same, saved with the model, so
    that predictions repeat.

    Args:
        rank: R, at least 0; with 0 the noise of classes is independent (Kendall and Gal 2017).
        temperature: T; smaller values follow the largest utility more sharply, at gradients of more
            noise. The paper chooses it on held-out data, between 0.1 and 3 or so.
        num_samples: S; a call takes B S C numbers of memory.
        seed: as in Keras.
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.

    Raises:
        ValueError: if an argument is out of its range, or the input has no multiple of 2 + R
            columns for two classes or more.
    """

    def __init__(
        self,
        rank: int,
        *,
        temperature: float = 1.0,
        num_samples: int = 100,
        seed: int | None = None,
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.rank = integer("rank", rank, least=0)
        self.temperature = positive("temperature", temperature)
        self.num_samples = positive_integer("num_samples", num_samples)
        self.random = random.Seed(seed)
        self.supports_masking = True

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        self._num_classes(input_shape)
        self.built = True

    def call(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
        C, R, S = self._num_classes(inputs.shape), self.rank, self.num_samples
        mu, raw, factors = tf.split(tf.cast(inputs, self.variable_dtype), [C, C, C * R], axis=-1)
        key = self.random.next() if training else self._fixed_key()
        noise = random.normal(key, (S, C + R), self.variable_dtype)
        u = mu[..., tf.newaxis, :] + (tf.math.softplus(raw)[..., tf.newaxis, :] * noise[:, :C])
        if R:
            V = tf.reshape(factors, tf.concat([tf.shape(mu), [R]], axis=0))  # (..., C, R)
            u += tf.einsum("...cr,sr->...sc", V, noise[:, C:])
        log_p = tf.nn.log_softmax(u / self.temperature)
        log_p = tf.reduce_logsumexp(log_p, axis=-2) - math.log(S)
        return tf.cast(log_p, self.compute_dtype)

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        return (*input_shape[:-1], self._num_classes(input_shape))

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "rank": self.rank,
            "temperature": self.temperature,
            "num_samples": self.num_samples,
            "seed": self.random.seed,
        }

    def _fixed_key(self) -> tf.Tensor:
        return random.fold_in(self.random.state.value[0], _INFERENCE)

    def _num_classes(self, input_shape: tuple[int | None, ...]) -> int:
        """C, from the columns of the input.

        Raises:
            ValueError: if they are not of two classes or more.
        """
        last, each = input_shape[-1], 2 + self.rank
        if last is None or last % each or last < 2 * each:
            raise ValueError(
                f"rank={self.rank} needs inputs of {each} C columns, for C > 1 classes: logits, "
                f"raw scales and factors; input_shape={tuple(input_shape)}"
            )
        return last // each

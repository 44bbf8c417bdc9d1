"""Classes: p(y | outputs) over C of them."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from tensorflow_probability import distributions as tfd

from tfbdl.likelihoods.base import Likelihood, check_probabilities, sum_over_example, wide


@keras.saving.register_keras_serializable(package="tfbdl.likelihoods")
class Categorical(Likelihood):
    """P(y = c) = softmax(outputs)_c, for outputs of shape (B, ..., C).

    Labels are integers, shape (B, ...), or one-hot, shape (B, ..., C). The mean and the variance
    are those of the one-hot label, shape (B, ..., C): the mean is the class probabilities.

    Args:
        from_logits: whether the outputs are logits (the default: exact for sure predictions) or
            probabilities, as of a network that ends in softmax.
    """

    is_discrete = True

    def __init__(self, from_logits: bool = True, name: str = "categorical", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self.from_logits = from_logits

    def distribution(self, outputs: tf.Tensor) -> tfd.Distribution:
        outputs = wide(outputs)
        if self.from_logits:
            return tfd.Categorical(logits=outputs)
        return tfd.Categorical(logits=tf.math.log(tf.maximum(outputs, 1e-30)))

    def log_prob(self, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        log_p = tf.nn.log_softmax(self.distribution(outputs).logits)
        y = tf.convert_to_tensor(y)
        if y.shape.rank == log_p.shape.rank and y.shape[-1] == log_p.shape[-1] != 1:
            return sum_over_example(tf.reduce_sum(tf.cast(y, log_p.dtype) * log_p, axis=-1))
        if y.shape.rank == log_p.shape.rank and y.shape[-1] == 1:
            y = y[..., 0]
        if not y.shape.is_compatible_with(log_p.shape[:-1]):
            raise ValueError(
                f"y has shape {tuple(y.shape)}; outputs of shape {tuple(log_p.shape)} need labels "
                f"of shape {tuple(log_p.shape[:-1])}"
            )
        return sum_over_example(
            tf.gather(log_p, tf.cast(y, tf.int32), axis=-1, batch_dims=log_p.shape.rank - 1)
        )

    def mean(self, outputs: tf.Tensor) -> tf.Tensor:
        return tf.nn.softmax(self.distribution(outputs).logits)

    def variance(self, outputs: tf.Tensor) -> tf.Tensor:
        p = self.mean(outputs)
        return p * (1.0 - p)

    def check(self, outputs: tf.Tensor) -> None:
        if not self.from_logits:
            check_probabilities(wide(outputs), sums_to_one=True)

    def entropy_of_mean(self, mean: tf.Tensor) -> tf.Tensor:
        return sum_over_example(-tf.reduce_sum(tf.math.xlogy(mean, mean), axis=-1))

    def get_config(self) -> dict:
        return {**super().get_config(), "from_logits": self.from_logits}

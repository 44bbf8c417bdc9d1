"""Classes: p(y | outputs) over C of them."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl.arguments import boolean
from tfbdl.likelihoods.base import (
    Likelihood,
    check_probabilities,
    refuse_activation,
    sum_over_example,
    wide,
)
from tfbdl.probability import tfp


@keras.saving.register_keras_serializable(package="tfbdl.likelihoods")
class Categorical(Likelihood):
    """P(y = c) = softmax(outputs)_c, for outputs of shape (B, ..., C).

    Labels are integers, shape (B, ...), or one-hot, shape (B, ..., C). The mean and the variance
    are those of the one-hot label, shape (B, ..., C): the mean is the class probabilities. A label
    that is no class has the log probability NaN, or is an error where the graph runs without XLA.

    Args:
        from_logits: whether the outputs are logits (the default: exact for sure predictions) or
            probabilities, as of a network that ends in softmax.

    Raises:
        ValueError: if `from_logits` is no truth value.
    """

    is_discrete = True

    def __init__(self, from_logits: bool = True, name: str = "categorical", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self.from_logits = boolean("from_logits", from_logits)

    def distribution(self, outputs: tf.Tensor) -> tfp.distributions.Distribution:
        outputs = wide(outputs)
        if self.from_logits:
            refuse_activation(outputs, "Softmax")
            return tfp.distributions.Categorical(logits=outputs)
        p = tf.where(outputs < 0, math.nan, tf.maximum(outputs, 1e-30))
        return tfp.distributions.Categorical(logits=tf.math.log(p))

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
        label = tf.cast(y, tf.int32)
        is_class = (label >= 0) & (label < log_p.shape[-1])
        of_label = tf.gather(log_p, label, axis=-1, batch_dims=log_p.shape.rank - 1)
        return sum_over_example(tf.where(is_class, of_label, math.nan))

    def mean(self, outputs: tf.Tensor) -> tf.Tensor:
        return tf.nn.softmax(self.distribution(outputs).logits)

    def variance(self, outputs: tf.Tensor) -> tf.Tensor:
        p = self.mean(outputs)
        return p * (1.0 - p)

    def check(self, outputs: tf.Tensor) -> None:
        outputs = wide(outputs)
        if outputs.shape[-1] == 1:
            raise ValueError("outputs have one class, whose probability is always 1; use Bernoulli")
        off_by = tf.abs(tf.reduce_sum(outputs, axis=-1) - 1.0)
        if self.from_logits:
            if tf.reduce_all((outputs >= 0) & (outputs <= 1)) and tf.reduce_all(off_by < 1e-3):
                raise ValueError(
                    "outputs sum to one over the last axis: they look like probabilities; use "
                    "from_logits=False"
                )
            return
        check_probabilities(outputs)
        if tf.reduce_any(off_by > 1e-3):
            raise ValueError(
                "outputs do not sum to one over the last axis; end the model in softmax"
            )

    def check_targets(self, y: Any, outputs: tf.Tensor) -> None:
        y, classes = np.asarray(y), outputs.shape[-1]
        if y.ndim == outputs.ndim and y.shape[-1] == classes != 1:
            wrong = y[(y < 0).any(axis=-1) | (np.abs(y.sum(axis=-1) - 1.0) > 1e-3)]
            if wrong.size:
                raise ValueError(f"y has the row {wrong[0]}; give one-hot labels, which sum to one")
        else:
            wrong = y[~((y >= 0) & (y < classes) & (y == np.floor(y)))]
            if wrong.size:
                raise ValueError(
                    f"y has the label {wrong[0]:g}; outputs of {classes} classes need labels "
                    f"from 0 to {classes - 1}"
                )
        super().check_targets(y, outputs)

    def entropy_of_mean(self, mean: tf.Tensor) -> tf.Tensor:
        return sum_over_example(-tf.reduce_sum(tf.math.xlogy(mean, mean), axis=-1))

    def get_config(self) -> dict:
        return {**super().get_config(), "from_logits": self.from_logits}

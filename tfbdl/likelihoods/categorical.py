"""Classes: p(y | outputs) over C of them."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl.arguments import boolean
from tfbdl.likelihoods.base import Likelihood, match, of_examples, sum_over_example, wide
from tfbdl.likelihoods.probabilities import (
    check_probabilities,
    log_of,
    logits_behind,
    refuse_activation,
)
from tfbdl.probability import tfp


@keras.saving.register_keras_serializable(package="tfbdl.likelihoods")
class Categorical(Likelihood):
    """P(y = c) = softmax(outputs)_c, for outputs of shape (B, ..., C).

    Labels are integers, shape (B, ...), or one-hot, shape (B, ..., C). The mean and the variance
    are those of the one-hot label, shape (B, ..., C): the mean is the class probabilities. A label
    that is no class has the log probability NaN, or is an error where the graph runs without XLA.

    Probabilities are divided by their sum. Those that a graph, as of `fit`, takes from a softmax
    count as its logits, as in Keras' own loss: the gradient y - p is right where p has been rounded
    to 0 or 1. Elsewhere what happens at probability 0 costs 87 nats in float32 (708 in float64),
    with a finite gradient towards it. A row with a negative one has the log probability NaN.

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
        return tfp.distributions.Categorical(logits=self._log_p(outputs))

    def log_prob(self, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        return _at_labels(y, self._log_p(outputs))

    @property
    def has_expectation(self) -> bool:
        return self.from_logits

    def expected_log_prob(self, y: tf.Tensor, outputs: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
        half = 0.5 * variance
        return self.log_prob(y, outputs + half) - _at_labels(y, half)

    def mean(self, outputs: tf.Tensor) -> tf.Tensor:
        outputs = wide(outputs)
        if self.from_logits:
            refuse_activation(outputs, "Softmax")
            return tf.nn.softmax(outputs)
        return outputs / _total(outputs)

    def variance(self, outputs: tf.Tensor) -> tf.Tensor:
        p = self.mean(outputs)
        return p * (1.0 - p)

    def entropy(self, outputs: tf.Tensor) -> tf.Tensor:
        p = self.mean(outputs)
        if not self.from_logits:
            return self.entropy_of_mean(p)
        log_p = tf.maximum(self._log_p(outputs), p.dtype.min)
        return sum_over_example(-tf.reduce_sum(p * log_p, axis=-1))

    def cdf(self, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        p = self.mean(outputs)
        below = tf.range(p.shape[-1], dtype=p.dtype) <= tf.cast(y, p.dtype)[..., tf.newaxis]
        return tf.reduce_sum(tf.where(below, p, tf.zeros_like(p)), axis=-1)

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
        y = np.asarray(y)
        shape = tf.TensorShape([len(y), *outputs.shape[1:]])
        if _is_one_hot(y, shape):
            wrong = y[(match(y, shape) < 0).any(axis=-1) | ~(np.abs(y.sum(axis=-1) - 1.0) < 1e-3)]
            if wrong.size:
                raise ValueError(f"y has the row {wrong[0]}; give one-hot labels, which sum to one")
            return
        y, classes = _labels(y, shape), shape[-1]
        wrong = y[~((y >= 0) & (y < classes) & (y == np.floor(y)))]
        if wrong.size:
            raise ValueError(
                f"y has the label {wrong[0]:g}; outputs of {classes} classes need labels "
                f"from 0 to {classes - 1}"
            )

    def entropy_of_mean(self, mean: tf.Tensor) -> tf.Tensor:
        p = tf.clip_by_value(wide(mean), 0.0, 1.0)
        return sum_over_example(-tf.reduce_sum(p * log_of(p), axis=-1))

    def _log_p(self, outputs: tf.Tensor) -> tf.Tensor:
        """Logarithms of the class probabilities."""
        outputs = wide(outputs)
        logits = outputs if self.from_logits else logits_behind(outputs, "Softmax")
        if self.from_logits:
            refuse_activation(outputs, "Softmax")
        if logits is None:
            return log_of(outputs) - tf.math.log(_total(outputs))
        return tf.nn.log_softmax(tf.cast(logits, outputs.dtype))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "from_logits": self.from_logits}


def _at_labels(y: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """The sum over an example of the values, shape (B, ..., C), of its classes; NaN of no class."""
    y = tf.convert_to_tensor(y)
    if _is_one_hot(y, values.shape):
        y = tf.cast(match(y, values.shape), values.dtype)
        of_each = tf.where(y == 0, tf.zeros_like(values), y * values)
        return sum_over_example(tf.reduce_sum(of_each, axis=-1))
    y = _labels(y, values.shape)
    label = tf.cast(y, tf.int32)
    is_class = (label >= 0) & (label < values.shape[-1]) & (tf.cast(label, y.dtype) == y)
    of_label = tf.gather(values, label, axis=-1, batch_dims=values.shape.rank - 1)
    return sum_over_example(tf.where(is_class, of_label, math.nan))


def _is_one_hot(y: Any, shape: tf.TensorShape) -> bool:
    """Whether y has a column for each class that outputs of `shape` have."""
    if tf.TensorShape(y.shape).rank is None:
        return False
    return len(y.shape) == shape.rank and y.shape[-1] == shape[-1] != 1


def _labels(y: Any, shape: tf.TensorShape) -> Any:
    """Y of the shape of labels.

    Raises:
        ValueError: if it has another.
    """
    if tf.TensorShape(y.shape).rank is None:
        return of_examples(y, shape[:-1])
    labels = y[..., 0] if len(y.shape) == shape.rank and y.shape[-1] == 1 else y
    if not shape[:-1].is_compatible_with(labels.shape):
        raise ValueError(
            f"y has shape {tuple(y.shape)}; outputs of shape {tuple(shape)} need labels "
            f"of shape {tuple(shape[:-1])}"
        )
    return labels


def _total(p: tf.Tensor) -> tf.Tensor:
    """Sums of the rows, NaN of those that are none of probabilities."""
    p = tf.where(p < 0, tf.constant(math.nan, p.dtype), p)
    return tf.reduce_sum(p, axis=-1, keepdims=True)

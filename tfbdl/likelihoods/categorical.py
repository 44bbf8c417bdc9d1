"""Classes: p(y | outputs) over C of them."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl.arguments import boolean, integer, optional
from tfbdl.inherited_arguments import LossArguments, Unpack
from tfbdl.likelihoods.base import Likelihood
from tfbdl.likelihoods.positions import mask_at_positions, sum_over_example, where_counted
from tfbdl.likelihoods.probabilities import (
    check_probabilities,
    log_of,
    logits_behind,
    refuse_activation,
)
from tfbdl.likelihoods.targets import match, of_examples, wide
from tfbdl.probability import tfp


@keras.saving.register_keras_serializable(package="tfbdl.likelihoods")
class Categorical(Likelihood):
    """P(y = c) = softmax(outputs)_c, for outputs of shape (B, ..., C).

    Labels are integers, shape (B, ...), or one-hot, shape (B, ..., C). The mean and the variance
    are those of the one-hot label, shape (B, ..., C): the mean is the class probabilities. A label
    that is no class has the log probability NaN, or is an error where the graph runs without XLA.

    Axes between the first and the last are positions, such as pixels and tokens, each with a label
    of its own. Where the label is `ignore_class` there is no likelihood: nothing is learned from
    it, and no score counts it.

    Probabilities are divided by their sum. Where a graph, such as that of `fit`, takes them from a
    softmax, the logits of that softmax are used, as in Keras' own loss: the gradient y - p is right
    where p has been rounded to 0 or 1. Elsewhere what happens at probability 0 costs 87 nats in
    float32 (708 in float64), with a finite gradient towards it. A row with a negative number has
    the log probability NaN.

    Args:
        from_logits: whether the outputs are logits (the default: exact for sure predictions) or
            probabilities, as of a network that ends in softmax.
        ignore_class: the integer that stands for no label, such as 255 or -1; None for none.
        **kwargs: `reduction` and `dtype`; like `name` as in `keras.losses.Loss`.

    Raises:
        ValueError: if `from_logits` is no truth value, or `ignore_class` no integer.
    """

    is_discrete = True

    def __init__(
        self,
        from_logits: bool = True,
        ignore_class: int | None = None,
        name: str = "categorical",
        **kwargs: Unpack[LossArguments],
    ) -> None:
        super().__init__(name=name, **kwargs)
        self.from_logits = boolean("from_logits", from_logits)
        self.ignore_class = optional(integer, "ignore_class", ignore_class)

    def distribution(self, outputs: tf.Tensor) -> tfp.distributions.Distribution:
        outputs = wide(outputs)
        if self.from_logits:
            refuse_activation(outputs, "Softmax")
            return tfp.distributions.Categorical(logits=outputs)
        return tfp.distributions.Categorical(logits=self._log_p(outputs))

    def log_prob_at_positions(self, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        return _at_labels(y, self._log_p(outputs), self.counted(y, outputs))

    def counted(self, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor | None:
        """Which positions of y have a likelihood, booleans of shape (B, ...); None if all do.

        The positions that count are those whose label is not `ignore_class`, and that a mask of
        Keras on the outputs leaves in.

        Raises:
            ValueError: if the mask is not one of positions, or labels are not integers.
        """
        mask = mask_at_positions(outputs)
        if self.ignore_class is None:
            return mask
        labels = self._integers(tf.convert_to_tensor(y), tf.TensorShape(outputs.shape))
        labels = labels if labels.dtype.is_floating else tf.cast(labels, tf.int64)
        labelled = labels != tf.constant(self.ignore_class, labels.dtype)
        return labelled if mask is None else labelled & mask

    @property
    def has_expectation(self) -> bool:
        return self.from_logits

    def expected_log_prob(self, y: tf.Tensor, outputs: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
        half, counted = 0.5 * variance, self.counted(y, outputs)
        at_half = _at_labels(y, self._log_p(outputs + half), counted)
        return sum_over_example(at_half - _at_labels(y, half, counted))

    def mean(self, outputs: tf.Tensor) -> tf.Tensor:
        outputs = wide(outputs)
        if self.from_logits:
            refuse_activation(outputs, "Softmax")
            return tf.nn.softmax(outputs)
        return outputs / _total(outputs)

    def variance(self, outputs: tf.Tensor) -> tf.Tensor:
        p = self.mean(outputs)
        of_others = tf.reduce_sum(tf.where(p > 0.5, tf.zeros_like(p), p), axis=-1, keepdims=True)
        return p * tf.where(p > 0.5, of_others, 1.0 - p)

    def entropy(self, outputs: tf.Tensor) -> tf.Tensor:
        p = self.mean(outputs)
        if not self.from_logits:
            return self.entropy_of_mean(p)
        log_p = tf.maximum(self._log_p(outputs), p.dtype.min)
        return -tf.reduce_sum(p * log_p, axis=-1)

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
        if _is_one_hot(y, shape) and self.ignore_class is None:
            wrong = y[(match(y, shape) < 0).any(axis=-1) | ~(np.abs(y.sum(axis=-1) - 1.0) < 1e-3)]
            if wrong.size:
                raise ValueError(f"y has the row {wrong[0]}; give one-hot labels, which sum to one")
            return
        y, classes = self._integers(y, shape), shape[-1]
        is_class = (y >= 0) & (y < classes) & (y == np.floor(y))
        ignored = np.zeros(y.shape, bool) if self.ignore_class is None else y == self.ignore_class
        wrong = y[~(is_class | ignored)]
        if wrong.size:
            label, whole = wrong[0], wrong[0] == np.floor(wrong[0])
            is_none = f", or ignore_class={label:g} if it stands for none"
            raise ValueError(
                f"y has the label {label:g}; outputs of {classes} classes need labels from 0 to "
                f"{classes - 1}{is_none if whole and shape.rank > 2 else ''}"
            )

    def entropy_of_mean(self, mean: tf.Tensor) -> tf.Tensor:
        p = tf.clip_by_value(wide(mean), 0.0, 1.0)
        return -tf.reduce_sum(p * log_of(p), axis=-1)

    def _log_p(self, outputs: tf.Tensor) -> tf.Tensor:
        """Logarithms of the class probabilities."""
        outputs = wide(outputs)
        logits = outputs if self.from_logits else logits_behind(outputs, "Softmax")
        if self.from_logits:
            refuse_activation(outputs, "Softmax")
        if logits is None:
            return log_of(outputs) - tf.math.log(_total(outputs))
        return tf.nn.log_softmax(tf.cast(logits, outputs.dtype))

    def _integers(self, y: Any, shape: tf.TensorShape) -> Any:
        """Labels, for outputs of a shape; no one-hot rows where a label may be ignored."""
        if self.ignore_class is not None and _is_one_hot(y, shape):
            raise ValueError(
                f"ignore_class={self.ignore_class} is for integer labels, but y is one-hot, of "
                f"shape {tuple(y.shape)}; give labels"
            )
        return _labels(y, shape)

    def get_config(self) -> dict[str, Any]:
        config = {"from_logits": self.from_logits, "ignore_class": self.ignore_class}
        return {**super().get_config(), **config}


def _at_labels(y: tf.Tensor, values: tf.Tensor, counted: tf.Tensor | None) -> tf.Tensor:
    """The values, shape (B, ..., C), of the classes of y, shape (B, ...); NaN of no class.

    They are 0 at positions that are not `counted`.
    """
    y = tf.convert_to_tensor(y)
    if _is_one_hot(y, values.shape):
        y = tf.cast(match(y, values.shape), values.dtype)
        of_each = tf.where(y == 0, tf.zeros_like(values), y * values)
        return where_counted(counted, tf.reduce_sum(of_each, axis=-1))
    y = where_counted(counted, _labels(y, values.shape))
    label = tf.cast(y, tf.int32)
    is_class = (label >= 0) & (label < values.shape[-1]) & (tf.cast(label, y.dtype) == y)
    of_label = tf.gather(values, label, axis=-1, batch_dims=values.shape.rank - 1)
    return where_counted(counted, tf.where(is_class, of_label, math.nan))


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

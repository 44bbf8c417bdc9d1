"""Checks of a batch of targets and outputs, in float64; they hold in graphs and under XLA.

Wrong shapes are a ValueError, and so are wrong values in eager calls. A graph sees those only when
it runs: they are an `InvalidArgumentError`, or NaN under XLA, which cannot stop. Outputs that are
not finite pass and make the metric so, so that a training that diverges shows it.
"""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from tfbdl.examples import as_array
from tfbdl.metrics import classifier


def class_outputs(y_pred: Any, from_logits: bool, name: str = "y_pred") -> tf.Tensor:
    """Probabilities, or logits, of shape (B, C), from (B, C), or (B,) or (B, 1) for class 1 of two.

    Raises:
        ValueError: if the outputs have another shape.
    """
    p = _columns(y_pred, from_logits, name)
    if from_logits:
        return p
    message = f"{name} leaves [0, 1]: it looks like logits; use from_logits=True or apply softmax"
    p = refuse(p, classifier.no_probability(p), message)
    p = tf.where(p < 0.0, tf.zeros_like(p), tf.where(p > 1.0, tf.ones_like(p), p))
    message = f"{name} has a row that does not sum to one; end the model in softmax"
    return refuse(p, classifier.no_sum(tf.reduce_sum(p, axis=-1, keepdims=True)), message)


def class_probabilities(y_pred: Any, from_logits: bool, name: str = "y_pred") -> tf.Tensor:
    """Probabilities of the `class_outputs`, shape (B, C).

    Raises:
        ValueError: if the outputs have another shape.
    """
    outputs = class_outputs(y_pred, from_logits, name)
    return tf.nn.softmax(outputs) if from_logits else outputs


def labels(y_true: Any, p: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Integer labels of shape (B,), from targets of shape (B,) or (B, 1), and p of shape (B, C).

    Under XLA, rows of p whose label is no class are NaN.

    Raises:
        ValueError: if the targets have another shape, or there are more or fewer than rows of p.
    """
    y = _one_each("y_true", y_true, "integer labels of")
    classifier.same_length("y_true", y, "y_pred", p)
    label = tf.cast(y, tf.int64)
    wrong = classifier.no_class(label, tf.shape(p, tf.int64)[1]) | (tf.cast(label, y.dtype) != y)
    message = "y_true has a label that is no class of y_pred"
    return label, refuse(p, wrong[:, tf.newaxis], message)


def confidences(label: tf.Tensor, p: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The largest probability, and 1 where its class is the label, else 0; both of shape (B,)."""
    confidence, correct = classifier.top_class(label, p)
    return unless_nan(tf.reduce_sum(p, axis=-1), confidence), tf.cast(correct, p.dtype)


def flags_and_scores(is_out: Any, uncertainty: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """Flags, 0 or 1, and scores, both float64 of shape (B,), from (B,) or (B, 1).

    Raises:
        ValueError: if a shape is another, or the lengths differ.
    """
    flags = tf.cast(_one_each("is_out", is_out), tf.float64)
    scores = tf.cast(_one_each("uncertainty", uncertainty), tf.float64)
    classifier.same_length("is_out", flags, "uncertainty", scores)
    is_flag = (flags == 0.0) | (flags == 1.0)
    return refuse(flags, ~is_flag, "is_out has a value other than 0 and 1"), scores


def halves(y_true: Any, y_pred: Any, meaning: str) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Targets (B, D), and both halves of the outputs (B, 2 D); targets (B,) stand for (B, 1).

    Raises:
        ValueError: if the shapes are not these; the message says the `meaning` of the halves.
    """
    y, outputs = _pair(y_true, y_pred)
    if outputs.shape.rank != 2 or outputs.shape[-1] is None or outputs.shape[-1] % 2:
        raise ValueError(f"y_pred has shape {tuple(outputs.shape)}; give (B, 2 D): {meaning}")
    if y.shape.rank == 1:
        y = y[:, None]
    first, second = tf.split(outputs, 2, axis=-1)
    if not y.shape.is_compatible_with(first.shape):
        raise ValueError(
            f"y_true has shape {tuple(y.shape)}; y_pred of shape {tuple(outputs.shape)} needs "
            f"targets of shape {tuple(first.shape)}"
        )
    return y, first, second


def samples_of(y_true: Any, y_pred: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """Targets (B, D) and S samples of each (B, S, D); (B,) and (B, S) stand for D = 1.

    Raises:
        ValueError: if the shapes are not these.
    """
    y, samples = _pair(y_true, y_pred)
    targets = y[:, None] if y.shape.rank == 1 else y
    of_each = samples[..., None] if samples.shape.rank == 2 else samples
    if of_each.shape.rank != 3 or not targets.shape.is_compatible_with(of_each.shape[::2]):
        raise ValueError(
            f"y_pred has shape {tuple(samples.shape)}; y_true of shape {tuple(y.shape)} needs "
            "S samples of each target: (B, S) for (B,), (B, S, D) for (B, D)"
        )
    return targets, of_each


def unless_nan(evidence: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """The values, but NaN where the evidence is: comparisons and XLA's maximum would hide it."""
    return tf.where(tf.math.is_nan(evidence), evidence, values)


def refuse(values: tf.Tensor, wrong: tf.Tensor, message: str) -> tf.Tensor:
    """Stops with the message where anything is wrong; XLA returns NaN for those values instead.

    Raises:
        ValueError: if called eagerly.
    """
    if tf.executing_eagerly() and tf.reduce_any(wrong):
        raise ValueError(message)
    tf.debugging.Assert(~tf.reduce_any(wrong), [message])
    return tf.where(wrong, tf.constant(math.nan, values.dtype), values)


def as_tensor(name: str, values: Any) -> tf.Tensor:
    """Numbers as a tensor, in the type that they have.

    Raises:
        ValueError: if they are none.
    """
    if not isinstance(values, tf.Tensor):
        values = tf.convert_to_tensor(as_array(name, values))
    if not (values.dtype.is_floating or values.dtype.is_integer or values.dtype.is_bool):
        raise ValueError(f"{name} has dtype {values.dtype.name}; give real numbers")
    return values


def weights_of(sample_weight: Any, examples: tf.Tensor) -> tf.Tensor:
    """A weight for each of the examples, shape (B,), in their type; 1 if there are none given.

    Raises:
        ValueError: if there are not so many numbers.
    """
    if sample_weight is None:
        return tf.ones(tf.shape(examples)[:1], examples.dtype)
    weights = tf.reshape(as_tensor("sample_weight", sample_weight), [-1])
    if not weights.shape.is_compatible_with(examples.shape[:1]):
        raise ValueError(
            f"sample_weight has {weights.shape[0]} numbers for {examples.shape[0]} examples; give "
            "one for each"
        )
    weights = tf.cast(weights, examples.dtype)
    is_weight = tf.math.is_finite(weights) & (weights >= 0.0)
    return refuse(weights, ~is_weight, "sample_weight has a negative number, or one not finite")


def _pair(y_true: Any, y_pred: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """Finite targets, and outputs, in float64."""
    y = tf.cast(as_tensor("y_true", y_true), tf.float64)
    outputs = tf.cast(as_tensor("y_pred", y_pred), tf.float64)
    return refuse(y, ~tf.math.is_finite(y), "y_true is not finite"), outputs


def _one_each(name: str, values: Any, wanted: str = "one number an example,") -> tf.Tensor:
    values = as_tensor(name, values)
    if values.shape.rank != 1 and values.shape[1:] != [1]:
        raise ValueError(f"{name} has shape {tuple(values.shape)}; give {wanted} shape (B,)")
    return tf.reshape(values, [-1])


def _columns(y_pred: Any, from_logits: bool, name: str) -> tf.Tensor:
    outputs = _float64(as_tensor(name, y_pred))
    if outputs.shape.rank not in (1, 2):
        raise ValueError(f"{name} has shape {tuple(outputs.shape)}; give outputs of shape (B, C)")
    if outputs.shape.rank == 2 and outputs.shape[1] != 1:
        return outputs
    one = tf.reshape(outputs, [-1])
    return tf.stack([tf.zeros_like(one) if from_logits else 1.0 - one, one], axis=1)


def _float64(values: tf.Tensor) -> tf.Tensor:
    """The values in float64; positive ones of float32 below 1e-38 too, which `tf.cast` makes 0."""
    if values.dtype != tf.float32:
        return tf.cast(values, tf.float64)
    steps = tf.bitcast(values, tf.int32)  # of 2^-149, below 2^-126
    exact = tf.cast(steps, tf.float64) * 2.0**-149
    return tf.where((steps > 0) & (steps < 2**23), exact, tf.cast(values, tf.float64))

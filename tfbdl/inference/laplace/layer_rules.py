"""Layers whose weight gradients are products of inputs and output gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tfbdl.inference.laplace.parts import Factored
from tfbdl.recording import Call

LINEAR = (keras.layers.Dense, keras.layers.Conv1D, keras.layers.Conv2D, keras.layers.Conv3D)
"""Layers that are an `activation` of a function linear in kernel and bias; no subclasses."""


def has_rule(layer: keras.layers.Layer, weight: Any) -> bool:
    """Whether this weight is kernel or bias of a dense layer, or a convolution without groups."""
    if type(layer) not in LINEAR or getattr(layer, "groups", 1) != 1:
        return False
    return weight is layer.kernel or weight is layer.bias


def outputs_of(layer: keras.layers.Layer) -> int | None:
    """O, the length of the last axis of the z of a layer; None if channels are first."""
    last = getattr(layer, "data_format", "channels_last") == "channels_last"
    return int(layer.kernel.shape[-1]) if last else None


def inputs_of(call: Call) -> tf.Tensor:
    """The inputs of the kernel at each position of a call, shape (B, T, I)."""
    return _multiplied(call.layer, tf.cast(call.x, call.z.dtype))  # of integers, as from look-ups


def part_of(weight: Any, calls: Sequence[tuple[Call, tf.Tensor]]) -> Factored:
    """J of the kernel or the bias of a layer; several calls are positions like pixels.

    Args:
        weight: a weight with `has_rule(weight)`.
        calls: the calls of its layer, each with the gradients of K directions in its z, (K,
            *z.shape).
    """
    layer = calls[0][0].layer
    g = tf.concat([_back(layer, g) for _, g in calls], axis=2)
    g = tf.transpose(g, [1, 0, 2, 3])
    if weight is layer.bias:
        return Factored(tf.ones_like(g[:, 0, :1, :1]), tf.reduce_sum(g, axis=2, keepdims=True))
    return Factored(tf.concat([inputs_of(c) for c, _ in calls], axis=1), g)


def _multiplied(layer: keras.layers.Layer, x: tf.Tensor) -> tf.Tensor:
    """The inputs of the kernel at each position, shape (B, T, I); patches of images."""
    if not isinstance(layer, keras.layers.Dense):
        size = math.prod(layer.kernel.shape[:-1])
        each = tf.reshape(tf.eye(size, dtype=x.dtype), [*layer.kernel.shape[:-1], size])
        x = _channels_last(layer, _convolved(layer, x, each))
    return tf.reshape(x, [x.shape[0], math.prod(x.shape[1:-1]), x.shape[-1]])


def _convolved(layer: Any, x: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    if layer.padding != "causal":
        return layer.convolution_op(x, kernel)
    before = [layer.dilation_rate[0] * (layer.kernel_size[0] - 1), 0]
    last = layer.data_format == "channels_last"
    x = tf.pad(x, [[0, 0], before, [0, 0]] if last else [[0, 0], [0, 0], before])
    return keras.ops.conv(x, kernel, layer.strides, "valid", layer.data_format, layer.dilation_rate)


def _back(layer: keras.layers.Layer, g: tf.Tensor) -> tf.Tensor:
    """Gradients in z, shape (K, B, T, O)."""
    k, b = g.shape[:2]
    g = _channels_last(layer, tf.reshape(g, [k * b, *g.shape[2:]]))
    return tf.reshape(g, [k, b, math.prod(g.shape[1:-1]), g.shape[-1]])


def _channels_last(layer: keras.layers.Layer, values: tf.Tensor) -> tf.Tensor:
    if getattr(layer, "data_format", "channels_last") == "channels_last":
        return values
    return keras.ops.moveaxis(values, 1, -1)

"""Layers whose weight gradients are products of inputs and output gradients.

A layer is seen as z = W^T a + b at each of T positions, with a of I numbers and z of O. The factors
A and B of LoRA are two such layers, one behind the other: u = alpha / r A^T a, and B^T u.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from tfbdl.inference.laplace.parts import Factored
from tfbdl.lora import has_lora
from tfbdl.recording import Call

SEPARABLE = (keras.layers.SeparableConv1D, keras.layers.SeparableConv2D)
"""Layers whose rule is that of the pointwise kernel, behind the depthwise convolution."""
LINEAR = (
    *SEPARABLE,
    keras.layers.Dense,
    keras.layers.EinsumDense,
    keras.layers.Conv1D,
    keras.layers.Conv2D,
    keras.layers.Conv3D,
)
"""Layers that are an `activation` of a function linear in kernel and bias; no subclasses."""
Values = Mapping[int, tf.Tensor]
"""Values of variables, by their identities."""


class Axes(NamedTuple):
    """The axes of an einsum by their letters, where it is a product of matrices.

    positions: axes of inputs and outputs alone, the first of examples.
    inputs: axes of the kernel that are summed over, which come first in it.
    outputs: all others of the kernel.
    x: the inputs' axes.
    y: the outputs' axes.
    """

    positions: str
    inputs: str
    outputs: str
    x: str
    y: str

    @classmethod
    def of(cls, layer: keras.layers.EinsumDense) -> Axes | None:
        """The axes of a layer; None where it is no product of matrices."""
        if "." in layer.equation:
            return None
        (x, kernel), y = layer.equation.split("->")[0].split(","), layer.equation.split("->")[1]
        inputs = "".join(c for c in kernel if c in x)
        outputs = "".join(c for c in kernel if c not in x)
        positions = "".join(c for c in x if c not in kernel)
        is_product = kernel == inputs + outputs and sorted(y) == sorted(positions + outputs)
        first = x[:1] == y[:1] == positions[:1]
        return cls(positions, inputs, outputs, x, y) if is_product and first and outputs else None


def has_rule(layer: keras.layers.Layer, weight: Any) -> bool:
    """Whether a weight's gradient is known: kernels, biases and factors of LoRA.

    The layers with rules are dense layers, einsums that are products of matrices, and convolutions
    without groups; in separable convolutions, only the pointwise part has them.
    """
    if type(layer) not in LINEAR or getattr(layer, "groups", 1) != 1:
        return False
    if isinstance(layer, keras.layers.EinsumDense):
        axes = Axes.of(layer)
        if axes is None or (weight is layer.bias and layer.bias_axes != axes.outputs):
            return False
    return any(weight is own for own in (*kernel_and_bias(layer), *_factors(layer)))


def kernel_and_bias(layer: Any) -> list[Any]:
    """The kernel, unless LoRA adds to it, and the bias."""
    adapted = bool(_factors(layer))
    return [w for w in (None if adapted else _kernel(layer), bias_of(layer)) if w is not None]


def _kernel(layer: Any) -> Any:
    return layer.pointwise_kernel if type(layer) in SEPARABLE else layer.kernel


def bias_of(layer: Any) -> Any:
    """The bias; None of a layer without one."""
    return getattr(layer, "bias", None)


def _factors(layer: Any) -> tuple[Any, ...]:
    """A and B of LoRA, where a layer has them."""
    return (layer.lora_kernel_a, layer.lora_kernel_b) if has_lora(layer) else ()


def outputs_of(layer: keras.layers.Layer) -> int | None:
    """O of a layer, where these are the last axis of z; None elsewhere."""
    if isinstance(layer, keras.layers.EinsumDense):
        axes = Axes.of(layer)
        if axes is None or axes.y != axes.positions + axes.outputs or len(axes.outputs) != 1:
            return None
    last = getattr(layer, "data_format", "channels_last") == "channels_last"
    return int(_kernel(layer).shape[-1]) if last else None


def columns(layer: keras.layers.Layer, weight: Any) -> int:
    """O of a weight with a rule, seen as a matrix (I, O)."""
    last = int(weight.shape[-1])
    if not isinstance(layer, keras.layers.EinsumDense) or weight is _last(_factors(layer)):
        return last
    axes = Axes.of(layer)
    return last * math.prod(weight.shape[len(axes.inputs) if axes else 0 : -1])


def inputs_of(call: Call, values: Values) -> tf.Tensor:
    """The inputs of the kernel at each position of a call, shape (B, T, I); `values` as below."""
    x = tf.cast(call.x, call.z.dtype)  # x may be integers, as for look-ups
    return _multiplied(call.layer, x, values)


def part_of(weight: Any, calls: Sequence[tuple[Call, tf.Tensor]], values: Values) -> Factored:
    """J of a weight; several calls are positions like pixels.

    Args:
        weight: a weight with `has_rule(weight)`.
        calls: the calls of its layer, each with the gradients of K directions in its z, (K,
            *z.shape).
        values: the values of all variables of the layer.
    """
    layer = calls[0][0].layer
    g = tf.concat([_back(layer, g) for _, g in calls], axis=2)
    g = tf.transpose(g, [1, 0, 2, 3])
    if weight is bias_of(layer):
        return Factored(tf.ones_like(g[:, 0, :1, :1]), tf.reduce_sum(g, axis=2, keepdims=True))
    a = tf.concat([inputs_of(c, values) for c, _ in calls], axis=1)
    factors = _factors(layer)
    if not factors:
        return Factored(a, g)
    first, second = (tf.cast(values[id(factor)], g.dtype) for factor in factors)
    scale = layer.lora_alpha / layer.lora_rank
    b, k, t, _ = g.shape
    rank, last = second.shape
    g = tf.reshape(g, [b, k, -1, last])
    if weight is factors[0]:
        g = scale * _of_rows(g, tf.transpose(second))
        return Factored(a, tf.reshape(g, [b, k, t, -1]))
    u = scale * _of_rows(a, tf.reshape(first, [a.shape[2], -1]))
    return Factored(tf.reshape(u, [b, -1, rank]), g)


def _of_rows(x: tf.Tensor, matrix: tf.Tensor) -> tf.Tensor:
    """The product of all rows of x, shape (..., I), with a matrix of (I, O).

    One product of two matrices: oneDNN's products with a matrix for all of a batch read memory
    that is not theirs (TensorFlow 2.21, its issue 117700).
    """
    rows = tf.reshape(x, [-1, matrix.shape[0]])
    return tf.reshape(tf.matmul(rows, matrix), [*x.shape[:-1], matrix.shape[1]])


def _last(values: Sequence[Any]) -> Any:
    return values[-1] if values else None


def _multiplied(layer: Any, x: tf.Tensor, values: Values) -> tf.Tensor:
    """The inputs of the kernel at each position, shape (B, T, I); patches of images."""
    if isinstance(layer, keras.layers.EinsumDense):
        axes = Axes.of(layer)
        assert axes is not None
        x = _transposed(x, axes.x, axes.positions + axes.inputs)
        positions = math.prod(x.shape[1 : len(axes.positions)])
        return tf.reshape(x, [x.shape[0], positions, math.prod(x.shape[len(axes.positions) :])])
    if isinstance(layer, SEPARABLE):
        depthwise = tf.cast(values[id(layer.depthwise_kernel)], x.dtype)
        where = layer.strides, layer.padding, layer.data_format, layer.dilation_rate
        x = _channels_last(layer, keras.ops.depthwise_conv(x, depthwise, *where))
    elif not isinstance(layer, keras.layers.Dense):
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
    g = tf.reshape(g, [k * b, *g.shape[2:]])
    if isinstance(layer, keras.layers.EinsumDense):
        axes = Axes.of(layer)
        assert axes is not None
        g = _transposed(g, axes.y, axes.positions + axes.outputs)
        positions = math.prod(g.shape[1 : len(axes.positions)])
        return tf.reshape(g, [k, b, positions, math.prod(g.shape[len(axes.positions) :])])
    g = _channels_last(layer, g)
    return tf.reshape(g, [k, b, math.prod(g.shape[1:-1]), g.shape[-1]])


def _channels_last(layer: keras.layers.Layer, values: tf.Tensor) -> tf.Tensor:
    if getattr(layer, "data_format", "channels_last") == "channels_last":
        return values
    return keras.ops.moveaxis(values, 1, -1)


def _transposed(values: tf.Tensor, axes: str, wanted: str) -> tf.Tensor:
    return tf.transpose(values, [axes.index(c) for c in wanted])

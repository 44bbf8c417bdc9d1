"""Convolutions as products of two matrices: the patches under the kernel, and the kernel.

They are slower than TensorFlow's where all examples have one kernel, but made of operations that
`tf.vectorized_map` can vectorise over kernels, with and without XLA. Channels are last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import tensorflow as tf

Size: TypeAlias = int | tf.Tensor


def convolution(
    x: tf.Tensor,
    w: tf.Tensor,
    *,
    strides: Sequence[int],
    padding: str,
    dilation_rate: Sequence[int],
    groups: int,
) -> tf.Tensor:
    """`keras.ops.conv` of x (B, ..., groups * in) with w (*kernel_size, in, out)."""
    if padding == "same":
        extents = _extents(w, dilation_rate)
        lengths = _lengths(x)
        missing = [
            tf.maximum((length - 1) // stride * stride + extent - length, 0)
            for length, stride, extent in zip(lengths, strides, extents, strict=True)
        ]
        x = _pad(x, [(total // 2, total - total // 2) for total in missing])
    return _correlate(x, w, strides, dilation_rate, groups)


def transposed_convolution(
    x: tf.Tensor,
    w: tf.Tensor,
    *,
    strides: Sequence[int],
    padding: str,
    output_padding: Sequence[int] | None,
    dilation_rate: Sequence[int],
) -> tf.Tensor:
    """`keras.ops.conv_transpose` of x (B, ..., in) with w (*kernel_size, in, out).

    It is the convolution of x, with zeros between its elements, with the kernel turned round.
    """
    around = []
    for axis, (extent, stride) in enumerate(zip(_extents(w, dilation_rate), strides, strict=True)):
        extra = None if output_padding is None else output_padding[axis]
        if padding == "same":
            one = stride if extra is None else extent % 2 + extra  # the output's length for one x
            cut = max(extent - one, 0) // 2
        else:
            one = extent + (max(stride - extent, 0) if extra is None else extra)
            cut = 0
        around.append((extent - 1 - cut, one - 1 + cut))
    turned = tf.reverse(w, list(range(len(strides))))
    dilated = _pad(_with_zeros_between(x, strides), around)
    return _correlate(dilated, turned, [1] * len(strides), dilation_rate, groups=1)


def _correlate(
    x: tf.Tensor, w: tf.Tensor, strides: Sequence[int], dilation_rate: Sequence[int], groups: int
) -> tf.Tensor:
    """sum_k x[..., position * stride + k * dilation, :] w[k], without padding."""
    *kernel_size, d_in, d_out = w.shape
    counts = [
        (length - extent) // stride + 1
        for length, extent, stride in zip(
            _lengths(x), _extents(w, dilation_rate), strides, strict=True
        )
    ]
    windows = []
    for position in np.ndindex(*kernel_size):
        starts = [int(k * d) for k, d in zip(position, dilation_rate, strict=True)]
        window = [slice(None)] + [
            slice(start, start + (count - 1) * stride + 1, stride)
            for start, count, stride in zip(starts, counts, strides, strict=True)
        ]
        windows.append(x[tuple(window)])
    num, out = len(windows), d_out // groups
    patches = tf.reshape(tf.stack(windows, axis=-2), (-1, num, groups, d_in))
    patches = tf.reshape(tf.transpose(patches, (2, 0, 1, 3)), (groups, -1, num * d_in))
    kernels = tf.transpose(tf.reshape(w, (num, d_in, groups, out)), (2, 0, 1, 3))
    y = patches @ tf.reshape(kernels, (groups, num * d_in, out))
    shape = tf.concat([tf.shape(windows[0])[:-1], [d_out]], axis=0)
    return tf.reshape(tf.transpose(y, (1, 0, 2)), shape)


def _with_zeros_between(x: tf.Tensor, strides: Sequence[int]) -> tf.Tensor:
    """`x` with stride - 1 zeros between neighbours."""
    for axis, stride in enumerate(strides, start=1):
        shape = tf.shape(x)
        column = tf.expand_dims(x, axis + 1)
        pads = [(0, 0)] * len(column.shape)
        pads[axis + 1] = (0, stride - 1)
        merged = [shape[:axis], [shape[axis] * stride], shape[axis + 1 :]]
        x = tf.reshape(tf.pad(column, pads), tf.concat(merged, axis=0))
        window = [slice(None)] * axis + [slice((shape[axis] - 1) * stride + 1)]
        x = x[tuple(window)]
    return x


def _pad(x: tf.Tensor, around: Sequence[tuple[Size, Size]]) -> tf.Tensor:
    return tf.pad(x, [(0, 0), *around, (0, 0)])


def _extents(w: tf.Tensor, dilation_rate: Sequence[int]) -> list[int]:
    """The number of positions of x that the kernel spans, on each axis."""
    return [(k - 1) * d + 1 for k, d in zip(w.shape[:-2], dilation_rate, strict=True)]


def _lengths(x: tf.Tensor) -> list[Size]:
    shape = tf.shape(x)
    return [shape[i] if n is None else n for i, n in enumerate(x.shape)][1:-1]

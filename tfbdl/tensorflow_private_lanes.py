"""Private names of TensorFlow that say what `tf.vectorized_map` makes of operations.

A rule takes an operation in all lanes at once. The rules here replace some that are missing, wrong
or break; importing the module registers them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.ops.parallel_for import pfor

__all__ = ["bitcast"]


def bitcast(x: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """`tf.bitcast`, which `tf.vectorized_map` takes for all elements at once.

    TensorFlow knows no vectorised form of it, and would loop over them.
    """
    return tf.bitcast(x, dtype)


if "Bitcast" not in pfor._pfor_converter_registry:

    @pfor.RegisterPFor("Bitcast")
    def _vectorised(op: pfor._PforInput) -> pfor.WrappedTensor:
        return pfor.wrap(tf.bitcast(op.stacked_input(0), op.get_attr("type")), True)


def _product(op: pfor._PforInput) -> pfor.WrappedTensor:
    """The product that `tf.vectorized_map` makes of products in its lanes.

    Matrices (n, 1, M, K) times one that is common to all lanes become (n, M, K) before: oneDNN
    breaks memory in the product of the former (TensorFlow 2.21, its issue 117700).
    """
    op.expanddim_inputs_for_broadcast()
    (x, x_varies, _), (y, y_varies, _) = op.inputs
    flags = {"adjoint_a": op.get_attr("adj_x"), "adjoint_b": op.get_attr("adj_y")}
    is_common = x_varies and not y_varies and y.shape.rank and set(y.shape[:-2]) <= {1}
    if x.shape.rank != 4 or not is_common:
        return pfor.wrap(tf.matmul(x, y, **flags), True)
    lanes, shape = tf.shape(x)[:2], tf.shape(x)[2:]
    z = tf.matmul(tf.reshape(x, tf.concat([[-1], shape], 0)), y, **flags)
    return pfor.wrap(tf.reshape(z, tf.concat([lanes, tf.shape(z)[-2:]], 0)), True)


pfor._pfor_converter_registry["BatchMatMulV2"] = _product


def _has_groups(op: pfor._PforInput, x: tf.TensorShape, kernel: tf.TensorShape) -> bool:
    channels = x[-3 if op.get_attr("data_format") == b"NCHW" else -1]
    return channels is not None and channels != kernel[2]


def _input_gradient(op: pfor._PforInput) -> list[pfor.WrappedTensor]:
    """Input gradient of a convolution, by XLA if grouped: on a CPU TensorFlow alone may lack it."""
    (kernel, kernel_varies, _), like = op.input(1), op.outputs[0].shape
    if kernel_varies or None in like[1:] or not _has_groups(op, like, kernel.shape):
        return _plain_input_gradient(op)
    flags = _flags_of_convolution(op)

    @tf.function(jit_compile=True, autograph=False)
    def gradient(kernel: tf.Tensor, upstream: tf.Tensor) -> tf.Tensor:
        lanes = tf.shape(upstream)[:2]
        sizes = tf.concat([[tf.reduce_prod(lanes)], like[1:]], axis=0)
        rows = tf.reshape(upstream, tf.concat([[-1], tf.shape(upstream)[2:]], axis=0))
        slopes = tf.raw_ops.Conv2DBackpropInput(
            input_sizes=sizes, filter=kernel, out_backprop=rows, **flags
        )
        return tf.reshape(slopes, tf.concat([lanes, like[1:]], axis=0))

    op.stack_inputs([2])
    return [pfor.wrap(gradient(kernel, op.stacked_input(2)), True)]


def _kernel_gradient(op: pfor._PforInput) -> pfor.WrappedTensor:
    """The kernel gradient of a convolution.

    It is lane by lane, if it has groups by XLA, or the lanes have own inputs. TensorFlow's rule for
    lanes of one input takes them for more channels: with groups these are the channels of others,
    and the gradients are wrong (2.21). For inputs of their own it loops too, with a warning.
    """
    (x, x_varies, _), kernel = op.input(0), op.outputs[0].shape
    is_known = kernel.is_fully_defined()  # unknown in a rule for lanes within lanes
    has_groups = is_known and _has_groups(op, x.shape, kernel)
    if not has_groups and not (is_known and x_varies):
        return _plain_kernel_gradient(op)
    flags = _flags_of_convolution(op)

    @tf.function(jit_compile=has_groups or None, autograph=False)
    def gradients(x: tf.Tensor, upstream: tf.Tensor) -> tf.Tensor:
        def of_lane(lane: Sequence[tf.Tensor]) -> tf.Tensor:
            return tf.raw_ops.Conv2DBackpropFilter(
                input=lane[0] if x_varies else x,
                filter_sizes=kernel,
                out_backprop=lane[-1],
                **flags,
            )

        lanes = (x, upstream) if x_varies else (upstream,)
        return tf.map_fn(of_lane, lanes, fn_output_signature=x.dtype)

    op.stack_inputs([2])
    return pfor.wrap(gradients(x, op.stacked_input(2)), True)


def _flags_of_convolution(op: pfor._PforInput) -> dict[str, Any]:
    names = ("strides", "padding", "explicit_paddings", "data_format", "dilations")
    return {name: op.get_attr(name) for name in names}


_plain_input_gradient = pfor._pfor_converter_registry["Conv2DBackpropInput"]
_plain_kernel_gradient = pfor._pfor_converter_registry["Conv2DBackpropFilter"]
pfor._pfor_converter_registry["Conv2DBackpropInput"] = _input_gradient
pfor._pfor_converter_registry["Conv2DBackpropFilter"] = _kernel_gradient

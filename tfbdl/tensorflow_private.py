"""Every use of a private name of TensorFlow, in one place."""

from __future__ import annotations

from functools import cache

import tensorflow as tf
from tensorflow.python.framework import kernels
from tensorflow.python.ops.parallel_for import pfor

__all__ = ["bitcast", "operations_of_xla"]

_NOT_RUN = frozenset({"Placeholder"})
"""What stands in graphs for arguments."""


def bitcast(x: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """`tf.bitcast`, which `tf.vectorized_map` takes for all elements at once.

    TensorFlow knows no vectorised form of it, and would loop over them.
    """
    return tf.bitcast(x, dtype)


@cache
def operations_of_xla(device: str) -> frozenset[str]:
    """The kinds of operations that XLA can compile for a "CPU" or a "GPU"."""
    tf.function(lambda x: x, jit_compile=True)(tf.constant(0.0))  # its kernels come with first use
    found = kernels.get_all_registered_kernels().kernel
    return _NOT_RUN | {kernel.op for kernel in found if kernel.device_type == f"XLA_{device}_JIT"}


if "Bitcast" not in pfor._pfor_converter_registry:

    @pfor.RegisterPFor("Bitcast")
    def _vectorised(op: pfor._PforInput) -> pfor.WrappedTensor:
        return pfor.wrap(tf.bitcast(op.stacked_input(0), op.get_attr("type")), True)

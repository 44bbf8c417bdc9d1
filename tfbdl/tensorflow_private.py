"""Every use of a private name of TensorFlow, in one place."""

from __future__ import annotations

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

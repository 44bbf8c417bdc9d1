"""Operations of TensorFlow that other runtimes have not, as others that they have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

_DTYPES = {"Cast": ("SrcT", "DstT"), "BatchMatMulV2": ("T",), "ExpandDims": ("T", "Tdim")}


def plain(node: Any, nodes: Mapping[str, Any]) -> list[Any]:
    """The nodes in the place of one; the last has its name.

    Args:
        node: the definition of an operation.
        nodes: the definitions of all operations, by name.
    """
    if node.op == "BatchMatMulV3" and node.attr["Tout"].type == tf.int32.as_datatype_enum:
        return _product(node)
    if node.op == "StridedSlice" and node.attr["new_axis_mask"].i:
        axes = _new_axes(node, nodes)
        return [node] if axes is None else _expanded(node, axes)
    return [node]


def _product(node: Any) -> list[Any]:
    """A product of 8-bit integers as one of floats.

    It is exact up to 1,040 summands, behind which it rounds as floats do.
    """
    factors = [f"{node.name}/x", f"{node.name}/y"]
    casts = [
        _node(name, "Cast", [ref], tf.as_dtype(node.attr[key].type), tf.float32)
        for name, ref, key in zip(factors, node.input, ("Ta", "Tb"), strict=True)
    ]
    product = _node(f"{node.name}/product", "BatchMatMulV2", factors, tf.float32)
    for key in ("adj_x", "adj_y"):
        product.attr[key].CopyFrom(node.attr[key])
    return [*casts, product, _node(node.name, "Cast", [product.name], tf.float32, tf.int32)]


def _new_axes(node: Any, nodes: Mapping[str, Any]) -> list[int] | None:
    """The axes that a slice adds, those behind an ellipsis from the end; None if it cuts, too."""
    known = nodes.get(node.input[3])
    if known is None or known.op != "Const":
        return None
    strides = tf.make_ndarray(known.attr["value"].tensor)
    begin, end, ellipsis, new, shrink = (
        node.attr[f"{name}_mask"].i
        for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    )
    if shrink or (strides != 1).any():
        return None
    axes, behind = [], 0
    for place in range(len(strides)):
        bit = 1 << place
        if ellipsis & bit:
            behind = len(strides)
        elif new & bit:
            axes.append(place - behind)
        elif not (begin & end & bit):
            return None
    return axes


def _expanded(node: Any, axes: Sequence[int]) -> list[Any]:
    made, taken = [], node.input[0]
    dtype = tf.as_dtype(node.attr["T"].type)
    ordered = sorted(axis for axis in axes if axis >= 0) + sorted(
        (axis for axis in axes if axis < 0), reverse=True
    )
    for number, axis in enumerate(ordered):
        where = tf.compat.v1.NodeDef(name=f"{node.name}/axis_{number}", op="Const")
        where.attr["dtype"].type = tf.int32.as_datatype_enum
        where.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(axis, tf.int32))
        is_last = number == len(ordered) - 1
        name = node.name if is_last else f"{node.name}/{number}"
        made += [where, _node(name, "ExpandDims", [taken, where.name], dtype, tf.int32)]
        taken = name
    return made


def _node(name: str, op: str, inputs: Sequence[str], *dtypes: tf.DType) -> Any:
    made = tf.compat.v1.NodeDef(name=name, op=op, input=inputs)
    for key, dtype in zip(_DTYPES[op], dtypes, strict=True):
        made.attr[key].type = dtype.as_datatype_enum
    return made

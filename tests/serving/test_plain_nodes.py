"""Operations that are put in the place of others give what those gave."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfbdl.serving.plain_nodes import plain

RNG = np.random.default_rng(0)
A = RNG.normal(size=(3, 4, 5)).astype("float32")
LEFT, RIGHT = RNG.integers(-127, 128, (2, 3, 4, 6)).astype("int8")


def kinds_and_value(function: Callable[..., Any], *x: Any) -> tuple[set[str], Any]:
    """The operations in the graph of a function of arrays of any size, and what it gives."""
    specs = [tf.TensorSpec([None] * a.ndim, a.dtype) for a in x]
    graph = tf.function(function, autograph=False, input_signature=specs).get_concrete_function()
    definition = graph.graph.as_graph_def()
    nodes = {node.name: node for node in definition.node}
    parts = [part for node in nodes.values() for part in plain(node, nodes)]
    made = tf.compat.v1.GraphDef(node=parts, versions=definition.versions)
    names = [tensor.name for tensor in graph.inputs]

    def run(*arrays: Any) -> Any:
        known = dict(zip(names, arrays, strict=True))
        return tf.graph_util.import_graph_def(made, known, [graph.outputs[0].name])[0]

    return {node.op for node in made.node}, tf.function(run, autograph=False)(*map(tf.constant, x))


@pytest.mark.parametrize(
    "cut",
    [
        lambda a: a[:, None],
        lambda a: a[:, None, None, :, :],
        lambda a: a[..., None],
        lambda a: a[..., None, :, None],
        lambda a: a[None, ..., None, None],
        lambda a: a[None, :, None, ..., None, :],
        lambda a: a[tf.newaxis],
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "int32", "bool"])
def test_slices_that_only_add_axes(cut: Any, dtype: str) -> None:
    a = A.astype(dtype)
    kinds, value = kinds_and_value(cut, a)
    assert "StridedSlice" not in kinds
    assert "ExpandDims" in kinds
    np.testing.assert_array_equal(value, cut(tf.constant(a)))


@pytest.mark.parametrize(
    "cut",
    [
        lambda a: a[::-1, None],
        lambda a: a[1:, None],
        lambda a: a[0, None],
        lambda a: a[..., :2, None],
    ],
)
def test_slices_that_cut_stay(cut: Any) -> None:
    kinds, value = kinds_and_value(cut, A)
    assert "StridedSlice" in kinds
    np.testing.assert_array_equal(value, cut(A))


@pytest.mark.parametrize("transposed", [(False, True), (True, False)])
def test_products_of_integers(transposed: tuple[bool, bool]) -> None:
    def product(a: Any, b: Any) -> Any:
        return tf.matmul(a, b, *transposed, output_type=tf.int32)

    kinds, value = kinds_and_value(product, LEFT, RIGHT)
    assert "BatchMatMulV3" not in kinds
    a, b = LEFT.astype("int64"), RIGHT.astype("int64")
    a, b = (np.swapaxes(m, 1, 2) if t else m for m, t in zip((a, b), transposed, strict=True))
    np.testing.assert_array_equal(value, a @ b)

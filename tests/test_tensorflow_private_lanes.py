"""Rules of `tf.vectorized_map`: products held against NumPy's, convolutions each alone."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfbdl import tensorflow_private_lanes  # noqa: F401 (it says how they become one)

RNG = np.random.default_rng(0)


def shapes_of_products(graph: tf.Graph) -> list[list[int]]:
    products = [op for op in graph.get_operations() if op.type.startswith("BatchMatMul")]
    return [op.inputs[0].shape.as_list() for op in products]


@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize(
    ("each", "common"),
    [
        ((1, 17, 48), (48, 16)),
        ((1, 17, 48), (1, 48, 16)),
        ((17, 48), (1, 48, 16)),
        ((3, 17, 48), (48, 16)),
        ((1, 17, 48), (3, 48, 16)),
        ((2, 1, 17, 48), (48, 16)),
    ],
)
def test_products_with_a_common_matrix(
    each: tuple[int, ...], common: tuple[int, ...], adjoint: bool
) -> None:
    """Matrices (n, 1, M, K) times (K, N), where TensorFlow 2.21 breaks memory, do not meet."""
    x = RNG.normal(size=(16, *each)).astype("float32")
    y = RNG.normal(size=common).astype("float32")
    right = np.stack([one @ y for one in x])
    if adjoint:
        x, y = np.swapaxes(x, -1, -2), np.swapaxes(y, -1, -2)

    @tf.function
    def products(x: tf.Tensor) -> tf.Tensor:
        multiply = {"adjoint_a": adjoint, "adjoint_b": adjoint}
        return tf.vectorized_map(lambda one: tf.matmul(one, y, **multiply), x)

    graph = products.get_concrete_function(tf.constant(x)).graph
    assert graph.outputs[0].shape == right.shape
    breaking = [s for s in shapes_of_products(graph) if len(s) == 4 and s[:2] == [16, 1]]
    assert not breaking or common == (3, 48, 16)
    np.testing.assert_allclose(products(tf.constant(x)), right, rtol=0, atol=2e-5)


def test_products_with_a_matrix_for_each() -> None:
    x, y = RNG.normal(size=(5, 1, 4, 3)), RNG.normal(size=(5, 3, 2))
    products = tf.vectorized_map(lambda pair: tf.matmul(*pair), (tf.constant(x), tf.constant(y)))
    np.testing.assert_allclose(products, x @ y[:, np.newaxis], rtol=1e-12)


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("one_input", [False, True])
@pytest.mark.parametrize("step", [{}, {"strides": 2, "padding": "valid"}, {"dilation_rate": 2}])
def test_gradients_of_convolutions(groups: int, one_input: bool, step: dict[str, object]) -> None:
    """Lanes of one input, as of several outputs of an example, and each with its own."""
    settings = {"strides": 1, "padding": "same", **step}
    x = tf.constant(RNG.normal(size=(3, 2, 6, 5, 4)).astype("float32"))
    w = tf.constant(RNG.normal(size=(3, 2, 4 // groups, 8)).astype("float32"))
    shape = keras.ops.conv(x[0], w, **settings).shape
    upstream = tf.constant(RNG.normal(size=(3, *shape)).astype("float32"))

    def gradients(lane: tf.Tensor) -> list[tf.Tensor]:
        mine = x[0] if one_input else x[lane]
        with tf.GradientTape() as tape:
            tape.watch([mine, w])
            y = keras.ops.conv(mine, w, **settings)
        return tape.gradient(y, [mine, w], tf.gather(upstream, lane))

    at_once = tf.function(lambda: tf.vectorized_map(gradients, tf.range(3)))()
    each = zip(*(gradients(lane) for lane in range(3)), strict=True)
    for gradient, right in zip(at_once, map(np.stack, each), strict=True):
        np.testing.assert_allclose(gradient, right, rtol=0, atol=2e-5)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("one_input", [(False, True), (True, False), (True, True)])
def test_gradients_of_convolutions_in_lanes_of_lanes(
    groups: int, one_input: tuple[bool, bool]
) -> None:
    """Lanes, each of which has lanes, of one input or of their own."""
    x = tf.constant(RNG.normal(size=(2, 3, 1, 4, 4, 4)).astype("float32"))
    w = tf.constant(RNG.normal(size=(3, 3, 4 // groups, 6)).astype("float32"))
    upstream = tf.constant(RNG.normal(size=(2, 3, 1, 4, 4, 6)).astype("float32"))

    def gradients(outer: tf.Tensor, inner: tf.Tensor) -> list[tf.Tensor]:
        i, j = (0 if one else lane for one, lane in zip(one_input, (outer, inner), strict=True))
        mine = tf.gather(tf.gather(x, i), j)
        with tf.GradientTape() as tape:
            tape.watch([mine, w])
            y = keras.ops.conv(mine, w, 1, "same")
        return tape.gradient(y, [mine, w], tf.gather(tf.gather(upstream, outer), inner))

    def lanes(outer: tf.Tensor) -> list[tf.Tensor]:
        return tf.vectorized_map(lambda inner: gradients(outer, inner), tf.range(3))

    at_once = tf.function(lambda: tf.vectorized_map(lanes, tf.range(2)))()
    for k, gradient in enumerate(at_once):
        right = [[gradients(outer, inner)[k] for inner in range(3)] for outer in range(2)]
        np.testing.assert_allclose(gradient, np.array(right), rtol=0, atol=2e-5)

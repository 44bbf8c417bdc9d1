"""Kernels under a bound of their spectral norm, held against singular values."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf
import two_replicas
from absl.testing import parameterized

from tfbdl.layers import BoundedSpectralNormalization

RNG = np.random.default_rng(0)
X = RNG.normal(size=(8, 6)).astype("float32")
IMAGES = RNG.normal(size=(8, 5, 5, 3)).astype("float32")


def norm(kernel: Any) -> float:
    matrix = np.reshape(kernel, (-1, kernel.shape[-1]))
    return float(np.linalg.svd(matrix, compute_uv=False)[0])


def of_norm(layer: Any, x: Any, size: float, **arguments: Any) -> Any:
    """The wrapper around a kernel of this norm."""
    wrapper = BoundedSpectralNormalization(layer, **arguments)
    wrapper(x)
    kernel = np.asarray(layer.kernel)
    layer.kernel.assign(kernel * size / norm(kernel))
    return wrapper


class BoundTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.product(
        make=(
            lambda: (keras.layers.Dense(4), X),
            lambda: (keras.layers.Conv2D(4, 2), IMAGES),
        ),
        bound=(0.95, 6.0),
    )
    def test_large_kernels_come_to_the_bound(self, make: Any, bound: float) -> None:
        layer, x = make()
        wrapper = of_norm(layer, x, 3 * bound, norm_bound=bound, power_iterations=5)
        direction = np.asarray(layer.kernel) / norm(layer.kernel)
        for _ in range(20):
            y = wrapper(x, training=True)
        self.assertAllClose(norm(layer.kernel), bound, 1e-4)
        self.assertAllClose(layer.kernel, bound * direction, 1e-3, 1e-4)
        self.assertAllClose(y, layer(x), 1e-6)

    def test_small_kernels_stay(self) -> None:
        """To the last digit, and in inference all do."""
        layer = keras.layers.Dense(4)
        wrapper = of_norm(layer, X, 0.5)
        before = layer.kernel.numpy()
        for _ in range(5):
            wrapper(X, training=True)
        self.assertAllEqual(layer.kernel, before)
        layer.kernel.assign(10.0 * before)
        wrapper(X, training=False)
        self.assertAllEqual(layer.kernel, 10.0 * before)

    def test_zero(self) -> None:
        layer = keras.layers.Dense(4, kernel_initializer="zeros")
        wrapper = BoundedSpectralNormalization(layer)
        self.assertAllEqual(wrapper(X, training=True), np.zeros((8, 4)))

    def test_of_keras_where_it_is_the_same(self) -> None:
        """The bound is 1, and the kernel above it, step by step."""
        layers = [keras.layers.Dense(4, kernel_initializer=start()) for start in 2 * [_large]]
        ours = BoundedSpectralNormalization(layers[0], norm_bound=1.0)
        theirs = keras.layers.SpectralNormalization(layers[1])
        for wrapper in (ours, theirs):
            wrapper(X)
            wrapper.vector_u.assign(np.full((1, 4), 0.5))
        for _ in range(3):
            for layer in layers:
                layer.kernel.assign(3.0 * layer.kernel)
            self.assertAllClose(ours(X, training=True), theirs(X, training=True), 1e-5, 1e-6)

    def test_in_training(self) -> None:
        """The bound holds along it, but for the last step, on two replicas too."""
        kernels = []
        for replicas in (False, True):
            with two_replicas.strategy().scope() if replicas else keras.name_scope("alone"):
                layer = keras.layers.Dense(4, kernel_initializer=_large())
                wrapper = BoundedSpectralNormalization(layer, 0.5, power_iterations=3)
                model = keras.Sequential([keras.Input((6,)), wrapper])
                model.compile(keras.optimizers.SGD(0.002), "mse", jit_compile=False)
            wrapper.vector_u.assign(np.full((1, 4), 0.5))
            model.fit(X, 5.0 * X[:, :4], epochs=30, batch_size=8, shuffle=False, verbose=0)
            self.assertBetween(norm(layer.kernel), 0.48, 0.52)
            kernels.append(np.asarray(layer.kernel))
        self.assertAllClose(*kernels, 1e-4, 1e-5)

    def test_refusals(self) -> None:
        for arguments, message in (
            ({"norm_bound": 0.0}, "^norm_bound=0.0 must"),
            ({"power_iterations": 0}, "^power_iterations=0 must"),
            ({"layer": "dense"}, "^layer='dense' must"),
        ):
            with self.assertRaisesRegex(ValueError, message):
                BoundedSpectralNormalization(**{"layer": keras.layers.Dense(2), **arguments})


def _large() -> Any:
    return keras.initializers.RandomNormal(stddev=2.0, seed=1)


if __name__ == "__main__":
    tf.test.main()

"""MCGaussianDropout: N(1, rate / (1 - rate)) noise, and one for all x in a draw."""

from typing import Any

import keras
import numpy as np
import scipy.stats
import tensorflow as tf
from absl.testing import parameterized

from tfbdl.draws import DrawnModel, make_draw
from tfbdl.layers import MCGaussianDropout

DRAW = make_draw(0, 1)


def ones(*shape: Any) -> Any:
    return tf.ones(shape)


class LawTest(tf.test.TestCase, parameterized.TestCase):
    def check(self, noise: Any, rate: Any) -> None:
        """Mean, variance, normality, independence of columns and of neighbours."""
        noise = np.asarray(noise, "float64")
        variance, n = rate / (1 - rate), noise.size
        self.assertLess(abs(noise.mean() - 1), 5 * np.sqrt(variance / n))
        self.assertLess(abs(noise.var() / variance - 1), 5 * np.sqrt(2 / n))
        standard = (noise.ravel() - 1) / np.sqrt(variance)
        self.assertGreater(scipy.stats.kstest(standard, "norm").pvalue, 1e-4)
        off = np.corrcoef(noise.T)[~np.eye(noise.shape[1], dtype=bool)]
        self.assertLess(np.abs(off).max(), 5 / np.sqrt(len(noise)))
        self.assertLess(abs(np.corrcoef(standard[1:], standard[:-1])[0, 1]), 5 / np.sqrt(n))

    @parameterized.parameters(1e-3, 0.1, 0.5, 0.9)
    def test_training(self, rate: Any) -> None:
        self.check(MCGaussianDropout(rate, seed=1)(ones(20_000, 10), training=True), rate)

    @parameterized.parameters(0.2, 0.7)
    def test_draws(self, rate: Any) -> None:
        layer = MCGaussianDropout(rate, seed=1)
        noise = tf.vectorized_map(
            lambda s: layer(ones(1, 5), draw=make_draw(3, s))[0], tf.range(20_000)
        )
        self.check(noise, rate)

    def test_has_the_variance_of_keras(self) -> None:
        x, rate = ones(20_000, 10), 0.3
        ours, keras_own = (
            np.var(layer(x, training=True), dtype="float64")
            for layer in (MCGaussianDropout(rate, seed=1), keras.layers.GaussianDropout(rate, 2))
        )
        self.assertLess(abs(ours / keras_own - 1), 5 * np.sqrt(2 * 2 / 200_000))

    def test_noise_of_its_own_at_each_step(self) -> None:
        layer = MCGaussianDropout(0.5, seed=1)
        a, b = (layer(ones(2000, 5), training=True).numpy().ravel() for _ in range(2))
        self.assertLess(abs(np.corrcoef(a, b)[0, 1]), 5 / 100)

    @parameterized.parameters("float16", "bfloat16", "float64")
    def test_precision(self, dtype: Any) -> None:
        y = MCGaussianDropout(0.5, seed=1, dtype=dtype)(tf.ones((500, 4), dtype), training=True)
        self.assertEqual(y.dtype, dtype)
        self.assertNear(np.var(tf.cast(y, "float32")), 1.0, 5 * np.sqrt(2 / 2000))


class DrawTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters((6,), (5, 6), (4, 5, 6))
    def test_one_noise_for_all_x(self, *shape: Any) -> None:
        layer = MCGaussianDropout(0.5, seed=1)
        noise = layer(ones(1, *shape), draw=DRAW).numpy()
        self.assertLen(np.unique(noise), noise.size)
        self.assertAllEqual(layer(ones(8, *shape), draw=DRAW), np.repeat(noise, 8, axis=0))
        self.assertNotAllClose(layer(ones(1, *shape), draw=make_draw(0, 2)), noise)

    def test_noise_is_shared_along_ones(self) -> None:
        noise = MCGaussianDropout(0.5, noise_shape=(None, 1, None), seed=1)(
            ones(4, 5, 6), training=True
        )
        self.assertAllEqual(noise, tf.repeat(noise[:, :1], 5, axis=1))
        self.assertLen(np.unique(noise), 24)

    @parameterized.parameters(0.0, 0.5)
    def test_identity(self, rate: Any) -> None:
        x, layer = tf.random.stateless_normal((5, 4), (0, 0)), MCGaussianDropout(rate)
        self.assertAllEqual(layer(x), x)
        if rate == 0.0:
            self.assertAllEqual(layer(x, training=True), x)
            self.assertAllEqual(layer(x, draw=DRAW), x)


class SavingTest(tf.test.TestCase):
    def test_comes_back_with_its_noise(self) -> None:
        layers = [
            keras.Input((4,)),
            MCGaussianDropout(0.3, noise_shape=(None, 1), per_example=True),
        ]
        model, path = keras.Sequential(layers), f"{self.get_temp_dir()}/model.keras"
        x = tf.random.stateless_normal((5, 4), (0, 0))
        model(x, training=True)
        model.save(path)
        loaded = keras.models.load_model(path, safe_mode=True)
        self.assertEqual(loaded.layers[0].get_config(), model.layers[0].get_config())
        self.assertAllEqual(loaded(x, training=True), model(x, training=True))
        self.assertAllEqual(DrawnModel(loaded)(x, draw=DRAW), DrawnModel(model)(x, draw=DRAW))


class ArgumentsTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(-0.1, 1.0, float("nan"), None)
    def test_rate_is_checked(self, rate: Any) -> None:
        with self.assertRaisesRegex(ValueError, r"^rate=.* must be in \[0, 1\)"):
            MCGaussianDropout(rate)


if __name__ == "__main__":
    tf.test.main()

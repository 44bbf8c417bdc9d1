"""MCDropout: the law of its masks in training, and one mask for all x in a draw."""

from typing import Any

import keras
import numpy as np
import scipy.stats
import tensorflow as tf
from absl.testing import parameterized

from tfbdl.draws import make_draw
from tfbdl.layers import MCDropout

DRAW = make_draw(0, 1)


def ones(*shape: Any) -> Any:
    return tf.ones(shape)


class TrainingTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(1e-3, 0.1, 0.5, 0.9)
    def test_masks(self, rate: Any) -> None:
        """Zeros at the rate, the rest rescaled so that the mean is 1, all of them independent."""
        n, units = 20_000, 10
        mask = MCDropout(rate, seed=1)(ones(n, units), training=True).numpy().astype(np.float64)
        self.assertAllClose(np.unique(mask), [0.0, 1 / (1 - rate)], 1e-6)
        error = np.sqrt(rate / (1 - rate) / mask.size)
        self.assertLess(abs(mask.mean() - 1), 5 * error)
        self.assertLess(np.max(np.abs(mask.mean(axis=0) - 1)), 5 * error * np.sqrt(units))
        dropped_per_row = np.bincount(np.sum(mask == 0, axis=1).astype(int), minlength=units + 1)
        expected = n * scipy.stats.binom.pmf(np.arange(units + 1), units, rate)
        many = expected > 5
        chi2 = np.sum((dropped_per_row[many] - expected[many]) ** 2 / expected[many])
        self.assertLess(chi2, scipy.stats.chi2.ppf(1 - 1e-5, max(many.sum() - 1, 1)) + 1)
        if rate > 0.01:
            off = np.corrcoef(mask.T)[~np.eye(units, dtype=bool)]
            self.assertLess(np.abs(off).max(), 5 / np.sqrt(n))
            pairs = np.corrcoef(mask[1:].ravel(), mask[:-1].ravel())[0, 1]
            self.assertLess(abs(pairs), 5 / np.sqrt(mask.size))

    def test_a_mask_of_its_own_at_each_step(self) -> None:
        layer = MCDropout(0.5, seed=1)
        a, b = (layer(ones(2000, 5), training=True).numpy().ravel() for _ in range(2))
        self.assertLess(abs(np.corrcoef(a, b)[0, 1]), 5 / 100)

    def test_gradient_passes_where_the_unit_is_kept(self) -> None:
        layer, x = MCDropout(0.25, seed=1), tf.Variable(ones(20, 5))
        with tf.GradientTape() as tape:
            y = layer(x, training=True)
        self.assertAllClose(tape.gradient(y, x), y)

    @parameterized.parameters("float16", "bfloat16", "float64")
    def test_precision(self, dtype: Any) -> None:
        y = MCDropout(0.5, seed=1, dtype=dtype)(tf.ones((50, 4), dtype), training=True)
        self.assertEqual(y.dtype, dtype)
        self.assertAllEqual(np.unique(tf.cast(y, tf.float32)), [0.0, 2.0])


class InferenceTest(tf.test.TestCase, parameterized.TestCase):
    def test_identity(self) -> None:
        x = tf.random.stateless_normal((5, 4), (0, 0))
        self.assertAllEqual(MCDropout(0.5)(x), x)
        self.assertAllEqual(MCDropout(0.5)(x, training=False), x)

    @parameterized.parameters(0, 0.0)
    def test_rate_zero_is_the_identity_everywhere(self, rate: Any) -> None:
        x, layer = tf.random.stateless_normal((5, 4), (0, 0)), MCDropout(rate)
        self.assertAllEqual(layer(x, training=True), x)
        self.assertAllEqual(layer(x, draw=DRAW), x)


class DrawTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters((6,), (5, 6), (4, 5, 6))
    def test_one_mask_for_all_x(self, *shape: Any) -> None:
        """For vectors, sequences and images: one per unit, whatever the batch."""
        layer = MCDropout(0.5, seed=1)
        mask = layer(ones(1, *shape), draw=DRAW).numpy()
        self.assertAllEqual(np.unique(mask), [0.0, 2.0])
        self.assertAllEqual(layer(ones(8, *shape), draw=DRAW), np.repeat(mask, 8, axis=0))
        x = tf.random.stateless_normal((3, *shape), (0, 0))
        self.assertAllClose(layer(x, draw=DRAW), x * mask)
        self.assertAllClose(layer(x, draw=DRAW, training=True), x * mask)

    def test_masks_of_draws_have_the_rate(self) -> None:
        layer, n = MCDropout(0.2, seed=1), 20_000
        masks = tf.vectorized_map(
            lambda s: layer(ones(1, 5), draw=make_draw(3, s))[0], tf.range(n)
        ).numpy()
        error = np.sqrt(0.2 / 0.8 / n)
        self.assertLess(np.abs(masks.mean(axis=0, dtype=np.float64) - 1).max(), 5 * error)
        off = np.corrcoef(masks.T)[~np.eye(5, dtype=bool)]
        self.assertLess(np.abs(off).max(), 5 / np.sqrt(n))

    def test_per_example(self) -> None:
        """A mask per example in draws too, the same at each call with this batch."""
        n = 20_000
        layer = MCDropout(0.5, per_example=True, seed=1)
        mask = layer(ones(n, 4), draw=DRAW).numpy()
        self.assertAllEqual(layer(ones(n, 4), draw=DRAW), mask)
        self.assertLess(np.abs(mask.mean(axis=0) - 1).max(), 5 / np.sqrt(n))
        rows = np.corrcoef(mask[1:].ravel(), mask[:-1].ravel())[0, 1]
        self.assertLess(abs(rows), 5 / np.sqrt(4 * n))


class NoiseShapeTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(
        ((None, 1, None), (1,)),
        ((None, None, 1), (2,)),
        ((1, None, None), (0,)),
        ([None, 1, 1], (1, 2)),
        ((40, 1, 30), (1,)),
        (None, ()),
    )
    def test_mask_is_shared_along_ones(self, noise_shape: Any, shared: Any) -> None:
        layer, x = MCDropout(0.5, noise_shape, seed=1), ones(40, 20, 30)
        training, drawn = (m.numpy() for m in (layer(x, training=True), layer(x, draw=DRAW)))
        for mask, constant in ((training, shared), (drawn, {0, *shared})):
            for axis in range(3):
                same = np.all(mask == mask.take([0], axis))
                self.assertEqual(same, axis in constant, axis)

    def test_unknown_sizes(self) -> None:
        """Batch and time known only at run time."""
        layer = MCDropout(0.5, (None, 1, None), seed=1)

        @tf.function(input_signature=[tf.TensorSpec([None, None, 6])])
        def masks(x: Any) -> Any:
            return layer(x, training=True), layer(x, draw=DRAW)

        for shape in ((4, 5, 6), (7, 2, 6)):
            training, drawn = masks(ones(*shape))
            self.assertEqual(training.shape, shape)
            for mask in (training, drawn):
                self.assertAllEqual(mask, tf.repeat(mask[:, :1], shape[1], axis=1))
            expected = layer(ones(1, 1, 6), draw=DRAW)
            self.assertAllEqual(drawn, tf.broadcast_to(expected, shape))

    def test_must_have_the_rank_of_the_input(self) -> None:
        with self.assertRaisesRegex(ValueError, "noise_shape"):
            MCDropout(0.5, (None, 1))(ones(4, 5, 6), training=True)


class ArgumentsTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(-0.1, 1.0, 1.5, float("nan"), None, "half", True)
    def test_rate_is_checked(self, rate: Any) -> None:
        with self.assertRaisesRegex(ValueError, r"^rate=.* must be in \[0, 1\): the probability"):
            MCDropout(rate)

    def test_rate_may_be_a_numpy_number(self) -> None:
        self.assertAllClose(MCDropout(np.float32(0.5)).get_config()["rate"], 0.5)

    def test_masking_goes_through(self) -> None:
        model = keras.Sequential([keras.layers.Masking(), MCDropout(0.5)])
        x = np.array([[[1.0, 2.0], [0.0, 0.0]]], "float32")
        self.assertAllEqual(model(x)._keras_mask, [[True, False]])


if __name__ == "__main__":
    tf.test.main()

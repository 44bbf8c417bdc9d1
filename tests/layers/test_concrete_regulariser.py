"""What Concrete dropout adds to the loss: norms of the weights, entropy of the masks."""

from typing import Any

import keras
import numpy as np
import scipy.integrate
import scipy.optimize
import scipy.special
import scipy.stats
import tensorflow as tf
from absl.testing import parameterized

from tfbdl.draws import make_draw
from tfbdl.layers import ConcreteDropout
from tfbdl.layers.concrete_dropout import entropy


def logit(p: Any) -> Any:
    return np.log(p) - np.log1p(-p)


def built(wrapped: Any, input_shape: Any, keeps: Any, lengthscale: Any, num_data: int = 50) -> Any:
    layer = ConcreteDropout(
        wrapped, num_data=num_data, lengthscale=lengthscale, per_unit=np.ndim(keeps) > 0
    )
    layer.build((None, *input_shape))
    layer.scaled_logit.assign(logit(np.asarray(keeps)))
    rng = np.random.default_rng(0)
    wrapped.kernel.assign(rng.normal(size=wrapped.kernel.shape))
    layer(tf.zeros((1, *input_shape)))
    return layer


class RegulariserTest(tf.test.TestCase, parameterized.TestCase):
    WRAPPED = (
        (lambda: keras.layers.Dense(4), (3,)),
        (lambda: keras.layers.Conv1D(4, 2), (6, 3)),
        (lambda: keras.layers.Conv2D(4, (2, 3)), (5, 5, 3)),
    )

    def weights_of_units(self, layer: Any) -> Any:
        """For each input unit, all the weights that leave it."""
        kernel = layer.layer.kernel.numpy().astype(np.float64)
        return [kernel[..., q, :].ravel() for q in range(3)]

    @parameterized.product(wrapped=WRAPPED, keeps=(0.7, (0.2, 0.5, 0.9)))
    def test_the_slides_form(self, wrapped: Any, keeps: Any) -> None:
        """sum_q keep_q l^2 / 2 ||m_q||^2 - H(keep_q), m = W / keep the weight of a kept unit."""
        make, shape = wrapped
        layer = built(make(), shape, keeps, lengthscale=0.6)
        wd = ent = 0.0
        for keep, w in zip(np.broadcast_to(keeps, 3), self.weights_of_units(layer), strict=True):
            wd += keep * 0.6**2 / 2 * np.sum((w / keep) ** 2)
            ent += scipy.stats.bernoulli(keep).entropy()
        self.assertAllClose(layer.kl_term.terms["wd"], wd, 1e-5)
        self.assertAllClose(layer.kl_term.terms["ent"], ent, 1e-5)
        self.assertAllClose(layer.losses, [(wd - ent) / 50], 1e-5)

    @parameterized.parameters(*WRAPPED)
    def test_gals_form(self, make: Any, shape: Any) -> None:
        """Gal's loss is the squared error, 2 / tau times the negative log likelihood of precision
        tau up to a constant; so is his penalty 2 / tau times ours.
        """
        p, lengthscale, tau, num_data = 0.3, 0.6, 5.0, 50
        layer = built(make(), shape, 1 - p, lengthscale, num_data)
        w = layer.layer.kernel.numpy().astype(np.float64)
        penalty = lengthscale**2 / (tau * num_data) * np.sum(w**2) / (1 - p)
        penalty += 2 / (tau * num_data) * 3 * (p * np.log(p) + (1 - p) * np.log(1 - p))
        self.assertAllClose(2 / tau * layer.losses[0], penalty, 1e-5)

    @parameterized.parameters(0.7, (0.2, 0.5, 0.9))
    def test_weight_decay_is_the_mean_over_masks(self, *keeps: Any) -> None:
        """Mean of l^2 / 2 ||mask m||^2, for hard masks (Gal and Ghahramani's approximated KL)."""
        keeps = keeps[0] if len(keeps) == 1 else keeps
        layer = built(keras.layers.Dense(4), (3,), keeps, 0.6)
        total = 0.0
        for keep, w in zip(np.broadcast_to(keeps, 3), self.weights_of_units(layer), strict=True):
            for mask, probability in ((1, keep), (0, 1 - keep)):
                total += probability * 0.18 * np.sum((mask * w / keep) ** 2)
        self.assertAllClose(layer.weight_term(), total, 1e-5)

    def test_same_in_training_and_draws(self) -> None:
        layer = built(keras.layers.Dense(4), (3,), 0.7, 0.6)
        expected = layer.losses[0].numpy()
        for kwargs in ({"training": True}, {"draw": make_draw(0, 0)}):
            layer(tf.ones((2, 3)), **kwargs)
            self.assertAllClose(layer.losses, [expected])

    def test_a_shared_layer_costs_once(self) -> None:
        layer = built(keras.layers.Dense(3), (3,), 0.7, 0.6)
        expected = layer.losses[0].numpy()
        inputs = keras.Input((3,))
        model = keras.Model(inputs, layer(layer(inputs)))
        model(tf.ones((2, 3)))
        self.assertAllClose(sum(model.losses), expected)

    @parameterized.parameters(("mixed_float16", 1e-3), ("mixed_bfloat16", 1e-2))
    def test_precision(self, policy: str, tolerance: Any) -> None:
        """The penalty is summed in float32; the kernel is as precise as in the layer's call."""
        half = ConcreteDropout(
            keras.layers.Dense(4, dtype=policy), num_data=50, lengthscale=0.6, dtype=policy
        )
        half.build((None, 3))
        y = half(tf.ones((2, 3)), training=True)
        self.assertEqual(y.dtype, policy.removeprefix("mixed_"))
        self.assertEqual(half.scaled_logit.dtype, "float32")
        self.assertEqual(half.losses[0].dtype, tf.float32)
        kernel = half.layer.kernel.numpy().astype(np.float64)
        expected = 0.18 * np.sum(kernel**2) / 0.9
        self.assertAllClose(half.kl_term.terms["wd"], expected, tolerance)
        self.assertAllClose(half.kl_term.terms["ent"], 3 * 0.3250829733914482, 1e-6)

    def test_rates_near_one_and_zero(self) -> None:
        """Value and slopes for keep probabilities that float32 does not hold, and outputs too."""
        layer = ConcreteDropout(
            keras.layers.Dense(2), num_data=50, lengthscale=1e-15, per_unit=True, seed=1
        )
        layer.build((None, 3))
        w = np.float32([[1.0, -2.0], [0.5, 0.0], [0.0, 0.0]])
        layer.layer.kernel.assign(w)
        for logit in (-120.0, -104.0, -90.0, -30.0, 30.0, 90.0, 1e30):
            layer.scaled_logit.assign(np.float32([logit, logit, logit]))
            with tf.GradientTape() as tape:
                y = layer(tf.ones((4, 3)), training=True)
                loss = tf.reduce_sum(layer.losses) + 0.0 * tf.reduce_sum(y)
            slope = tape.gradient(loss, layer.scaled_logit.value)
            odds = np.exp(-np.longdouble(logit))
            pulls = np.longdouble(0.5e-30) * np.sum(w.astype(np.longdouble) ** 2, axis=1)
            k = 1 / (1 + odds)
            of_entropy = -logit * np.exp(-abs(np.longdouble(logit))) * max(k, 1 - k) ** 2
            self.assertAllClose(layer.weight_term(), np.sum(pulls * (1 + odds)), 1e-4, 1e-30)
            self.assertTrue(np.all(np.isfinite(y)), logit)
            expected = np.float64((-pulls * odds - of_entropy) / 50)
            self.assertAllClose(slope, expected, 1e-4, 1e-20)


class EntropyTest(tf.test.TestCase):
    def test_value(self) -> None:
        """The errors are relative, so also where it is small."""
        logits = np.linspace(-30, 30, 61)
        expected = scipy.special.expit(logits) * np.logaddexp(0, -logits)
        expected += scipy.special.expit(-logits) * np.logaddexp(0, logits)
        self.assertAllClose(expected[30], np.log(2))
        for dtype, tolerance in (("float64", 1e-12), ("float32", 1e-4)):
            got = entropy(tf.constant(logits, dtype)).numpy()
            np.testing.assert_allclose(got, expected, rtol=tolerance)

    def test_gradient(self) -> None:
        """dH / dlogit = -logit k (1 - k); finite however large the logit."""
        logits = tf.constant([-1e30, -1e4, -90.0, -3.0, 0.0, 0.5, 3.0, 90.0, 1e4, 1e30])
        with tf.GradientTape() as tape:
            tape.watch(logits)
            h = entropy(logits)
        self.assertTrue(np.all(np.isfinite(h)))
        x = np.asarray(logits, np.float64)
        expected = -x * scipy.special.expit(x) * scipy.special.expit(-x)
        self.assertAllClose(tape.gradient(h, logits), expected, 1e-4, 1e-6)


if __name__ == "__main__":
    tf.test.main()

"""VariationalDropout: alpha, the KL in the loss, and pruning that lasts."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

from tfbdl.draws import make_draw
from tfbdl.layers import VariationalDropout
from tfbdl.priors import log_uniform

RNG = np.random.default_rng(0)
X = RNG.normal(size=(16, 5)).astype("float32")
Y = RNG.normal(size=(16, 3)).astype("float32")
KINDS = ("molchanov", "kingma")


def make(kl: str = "molchanov", **kwargs: Any) -> Any:
    layer = VariationalDropout(3, num_data=16, kl=kl, seed=1, **kwargs)
    layer.build((None, 5))
    layer.bias.mu.assign([0.5, -0.5, 1.0])
    return layer


def noisy(layer: Any) -> Any:
    """Some weights' log alpha at 5, others' at -2; which ones."""
    noise = RNG.random((5, 3)) < 0.4
    mu = RNG.choice([-1, 1], (5, 3)) * RNG.uniform(0.2, 1.0, (5, 3))
    layer.kernel.mu.assign(mu)
    sigma = np.abs(mu) * np.exp(0.5 * np.where(noise, 5.0, -2.0))
    layer.kernel.rho.assign(np.log(np.expm1(sigma)))
    return noise


class AlphaTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(*KINDS)
    def test_log_alpha(self, kl: Any) -> None:
        layer = make(kl)
        mu, sigma = (np.asarray(v, np.float64) for v in (layer.kernel.mean, layer.kernel.stddev))
        expected = np.clip(np.log(sigma**2 / mu**2), -8, 8)
        self.assertAllClose(layer.log_alpha, expected, 1e-4, 1e-4)

    def test_molchanov_starts_at_log_variance_minus_10(self) -> None:
        log_variance = 2 * np.log(make().kernel.stddev)
        self.assertAllClose(log_variance, np.full((5, 3), -10.0), atol=0.02)

    def test_kingma_starts_with_the_noise_of_dropout(self) -> None:
        """alpha = p / (1 - p) at rate p = 0.2, and never exceeds 1."""
        layer = make("kingma")
        self.assertAllClose(layer.log_alpha, np.full((5, 3), np.log(0.2 / 0.8)), 1e-4)
        layer.kernel.raw_log_alpha.assign(np.full((5, 3), 4.0))
        self.assertAllLessEqual(layer.log_alpha, 1e-6)

    def test_kingma_never_exceeds_one_under_training(self) -> None:
        """The KL alone pushes alpha up without end."""
        layer = make("kingma")
        optimizer = keras.optimizers.Adam(0.5)
        for _ in range(20):
            with tf.GradientTape() as tape:
                layer(X, training=True)
                loss = layer.losses[0]
            variables = [layer.kernel.raw_log_alpha]
            optimizer.apply(tape.gradient(loss, [v.value for v in variables]), variables)
        self.assertAllClose(layer.log_alpha, np.zeros((5, 3)), atol=1e-4)
        self.assertAllClose(layer.kernel.stddev, np.abs(layer.kernel.mu.numpy()), 1e-4)


class LossTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.product(kl=KINDS, training=(True, False))
    def test_kl_of_the_kernel_alone(self, kl: Any, training: Any) -> None:
        layer = make(kl)
        layer(X, training=training)
        mu, sigma = (np.asarray(v, np.float64) for v in (layer.kernel.mean, layer.kernel.stddev))
        log_alpha = np.clip(np.log(sigma**2 / mu**2), -8, 8)
        expected = np.sum(getattr(log_uniform, kl)(tf.constant(log_alpha)))
        self.assertAllClose(layer.losses, [expected / 16], 1e-5)

    @parameterized.parameters(*KINDS)
    def test_bias_has_no_noise(self, kl: Any) -> None:
        """The outputs at x = 0 are the bias, in training and in draws; it has one variable."""
        layer, zeros = make(kl), tf.zeros((50, 5))
        for kwargs in ({"training": True}, {"draw": make_draw(0, 1)}, {}):
            expected = np.tile([0.5, -0.5, 1.0], (50, 1))
            self.assertAllClose(layer(zeros, **kwargs), expected, 1e-6)
        self.assertLen(layer.bias.variables, 1)

    @parameterized.parameters(*KINDS)
    def test_bias_has_no_kl(self, kl: Any) -> None:
        layer = make(kl)
        layer(X)
        before = layer.losses[0].numpy()
        layer.bias.mu.assign([100.0, -100.0, 0.0])
        layer(X)
        self.assertAllEqual(layer.losses[0], before)

    @parameterized.parameters(*KINDS)
    def test_noise_is_local(self, kl: Any) -> None:
        """Each example its own, of variance x^2 sigma^2."""
        layer, n = make(kl), 20_000
        x = np.array([[1.0, -2.0, 0.5, 0.0, 3.0]])
        y = layer(np.repeat(x, n, 0), training=True).numpy().astype(np.float64)
        mean = x @ layer.kernel.mean.numpy() + layer.bias.mean.numpy()
        variance = x**2 @ layer.kernel.stddev.numpy() ** 2
        z = (y - mean) / np.sqrt(variance)
        self.assertLess(np.abs(z.mean(axis=0)).max(), 5 / np.sqrt(n))
        self.assertLess(np.abs(z.var(axis=0) - 1).max(), 5 * np.sqrt(2 / n))
        self.assertLess(np.abs(np.corrcoef(z[1:].ravel(), z[:-1].ravel())[0, 1]), 5 / np.sqrt(n))


class PruneTest(tf.test.TestCase, parameterized.TestCase):
    def test_sparsity(self) -> None:
        layer = make()
        noise = noisy(layer)
        self.assertAllClose(layer.sparsity(), noise.mean(), 1e-6)
        self.assertAllClose(layer.sparsity(threshold=6.0), 0.0)
        self.assertAllClose(layer.sparsity(threshold=-3.0), 1.0)

    @parameterized.parameters("molchanov", "kingma")
    def test_predictions_are_those_with_the_weights_zeroed(self, kl: Any) -> None:
        layer = make(kl)
        if kl == "molchanov":
            noise, threshold = noisy(layer), 3.0
        else:
            raw = RNG.uniform(-3, 0, (5, 3))
            layer.kernel.raw_log_alpha.assign(raw)
            noise, threshold = raw > -1.0, -1.0
        mu, sigma = layer.kernel.mean.numpy(), layer.kernel.stddev.numpy()
        layer.prune(threshold)
        expected = X @ np.where(noise, 0, mu) + layer.bias.mean.numpy()
        self.assertAllClose(layer(X), expected, 1e-5, 1e-5)
        self.assertAllClose(layer.kernel.stddev, np.where(noise, 0, sigma), 1e-5, 1e-9)

    def test_pruned_weights_have_no_noise(self) -> None:
        """One example that reads pruned weights only: in training and in draws the bias."""
        layer = make()
        noisy(layer)
        layer.kernel.rho.assign(tf.fill((5, 3), 20.0))
        layer.prune()
        for kwargs in ({"training": True}, {"draw": make_draw(0, 1)}):
            y = layer(X, **kwargs)
            self.assertAllClose(y, np.tile([0.5, -0.5, 1.0], (16, 1)), 1e-5)

    def test_others_are_left_alone(self) -> None:
        layer = make()
        noise = noisy(layer)
        before = layer.log_alpha.numpy()
        layer.prune()
        self.assertAllClose(layer.log_alpha.numpy()[~noise], before[~noise], 1e-5)

    def test_sparsity_counts_what_was_pruned(self) -> None:
        layer = make()
        noise = noisy(layer)
        layer.prune()
        self.assertAllClose(layer.sparsity(), noise.mean(), 1e-6)
        layer.prune()
        self.assertAllClose(layer.sparsity(), noise.mean(), 1e-6)

    def test_kl_of_what_was_pruned_is_near_zero(self) -> None:
        """Its limit as alpha grows."""
        layer = make()
        noisy(layer)
        layer.kernel.rho.assign(tf.fill((5, 3), 20.0))
        layer.prune()
        layer(X)
        self.assertLess(abs(float(layer.losses[0])), 0.01)

    def test_pruned_stays_pruned_when_saved(self) -> None:
        layer = make()
        noise = noisy(layer)
        layer.prune()
        model = keras.Sequential([keras.Input((5,)), layer])
        path = f"{self.get_temp_dir()}/m.keras"
        model.save(path)
        loaded = keras.models.load_model(path)
        self.assertAllEqual(loaded(X), model(X))
        self.assertAllEqual(loaded.layers[0].kernel.mean.numpy()[noise], np.zeros(noise.sum()))

    def test_molchanov_prunes_what_the_data_do_not_need(self) -> None:
        """Inputs 1..4 are pure noise; their weights' alpha grows, that of input 0 falls."""
        n = 200
        rng = np.random.default_rng(3)
        x = rng.normal(size=(n, 5)).astype("float32")
        y = 2.0 * x[:, :1] + 0.1 * rng.normal(size=(n, 1)).astype("float32")
        layer = VariationalDropout(1, num_data=n, seed=0)
        layer.build((None, 5))
        optimizer = keras.optimizers.Adam(0.02)
        optimizer.build(layer.trainable_variables)

        @tf.function(jit_compile=True)
        def train() -> None:
            for _ in tf.range(1500):
                with tf.GradientTape() as tape:
                    error = tf.reduce_mean(tf.square(layer(x, training=True) - y))
                    loss = 0.5 * error / 0.01 + tf.add_n(layer.losses)
                gradients = tape.gradient(loss, [v.value for v in layer.trainable_variables])
                optimizer.apply(gradients, layer.trainable_variables)

        train()
        log_alpha = layer.log_alpha.numpy().ravel()
        self.assertLess(log_alpha[0], -5)
        self.assertAllGreater(log_alpha[1:], 3.0)
        self.assertAllClose(layer.sparsity(), 0.8)


class ArgumentsTest(tf.test.TestCase):
    def test_unknown_kl(self) -> None:
        with self.assertRaisesRegex(ValueError, "^kl='gauss' is unknown.*: kingma, molchanov$"):
            VariationalDropout(3, num_data=10, kl="gauss")


if __name__ == "__main__":
    tf.test.main()

"""The ways to sample outputs: their exact means and covariances, and their gradients."""

import itertools
from typing import Any

import keras
import numpy as np
import scipy.stats
import tensorflow as tf
from absl.testing import parameterized

from tfbdl import posteriors
from tfbdl.layers import BayesDense, estimators

NAMES = ("reparameterization", "local_reparameterization", "flipout", "per_example")
FAMILIES = {"mean_field": 1.0, "multiplicative": "log_uniform", "point": 1.0}
NUM = 20_000
RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 3))
X[2] = 0.0
SEQUENCE = RNG.normal(size=(2, 2, 3))


def softplus(x: Any) -> Any:
    return np.logaddexp(0, x)


def dense(
    estimator: str,
    posterior: str = "mean_field",
    dtype: str = "float32",
    units: int = 2,
    d_in: int = 3,
    **kwargs: Any,
) -> Any:
    """A layer whose parameters are all away from their start."""
    layer = BayesDense(
        units,
        num_data=10,
        prior=FAMILIES[posterior],
        posterior=posterior,
        estimator=estimator,
        dtype=dtype,
        seed=1,
        **kwargs,
    )
    layer.build((None, d_in))
    rng = np.random.default_rng(2)
    for v in layer.trainable_variables:
        v.assign(v + rng.normal(0, 0.5, v.shape))
    return layer


def samples(layer: Any, x: Any, num: Any = NUM) -> Any:
    """Outputs of `num` calls in training, shape (num, rows, units)."""
    x = tf.constant(x, layer.compute_dtype)

    @tf.function(jit_compile=True)
    def outputs() -> Any:
        return tf.map_fn(
            lambda _: layer(x, training=True), tf.range(num), fn_output_signature=x.dtype
        )

    return outputs().numpy().reshape(num, -1, layer.units).astype(np.float64)


def parameters(layer: Any) -> Any:
    """Means and variances of kernel and bias in float64."""
    weights = (layer.kernel, layer.bias)
    return [np.asarray(q.mean, np.float64) for q in weights] + [
        np.asarray(q.stddev, np.float64) ** 2 for q in weights
    ]


class LawTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(*itertools.product(NAMES, ("batch", "sequence")))
    def test_mean_and_covariance(self, estimator: str, kind: Any) -> None:
        """N(x mu + mu_b, .) with noise shared by the rows of the batch, or of the example.

        Weights are independent, so outputs of different units are; the covariance of rows n and m
        at unit j is sum_i x_ni x_mi sigma_ij^2 + sigma_bj^2 where they share the weights, else 0.
        """
        if (estimator, kind) == ("local_reparameterization", "sequence"):
            with self.assertRaisesRegex(ValueError, "^estimator='local_.* use 'flipout'$"):
                BayesDense(2, num_data=10, estimator=estimator)(SEQUENCE)
            return
        x = X if kind == "batch" else SEQUENCE
        layer = dense(estimator)
        y = samples(layer, x)
        rows = x.reshape(-1, 3)
        mu, mu_b, variance, variance_b = parameters(layer)
        mean = rows @ mu + mu_b
        covariance = np.einsum("ni,mi,ij,jk->njmk", rows, rows, variance, np.eye(2))
        covariance += np.einsum("j,jk->jk", variance_b, np.eye(2))[None, :, None, :]
        if estimator != "reparameterization":
            positions = x.shape[1] if kind == "sequence" else 1
            same_example = np.kron(np.eye(len(x)), np.ones((positions, positions)))
            covariance *= same_example[:, None, :, None]
        deviation = y - mean
        error = y.std(axis=0) / np.sqrt(NUM)
        self.assertLess(np.max(np.abs(deviation.mean(axis=0)) / error), 5)
        for (n, j), (m, k) in itertools.product(np.ndindex(mean.shape), repeat=2):
            products = deviation[:, n, j] * deviation[:, m, k]
            error = products.std() / np.sqrt(NUM)
            self.assertLess(abs(products.mean() - covariance[n, j, m, k]), 5 * error)

    @parameterized.parameters(*NAMES)
    def test_each_output_is_normal(self, estimator: str) -> None:
        layer = dense(estimator)
        y = samples(layer, X)
        mu, mu_b, variance, variance_b = parameters(layer)
        z = (y - X @ mu - mu_b) / np.sqrt(X**2 @ variance + variance_b)
        for column in z.reshape(NUM, -1).T:
            self.assertGreater(
                scipy.stats.kstest(column, scipy.stats.norm.cdf, method="asymp").pvalue, 1e-5
            )

    @parameterized.product(estimator=NAMES, posterior=("multiplicative", "point"))
    def test_other_posteriors(self, estimator: str, posterior: Any) -> None:
        layer = dense(estimator, posterior)
        y = samples(layer, X, 5000)
        mu, mu_b, variance, variance_b = parameters(layer)
        expected = X**2 @ variance + variance_b
        error = y.std(axis=0) / np.sqrt(5000)
        self.assertTrue(np.all(np.abs(y.mean(axis=0) - X @ mu - mu_b) < 5 * error + 1e-5))
        error = np.sqrt(2 / 5000) * expected
        self.assertTrue(np.all(np.abs(y.var(axis=0) - expected) < 5 * error + 1e-9))

    def test_flipout_signs(self) -> None:
        """One input and no bias: |y - x mu| / |x| is |dW| for the whole batch."""
        layer = dense("flipout", d_in=1, use_bias=False)
        x = np.linspace(0.5, 2.0, 1000)[:, None]
        y = layer(tf.constant(x, tf.float32), training=True).numpy()
        ratio = (y - x @ layer.kernel.mean.numpy()) / x
        for column in ratio.T:
            self.assertAllClose(np.abs(column), np.full(1000, np.abs(column[0])), 1e-4, 1e-5)
            self.assertLess(abs(np.mean(column > 0) - 0.5), 5 * 0.5 / np.sqrt(1000))
        same = np.mean(ratio[:, 0] * ratio[:, 1] > 0)
        self.assertLess(abs(same - 0.5), 5 * 0.5 / np.sqrt(1000))


class GradientTest(tf.test.TestCase, parameterized.TestCase):
    C = RNG.normal(size=(4, 2))

    def loss(self, layer: Any) -> Any:
        """c . y + model loss, with the same noise at every call."""
        layer.seed.state.assign([1, 0])
        y = layer(tf.constant(X), training=True)
        return tf.reduce_sum(self.C * y) + sum(layer.losses)

    def gradients(self, layer: Any) -> Any:
        variables = [v.value for v in layer.trainable_variables]
        with tf.GradientTape() as tape:
            loss = self.loss(layer)
        return tape.gradient(loss, variables)

    @parameterized.product(estimator=NAMES, posterior=tuple(FAMILIES))
    def test_against_finite_differences(self, estimator: str, posterior: Any) -> None:
        """Along a random direction of each variable."""
        layer = dense(estimator, posterior, dtype="float64")
        gradients = self.gradients(layer)
        loss = tf.function(lambda: self.loss(layer), autograph=False)
        for variable, gradient in zip(layer.trainable_variables, gradients, strict=True):
            start, h = variable.numpy(), 1e-5
            direction = np.random.default_rng(3).normal(size=start.shape)
            losses = []
            for step in (h, -h):
                variable.assign(start + step * direction)
                losses.append(loss())
            variable.assign(start)
            slope = (losses[0] - losses[1]) / (2 * h)
            self.assertAllClose(np.sum(gradient * direction), slope, 1e-6, 1e-6)

    def test_reparameterization_by_hand(self) -> None:
        """The noise is read off the outputs for x = 0 and unit vectors; prior N(0, 1), N = 10."""
        layer = dense("reparameterization", dtype="float64")
        layer.seed.state.assign([1, 0])
        b, *w = layer(tf.concat([tf.zeros([1, 3]), tf.eye(3)], 0), training=True).numpy()
        d_weights = {"kernel": X.T @ self.C, "bias": self.C.sum(axis=0)}
        gradients = dict(
            zip((v.path for v in layer.trainable_variables), self.gradients(layer), strict=True)
        )
        for name, sample in (("kernel", np.stack(w) - b), ("bias", b)):
            q = getattr(layer, name)
            mu, rho = q.mu.numpy(), q.rho.numpy()
            sigma = softplus(rho)
            e = (sample - mu) / sigma
            d_mu = d_weights[name] + mu / 10
            d_sigma = d_weights[name] * e + (sigma - 1 / sigma) / 10
            self.assertAllClose(gradients[q.mu.path], d_mu, 1e-8)
            self.assertAllClose(gradients[q.rho.path], d_sigma / (1 + np.exp(-rho)), 1e-8)

    def test_local_reparameterization_by_hand(self) -> None:
        layer = dense("local_reparameterization", dtype="float64")
        layer.seed.state.assign([1, 0])
        y = layer(tf.constant(X), training=True).numpy()
        mu, mu_b, variance, variance_b = parameters(layer)
        sd = np.sqrt(X**2 @ variance + variance_b)
        e = (y - X @ mu - mu_b) / sd
        gradients = dict(
            zip((v.path for v in layer.trainable_variables), self.gradients(layer), strict=True)
        )
        d_variance = 0.5 * self.C * e / sd
        for name, d_mean, d_squared in (
            ("kernel", X.T @ self.C, (X**2).T @ d_variance),
            ("bias", self.C.sum(axis=0), d_variance.sum(axis=0)),
        ):
            q = getattr(layer, name)
            mu, rho = q.mu.numpy(), q.rho.numpy()
            sigma = softplus(rho)
            d_sigma = d_squared * 2 * sigma + (sigma - 1 / sigma) / 10
            self.assertAllClose(gradients[q.mu.path], d_mean + mu / 10, 1e-8)
            self.assertAllClose(gradients[q.rho.path], d_sigma / (1 + np.exp(-rho)), 1e-8)

    @parameterized.product(
        estimator=NAMES, posterior=tuple(FAMILIES), use_bias=(True, False), start=("mu", "zeros")
    )
    def test_finite_for_an_input_of_zeros(
        self, estimator: str, posterior: Any, use_bias: bool, start: Any
    ) -> None:
        """Its output has variance 0 without a bias, where the square root has no slope."""
        layer = dense(estimator, posterior, use_bias=use_bias)
        if start == "zeros":
            layer.kernel.mu.assign(tf.zeros([3, 2]))
        x = tf.Variable([[0.0, 0.0, 0.0], [1.0, 0.0, 2.0]])
        with tf.GradientTape() as tape:
            y = layer(x, training=True)
            loss = tf.reduce_sum(tf.square(y)) + sum(layer.losses)
        variables = [v.value for v in layer.trainable_variables]
        for gradient in tape.gradient(loss, [x, *variables]):
            self.assertTrue(np.all(np.isfinite(gradient)))
        if not use_bias:
            self.assertAllClose(y[0], [0.0, 0.0], atol=1e-12)

    def test_gradients_are_unbiased_and_agree(self) -> None:
        """E[d/dsigma of c . y^2], known in closed form, for all."""
        x, c = X.astype("float32"), self.C.astype("float32")
        for name in NAMES:
            layer = dense(name)
            mu, mu_b, variance, _variance_b = parameters(layer)
            mean = X @ mu + mu_b
            variables = [layer.kernel.mu.value, layer.kernel.rho.value]

            @tf.function(jit_compile=True)
            def gradients(layer: Any = layer, variables: Any = variables) -> Any:
                def once(_: Any) -> Any:
                    with tf.GradientTape() as tape:
                        loss = tf.reduce_sum(c * tf.square(layer(x, training=True)))
                    return tuple(tape.gradient(loss, variables))

                signature = (tf.float32, tf.float32)
                return tf.map_fn(once, tf.range(5000), fn_output_signature=signature)

            d_mu, d_rho = (g.numpy().astype(np.float64) for g in gradients())
            rho = layer.kernel.rho.numpy()
            d_sigma = (X**2).T @ self.C * 2 * np.sqrt(variance)
            expected = (X.T @ (2 * self.C * mean), d_sigma / (1 + np.exp(-rho)))
            for got, e in zip((d_mu, d_rho), expected, strict=True):
                error = got.std(axis=0) / np.sqrt(5000)
                self.assertLess(np.max(np.abs(got.mean(axis=0) - e) / error), 5, name)

    def test_variance(self) -> None:
        """Most to least: one sample, flipout and one for each example, local (mu, rho)."""
        rng = np.random.default_rng(0)
        x, y = (rng.normal(size=(64, d)).astype("float32") for d in (8, 1))
        actual = {}
        for name in NAMES:
            kinds = {"num_data": 64, "estimator": name}
            layers = [BayesDense(8, "tanh", seed=1, **kinds), BayesDense(1, seed=2, **kinds)]
            model = keras.Sequential([keras.Input((8,)), *layers])
            for i, v in enumerate(model.trainable_variables):
                start = np.random.default_rng(i).normal(0, 0.3, v.shape)
                v.assign(start - 2 if v.name == "rho" else start)
            variables = [layers[0].kernel.mu.value, layers[0].kernel.rho.value]

            def once(_: Any, model: Any = model, variables: Any = variables) -> Any:
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean(tf.square(y - model(x, training=True)))
                return tuple(tape.gradient(loss, variables))

            draws = tf.function(tf.map_fn, jit_compile=True)(
                once, tf.range(300), fn_output_signature=(tf.float32, tf.float32)
            )
            actual[name] = np.array([np.mean(np.var(g, axis=0)) for g in draws])
        one, local, flipout, each = (actual[name] for name in NAMES)
        self.assertAllGreater(one / flipout, 1.3)
        self.assertAllInRange(flipout / each, 0.8, 2.0)
        self.assertAllGreater(each / local, 1.2)


class GetTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(
        ("reparameterization", "Reparameterization"),
        ("local_reparameterization", "LocalReparameterization"),
        ("flipout", "Flipout"),
        ("per_example", "PerExample"),
    )
    def test_name_object_or_config(self, name: str, class_name: Any) -> None:
        estimator = estimators.get(name)
        self.assertEqual(type(estimator).__name__, class_name)
        self.assertIs(estimators.get(estimator), estimator)
        config = keras.saving.serialize_keras_object(estimator)
        self.assertIs(type(estimators.get(config)), type(estimator))

    @parameterized.parameters("flip", None, 3)
    def test_unknown_name_lists_the_known_ones(self, name: str) -> None:
        known = "flipout, local_reparameterization, per_example, reparameterization"
        with self.assertRaisesRegex(ValueError, f"^estimator={name!r} .*{known}$"):
            estimators.get(name)

    @parameterized.parameters(*NAMES)
    def test_sampled_kl_counts_once(self, name: str) -> None:
        """The mean of the estimates is the KL, for any number of examples in the batch."""
        exact = dense(name)
        exact(X.astype("float32"))
        expected = float(exact.losses[0])
        layer = dense(name, kl="sample")
        layer.set_weights(exact.get_weights())
        rows = X.astype("float32")
        for batch in (rows[:1], np.repeat(rows, 5, axis=0)):

            def once(_: Any, x: Any = batch) -> Any:
                layer(x, training=True)
                return layer.losses[0]

            repeat = tf.function(tf.map_fn, jit_compile=True)
            got = repeat(once, tf.range(4000), fn_output_signature=tf.float32).numpy()
            self.assertGreater(got.std(), 0.0)
            error = got.std() / np.sqrt(len(got))
            self.assertLess(abs(got.mean() - expected), 4 * error, name)

    @parameterized.parameters("local_reparameterization", "flipout")
    def test_posterior_must_be_independent_and_normal(self, name: str) -> None:
        correlated = posteriors.LowRankNormal(2)
        with self.assertRaisesRegex(ValueError, f"^estimator='{name}' needs .*LowRankNormal"):
            BayesDense(2, num_data=10, posterior=correlated, estimator=name)
        BayesDense(2, num_data=10, posterior=correlated, estimator="reparameterization")


if __name__ == "__main__":
    tf.test.main()

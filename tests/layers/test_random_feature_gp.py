"""The last layer of SNGP: exact posteriors with its features, passes through the data, draws."""

import math
from typing import Any

import keras
import numpy as np
import scipy.optimize
import scipy.special
import tensorflow as tf
import two_replicas
from absl.testing import parameterized

import tfbdl
from tfbdl.layers import RandomFeatureGP
from tfbdl.likelihoods import Normal

N, D, SIGMA, RIDGE = 30, 8, 0.3, 0.7
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 2)).astype("float32")
FAR = (8.0 * RNG.normal(size=(9, 2))).astype("float32")
Y = np.sin(X[:, :1]) + SIGMA * RNG.normal(size=(N, 1)).astype("float32")
CLASSES = np.arange(N) % 3
GAUSS = np.polynomial.hermite_e.hermegauss(60)


def model_of(layer: Any, loss: Any = "mse") -> Any:
    """The layer alone, whose weights stay where they are when it is trained."""
    model = keras.Sequential([keras.Input((2,)), layer])
    model.compile(keras.optimizers.SGD(0.0), loss, jit_compile=False)
    return model


def head(units: int = 1, likelihood: str = "normal", **arguments: Any) -> Any:
    arguments = {"num_data": N, "num_features": D, "ridge": RIDGE, "seed": 1, **arguments}
    layer = RandomFeatureGP(units, likelihood=likelihood, noise_scale=SIGMA, **arguments)
    layer.build((None, 2))
    layer.beta.assign(RNG.normal(size=layer.beta.shape))
    return layer


def features(layer: Any, x: Any) -> Any:
    """The features by NumPy in float64."""
    W, b = (np.asarray(v, np.float64) for v in (layer.directions, layer.phases))
    return np.sqrt(2.0 / D) * np.cos(np.asarray(x, np.float64) @ W + b)


def passed(layer: Any, **fit: Any) -> Any:
    """After one pass through the data, or several."""
    loss = {"normal": Normal(SIGMA)}.get(layer.likelihood, "categorical")
    y = {"normal": Y, "bernoulli": Y > 0}.get(layer.likelihood, CLASSES)
    model = model_of(layer, "binary_crossentropy" if layer.likelihood == "bernoulli" else loss)
    if loss == "categorical":
        model.compile(keras.optimizers.SGD(0.0), tfbdl.likelihoods.Categorical(), jit_compile=False)
    if layer.likelihood == "bernoulli":
        model.compile(keras.optimizers.SGD(0.0), tfbdl.likelihoods.Bernoulli(), jit_compile=False)
    model.fit(X, y, **{"batch_size": 8, "verbose": 0, **fit})
    return model


class RegressionTest(tf.test.TestCase):
    def test_is_exact(self) -> None:
        """Bayesian regression on these features, and the Gaussian process that it is."""
        layer = head()
        model = passed(layer)
        phi, at = features(layer, X), features(layer, FAR)
        precision = RIDGE * np.eye(D) + phi.T @ phi / SIGMA**2
        mean = np.linalg.solve(precision, phi.T @ Y / SIGMA**2)
        variance = np.sum(at @ np.linalg.inv(precision) * at, axis=1)
        self.assertAllClose(layer.variance(FAR)[:, 0], variance, 1e-5)
        kernel = phi @ phi.T / RIDGE + SIGMA**2 * np.eye(N)
        across, own = at @ phi.T / RIDGE, np.sum(at * at, axis=1) / RIDGE
        of_gp = own - np.sum(across @ np.linalg.inv(kernel) * across, axis=1)
        self.assertAllClose(layer.variance(FAR)[:, 0], of_gp, 1e-5)
        layer.beta.assign(mean)
        self.assertAllClose(model(FAR), across @ np.linalg.solve(kernel, Y), 1e-4, 1e-5)

    def test_the_mode_is_the_optimum_of_the_loss(self) -> None:
        layer = head()
        model = model_of(layer, Normal(SIGMA))
        phi = features(layer, X)
        precision = RIDGE * np.eye(D) + phi.T @ phi / SIGMA**2
        layer.beta.assign(np.linalg.solve(precision, phi.T @ Y / SIGMA**2))
        with tf.GradientTape() as tape:
            loss = model.compute_loss(X, Y, model(X, training=True))
        self.assertAllClose(tape.gradient(loss, layer.beta.value), np.zeros((D, 1)), atol=1e-5)
        expected = 0.5 * RIDGE * np.sum(np.square(layer.beta)) / N
        self.assertAllClose(model.losses, [expected], 1e-6)

    def test_draws_are_of_the_posterior(self) -> None:
        """Mean, and covariance over inputs: a draw is one function of them."""
        layer = head()
        model = passed(layer)
        S = 4000
        drawn = tfbdl.predict(model, FAR, S, seed=0, return_samples=True, verbose=0).outputs[..., 0]
        at, phi = features(layer, FAR), features(layer, X)
        covariance = at @ np.linalg.inv(RIDGE * np.eye(D) + phi.T @ phi / SIGMA**2) @ at.T
        scale = np.sqrt(np.diag(covariance))
        mean = at @ np.asarray(layer.beta, np.float64)[:, 0]
        self.assertLess(np.abs((drawn.mean(0) - mean) / scale).max(), 4 / np.sqrt(S))
        error = (np.cov(drawn.T) - covariance) / np.outer(scale, scale)
        self.assertLess(np.abs(error).max(), 5 * np.sqrt(2.0 / S))

    def test_the_kernel_is_gaussian(self) -> None:
        for length_scale in (0.5, 2.0):
            layer = RandomFeatureGP(
                1, num_data=N, num_features=2000, length_scale=length_scale, seed=2
            )
            layer.build((None, 2))
            phi = np.asarray(layer.features(X))
            squared = np.sum((X[:, None] - X[None]) ** 2, axis=-1)
            expected = np.exp(-squared / (2 * length_scale**2))
            self.assertAllClose(phi @ phi.T, expected, atol=5 / np.sqrt(2000))

    def test_uncertain_far_from_the_data(self) -> None:
        """As the prior there; at the data less than the noise."""
        layer = RandomFeatureGP(
            1, num_data=N, likelihood="normal", num_features=500, noise_scale=SIGMA, seed=1
        )
        layer.build((None, 2))
        passed(layer)
        far = np.array([[30.0, 0.0], [0.0, -50.0], [40.0, 40.0]], "float32")
        self.assertAllInRange(layer.variance(far), 0.8, 1.2)
        self.assertAllInRange(layer.variance(X), 0.0, SIGMA**2)


class ClassesTest(tf.test.TestCase, parameterized.TestCase):
    def hessian(self, layer: Any, negative_log_likelihood: Any) -> Any:
        """The Hessian of the loss of all data by beta, in float64, as (D, C, D, C)."""
        phi = tf.constant(features(layer, X))
        beta = tf.Variable(np.asarray(layer.beta, np.float64))
        with tf.GradientTape() as outer:
            with tf.GradientTape() as tape:
                loss = negative_log_likelihood(tf.matmul(phi, beta))
                loss += 0.5 * RIDGE * tf.reduce_sum(beta**2)
            gradient = tape.gradient(loss, beta)
        return outer.jacobian(gradient, beta).numpy()

    def variance(self, layer: Any, precision: Any) -> Any:
        at = features(layer, FAR)
        return np.sum(at @ np.linalg.inv(precision) * at, axis=1)

    def test_bernoulli_is_the_laplace_approximation(self) -> None:
        """Around any weights; at those of logistic regression by SciPy, around its mode."""
        layer = head(1, "bernoulli")
        phi, y = features(layer, X), (Y[:, 0] > 0).astype(np.float64)

        def loss(beta: Any) -> Any:
            f = phi @ beta
            return np.sum(np.logaddexp(0.0, f) - y * f) + 0.5 * RIDGE * beta @ beta

        layer.beta.assign(scipy.optimize.minimize(loss, np.zeros(D), tol=1e-10).x[:, None])
        model = passed(layer)
        with tf.GradientTape() as tape:
            total = model.compute_loss(X, y[:, None], model(X, training=True))
        self.assertAllClose(tape.gradient(total, layer.beta.value), np.zeros((D, 1)), atol=1e-5)
        layer = passed_again(layer)
        labels = tf.constant(y[:, None])
        hessian = self.hessian(
            layer,
            lambda f: tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels, f)),
        )
        expected = self.variance(layer, hessian[:, 0, :, 0])
        self.assertAllClose(layer.variance(FAR)[:, 0], expected, 1e-5)

    def test_categorical_per_output(self) -> None:
        """Each class has its block of the Hessian."""
        layer = head(3, "categorical", per_output=True)
        passed(layer)
        hessian = self.hessian(
            layer,
            lambda f: tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(CLASSES, f)),
        )
        for c in range(3):
            expected = self.variance(layer, hessian[:, c, :, c])
            self.assertAllClose(layer.variance(FAR)[:, c], expected, 1e-5)

    def test_categorical_shared(self) -> None:
        """The curvature of the likeliest class serves all, and is that of none less."""
        layer = head(3, "categorical")
        passed(layer)
        phi = features(layer, X)
        p = scipy.special.softmax(phi @ np.asarray(layer.beta, np.float64), axis=1)
        likeliest = p.max(axis=1)
        self.assertAllClose((p * (1 - p)).max(axis=1), likeliest * (1 - likeliest), 1e-12)
        precision = RIDGE * np.eye(D) + (phi.T * likeliest * (1 - likeliest)) @ phi
        for c in range(3):
            self.assertAllClose(layer.variance(FAR)[:, c], self.variance(layer, precision), 1e-5)
        outputs = tfbdl.predict(
            model_of(layer), FAR, 4000, seed=1, return_samples=True, verbose=0
        ).outputs
        self.assertAllClose(outputs.var(0) / layer.variance(FAR), np.ones((9, 3)), atol=0.15)
        correlation = np.corrcoef(outputs[:, 0].T)
        self.assertAllClose(correlation, np.eye(3), atol=0.08)

    @parameterized.parameters("bernoulli", "categorical")
    def test_mean_field_logits(self, likelihood: str) -> None:
        """Logits are shrunk as their formula has it; under the sigmoid that is nearly E[p]."""
        units = 1 if likelihood == "bernoulli" else 3
        layer = head(units, likelihood)
        model = passed(layer)
        mean = features(layer, FAR) @ np.asarray(layer.beta, np.float64)
        variance = np.asarray(layer.variance(FAR))
        self.assertAllClose(model(FAR), mean / np.sqrt(1 + math.pi / 8 * variance), 1e-4, 1e-5)
        if likelihood == "bernoulli":
            nodes, weights = GAUSS
            f = mean + np.sqrt(variance) * nodes
            expected = scipy.special.expit(f) @ weights / np.sqrt(2 * np.pi)
            self.assertAllClose(scipy.special.expit(model(FAR)[:, 0]), expected, atol=0.02)
        plain = model_of(head(units, likelihood, mean_field_factor=0.0))
        plain.set_weights(model.get_weights())
        self.assertAllClose(plain(FAR), mean, 1e-4, 1e-5)


def passed_again(layer: Any) -> Any:
    """After one pass of its own, at the weights that it has."""
    passed(layer)
    return layer


class PassesTest(tf.test.TestCase, parameterized.TestCase):
    def exact(self, layer: Any, phi: Any, scale: float = 1.0) -> Any:
        at = features(layer, FAR)
        precision = RIDGE * np.eye(D) + scale * phi.T @ phi / SIGMA**2
        return np.sum(at @ np.linalg.inv(precision) * at, axis=1)

    @parameterized.parameters(1, 7, 30, 64)
    def test_several_epochs_count_once(self, batch_size: int) -> None:
        layer = head()
        passed(layer, epochs=3, batch_size=batch_size)
        self.assertAllClose(layer.variance(FAR)[:, 0], self.exact(layer, features(layer, X)), 1e-5)

    def test_the_last_whole_pass_counts(self) -> None:
        """Before it the prior; in the middle of the next the one before."""
        layer = head()
        model = model_of(layer)
        prior = self.exact(layer, np.zeros((0, D)))
        for i in range(0, N, 10):
            self.assertAllClose(layer.variance(FAR)[:, 0], prior, 1e-5)
            model(X[i : i + 10], training=True)
        whole = self.exact(layer, features(layer, X))
        self.assertAllClose(layer.variance(FAR)[:, 0], whole, 1e-5)
        for i in range(0, N, 10):
            self.assertAllClose(layer.variance(FAR)[:, 0], whole, 1e-5)
            model(2.0 * X[i : i + 10], training=True)
        other = self.exact(layer, features(layer, 2.0 * X))
        self.assertAllClose(layer.variance(FAR)[:, 0], other, 1e-5)

    def test_inference_leaves_it(self) -> None:
        layer = head()
        model = passed(layer)
        before = model.get_weights()
        model.predict(FAR, verbose=0)
        model.evaluate(X, Y, verbose=0)
        tfbdl.predict(model, FAR, 3, verbose=0)
        for a, b in zip(before, model.get_weights(), strict=True):
            self.assertAllEqual(a, b)

    def test_other_numbers_are_scaled(self) -> None:
        """24 examples an epoch, the last of each left out: N = 30 are 32 scaled to 30."""
        layer = head()
        model = model_of(layer)
        rows = [slice(i, i + 8) for i in (0, 8, 16, 0)]
        for row in rows:
            model(X[row], training=True)
        seen = np.concatenate([features(layer, X[row]) for row in rows])
        expected = self.exact(layer, seen, 30 / 32)
        self.assertAllClose(layer.variance(FAR)[:, 0], expected, 1e-5)

    def test_many_alike_lose_no_digits(self) -> None:
        """The ridge beside 10^6 times as much, of examples at one place."""
        number = 2**20
        layer = head(num_data=number)
        one = tf.repeat(tf.constant(X[:1]), 2**14, axis=0)
        for _ in range(number // 2**14):
            layer(one, training=True)
        phi = features(layer, X[:1])
        expected = self.exact(layer, phi, number)
        self.assertAllClose(layer.variance(FAR)[:, 0], expected, 1e-3)

    def test_trained_by_the_package(self) -> None:
        """Under XLA, with the posterior of Keras' `fit` at the same weights."""
        layer = head(3, "categorical")
        model = model_of(layer, tfbdl.likelihoods.Categorical())
        tfbdl.train(model, X, CLASSES, epochs=2, batch_size=10, jit_compile=True, verbose=0)
        actual = layer.variance(FAR)
        passed(layer)
        self.assertAllClose(actual, layer.variance(FAR), 1e-4)

    def test_two_replicas(self) -> None:
        """Each has half of the batch, and all of the sum."""
        alone = head()
        passed(alone)
        with two_replicas.strategy().scope():
            shared = head()
            model = model_of(shared, Normal(SIGMA))
        model.fit(X, Y, epochs=2, batch_size=10, verbose=0)
        self.assertAllClose(shared.variance(FAR), alone.variance(FAR), 1e-5)

    def test_mixed_precision(self) -> None:
        """Features and outputs are in float32."""
        layer = head(dtype="mixed_bfloat16")
        model = passed(layer)
        self.assertEqual(model(X).dtype, tf.float32)
        expected = self.exact(layer, features(layer, X.astype(tf.bfloat16.as_numpy_dtype)))
        self.assertAllClose(layer.variance(FAR)[:, 0], expected, 0.05)

    def test_refusals(self) -> None:
        for arguments, message in (
            ({"units": 0}, "^units=0 must"),
            ({"ridge": 0.0}, "^ridge=0.0 must"),
            ({"likelihood": "poisson"}, "^likelihood='poisson'"),
            ({"mean_field_factor": -1.0}, "^mean_field_factor=-1.0 must"),
            ({"num_data": 0}, "^num_data=0 must"),
        ):
            with self.assertRaisesRegex(ValueError, message):
                RandomFeatureGP(**{"units": 1, "num_data": N, **arguments})
        with self.assertRaisesRegex(ValueError, "^num_features=1000000 of layer .* take fewer"):
            RandomFeatureGP(1, num_data=N, num_features=10**6).build((None, 2))


if __name__ == "__main__":
    tf.test.main()

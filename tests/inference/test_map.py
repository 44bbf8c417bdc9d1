"""The mode of the posterior: of a linear regression by hand, and as weight decay finds it."""

import warnings
from typing import Any
from unittest import mock

import keras
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from absl.testing import parameterized

import tfbdl
from tfbdl import likelihoods, priors
from tfbdl.inference import MAP, LogPosterior, NotFittedError, mode_search

RNG = np.random.default_rng(0)
N, SIGMA, SCALE = 20, 0.3, 0.8
X = RNG.normal(size=(N, 3))
Y = X @ RNG.normal(size=(3, 1)) + RNG.normal(0, SIGMA, (N, 1))


def network(units: Any = (), **kwargs: Any) -> keras.Model:
    keras.utils.set_random_seed(0)
    hidden = [keras.layers.Dense(u, "tanh", **kwargs) for u in units]
    return keras.Sequential([keras.Input((3,)), *hidden, keras.layers.Dense(1, **kwargs)])


def target_of(model: Any, prior: Any = SCALE) -> Any:
    return LogPosterior(model, prior, X, Y, likelihood=likelihoods.Normal(SIGMA), dtype="float64")


def mode_by_hand() -> Any:
    """The mode of the linear regression, and its inputs with a one for the bias."""
    phi = np.c_[X, np.ones(N)]
    precision = phi.T @ phi / SIGMA**2 + np.eye(4) / SCALE**2
    return np.linalg.solve(precision, phi.T @ Y[:, 0] / SIGMA**2), phi


class MAPTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters("lbfgs", "adam")
    def test_linear_regression(self, name: str) -> None:
        optimizer = keras.optimizers.Adam(0.05) if name == "adam" else name
        fitted = MAP(
            target_of(network()), optimizer=optimizer, tolerance=1e-5, jit_compile=False
        ).fit()
        mode, phi = mode_by_hand()
        self.assertAllClose(fitted.theta, mode, 1e-6, 1e-6)
        self.assertLess(fitted.gradient_norm, 1e-5)
        prediction = tfbdl.predict(fitted, X, verbose=0)
        self.assertAllClose(prediction.mean[:, 0], phi @ mode, 1e-5, 1e-5)

    def test_a_normal_prior_is_weight_decay(self) -> None:
        """At the mode the mean loss with L2(1 / (2 N s^2)) is stationary."""
        fitted = MAP(target_of(network((4,))), tolerance=1e-4, jit_compile=False).fit()
        decay = keras.regularizers.L2(1 / (2 * N * SCALE**2))
        model = network((4,), kernel_regularizer=decay, bias_regularizer=decay)
        model.compile(loss=likelihoods.Normal(SIGMA))
        fitted.assign(model)
        x, y = X.astype("float32"), Y.astype("float32")
        with tf.GradientTape() as tape:
            loss = model.compute_loss(x, y, model(x, training=True))
        weights = [v.value for v in model.trainable_variables]
        for gradient in tape.gradient(loss, weights):
            self.assertAllClose(gradient, tf.zeros_like(gradient), atol=1e-4)

    def test_looks_are_compiled_once(self) -> None:
        target, traces = target_of(network()), []

        def density(theta: Any) -> Any:
            traces.append(theta)
            return target(theta)

        optimizer = keras.optimizers.Adam(1e-3)
        start = {"initial": np.zeros(4), "max_iterations": 50, "jit_compile": False}
        with mock.patch.object(mode_search, "STEPS_PER_CALL", 10), self.assertWarns(UserWarning):
            MAP(density, optimizer=optimizer, **start).fit()
        self.assertLess(len(traces), 6)

    def test_searches_that_end_early_go_on(self) -> None:
        """As those do whose line search finds nothing, at the rounding of one density."""
        minimize = tfp.optimizer.lbfgs_minimize

        def ends_early(*args: Any, max_iterations: Any, **kwargs: Any) -> Any:
            return minimize(*args, max_iterations=tf.minimum(max_iterations, 2), **kwargs)

        start = {"tolerance": 1e-6, "jit_compile": False}
        target = target_of(network())
        with mock.patch.object(tfp.optimizer, "lbfgs_minimize", ends_early):
            fitted = MAP(target, **start).fit()
            self.assertAllClose(fitted.theta, mode_by_hand()[0], 1e-7, 1e-7)
            self.assertGreater(fitted.num_iterations, 2)
            with self.assertWarnsRegex(UserWarning, "^no mode after 3 iter.* raise max_iterations"):
                MAP(target, max_iterations=3, **start).fit()

    @parameterized.parameters((1, 20, 0.01, 30), (3, 20, 0.001, 100), (4, 50, 1e-4, 1))
    def test_single_precision_is_near_the_mode_or_says_so(
        self, seed: int, size: Any, sigma: Any, spread: Any
    ) -> None:
        """Linear regressions whose inputs are of very different sizes."""
        rng = np.random.default_rng(seed)
        scales = np.geomspace(1, spread, size)
        x = rng.normal(size=(1000, size)) * scales
        y = x @ (rng.normal(size=size) / scales) + rng.normal(0, sigma, 1000)

        def log_prob(theta: Any, x: Any, y: Any) -> Any:
            z = (tf.linalg.matvec(x, theta) - y) / sigma
            return -0.5 * (tf.reduce_sum(z**2) + tf.reduce_sum(theta**2))

        mode = np.linalg.solve(x.T @ x + sigma**2 * np.eye(size), x.T @ y)
        single = (tf.constant(x, "float32"), tf.constant(y, "float32"))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fitted = MAP(
                lambda theta: tf.map_fn(lambda t: log_prob(t, *single), theta),
                initial=np.zeros(size, "float32"),
                jit_compile=False,
            ).fit()
        gap = log_prob(mode, x, y) - log_prob(fitted.theta.astype(np.float64), x, y)
        said = [str(w.message) for w in caught if "mode" in str(w.message)]
        self.assertTrue(said or gap < 0.05, (gap, fitted.gradient_norm))
        for message in said:
            self.assertRegex(message, "^no mode after .*: the gradient is .* dtype='float64'$")

    def test_refusals(self) -> None:
        target = target_of(network())
        with self.assertRaisesRegex(ValueError, "^optimizer='newton' must be 'lbfgs' or a keras"):
            MAP(target, optimizer="newton")
        for initial, message in (
            (np.full(4, 1e200), "^initial has a log density of -inf; start elsewhere$"),
            (np.full(4, np.nan), "^initial is not finite in example 0"),
        ):
            with self.assertRaisesRegex(ValueError, message):
                MAP(target, initial=initial, jit_compile=False).fit()
        with self.assertRaisesRegex(ValueError, "^prior is discrete, which has no gradient"):
            MAP(target_of(network(), priors.Bernoulli())).fit()
        mode = MAP(lambda t: -tf.reduce_sum(t**2, 1), initial=[1.0], jit_compile=False).fit()
        with self.assertRaisesRegex(ValueError, "^model is a log density, which has no network"):
            mode.ensemble()
        for name in ("theta", "log_prob", "gradient_norm", "num_iterations"):
            message = f"^{name} needs a fitted MAP; call fit first$"
            with self.assertRaisesRegex(NotFittedError, message):
                getattr(MAP(target), name)


if __name__ == "__main__":
    tf.test.main()

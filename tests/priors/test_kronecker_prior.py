"""Priors over whole tensors, against SciPy's and TFP's multivariate normals and brute force."""

import json
from typing import Any

import keras
import numpy as np
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp
from absl.testing import parameterized
from prior_checks import SAMPLES, PriorChecks

from tfbdl import priors, random
from tfbdl.layers import BayesDense

tfd = tfp.distributions
KEY = tf.constant(123, tf.int64)


def random_covariance(n: Any, seed: int) -> Any:
    a = np.random.default_rng(seed).normal(size=(n, 2 * n))
    return a @ a.T / n


def gaussian_kernel(positions: Any, lengthscale: Any) -> Any:
    """The kernel of all pairs of positions of a filter, in row-major order, by their distance."""
    grid = np.stack(np.meshgrid(*map(np.arange, positions), indexing="ij"), -1)
    grid = grid.reshape(-1, len(positions))
    squared = np.sum((grid[:, np.newaxis] - grid) ** 2, axis=-1)
    return np.exp(-squared / (2 * lengthscale**2))


D6, ROWS, COLUMNS = random_covariance(6, 1), random_covariance(8, 2), random_covariance(3, 3)
CASES = {
    "multivariate": (
        lambda **k: priors.MultivariateNormal(D6, **k),
        (2, 3),
        D6,
    ),
    "multivariate_bias": (lambda **k: priors.MultivariateNormal(D6, **k), (6,), D6),
    "matrix": (
        lambda **k: priors.MatrixNormal(ROWS, COLUMNS, **k),
        (8, 3),
        np.kron(ROWS, COLUMNS),
    ),
    "matrix_of_filters": (
        lambda **k: priors.MatrixNormal(ROWS, COLUMNS, **k),
        (2, 2, 2, 3),
        np.kron(ROWS, COLUMNS),
    ),
    "matrix_bias": (
        lambda **k: priors.MatrixNormal([[2.0]], COLUMNS, **k),
        (3,),
        2.0 * COLUMNS,
    ),
    "spatial_1d": (
        lambda **k: priors.SpatialNormal(1.5, **k),
        (5, 2, 3),
        np.kron(gaussian_kernel((5,), 1.5), np.eye(6)),
    ),
    "spatial_2d": (
        lambda **k: priors.SpatialNormal(0.8, **k),
        (3, 4, 2, 2),
        np.kron(gaussian_kernel((3, 4), 0.8), np.eye(4)),
    ),
    "spatial_3d": (
        lambda **k: priors.SpatialNormal(1.0, **k),
        (2, 3, 2, 1, 2),
        np.kron(gaussian_kernel((2, 3, 2), 1.0), np.eye(2)),
    ),
}
NAMES = tuple(CASES)


class KroneckerNormalTest(PriorChecks, tf.test.TestCase, parameterized.TestCase):
    def case(self, name: str, scale: float = 0.7) -> Any:
        """A prior, the shape of its weight, and the same by SciPy."""
        make, shape, covariance = CASES[name]
        p = scipy.stats.multivariate_normal(np.zeros(len(covariance)), scale**2 * covariance)
        rng = np.random.default_rng(0)
        mu, sigma = rng.normal(size=shape), np.exp(rng.normal(-1, 0.7, shape))
        return make(scale=scale), p, tf.constant(mu), tf.constant(sigma)

    @parameterized.parameters(*NAMES)
    def test_log_prob(self, name: str) -> None:
        """The value is that of all weights together: its shape is ()."""
        prior, p, w, _ = self.case(name)
        expected = p.logpdf(np.ravel(w))
        self.assertEqual(prior.log_prob(w).shape, ())
        self.assertAllClose(prior.log_prob(w), expected, 1e-10)
        self.assertAllClose(prior.log_prob(tf.cast(w, tf.float32)), expected, 1e-4)
        with tf.GradientTape() as tape:
            tape.watch(w)
            log_prob = prior.log_prob(w)
        slope = -np.linalg.solve(p.cov_object.covariance, np.ravel(w))
        self.assertAllClose(np.ravel(tape.gradient(log_prob, w)), slope, 1e-7, 1e-9)

    def test_matrix_normal_by_scipy(self) -> None:
        w = np.random.default_rng(0).normal(size=(8, 3))
        expected = scipy.stats.matrix_normal(np.zeros((8, 3)), ROWS, COLUMNS).logpdf(w)
        self.assertAllClose(priors.MatrixNormal(ROWS, COLUMNS).log_prob(w), expected, 1e-10)

    @parameterized.parameters(*NAMES)
    def test_kl(self, name: str) -> None:
        """Against TFP's of two multivariate normals, and samples."""
        prior, p, mu, sigma = self.case(name)
        flat = np.ravel(mu), np.ravel(sigma)
        cholesky = np.linalg.cholesky(p.cov_object.covariance)
        expected = tfd.kl_divergence(
            tfd.MultivariateNormalTriL(flat[0], np.diag(flat[1])),
            tfd.MultivariateNormalTriL(np.zeros_like(flat[0]), cholesky),
        )
        got = prior.kl_from_normal(mu, sigma)
        self.assertAllClose(got, expected, 1e-10)
        in_float32 = prior.kl_from_normal(*(tf.cast(a, tf.float32) for a in (mu, sigma)))
        self.assertAllClose(in_float32, expected, 1e-4)
        w = scipy.stats.norm(*flat).rvs((SAMPLES, len(flat[0])), random_state=0)
        self.assert_mean(scipy.stats.norm(*flat).logpdf(w).sum(axis=1) - p.logpdf(w), got)

    @parameterized.parameters(*NAMES)
    def test_gradient_of_kl(self, name: str) -> None:
        """S^-1 mu, and sigma diag(S^-1) - 1 / sigma, by hand; also under XLA."""
        prior, p, mu, sigma = self.case(name)

        def gradients(mu: Any, sigma: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch([mu, sigma])
                kl = prior.kl_from_normal(mu, sigma)
            return tape.gradient(kl, (mu, sigma))

        precision = np.linalg.inv(p.cov_object.covariance)
        flat = np.ravel(mu), np.ravel(sigma)
        by_hand = precision @ flat[0], np.diagonal(precision) * flat[1] - 1 / flat[1]
        for compute in (gradients, tf.function(gradients, jit_compile=True)):
            for got, expected in zip(compute(mu, sigma), by_hand, strict=True):
                self.assertAllClose(np.ravel(got), expected, 1e-8, 1e-9)

    @parameterized.parameters(*NAMES)
    def test_law(self, name: str) -> None:
        """Whitened by the reference, samples are independent standard normals."""
        prior, p, mu, _ = self.case(name)
        keys = random.split(KEY, 20_000)
        w = tf.vectorized_map(lambda key: prior.sample(key, tuple(mu.shape)), keys).numpy()
        w = w.reshape(20_000, -1).astype(np.float64)
        e = np.linalg.solve(np.linalg.cholesky(p.cov_object.covariance), w.T)
        for row in e:
            self.assertGreater(scipy.stats.kstest(row, scipy.stats.norm.cdf).pvalue, 1e-6)
        off = (e @ e.T / 20_000)[~np.eye(len(e), dtype=bool)]
        self.assertLess(np.abs(off).max(), 5 / np.sqrt(20_000))
        compiled = tf.function(lambda k: prior.sample(k, tuple(mu.shape)), jit_compile=True)
        self.assertAllClose(compiled(KEY), prior.sample(KEY, tuple(mu.shape)), 1e-4, 1e-6)

    @parameterized.parameters(*NAMES)
    def test_scale_is_learned(self, name: str) -> None:
        """The optimum for a fixed q: sqrt((mu^T C^-1 mu + tr(C^-1 diag sigma^2)) / D)."""
        make, _, covariance = CASES[name]
        _, _, mu, sigma = self.case(name)
        prior = make(scale=2.0, trainable=True, dtype="float64")
        self.learn_scales(prior, lambda: prior.kl_from_normal(mu, sigma))
        precision, flat = np.linalg.inv(covariance), (np.ravel(mu), np.ravel(sigma))
        squares = flat[0] @ precision @ flat[0] + np.diagonal(precision) @ flat[1] ** 2
        self.assertAllClose(prior.scale, np.sqrt(squares / len(flat[0])), 1e-4)

    @parameterized.parameters(*NAMES)
    def test_config(self, name: str) -> None:
        """As nested lists."""
        prior, _, mu, sigma = self.case(name)
        config = json.loads(json.dumps(keras.saving.serialize_keras_object(prior)))
        again = priors.get(config)
        self.assertEqual(again.get_config(), prior.get_config())
        self.assertAllEqual(again.kl_from_normal(mu, sigma), prior.kl_from_normal(mu, sigma))

    def test_identity_is_a_normal_prior(self) -> None:
        rng = np.random.default_rng(0)
        mu, sigma = tf.constant(rng.normal(size=(4, 3))), tf.constant(rng.uniform(size=(4, 3)))
        expected = priors.Normal(0.3).kl_from_normal(mu, sigma)
        for prior in (
            priors.MultivariateNormal(np.eye(12), 0.3),
            priors.MatrixNormal(np.eye(4), np.eye(3), 0.3),
        ):
            self.assertAllClose(prior.kl_from_normal(mu, sigma), expected, 1e-12)

    def test_sampled_kl_of_a_layer(self) -> None:
        """Where the closed form is not asked for, or not known: posteriors with correlations."""
        prior = priors.MatrixNormal(ROWS, COLUMNS)
        for kwargs in ({"kl": "sample"}, {"posterior": "low_rank"}):
            layer = BayesDense(3, num_data=1, prior=prior, use_bias=False, seed=1, **kwargs)
            layer.build((None, 8))
            q, keys = layer.kernel, random.split(KEY, 20_000)
            estimates = tf.vectorized_map(lambda key, q=q: q.sample_and_kl(key)[1], keys)
            covariance = np.diag(np.ravel(q.stddev) ** 2)
            if kwargs.get("posterior") == "low_rank":
                covariance = q.covariance()
            p = np.linalg.cholesky(np.kron(ROWS, COLUMNS))
            exact = tfd.kl_divergence(
                tfd.MultivariateNormalTriL(
                    np.float64(np.ravel(q.mean)), np.linalg.cholesky(np.float64(covariance))
                ),
                tfd.MultivariateNormalTriL(np.zeros(24), p),
            )
            self.assert_mean(estimates, exact)


class ShapeTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(
        (
            lambda: priors.MultivariateNormal(D6),
            (3, 3),
            r"^covariance of shape \(6, 6\) .* which needs \(9, 9\)",
        ),
        (
            lambda: priors.MatrixNormal(ROWS, COLUMNS),
            (3, 8),
            r"^row_covariance of shape \(8, 8\) .* shape \(3, 8\), which needs \(3, 3\)$",
        ),
        (
            lambda: priors.MatrixNormal(ROWS, COLUMNS),
            (8, 4),
            r"^column_covariance of shape \(3, 3\) .* shape \(8, 4\), which needs \(4, 4\)$",
        ),
        (priors.SpatialNormal, (8, 4), r"^prior=SpatialNormal .* shape \(8, 4\); use 'normal'$"),
        (
            lambda: priors.SpatialNormal(4.0),
            (7, 7, 2, 3),
            "^lengthscale=4 is too long for 7 positions .* use a shorter one$",
        ),
    )
    def test_what_does_not_fit(self, make: Any, shape: Any, message: str) -> None:
        with self.assertRaisesRegex(ValueError, message):
            make().attach(shape)

    @parameterized.parameters((11, 2.0), (5, 4.0), (3, 20.0))
    def test_lengthscales_that_go(self, positions: Any, lengthscale: Any) -> None:
        """The lengthscales of the docstring; densities still have their digits in float32."""
        prior = priors.SpatialNormal(lengthscale)
        prior.attach((positions, 4, 4))
        w = prior.sample(KEY, (positions, 4, 4))
        self.assertAllClose(
            prior.log_prob(w), prior.log_prob(tf.cast(w, tf.float64)), 1e-2, 1e-2 * positions * 16
        )

    @parameterized.parameters(0.0, -1.0, np.nan, None, "long")
    def test_arguments_are_checked(self, wrong: Any) -> None:
        with self.assertRaisesRegex(ValueError, "^lengthscale=.* must be a positive number"):
            priors.SpatialNormal(wrong)
        with self.assertRaisesRegex(ValueError, "^scale=.* must be a positive number"):
            priors.MultivariateNormal(D6, scale=wrong)

    @parameterized.parameters("covariance", "row_covariance", "column_covariance")
    def test_covariances_are_named(self, name: str) -> None:
        wrong = {name: [[1.0, 2.0], [2.0, 1.0]]}
        with self.assertRaisesRegex(ValueError, f"^{name} of shape .* must be positive definite"):
            if name == "covariance":
                priors.MultivariateNormal(**wrong)
            else:
                fine = {"row_covariance": ROWS, "column_covariance": COLUMNS}
                priors.MatrixNormal(**{**fine, **wrong})

    def test_bias_is_a_normal(self) -> None:
        layer = BayesDense(3, num_data=10, prior=priors.MatrixNormal(ROWS, COLUMNS))
        layer.build((None, 8))
        self.assertIs(type(layer.bias_prior), priors.Normal)


if __name__ == "__main__":
    tf.test.main()

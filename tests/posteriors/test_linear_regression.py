"""Variational inference where the posterior is known: linear regression with known noise.

Rows of the design are correlated, so that the exact posterior N(mean, covariance) is. The bound is
exact for a family that can represent it; mean-field families have the same mean, and variances
that are the inverses of the diagonal of the precision.
"""

from typing import Any

import keras
import numpy as np
import scipy.optimize
import scipy.stats
import tensorflow as tf
from absl.testing import parameterized

from tfbdl import likelihoods, posteriors, priors
from tfbdl.layers import BayesDense

N, D, NOISE, SCALE = 50, 4, 2.0, 1.5
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, D))
X[:, 1] += 0.8 * X[:, 0]
X[:, 3] = 1.0
PRECISION = X.T @ X / NOISE**2 + np.eye(D) / SCALE**2
COVARIANCE = np.linalg.inv(PRECISION)
MEAN_FIELD_SD = np.diag(PRECISION) ** -0.5
FAMILIES = {
    "full_covariance": posteriors.FullCovarianceNormal,
    "matrix_normal": posteriors.MatrixNormal,
    "per_output": posteriors.PerOutputNormal,
    "low_rank": lambda: posteriors.LowRankNormal(rank=D - 1),
}
INDEPENDENT = ("mean_field", "logistic", "laplace")


def regression(units: int) -> Any:
    """Targets (N, units), and the exact posterior mean (D, units)."""
    rng = np.random.default_rng(1)
    y = X @ rng.normal(size=(D, units)) + NOISE * rng.normal(size=(N, units))
    return y, COVARIANCE @ X.T @ y / NOISE**2


def log_evidence(y: Any) -> Any:
    """Log p(y): each column is N(0, noise^2 I + scale^2 X X^T)."""
    marginal = scipy.stats.multivariate_normal(
        np.zeros(N), NOISE**2 * np.eye(N) + SCALE**2 * X @ X.T
    )
    return np.sum(marginal.logpdf(y.T))


def kl_of_normals(mean: Any, covariance: Any, mean_p: Any, covariance_p: Any) -> Any:
    """The KL in nats."""
    solved = np.linalg.solve(covariance_p, covariance)
    distance = (mean - mean_p) @ np.linalg.solve(covariance_p, mean - mean_p)
    return 0.5 * (np.trace(solved) - len(mean) - np.linalg.slogdet(solved)[1] + distance)


def covariance_of(q: Any) -> Any:
    if isinstance(q, posteriors.MeanFieldNormal | posteriors.InverseCDF):
        return tf.linalg.diag(tf.reshape(tf.square(q.stddev), [-1]))
    return q.covariance()


class BoundTest(tf.test.TestCase, parameterized.TestCase):
    """The negative bound with the expected likelihood in closed form, minimised by L-BFGS."""

    def optimum(self, q: Any, y: Any) -> Any:
        """The least negative bound, in nats; q is left there."""
        gram = tf.constant(np.kron(X.T @ X, np.eye(y.shape[1])))
        variables = q.trainable_variables

        @tf.function
        def bound_and_gradients() -> Any:
            with tf.GradientTape() as tape:
                residuals = tf.reduce_sum(tf.square(y - tf.linalg.matmul(X, q.mean)))
                squares = residuals + tf.reduce_sum(gram * covariance_of(q))
                constant = 0.5 * y.size * np.log(2 * np.pi * NOISE**2)
                bound = 0.5 * squares / NOISE**2 + constant + q.exact_kl()
            return bound, tape.gradient(bound, [v.value for v in variables])

        def objective(parameters: Any) -> Any:
            start = 0
            for v in variables:
                size = np.prod(v.shape, dtype=int)
                v.assign(parameters[start : start + size].reshape(v.shape))
                start += size
            bound, gradients = bound_and_gradients()
            return float(bound), np.concatenate([np.ravel(g) for g in gradients])

        start = np.concatenate([np.ravel(v.value) for v in variables])
        options = {"maxiter": 5000, "maxfun": 5000, "ftol": 1e-15, "gtol": 1e-9}
        actual = scipy.optimize.minimize(
            objective, start, jac=True, method="L-BFGS-B", options=options
        )
        objective(actual.x)
        return actual.fun

    def made(self, family: Any, units: int) -> Any:
        owner, start = keras.layers.Layer(dtype="float64"), keras.initializers.Zeros()
        return family.create(owner, "w", (D, units), start, priors.Normal(SCALE))

    @parameterized.product(family=tuple(FAMILIES), units=(1, 2))
    def test_exact_posterior(self, family: Any, units: int) -> None:
        """Two outputs: it is COVARIANCE (x) I, a matrix normal, out of reach of low rank."""
        keras.utils.set_random_seed(0)
        y, mean = regression(units)
        q = self.made(FAMILIES[family](), units)
        bound = self.optimum(q, y)
        self.assertAllClose(q.mean, mean, atol=1e-4)
        if (family, units) == ("low_rank", 2):
            self.assertGreater(bound, -log_evidence(y) + 1e-3)
        else:
            self.assertAllClose(q.covariance(), np.kron(COVARIANCE, np.eye(units)), atol=1e-4)
            self.assertAllClose(bound, -log_evidence(y), atol=1e-6)

    @parameterized.parameters(*INDEPENDENT)
    def test_independent_weights(self, family: Any) -> None:
        """The likelihood knows only moments, so the optimal ones are those of the normal."""
        y, mean = regression(1)
        q = self.made(posteriors.get(family), 1)
        bound = self.optimum(q, y)
        self.assertAllClose(q.mean, mean, atol=1e-5)
        self.assertAllClose(np.ravel(q.stddev), MEAN_FIELD_SD, atol=1e-5)
        zeros = np.zeros(D)
        gap = kl_of_normals(zeros, np.diag(MEAN_FIELD_SD**2), zeros, COVARIANCE)
        normal_entropy = 0.5 * np.log(2 * np.pi * np.e)
        gap += D * (normal_entropy - getattr(q, "standard_entropy", normal_entropy))
        self.assertAllClose(bound + log_evidence(y), gap, atol=1e-6)


class TrainingTest(tf.test.TestCase, parameterized.TestCase):
    """The same through `fit`, with a weight sample for each of 1,000 copies of the data."""

    STEPS, COPIES = 1000, 20

    def trained(self, posterior: Any, y: Any) -> Any:
        keras.utils.set_random_seed(0)
        layer = BayesDense(
            y.shape[1],
            num_data=N,
            prior=SCALE,
            posterior=posterior,
            estimator="per_example",
            use_bias=False,
        )
        model = keras.Sequential([keras.Input((D,)), layer])
        schedule = keras.optimizers.schedules.CosineDecay(0.1, self.STEPS)
        model.compile(keras.optimizers.Adam(schedule), likelihoods.Normal(NOISE))
        copies = (np.tile(a, (self.COPIES, 1)).astype("float32") for a in (X, y))
        data = tf.data.Dataset.from_tensors(tuple(copies)).repeat(self.STEPS)
        model.fit(data, verbose=0)
        return layer.kernel

    @parameterized.parameters(("full_covariance", 1), ("low_rank", 1), ("matrix_normal", 2))
    def test_finds_the_exact_posterior(self, family: Any, units: int) -> None:
        """Mean and covariance to 1e-2, and q within 1e-2 nats of the posterior."""
        y, mean = regression(units)
        q = self.trained(FAMILIES[family](), y)
        covariance = np.kron(COVARIANCE, np.eye(units))
        self.assertAllClose(q.mean, mean, atol=1e-2)
        self.assertAllClose(q.covariance(), covariance, atol=1e-2)
        kl = kl_of_normals(np.ravel(q.mean), q.covariance().numpy(), mean.ravel(), covariance)
        self.assertLess(kl, 1e-2)

    def test_mean_field(self) -> None:
        """Means are exact, standard deviations diag(precision)^-1/2."""
        y, mean = regression(1)
        q = self.trained(posteriors.MeanFieldNormal(), y)
        self.assertAllClose(q.mean, mean, atol=1e-2)
        self.assertAllClose(np.ravel(q.stddev), MEAN_FIELD_SD, atol=1e-2)


if __name__ == "__main__":
    tf.test.main()

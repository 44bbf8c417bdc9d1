"""The marginal likelihood: closed forms, integration, its gradients, and where it is largest."""

from typing import Any

import brute_force
import numpy as np
import scipy.optimize
import scipy.special
import scipy.stats
import tensorflow as tf
from absl.testing import parameterized
from brute_force import DELTA, RNG, X, case, fitted, fitted_case, network, precision

from tfbdl import likelihoods
from tfbdl.inference import Laplace, NotFittedError

STRUCTURES = ("full", "kron", "diag", "lowrank")
SIGMA = 0.7
UNIT = likelihoods.Normal(1.0)


def delta_of(shape: Any) -> Any:
    """A prior precision of the case "normal": one for all, for each of 4 tensors, of 21 weights."""
    return np.exp(0.5 * np.random.default_rng(3).normal(size=shape))


PAIRS = [(structure, shape) for structure in STRUCTURES for shape in ((), (4,), (21,))]
PAIRS.remove(("kron", (21,)))  # a Kronecker product takes one prior precision a weight tensor


def value_and_gradients(laplace: Any, delta: Any, sigma: Any) -> Any:
    delta, sigma = tf.constant(delta, tf.float64), tf.constant(sigma, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch([delta, sigma])
        value = laplace.log_marginal_likelihood(delta, sigma)
    return value.numpy(), *(g.numpy() for g in tape.gradient(value, [delta, sigma]))


class ValueTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters("full", "lowrank")
    def test_linear_regression(self, structure: Any) -> None:
        """At the mode of a linear model it is exact: y ~ N(0, sigma^2 I + Phi Phi^T / delta)."""
        model, y = network(units=(), outputs=1), RNG.normal(size=(len(X), 1))
        phi = np.column_stack([X, np.ones(len(X))])
        w = np.linalg.solve(phi.T @ phi / SIGMA**2 + DELTA * np.eye(4), phi.T @ y / SIGMA**2)
        model.set_weights([w[:3], w[3]])
        laplace = fitted(model, likelihoods.Normal(SIGMA), y, hessian_structure=structure)
        covariance = SIGMA**2 * np.eye(len(X)) + phi @ phi.T / DELTA
        expected = scipy.stats.multivariate_normal(cov=covariance).logpdf(y[:, 0])
        self.assertAllClose(laplace.log_marginal_likelihood(), expected, 1e-6)

    def test_two_weights_by_integration(self) -> None:
        """Logistic regression, 400 examples: Laplace's error is of the order of one in 400."""
        rng = np.random.default_rng(5)
        x = rng.normal(size=(400, 3)) * [1, 1, 0]
        y = rng.uniform(size=400) < scipy.special.expit(x @ [1.0, -0.5, 0])

        def log_joint(w: Any) -> Any:
            f = x[:, :2] @ w
            log_prob = np.where(y[:, None], f, 0) - np.logaddexp(0, f)
            return log_prob.sum(0) + scipy.stats.norm.logpdf(w, scale=DELTA**-0.5).sum(0)

        mode = scipy.optimize.minimize(lambda w: -log_joint(w[:, None])[0], [0.0, 0.0]).x
        axes = [np.linspace(m - 1.5, m + 1.5, 151) for m in mode]
        grid = np.stack(np.meshgrid(*axes, indexing="ij")).reshape(2, -1)
        area = np.prod([axis[1] - axis[0] for axis in axes])
        expected = scipy.special.logsumexp(log_joint(grid)) + np.log(area)
        model = network(units=(), outputs=1, use_bias=False)
        model.set_weights([np.append(mode, 0.0)[:, None]])
        # the third weight has no data: its prior is its posterior, and adds nothing
        laplace = fitted(model, likelihoods.Bernoulli(), y[:, None] * 1.0, x, batch_size=400)
        self.assertAllClose(laplace.log_marginal_likelihood(), expected, 0, 0.02)

    @parameterized.parameters(*PAIRS)
    def test_formula_at_any_weights(self, structure: Any, shape: Any) -> None:
        """Log p(y | theta) + log p(theta) + P / 2 log 2 pi - 1 / 2 log det, by SciPy and NumPy."""
        _, model, y = case("normal")
        delta = delta_of(shape)
        laplace = fitted_case("normal", hessian_structure=structure, curvature="ggn")
        value, *_ = value_and_gradients(laplace, delta, SIGMA)
        each = np.repeat(delta, [12, 4, 4, 1]) if shape == (4,) else np.full(21, delta)
        h = precision(laplace) - DELTA * np.eye(21)
        theta = np.concatenate([w.ravel() for w in model.get_weights()])
        log_prob = scipy.stats.norm.logpdf(y, brute_force.outputs(model, X), SIGMA).sum()
        log_prior = scipy.stats.norm.logpdf(theta, scale=each**-0.5).sum()
        log_det = np.linalg.slogdet(h + np.diag(each))[1]
        expected = log_prob + log_prior + 21 / 2 * np.log(2 * np.pi) - 0.5 * log_det
        self.assertAllClose(value, expected, 1e-7)


class GradientTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(*PAIRS)
    def test_against_differences(self, structure: Any, shape: Any) -> None:
        laplace = fitted_case("normal", hessian_structure=structure, curvature="ggn")
        delta, sigma = delta_of(shape), SIGMA
        _, by_delta, by_sigma = value_and_gradients(laplace, delta, sigma)

        def value(delta: Any, sigma: Any) -> float:
            return float(laplace.log_marginal_likelihood(delta, sigma))

        direction = np.random.default_rng(0).normal(size=shape)
        high, low = (value(delta + h * direction, sigma) for h in (1e-5, -1e-5))
        self.assertAllClose(np.sum(by_delta * direction), (high - low) / 2e-5, 1e-5)
        slope = (value(delta, sigma + 1e-5) - value(delta, sigma - 1e-5)) / 2e-5
        self.assertAllClose(by_sigma, slope, 1e-5)

    @parameterized.parameters("ef", "hessian")
    def test_of_other_curvatures(self, kind: Any) -> None:
        """The noise scales the empirical Fisher by its fourth power."""
        _, model, y = case("normal")
        laplace = fitted(model, UNIT, y, curvature=kind, prior_precision=200.0)
        _, _, by_sigma = value_and_gradients(laplace, 200.0, 1.5)
        high, low = (float(laplace.log_marginal_likelihood(None, 1.5 + h)) for h in (1e-5, -1e-5))
        self.assertAllClose(by_sigma, (high - low) / 2e-5, 1e-5)


class MarglikTest(tf.test.TestCase, parameterized.TestCase):
    """What is largest where: delta |theta|^2 = gamma, sigma^2 (N - gamma) = squared errors."""

    @parameterized.parameters(("full", "scalar"), ("full", "diag"), ("kron", "layerwise"))
    def test_fixed_points_of_mackay(self, structure: Any, prior_structure: Any) -> None:
        """(MacKay 1992, equations 24 and 25), with gamma = sum of 1 - delta Sigma_ii."""
        _, model, _ = case("normal")
        f = brute_force.outputs(model, X)
        y = f + 0.3 * RNG.normal(size=f.shape)
        laplace = fitted(model, UNIT, y, hessian_structure=structure)
        laplace.optimize_prior_precision(prior_structure=prior_structure, with_noise=True)
        delta, sigma = laplace.prior_precision.numpy(), laplace.sigma_noise
        self.assertEqual(
            delta.shape, {"scalar": (), "layerwise": (4,), "diag": (21,)}[prior_structure]
        )
        each = np.repeat(delta, [12, 4, 4, 1]) if delta.shape == (4,) else np.full(21, delta)
        gamma = 1 - each * np.diag(np.linalg.inv(precision(laplace)))
        theta = np.concatenate([w.ravel() for w in model.get_weights()])
        sums = {"scalar": [0], "layerwise": [0, 12, 16, 20], "diag": np.arange(21)}[prior_structure]
        left, right = (np.add.reduceat(v, sums) for v in (each * theta**2, gamma))
        self.assertAllClose(left, right, 1e-2, 1e-3)
        self.assertAllClose(sigma**2 * (len(X) - gamma.sum()), np.sum((y - f) ** 2), 1e-2)

    def test_noise_stays_unless_asked(self) -> None:
        _, model, y = case("normal")
        laplace = fitted(model, likelihoods.Normal(0.4), y, hessian_structure="diag")
        before = float(laplace.log_marginal_likelihood())
        self.assertIs(laplace.optimize_prior_precision(), laplace)
        self.assertEqual(laplace.sigma_noise, 0.4)
        self.assertGreater(float(laplace.log_marginal_likelihood()), before)

    def test_classes_have_no_noise(self) -> None:
        """None is said of it, nor by what is kept; and none can be set."""
        _, model, y = case("categorical")
        laplace = fitted(model, likelihoods.Categorical(), y, hessian_structure="diag")
        self.assertIsNone(laplace.sigma_noise)
        self.assertNotIn("sigma_noise", repr(laplace))
        again = type(laplace).from_config(laplace.get_config())
        self.assertIsNone(again.sigma_noise)
        with self.assertRaisesRegex(ValueError, "^sigma_noise=0.5"):
            laplace.sigma_noise = 0.5

    def test_beyond_float64(self) -> None:
        """A step of the search may ask for c H + delta that no float64 tells from singular."""
        _, model, y = case("normal")
        laplace = fitted_case("normal", hessian_structure="full")
        squares = np.sum((y - model(X).numpy()) ** 2.0)
        for sigma in (1e-8, 1e-11):
            value = laplace.log_marginal_likelihood(tf.constant(1e-11, tf.float64), sigma)
            self.assertAllClose(value, -0.5 * squares / sigma**2, 1e-5)


class GridSearchTest(tf.test.TestCase):
    GRID = (0.01, 0.3, 3.0, 100.0)

    def test_regression(self) -> None:
        """The validation data are normal around the mode, with the linearised variance."""
        _, model, y = case("normal")
        laplace = fitted(model, likelihoods.Normal(0.5), y)
        x, y = RNG.normal(size=(6, 3)), RNG.normal(size=(6, 1))
        laplace.optimize_prior_precision("gridsearch", x=x, y=y, grid=self.GRID)
        h = brute_force.ggn(model, likelihoods.Normal(0.5))
        j, f = brute_force.jacobians(model, x)[:, 0], brute_force.outputs(model, x)[:, 0]
        scores = []
        for delta in self.GRID:
            variance = np.einsum("ni,ij,nj->n", j, np.linalg.inv(h + delta * np.eye(21)), j)
            scale = np.sqrt(variance + 0.25)
            scores.append(scipy.stats.norm.logpdf(y[:, 0], f, scale).mean())
        self.assertEqual(float(laplace.prior_precision), self.GRID[np.argmax(scores)])
        self.assertLess(sorted(scores)[-2], max(scores) - 1e-3)

    def test_classes(self) -> None:
        """The probit approximation, which is what `tfbdl.predict` gives."""
        likelihood, model, y = case("categorical")
        laplace = fitted(model, likelihood, y)
        x, y = RNG.normal(size=(8, 3)), RNG.integers(0, 3, 8)
        batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(4)
        laplace.optimize_prior_precision("gridsearch", x=batches, grid=self.GRID)
        h = brute_force.ggn(model, likelihood)
        j, f = brute_force.jacobians(model, x), brute_force.outputs(model, x)
        scores = []
        for delta in self.GRID:
            variance = np.einsum("nki,ij,nkj->nk", j, np.linalg.inv(h + delta * np.eye(31)), j)
            p = scipy.special.log_softmax(f / np.sqrt(1 + np.pi / 8 * variance), axis=1)
            scores.append(p[np.arange(8), y].mean())
        self.assertEqual(float(laplace.prior_precision), self.GRID[np.argmax(scores)])
        self.assertLess(sorted(scores)[-2], max(scores) - 1e-3)


class RefusalTest(tf.test.TestCase):
    def test_before_the_fit(self) -> None:
        laplace = Laplace(network(), UNIT, subset_of_weights="all")
        for name in ("log_marginal_likelihood", "optimize_prior_precision"):
            with self.assertRaisesRegex(
                NotFittedError, f"^{name} needs a fitted Laplace; call fit first$"
            ):
                getattr(laplace, name)()

    def test_arguments(self) -> None:
        laplace = fitted_case("categorical")
        for message, arguments in (
            ("method='cv' is unknown; choose one of: gridsearch, marglik", {"method": "cv"}),
            ("prior_structure='kron' is unknown", {"prior_structure": "kron"}),
            ("with_noise=True is for regression", {"with_noise": True}),
            ("method='gridsearch' needs validation data", {"method": "gridsearch"}),
            ("method='gridsearch' needs validation data", {"method": "gridsearch", "x": X}),
            ("grid=\\[\\] must be a list of positive", {"method": "gridsearch", "grid": []}),
            ("grid=-1.0 must be a list of positive", {"method": "gridsearch", "grid": [-1.0]}),
            (
                "prior_structure='diag' and with_noise=False are for method='marglik'",
                {"method": "gridsearch", "prior_structure": "diag"},
            ),
            (
                "prior_structure='scalar' and with_noise=True are for method='marglik'",
                {"method": "gridsearch", "with_noise": True},
            ),
            ("x is for method='gridsearch'; leave it out", {"x": X}),
            ("y is for method='gridsearch'; leave it out", {"y": X}),
            ("grid is for method='gridsearch'; leave it out", {"grid": [1.0]}),
        ):
            with self.assertRaisesRegex(ValueError, f"^{message}"):
                laplace.optimize_prior_precision(**arguments)
        with self.assertRaisesRegex(ValueError, "^prior_precision=-1.0 must be positive"):
            laplace.log_marginal_likelihood(-1.0)


if __name__ == "__main__":
    tf.test.main()

"""Predictions of Laplace: in function space, by integration, by sampling; batches, precision."""

import functools
from typing import Any

import brute_force
import keras
import numpy as np
import scipy.special
import scipy.stats
import tensorflow as tf
from absl.testing import parameterized
from brute_force import (
    DELTA,
    NUM,
    RNG,
    X,
    case,
    fitted,
    fitted_case,
    jacobians,
    network,
    outputs,
    precision,
)

import tfbdl
from tfbdl import likelihoods
from tfbdl.inference import Laplace, NotFittedError
from tfbdl.inference.laplace.covariance import Dense, OutputCovariances
from tfbdl.inference.laplace.links import mean_of_classes

NEW = np.random.default_rng(1).normal(size=(5, 3))
STRUCTURES = ("full", "kron", "diag", "lowrank")
predict = functools.partial(tfbdl.predict, verbose=0)


def whole(model: Any, dtype: Any) -> Any:
    """All weights, in full, not compiled."""
    return Laplace(
        model,
        likelihoods.Normal(1.0),
        subset_of_weights="all",
        hessian_structure="full",
        dtype=dtype,
        jit_compile=False,
    )


def weight_space(model: Any, covariance: Any, x: Any = NEW) -> Any:
    """J Sigma J^T of each example, shape (N, F, F)."""
    j = jacobians(model, x)
    return np.einsum("nki,ij,nlj->nkl", j, covariance, j)


class FunctionMomentsTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(*STRUCTURES)
    def test_weight_space(self, structure: Any) -> None:
        _, model, _ = case("categorical")
        laplace = fitted_case("categorical", hessian_structure=structure)
        mean, covariance = laplace.function_moments(NEW, batch_size=2)
        self.assertAllClose(mean, outputs(model, NEW), 1e-6)
        expected = weight_space(model, np.linalg.inv(precision(laplace)))
        self.assertAllClose(covariance, expected, 1e-6, 1e-9)

    @parameterized.parameters("normal", "categorical")
    def test_function_space(self, name: str) -> None:
        """The Gaussian process of the kernel J J^T / delta, with noise of precision F = R R^T.

        Its covariance is K** - K*R (I + R^T K R)^-1 R^T K* (Immer, Korzepa, Bauer 2021, eq. 12).
        """
        likelihood, model, _ = case(name)
        information = brute_force.information(likelihood, outputs(model, X))
        values, vectors = np.linalg.eigh(information)
        root = scipy.linalg.block_diag(*(vectors * np.sqrt(np.maximum(values, 0))[:, None]))
        j = jacobians(model, X).reshape(len(root), -1)
        new = jacobians(model, NEW)
        size = new.shape[1]
        new = new.reshape(-1, j.shape[1])
        cross = new @ j.T @ root / DELTA
        inner = np.eye(len(root)) + root.T @ j @ j.T @ root / DELTA
        whole = new @ new.T / DELTA - cross @ np.linalg.solve(inner, cross.T)
        expected = [whole[i : i + size, i : i + size] for i in range(0, len(whole), size)]
        _, covariance = fitted_case(name).function_moments(NEW)
        self.assertAllClose(covariance, expected, 1e-6, 1e-8)

    def test_data_sets_and_batches(self) -> None:
        laplace = fitted_case("categorical")
        sets = tf.data.Dataset.from_tensor_slices(NEW).batch(3)
        for a, b in zip(laplace.function_moments(sets), laplace.function_moments(NEW), strict=True):
            self.assertAllClose(a, b, 1e-12)

    def test_single_precision_compiled(self) -> None:
        """As it is where nothing is said: float32, a Kronecker product, the last layer, XLA."""
        likelihood, model, y = case("categorical")
        laplace = Laplace(model, likelihood).fit(X, y)
        wide = fitted_case(
            "categorical",
            hessian_structure="kron",
            subset_of_weights="last_layer",
            prior_precision=1.0,
        )
        self.assertEqual(laplace.paths, ["last/kernel", "last/bias"])
        for a, b in zip(laplace.function_moments(NEW), wide.function_moments(NEW), strict=True):
            self.assertAllClose(a, b, 1e-4, 1e-5)
        evidence = [float(p.log_marginal_likelihood()) for p in (laplace, wide)]
        self.assertAllClose(*evidence, 1e-5)

    @parameterized.parameters("float32", "float64")
    def test_weights_are_those_at_the_fit(self, dtype: Any) -> None:
        """Trained between the making and the fit, and after it; the model itself is left alone."""
        model, y = network(units=(), outputs=1), RNG.normal(size=(NUM, 1))
        laplace = whole(model, dtype)
        at_fit = [w + 1.0 for w in model.get_weights()]
        model.set_weights(at_fit)
        laplace.fit(X, y)
        mean = NEW @ at_fit[0] + at_fit[1]
        self.assertAllEqual(model.get_weights()[0], at_fit[0])
        model.set_weights([0 * w for w in at_fit])
        self.assertAllClose(laplace.function_moments(NEW)[0], mean, 1e-5)
        draws = laplace.ensemble(4000).members.numpy()
        mode = np.append(at_fit[0], at_fit[1])
        error = draws.std(axis=0) / np.sqrt(4000)
        self.assertLess(np.max(np.abs(draws.mean(axis=0) - mode) / error), 4.5)
        laplace.fit(X[:4], y[:4])
        self.assertAllClose(laplace.function_moments(NEW)[0], np.zeros((5, 1)), 0, 1e-9)
        again = whole(model, dtype)
        again.fit(X[:4], y[:4])
        self.assertAllClose(precision(laplace), precision(again), 1e-12)
        evidence = [float(p.log_marginal_likelihood()) for p in (laplace, again)]
        self.assertAllClose(*evidence, 1e-12)


class SampleTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(*STRUCTURES)
    def test_law(self, structure: Any) -> None:
        _, model, _ = case("categorical")
        laplace = fitted_case("categorical", hessian_structure=structure)
        draws = laplace.sample(20_000, seed=3)
        covariance = np.linalg.inv(precision(laplace))
        theta = np.concatenate([w.ravel() for w in model.get_weights()])
        error = np.sqrt(np.diag(covariance) / len(draws))
        self.assertLess(np.max(np.abs(draws.mean(axis=0) - theta) / error), 4.5)
        variances = np.diag(covariance)
        error = np.sqrt((np.outer(variances, variances) + covariance**2) / len(draws))
        self.assertLess(np.max(np.abs(np.cov(draws.T) - covariance) / error), 5)

    @parameterized.product(structure=STRUCTURES, subset=("all", "last_layer"))
    def test_variances_of_weights(self, structure: Any, subset: str) -> None:
        """The summary has the medians of their roots, and none of weights without a posterior."""
        given = {"hessian_structure": structure, "subset_of_weights": subset}
        laplace = fitted_case("categorical", **given)
        expected = np.diag(np.linalg.inv(precision(laplace)))
        factors = laplace._posterior
        got = laplace._result.precision.variances_of_weights(factors)
        self.assertAllClose(got, expected, rtol=1e-9)
        rows = {row.path: row for row in laplace.summary().rows}
        sizes = [int(np.prod(rows[path].shape)) for path in laplace.paths]
        for path, own in zip(laplace.paths, np.split(expected, np.cumsum(sizes)[:-1]), strict=True):
            self.assertAllClose(rows[path].stddev, np.median(np.sqrt(own)), rtol=1e-9)
        others = rows.keys() - set(laplace.paths)
        self.assertLen(others, 0 if subset == "all" else 2)
        self.assertEqual({rows[path].stddev for path in others}, {None} if others else set())

    def test_seeds(self) -> None:
        laplace = fitted_case("categorical")
        self.assertAllEqual(laplace.sample(3, seed=1), laplace.sample(3, seed=1))
        self.assertNotAllClose(laplace.sample(3, seed=1), laplace.sample(3, seed=2))

    def test_networks_of_drawn_weights(self) -> None:
        """Under "nn": the last layer is drawn, the first stays."""
        likelihood, model, y = case("categorical")
        laplace = fitted(model, likelihood, y, subset_of_weights="last_layer", pred_type="nn")
        w1, b1, *_ = model.get_weights()
        h = np.tanh(NEW @ w1 + b1)
        f = [h @ w[:12].reshape(4, 3) + w[12:] for w in laplace.sample(7, seed=2)]
        prediction = predict(laplace, NEW, 7, seed=2, return_samples=True)
        self.assertAllClose(prediction.outputs, f, 1e-4, 1e-5)
        self.assertAllClose(prediction.mean, scipy.special.softmax(f, axis=-1).mean(axis=0), 1e-4)
        self.assertIsInstance(prediction.likelihood, likelihoods.Categorical)


class NormalNoiseTest(tf.test.TestCase):
    def test_exact(self) -> None:
        model, y = network(outputs=2), RNG.normal(size=(NUM, 2))
        laplace = fitted(model, likelihoods.Normal(0.6), y)
        mean, covariance = laplace.function_moments(NEW)
        prediction = predict(laplace, NEW)
        y = RNG.normal(size=(5, 2))
        joint = [
            scipy.stats.multivariate_normal(m, c + 0.36 * np.eye(2))
            for m, c in zip(mean, covariance, strict=True)
        ]
        logs = [law.logpdf(one) for law, one in zip(joint, y, strict=True)]
        self.assertAllClose(prediction.log_prob(y), logs, 1e-9)
        self.assertAllClose(prediction.entropy, [law.entropy() for law in joint], 1e-9)
        self.assertAllClose(prediction.mean, mean, 1e-6)
        variance = np.diagonal(covariance, axis1=1, axis2=2)
        self.assertAllClose(prediction.epistemic_variance, variance, 1e-6)
        self.assertAllClose(prediction.aleatoric_variance, np.full((5, 2), 0.36), 1e-6)
        entropy = 2 * scipy.stats.norm(scale=0.6).entropy()
        self.assertAllClose(prediction.expected_entropy, np.full(5, entropy), 1e-6)
        law = scipy.stats.norm(mean, np.sqrt(variance + 0.36))
        for side, expected in zip(prediction.interval(0.8), law.interval(0.8), strict=True):
            self.assertAllClose(side, expected, 1e-6)

    def test_kept_functions(self) -> None:
        laplace = fitted_case("normal")
        mean, covariance = laplace.function_moments(NEW)
        prediction = predict(laplace, NEW, 4000, seed=0, return_samples=True)
        error = np.sqrt(covariance[:, 0] / 4000)
        self.assertLess(np.max(np.abs(prediction.outputs.mean(axis=0) - mean) / error), 4.5)
        variance = covariance[:, 0]
        errors = np.abs(prediction.outputs.var(axis=0) - variance) / (variance * np.sqrt(2 / 4000))
        self.assertLess(errors.max(), 4.5)


def law(covariance: Any) -> OutputCovariances:
    return OutputCovariances([Dense(tf.constant(covariance))])


def simplex(alpha: Any) -> Any:
    """The Laplace approximation of Dirichlet(alpha) in logits of sum zero: its mean, covariance.

    (Hobbhahn, Kristiadi, Hennig 2022, equations 9 and 10.)
    """
    k = len(alpha)
    mean = np.log(alpha) - np.log(alpha).mean()
    inverse = 1 / alpha
    pairs = inverse[:, None] + inverse - inverse.sum() / k
    return mean, np.diag(inverse) - pairs / k


class LinkTest(tf.test.TestCase, parameterized.TestCase):
    def test_bridge_gives_back_the_dirichlet(self) -> None:
        """Also if the logits are shifted, with their uncertainty: the softmax does not see it."""
        alphas = np.array([[2.0, 5.0, 1.5], [0.7, 30.0, 4.0], [3.0, 8.0, 20.0]])
        mean, covariance = map(np.array, zip(*map(simplex, alphas), strict=True))
        for shift in (0.0, 0.3, 2.0):
            actual = mean_of_classes(
                likelihoods.Categorical(), "bridge", mean + shift, law(covariance + shift)
            )
            self.assertAllClose(actual, alphas / alphas.sum(axis=1, keepdims=True), 1e-9)

    def test_probit_of_two_classes_by_integration(self) -> None:
        """It is known to be within 0.02 of the integral, whatever mean and variance."""
        mean, scale = np.meshgrid(np.linspace(-6, 6, 13), [0.1, 0.5, 1, 2, 4, 10])
        mean, scale = mean.reshape(-1, 1), scale.reshape(-1, 1)
        nodes, weights = np.polynomial.hermite_e.hermegauss(100)
        expected = scipy.special.expit(mean + scale * nodes) @ weights / weights.sum()
        actual = mean_of_classes(
            likelihoods.Bernoulli(), "probit", mean, law(scale[:, :, None] ** 2)
        )
        self.assertAllClose(actual[:, 0], expected, 0, 0.02)

    @parameterized.parameters(("probit", 0.05), ("mc", 0.0))
    def test_classes_by_sampling(self, link: Any, off: Any) -> None:
        """`mc` within its error; `probit` near it, and nearer than the softmax is."""
        laplace = fitted_case("categorical", prior_precision=5.0, link_approx=link)
        mean, covariance = laplace.function_moments(NEW)
        rng = np.random.default_rng(0)
        draws = [
            rng.multivariate_normal(m, c, 40_000) for m, c in zip(mean, covariance, strict=True)
        ]
        p = scipy.special.softmax(draws, axis=2)
        prediction = predict(laplace, NEW, 4000, seed=0)
        error = 4.5 * p.std(axis=1) * np.sqrt(1 / 4000 + 1 / 40_000)
        self.assertAllLess(np.abs(prediction.mean - p.mean(axis=1)) - error, off)
        self.assertAllClose(prediction.mean.sum(axis=1), np.ones(5), 1e-5)
        plug_in = scipy.special.softmax(mean, axis=1)
        self.assertLess(
            np.abs(prediction.mean - p.mean(axis=1)).max(), np.abs(plug_in - p.mean(axis=1)).max()
        )
        self.assertAllClose(prediction.epistemic_variance, p.var(axis=1), 0.15, 1e-3)
        entropy = scipy.stats.entropy(p, axis=2).mean(axis=1)
        self.assertAllClose(prediction.expected_entropy, entropy, 0.05)

    def test_probit_is_the_default_of_classes(self) -> None:
        laplace = fitted_case("categorical")
        mean, covariance = laplace.function_moments(NEW)
        variance = np.diagonal(covariance, axis1=1, axis2=2)
        expected = scipy.special.softmax(mean / np.sqrt(1 + np.pi / 8 * variance), axis=1)
        self.assertAllClose(predict(laplace, NEW).mean, expected, 1e-6)

    def test_counts(self) -> None:
        """Exp of a normal f is log-normal, of known moments."""
        laplace = fitted_case("poisson", prior_precision=5.0)
        mean, covariance = laplace.function_moments(NEW)
        law = scipy.stats.lognorm(np.sqrt(covariance[:, 0]), scale=np.exp(mean))
        prediction = predict(laplace, NEW, 20_000, seed=1)
        error = law.std() / np.sqrt(20_000)
        self.assertLess(np.max(np.abs(prediction.mean - law.mean()) / error), 4.5)
        self.assertAllClose(prediction.aleatoric_variance, prediction.mean, 1e-5)
        kurtosis = law.stats("k")
        error = law.var() * np.sqrt((kurtosis + 2) / 20_000)
        self.assertLess(np.max(np.abs(prediction.epistemic_variance - law.var()) / error), 4.5)


class RefusalTest(tf.test.TestCase):
    def test_arguments(self) -> None:
        for name, message, arguments in (
            (
                "categorical",
                "pred_type='gp' is unknown; choose one of: glm, nn",
                {"pred_type": "gp"},
            ),
            ("categorical", "link_approx='logit' is unknown", {"link_approx": "logit"}),
            (
                "categorical",
                "link_approx='mc' is for pred_type='glm'",
                {"pred_type": "nn", "link_approx": "mc"},
            ),
            ("normal", "link_approx='probit' is not for Normal", {"link_approx": "probit"}),
            ("poisson", "link_approx='probit' is not for Poisson", {"link_approx": "probit"}),
            ("bernoulli", "link_approx='bridge' is not for Bernoulli", {"link_approx": "bridge"}),
        ):
            likelihood, model, _ = case(name)
            with self.assertRaisesRegex(ValueError, f"^{message}"):
                Laplace(model, likelihood, **arguments)
        classes = fitted_case("categorical")
        for number in (-1, 0, 2.5):
            with self.assertRaisesRegex(ValueError, f"^num_samples={number} must be "):
                predict(classes, NEW, number)
        with self.assertRaisesRegex(ValueError, "^x is not finite in example 1; remove it"):
            predict(classes, np.where(np.arange(5)[:, None] == 1, np.nan, NEW))

    def test_before_the_fit(self) -> None:
        laplace = Laplace(network(), likelihoods.Categorical())
        for call, name in (
            (lambda: predict(laplace, NEW), "predict"),
            (lambda: laplace.function_moments(NEW), "function_moments"),
            (lambda: laplace.sample(3), "sample"),
        ):
            message = f"^{name} needs a fitted Laplace; call fit first$"
            with self.assertRaisesRegex(NotFittedError, message):
                call()


if __name__ == "__main__":
    keras.utils.set_random_seed(0)
    tf.test.main()

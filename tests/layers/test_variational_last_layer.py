"""The last layer without sampling: exact posteriors of linear models, bounds, draws, files."""

import tempfile
from pathlib import Path
from typing import Any

import keras
import numpy as np
import scipy.optimize
import scipy.stats
import tensorflow as tf
from absl.testing import parameterized

import tfbdl
from tfbdl.layers import VariationalLastLayer
from tfbdl.likelihoods import (
    Bernoulli,
    Categorical,
    Expected,
    LogNormal,
    Normal,
    Poisson,
    StudentT,
)

N, D, SIGMA, PRIOR = 30, 3, 0.4, 0.8
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, D)) @ np.array([[1.0, 0.5, 0.0], [0.0, 1.0, -0.7], [0.0, 0.0, 0.3]])
Y = X @ np.array([[1.0, -1.0], [0.5, 0.0], [0.2, 2.0]]) + SIGMA * RNG.normal(size=(N, 2))
ONES = np.column_stack([X, np.ones(N)])
CLASSES = RNG.integers(0, 3, N)
GAUSS = np.polynomial.hermite_e.hermegauss(60)


def head(units: int = 2, **arguments: Any) -> keras.Model:
    keras.utils.set_random_seed(0)
    arguments = {"num_data": N, "prior": PRIOR, "seed": 1, "dtype": "float64", **arguments}
    layer = VariationalLastLayer(units, **arguments)
    model = keras.Sequential([keras.Input((D,), dtype="float64"), layer])
    model.compile("sgd", Expected(Normal(SIGMA)))
    return model


def exact(y: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Mean and covariance of the weights of each output, and the log evidence of all."""
    precision = ONES.T @ ONES / SIGMA**2 + np.eye(D + 1) / PRIOR**2
    mean = np.linalg.solve(precision, ONES.T @ y / SIGMA**2)
    of_y = SIGMA**2 * np.eye(N) + PRIOR**2 * ONES @ ONES.T
    evidence = scipy.stats.multivariate_normal(np.zeros(N), of_y).logpdf(y.T).sum()
    return mean, np.linalg.inv(precision), float(evidence)


def trained(model: keras.Model, y: np.ndarray) -> float:
    """Minimises the loss of all data by L-BFGS; the loss, in nats per example."""
    variables = model.trainable_variables
    shapes = [v.shape for v in variables]
    ends = np.cumsum([np.prod(s) for s in shapes])[:-1].astype(int)

    @tf.function
    def loss_and_gradients() -> Any:
        with tf.GradientTape() as tape:
            log_prob = model.loss.log_prob(y, model(X, training=True))  # in float64
            loss = sum(model.losses) - tf.reduce_mean(log_prob)
        return loss, tape.gradient(loss, [v.value for v in variables])

    def of_theta(theta: np.ndarray) -> tuple[float, np.ndarray]:
        for v, part, shape in zip(variables, np.split(theta, ends), shapes, strict=True):
            v.assign(part.reshape(shape))
        loss, gradients = loss_and_gradients()
        return float(loss), np.concatenate([np.ravel(g) for g in gradients])

    start = np.concatenate([np.ravel(v) for v in variables])
    options = {"maxiter": 5000, "maxfun": 20000, "ftol": 1e-16, "gtol": 1e-10}
    optimum = scipy.optimize.minimize(of_theta, start, jac=True, method="L-BFGS-B", options=options)
    of_theta(optimum.x)
    return float(optimum.fun)


class RegressionTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters("per_output", "full_covariance", "matrix_normal")
    def test_optimum_is_bayesian_linear_regression(self, posterior: str) -> None:
        """Its means, its covariances, and its log evidence."""
        model = head(posterior=posterior)
        loss = trained(model, Y)
        mean, covariance, evidence = exact(Y)
        self.assertAllClose(-loss, evidence / N, 1e-7)
        outputs = model(X).numpy()
        self.assertAllClose(outputs[:, :2], ONES @ mean, atol=1e-5)
        variance = np.einsum("ni,ij,nj->n", ONES, covariance, ONES)
        self.assertAllClose(outputs[:, 2:], np.stack([variance] * 2, axis=1), 1e-5)

    def test_mean_field_optimum(self) -> None:
        """The exact mean, and the precision of each weight alone."""
        model = head(posterior="mean_field")
        trained(model, Y)
        mean, covariance, _ = exact(Y)
        outputs = model(X).numpy()
        self.assertAllClose(outputs[:, :2], ONES @ mean, atol=1e-5)
        variance = ONES**2 @ (1 / np.diag(np.linalg.inv(covariance)))
        self.assertAllClose(outputs[:, 2:], np.stack([variance] * 2, axis=1), 1e-5)

    def test_learned_scale_is_that_of_the_largest_bound(self) -> None:
        """sigma^2 is the mean of (y - mean)^2 + Var[f], one for each output."""
        model = head(learned_scale=1.0)
        model.compile("sgd", Expected(Normal("predicted")))
        trained(model, Y)
        mean, raw, variance = np.split(model(X).numpy(), 3, axis=1)
        expected = np.sqrt(np.mean((Y - mean) ** 2 + variance, axis=0))
        self.assertAllClose(np.log1p(np.exp(raw[0])), expected, 1e-4)
        self.assertAllClose(model.layers[-1].scale.scale, expected, 1e-4)

    @parameterized.parameters(
        "mean_field", "per_output", "full_covariance", "matrix_normal", "low_rank", "multiplicative"
    )
    def test_variances_are_those_of_drawn_functions(self, posterior: str) -> None:
        prior = "log_uniform" if posterior == "multiplicative" else PRIOR
        model, S = head(posterior=posterior, prior=prior), 4000
        mean, variance = np.split(model(X).numpy(), 2, axis=1)
        prediction = tfbdl.predict(model, X, S, seed=0, verbose=0)
        z = (prediction.mean - mean) / np.sqrt(variance / S)
        self.assertLess(np.abs(z).max(), 4.5)
        z = (prediction.epistemic_variance / variance - 1) / np.sqrt(2 / S)
        self.assertLess(np.abs(z).max(), 4.5)
        self.assertAllClose(prediction.aleatoric_variance, np.full((N, 2), SIGMA**2))

    def test_features_are_trained_with_it(self) -> None:
        keras.utils.set_random_seed(0)
        hidden = keras.layers.Dense(20, "tanh")
        last = VariationalLastLayer(1, num_data=N, learned_scale=1.0, seed=1)
        model = keras.Sequential([keras.Input((1,)), hidden, last])
        model.compile(keras.optimizers.Adam(0.02), Expected(Normal("predicted")))
        x = np.linspace(-2, 2, N, dtype="float32")[:, None]
        y = np.sin(2 * x) + 0.1 * RNG.normal(size=(N, 1))
        tfbdl.train(model, x, y, epochs=600, batch_size=N, verbose=0)
        prediction = tfbdl.predict(model, x, 200, seed=0, verbose=0)
        self.assertLess(np.sqrt(np.mean((prediction.mean - np.sin(2 * x)) ** 2)), 0.1)
        self.assertAllClose(np.sqrt(prediction.aleatoric_variance.mean()), 0.1, atol=0.05)


class ExpectedTest(tf.test.TestCase, parameterized.TestCase):
    """Held against quadrature in float64."""

    MEAN, VARIANCE = np.array([[0.3, -1.0], [2.0, 0.1]]), np.array([[0.5, 1.5], [0.01, 2.0]])

    def by_quadrature(self, likelihood: Any, y: np.ndarray, extra: np.ndarray) -> np.ndarray:
        nodes, weights = GAUSS
        pairs = np.stack(np.meshgrid(nodes, nodes), axis=-1).reshape(-1, 1, 2)
        p = np.outer(weights, weights).ravel() / weights.sum() ** 2
        f = self.MEAN + np.sqrt(self.VARIANCE) * pairs
        outputs = np.concatenate([f, np.broadcast_to(extra, (len(f), *extra.shape))], axis=-1)
        many = np.broadcast_to(y, (len(f), *y.shape)).reshape(-1, *y.shape[1:])
        log_prob = likelihood.log_prob(many, tf.constant(outputs.reshape(-1, outputs.shape[-1])))
        return p @ log_prob.numpy().reshape(-1, 2)

    def expected(self, likelihood: Any, y: np.ndarray, extra: np.ndarray) -> np.ndarray:
        outputs = np.concatenate([self.MEAN, extra, self.VARIANCE], axis=1)
        return Expected(likelihood).log_prob(tf.constant(y), tf.constant(outputs)).numpy()

    @parameterized.parameters(
        (Normal(0.7), [[0.5, 1.0], [-1.0, 0.0]], 0),
        (Normal("predicted"), [[0.5, 1.0], [-1.0, 0.0]], 2),
        (LogNormal(0.7), [[0.5, 1.0], [3.0, 0.1]], 0),
        (LogNormal("predicted"), [[0.5, 1.0], [3.0, 0.1]], 2),
        (Poisson(), [[0.0, 3.0], [12.0, 1.0]], 0),
    )
    def test_exact_ones(self, likelihood: Any, y: Any, columns: int) -> None:
        extra = np.array([[0.2, -1.0], [1.0, 0.5]])[:, :columns]
        y = np.array(y)
        expected = self.by_quadrature(likelihood, y, extra)
        self.assertAllClose(self.expected(likelihood, y, extra), expected, 1e-7)

    @parameterized.parameters((Categorical(), [0, 1]), (Bernoulli(), [[0.0, 1.0], [1.0, 1.0]]))
    def test_bounds(self, likelihood: Any, y: Any) -> None:
        y, none = np.array(y), np.zeros((2, 0))
        bound, value = self.expected(likelihood, y, none), self.by_quadrature(likelihood, y, none)
        self.assertTrue(np.all(bound < value))
        self.assertTrue(np.all(bound > value - self.VARIANCE.sum(axis=1)))
        m, v = self.MEAN, self.VARIANCE
        if isinstance(likelihood, Categorical):
            by_hand = m[[0, 1], y] - np.log(np.exp(m + v / 2).sum(axis=1))
            one_hot = self.expected(likelihood, np.eye(2)[y], none)
            self.assertAllClose(one_hot, by_hand)
        else:
            by_hand = (y * m - np.log1p(np.exp(m + v / 2))).sum(axis=1)
        self.assertAllClose(bound, by_hand)

    def test_without_variance_it_is_the_likelihood(self) -> None:
        y, outputs = np.array([0, 2]), RNG.normal(size=(2, 3))
        both = np.concatenate([outputs, np.zeros((2, 3))], axis=1)
        expected = Categorical().log_prob(tf.constant(y), tf.constant(outputs))
        actual = Expected(Categorical()).log_prob(tf.constant(y), tf.constant(both))
        self.assertAllClose(actual, expected)

    def test_refusals(self) -> None:
        for likelihood in (StudentT(), Categorical(from_logits=False), "student_t"):
            with self.assertRaisesRegex(ValueError, "^likelihood=.* must be Normal"):
                Expected(likelihood)
        with self.assertRaisesRegex(ValueError, "end the network in VariationalLastLayer$"):
            Expected(Normal("predicted")).check(tf.zeros((2, 4)))
        with self.assertRaisesRegex(ValueError, "^learned_scale=-1.0 must be "):
            VariationalLastLayer(1, num_data=3, learned_scale=-1.0)
        with self.assertRaisesRegex(ValueError, "posterior=Logistic has products with x"):
            head(posterior="logistic")


class ClassificationTest(tf.test.TestCase):
    def test_training_and_files(self) -> None:
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.Input((D,)), VariationalLastLayer(3, num_data=N, seed=1)])
        model.compile(keras.optimizers.Adam(0.05), Expected(Categorical()))
        labels = np.argmax(X @ RNG.normal(size=(D, 3)), axis=1)
        tfbdl.train(model, X, labels, epochs=200, batch_size=N, verbose=0)
        prediction = tfbdl.predict(model, X, 100, seed=0, verbose=0)
        self.assertAllClose(prediction.mean.sum(axis=1), np.ones(N), 1e-5)
        self.assertGreater(np.mean(prediction.mean.argmax(axis=1) == labels), 0.9)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.keras"
            model.save(path)
            again = keras.models.load_model(path)
        self.assertAllClose(again(X), model(X))
        self.assertAllClose(
            again.evaluate(X, labels, verbose=0), model.evaluate(X, labels, verbose=0)
        )


if __name__ == "__main__":
    tf.test.main()

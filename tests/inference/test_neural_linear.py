"""The exact posterior of the last layer: closed forms, integration, fractions, updates, draws."""

from fractions import Fraction
from typing import Any
from unittest import mock

import keras
import numpy as np
import scipy.special
import scipy.stats
import tensorflow as tf
from absl.testing import parameterized
from sklearn.linear_model import BayesianRidge

import tfbdl
from tfbdl import layers, likelihoods, memory
from tfbdl.inference import Laplace, NeuralLinear
from tfbdl.probability import tfp

RNG = np.random.default_rng(0)
N = 30
X, NEW = RNG.normal(size=(N, 3)), RNG.normal(size=(6, 3))
Y, Y_NEW = RNG.normal(size=(N, 2)) + 0.4, RNG.normal(size=(6, 2))
SIGMA = 0.6
PRIORS = (1.7, [0.5, 3.0], [0.2, 1.0, 4.0, 2.0, 9.0])


def predict(posterior: Any, x: Any, num_samples: int = 100, **arguments: Any) -> Any:
    return tfbdl.predict(posterior, x, num_samples, verbose=0, **arguments)


def network(outputs: int = 2, activation: Any = None, **kwargs: Any) -> keras.Model:
    keras.utils.set_random_seed(3)
    hidden = keras.layers.Dense(4, "tanh", bias_initializer="normal")
    last = keras.layers.Dense(outputs, activation, name="last", **kwargs)
    return keras.Sequential([keras.Input((3,)), hidden, last])


def features(model: Any, x: Any) -> Any:
    """The features by hand, in float64, with 1 behind them."""
    kernel, bias = model.layers[0].get_weights()
    return np.column_stack([np.tanh(x @ kernel + bias), np.ones(len(x))])


def fitted(sigma_noise: Any = SIGMA, **arguments: Any) -> Any:
    model = network()
    posterior = NeuralLinear(model, sigma_noise=sigma_noise, dtype="float64", **arguments)
    return model, posterior.fit(X, Y)


def of_each(prior: Any) -> Any:
    return np.repeat(prior, [4, 1]) if np.size(prior) == 2 else np.full(5, prior)


def linear(inputs: Any, outputs: int = 1) -> keras.Model:
    """A network whose features are its inputs."""
    last = keras.layers.Dense(outputs, use_bias=False)
    return keras.Sequential([keras.Input((inputs,)), last])


class KnownNoiseTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(*[[p] for p in PRIORS])
    def test_posterior_and_evidence(self, prior: Any) -> None:
        """(Bishop 2006, equations 3.53, 3.54); y ~ N(0, sigma^2 I + Phi Phi^T / delta)."""
        model, actual = fitted(prior_precision=prior)
        phi, new = features(model, X), features(model, NEW)
        delta = of_each(prior)
        covariance = np.linalg.inv(phi.T @ phi / SIGMA**2 + np.diag(delta))
        mean = new @ covariance @ phi.T @ Y / SIGMA**2
        of_f = np.einsum("ni,ij,nj->n", new, covariance, new)
        actual_mean, actual_covariance = actual.function_moments(NEW, batch_size=4)
        self.assertAllClose(actual_mean, mean, 1e-6)
        self.assertAllClose(actual_covariance, of_f[:, None, None] * np.eye(2), 1e-6)
        of_y = scipy.stats.multivariate_normal(
            cov=SIGMA**2 * np.eye(N) + phi @ np.diag(1 / delta) @ phi.T
        )
        self.assertAllClose(actual.log_marginal_likelihood(), of_y.logpdf(Y.T).sum(), 1e-7)

    def test_prediction(self) -> None:
        _, actual = fitted()
        mean, covariance = actual.function_moments(NEW)
        variance = np.diagonal(covariance, axis1=1, axis2=2)
        law = scipy.stats.norm(mean, np.sqrt(variance + SIGMA**2))
        prediction = predict(actual, NEW)
        self.assertAllClose(prediction.mean, mean, 1e-6)
        self.assertAllClose(prediction.stddev, law.std(), 1e-6)
        self.assertAllClose(prediction.epistemic_variance, variance, 1e-6)
        self.assertAllClose(prediction.log_prob(Y_NEW), law.logpdf(Y_NEW).sum(1), 1e-9)
        with self.assertRaisesRegex(ValueError, "^y=.* is no array; give real numbers"):
            prediction.log_prob(keras.Input((1,)))
        self.assertAllClose(prediction.entropy, law.entropy().sum(1), 1e-9)
        entropy = np.full(6, 2 * scipy.stats.norm(scale=SIGMA).entropy())
        self.assertAllClose(prediction.expected_entropy, entropy, 1e-6)
        self.assertAllClose(prediction.interval(0.9), law.interval(0.9), 1e-7)

    @parameterized.parameters(SIGMA, None)
    def test_joint_distribution(self, sigma: Any) -> None:
        """TFP's, of the outputs of an example, which are independent."""
        prediction = predict(fitted(sigma)[1], NEW)
        joint, marginal = prediction.joint, prediction.marginal
        self.assertIsInstance(joint, tfp.distributions.Independent)
        self.assertEqual((joint.batch_shape, joint.event_shape), ((6,), (2,)))
        logs = marginal.log_prob(Y_NEW).numpy().sum(axis=1)
        self.assertAllClose(joint.log_prob(Y_NEW), logs, 1e-12)
        self.assertAllClose(joint.entropy(), prediction.entropy, 1e-12)
        part = prediction[[4, 1]]
        self.assertIsInstance(part.joint, tfp.distributions.Independent)
        self.assertAllClose(part.joint.log_prob(Y_NEW[[4, 1]]), logs[[4, 1]], 1e-12)

    def test_is_the_full_laplace_of_the_last_layer(self) -> None:
        """Laplace is exact there, at the posterior mean."""
        model, actual = fitted(prior_precision=1.7)
        phi = features(model, X)
        mean = np.linalg.solve(phi.T @ phi + 1.7 * SIGMA**2 * np.eye(5), phi.T @ Y)
        model.layers[-1].set_weights([mean[:4], mean[4]])
        laplace = Laplace(
            model,
            likelihoods.Normal(SIGMA),
            hessian_structure="full",
            prior_precision=1.7,
            dtype="float64",
            jit_compile=False,
        ).fit(X, Y)
        self.assertEqual(actual.paths, laplace.paths)
        for a, b in zip(actual.function_moments(NEW), laplace.function_moments(NEW), strict=True):
            self.assertAllClose(a, b, 1e-6, 1e-6)
        self.assertAllClose(
            actual.log_marginal_likelihood(), laplace.log_marginal_likelihood(), 1e-9
        )

    def test_features_of_nearly_no_independence(self) -> None:
        """Against exact fractions; normal equations, of condition 1e16, err in the third digit."""
        x = np.column_stack([np.ones(8), np.ones(8) + 1e-9 * np.arange(8.0) ** 2])
        y = (2.0 + np.arange(8.0) % 3)[:, None]
        model = linear(2)
        actual = NeuralLinear(model, sigma_noise=1.0, prior_precision=1e-20, dtype="float64")
        mean, _ = actual.fit(x, y).function_moments(x)
        a, b, targets = (list(map(Fraction, v)) for v in (x[:, 0], x[:, 1], y[:, 0]))

        def dot(left: Any, right: Any) -> Any:
            return sum(p * q for p, q in zip(left, right, strict=True))

        delta = Fraction(1e-20)
        aa, ab, bb = dot(a, a) + delta, dot(a, b), dot(b, b) + delta
        ay, by = dot(a, targets), dot(b, targets)
        determinant = aa * bb - ab * ab
        w = (bb * ay - ab * by) / determinant, (aa * by - ab * ay) / determinant
        expected = [float(p * w[0] + q * w[1]) for p, q in zip(a, b, strict=True)]
        self.assertAllClose(mean[:, 0], expected, 1e-5)


class UnknownNoiseTest(tf.test.TestCase, parameterized.TestCase):
    NOISE = (2.0, 0.7)

    @parameterized.parameters(*[[p] for p in PRIORS])
    def test_evidence(self, prior: Any) -> None:
        """y ~ Student's t of 2 a degrees, scale b / a (I + Phi Phi^T / delta)."""
        model, actual = fitted(None, prior_precision=prior, noise_prior=self.NOISE)
        phi = features(model, X)
        a, b = self.NOISE
        shape = b / a * (np.eye(N) + phi @ np.diag(1 / of_each(prior)) @ phi.T)
        law = scipy.stats.multivariate_t(shape=shape, df=2 * a)
        self.assertAllClose(actual.log_marginal_likelihood(), law.logpdf(Y.T).sum(), 1e-7)

    def test_prediction_is_a_ratio_of_evidences(self) -> None:
        """p(y* | x*, data) = p(y*, y) / p(y), for each new example by itself."""
        model, actual = fitted(None, noise_prior=self.NOISE)
        prediction = predict(actual, NEW)
        logs = []
        for x, y in zip(NEW, Y_NEW, strict=True):
            before = float(actual.log_marginal_likelihood())
            more = NeuralLinear(model, noise_prior=self.NOISE, dtype="float64").fit(X, Y)
            logs.append(float(more.update(x[None], y[None]).log_marginal_likelihood()) - before)
        self.assertAllClose(prediction.log_prob(Y_NEW), logs, 1e-9)

    def test_moments_of_the_prediction(self) -> None:
        model, actual = fitted(None, prior_precision=1.7, noise_prior=self.NOISE)
        phi, new = features(model, X), features(model, NEW)
        inverse = np.linalg.inv(phi.T @ phi + 1.7 * np.eye(5))
        mean = inverse @ phi.T @ Y
        a = self.NOISE[0] + N / 2
        b = self.NOISE[1] + 0.5 * (((Y - phi @ mean) ** 2).sum(0) + 1.7 * (mean**2).sum(0))
        leverage = np.einsum("ni,ij,nj->n", new, inverse, new)[:, None]
        law = scipy.stats.t(2 * a, new @ mean, np.sqrt(b / a * (1 + leverage)))
        prediction = predict(actual, NEW)
        self.assertAllClose(prediction.mean, law.mean(), 1e-5)
        self.assertAllClose(prediction.stddev, law.std(), 1e-5)
        self.assertAllClose(prediction.interval(0.9), law.interval(0.9), 1e-6)
        self.assertAllClose(prediction.entropy, law.entropy().sum(1), 1e-6)
        noise = scipy.stats.invgamma(a, scale=b)
        self.assertAllClose(prediction.aleatoric_variance, np.tile(noise.mean(), (6, 1)), 1e-5)
        self.assertAllClose(prediction.epistemic_variance, leverage * noise.mean(), 1e-5)
        _, covariance = actual.function_moments(NEW)
        self.assertAllClose(covariance[:, 0, 0], leverage[:, 0] * noise.mean()[0], 1e-6)
        entropy = sum(
            scipy.stats.invgamma(a, scale=s).expect(lambda v: 0.5 * np.log(2 * np.pi * np.e * v))
            for s in b
        )
        self.assertAllClose(prediction.expected_entropy, np.full(6, entropy), 1e-5)

    def test_by_integration(self) -> None:
        """One weight and its noise, on a grid: the evidence, and the density of a new y."""
        x, y = np.array([[0.5], [-1.0], [2.0]]), np.array([[0.8], [-0.9], [1.6]])
        fitted = NeuralLinear(
            linear(1), prior_precision=2.0, noise_prior=(1.5, 0.4), dtype="float64"
        ).fit(x, y)

        def joint(w: Any, log_variance: Any, *new: Any) -> Any:
            variance = np.exp(log_variance)
            scale = np.sqrt(variance)
            log_prob = scipy.stats.invgamma(1.5, scale=0.4).logpdf(variance) + log_variance
            log_prob += scipy.stats.norm.logpdf(w, scale=scale / np.sqrt(2.0))
            for inputs, target in [*zip(x[:, 0], y[:, 0], strict=True), *new]:
                log_prob += scipy.stats.norm.logpdf(target, w * inputs, scale)
            return np.exp(log_prob)

        w, log_variance = np.meshgrid(np.linspace(-8, 8, 1001), np.linspace(-8, 8, 401))
        area = (16 / 1000) * (16 / 400)
        evidence = joint(w, log_variance).sum() * area
        self.assertAllClose(fitted.log_marginal_likelihood(), np.log(evidence), 1e-4)
        density = joint(w, log_variance, (1.2, 0.3)).sum() * area / evidence
        prediction = predict(fitted, np.array([[1.2]]))
        self.assertAllClose(prediction.log_prob(np.array([[0.3]])), [np.log(density)], 1e-4)

    def test_before_much_is_known(self) -> None:
        """At one degree of freedom the variance is infinite, and said to be."""
        fitted = NeuralLinear(linear(1), noise_prior=(0.5, 1.0)).fit(np.ones((1, 1)), np.ones(1))
        self.assertAllEqual(predict(fitted, np.ones((2, 1))).stddev, np.full((2, 1), np.inf))


class EvidenceTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.product(sigma=(SIGMA, None), prior=PRIORS)
    def test_gradients(self, sigma: Any, prior: Any) -> None:
        _, actual = fitted(sigma)
        delta, steps = np.array(prior), 1e-6 * np.eye(np.size(prior))
        with tf.GradientTape() as tape:
            at, noise = tf.constant(delta), tf.constant(SIGMA, tf.float64)
            tape.watch([at, noise])
            value = actual.log_marginal_likelihood(at, None if sigma is None else noise)
        by_delta, by_sigma = tape.gradient(value, [at, noise])

        def evidence(delta: Any, sigma: Any) -> float:
            return float(actual.log_marginal_likelihood(delta, sigma))

        slopes = [
            evidence(delta + h.reshape(delta.shape), sigma)
            - evidence(delta - h.reshape(delta.shape), sigma)
            for h in steps
        ]
        self.assertAllClose(np.ravel(by_delta), np.array(slopes) / 2e-6, 1e-5, 1e-6)
        if sigma is not None:
            slope = (evidence(delta, sigma + 1e-6) - evidence(delta, sigma - 1e-6)) / 2e-6
            self.assertAllClose(by_sigma, slope, 1e-5)

    def test_empirical_bayes_is_that_of_scikit_learn(self) -> None:
        model = network(1)
        phi = features(model, X)
        y = phi @ [1.0, -0.5, 0.3, 0.8, 0.2] + 0.3 * RNG.normal(size=N)
        fitted = NeuralLinear(model, sigma_noise=1.0, dtype="float64").fit(X, y)
        fitted.optimize_prior_precision(with_noise=True)
        flat = dict.fromkeys(("alpha_1", "alpha_2", "lambda_1", "lambda_2"), 0.0)
        ridge = BayesianRidge(fit_intercept=False, max_iter=2000, tol=1e-10, **flat).fit(phi, y)
        self.assertAllClose(fitted.prior_precision, ridge.lambda_, 1e-3)
        self.assertAllClose(fitted.sigma_noise**-2, ridge.alpha_, 1e-3)
        mean, stddev = ridge.predict(features(model, NEW), return_std=True)
        prediction = predict(fitted, NEW)
        self.assertAllClose(prediction.mean[:, 0], mean, 1e-3)
        self.assertAllClose(prediction.stddev[:, 0], stddev, 1e-3)

    @parameterized.parameters("layerwise", "diag")
    def test_of_several_precisions(self, structure: Any) -> None:
        """Where it is largest all slopes vanish, and those of useless features are very large."""
        x = RNG.normal(size=(N, 3))
        y = x @ [[2.0], [0.0], [0.0]] + 1.0 + 0.1 * RNG.normal(size=(N, 1))
        features_alone = keras.Sequential([keras.Input((3,)), keras.layers.Rescaling(1.0)])
        model = keras.Sequential([features_alone, keras.layers.Dense(1)])
        fitted = NeuralLinear(model, noise_prior=(1.0, 0.01)).fit(x, y)
        fitted.optimize_prior_precision(prior_structure=structure)
        delta = fitted.prior_precision
        with tf.GradientTape() as tape:
            tape.watch(delta)
            value = fitted.log_marginal_likelihood(delta)
        slopes = (tape.gradient(value, delta) * delta).numpy()  # in log delta
        self.assertAllClose(slopes, np.zeros(len(slopes)), 0, 1e-2)
        self.assertLen(slopes, {"layerwise": 2, "diag": 4}[structure])
        if structure == "diag":
            self.assertLess(delta[0], 10 * delta[3])
            self.assertGreater(min(delta[1:3]), 100 * delta[0])


class UpdateTest(tf.test.TestCase, parameterized.TestCase):
    def assert_equal(self, a: Any, b: Any, dtype: str = "float64") -> None:
        """Up to the rounding of features, which the size of a batch may decide."""
        rtol, atol = {"float64": (1e-10, 1e-12), "float32": (1e-6, 1e-7)}[dtype]
        for p, q in zip(a.function_moments(NEW), b.function_moments(NEW), strict=True):
            self.assertAllClose(p, q, rtol, atol)
        self.assertAllClose(a.log_marginal_likelihood(), b.log_marginal_likelihood(), rtol)

    @parameterized.parameters(SIGMA, None)
    def test_order_and_batches_do_not_matter(self, sigma: Any) -> None:
        model, whole = fitted(sigma)
        bits = NeuralLinear(model, sigma_noise=sigma, dtype="float64")
        order = RNG.permutation(N)
        for part in np.array_split(order, [1, 2, 9, 20]):
            bits.update(X[part], Y[part], batch_size=4)
        self.assert_equal(bits, whole)
        sets = tf.data.Dataset.from_tensor_slices((X, Y)).batch(7)
        self.assert_equal(bits.fit(sets), whole)
        mean, _ = bits.function_moments(tf.data.Dataset.from_tensor_slices(NEW).batch(4))
        self.assertAllClose(mean, whole.function_moments(NEW)[0], 1e-12)

    @parameterized.parameters("float32", "float64")
    def test_features_are_those_at_the_fit(self, dtype: Any) -> None:
        model = network()
        actual = NeuralLinear(model, sigma_noise=SIGMA, dtype=dtype)
        model.layers[0].set_weights([w + 0.5 for w in model.layers[0].get_weights()])
        actual.fit(X[:20], Y[:20])
        exact = NeuralLinear(model, sigma_noise=SIGMA, dtype=dtype).fit(X, Y)
        before = model.get_weights()
        model.set_weights([0 * w for w in before])
        actual.update(X[20:], Y[20:])
        self.assert_equal(actual, exact, dtype)
        self.assertAllEqual(model.get_weights()[0], 0 * before[0])
        self.assertAllClose(
            actual.fit(X, Y).function_moments(NEW)[1][:, 0, 0],
            np.full(6, 1 / (1 + N / SIGMA**2)),
            1e-6,
        )

    def test_single_precision(self) -> None:
        """Only the network has it: targets far from zero keep their digits."""
        model, _ = fitted()
        actual = NeuralLinear(model, sigma_noise=SIGMA, prior_precision=1e-8).fit(X, Y + 1e6)
        near = NeuralLinear(model, sigma_noise=SIGMA, prior_precision=1e-8).fit(X, Y)
        mean, _ = actual.function_moments(NEW)
        self.assertAllClose(mean - 1e6, near.function_moments(NEW)[0], 0, 1e-3)


class DrawTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(SIGMA, None)
    def test_law_of_the_weights(self, sigma: Any) -> None:
        model, actual = fitted(sigma, prior_precision=1.7)
        phi = features(model, X)
        draws = actual.sample(20_000, seed=1)
        scale = 1.0 if sigma is None else sigma**2
        inverse = np.linalg.inv(phi.T @ phi + 1.7 * scale * np.eye(5))
        mean = inverse @ phi.T @ Y
        noise = np.array([scale, scale])
        if sigma is None:
            errors = ((Y - phi @ mean) ** 2).sum(0) + 1.7 * (mean**2).sum(0)
            noise = (0.1 + 0.5 * errors) / (N / 2)
        expected = np.kron(inverse, np.diag(noise))
        variances = np.diag(expected)
        error = np.sqrt(variances / len(draws))
        self.assertLess(np.max(np.abs(draws.mean(axis=0) - mean.ravel()) / error), 4.5)
        error = np.sqrt(1.2 * (np.outer(variances, variances) + expected**2) / len(draws))
        self.assertLess(np.max(np.abs(np.cov(draws.T) - expected) / error), 5)
        self.assertAllEqual(actual.sample(3, seed=7), actual.sample(3, seed=7))

    @parameterized.parameters(SIGMA, None)
    def test_functions_and_networks(self, sigma: Any) -> None:
        """Kept functions are those of the sampled weights, one for all x; so are the networks."""
        model, actual = fitted(sigma)
        weights = actual.sample(8, seed=2).reshape(8, 5, 2)
        expected = features(model, NEW) @ weights
        kept = predict(actual, NEW, 8, seed=2, return_samples=True)
        self.assertAllClose(kept.samples, expected, 1e-5, 1e-6)
        ensemble = actual.ensemble(8, seed=2)
        drawn = tfbdl.predict(ensemble, NEW, return_samples=True, verbose=0)
        self.assertAllClose(drawn.samples, expected, 1e-5, 1e-6)
        self.assertAllClose(drawn.outputs, kept.outputs, 1e-5, 1e-6)
        self.assertIsInstance(drawn.likelihood, likelihoods.Normal)
        if sigma is not None:
            self.assertAllClose(drawn.aleatoric_stddev, np.full((6, 2), SIGMA))

    def test_mixture_of_functions_is_the_prediction(self) -> None:
        """Under unknown noise, which each function has of its own."""
        _, actual = fitted(None)
        kept = predict(actual, NEW, 20_000, seed=0, return_samples=True)
        sigma = tf.math.softplus(kept.outputs[..., 2:]).numpy()
        logs = scipy.stats.norm.logpdf(Y_NEW, kept.outputs[..., :2], sigma).sum(axis=2)
        mixture = scipy.special.logsumexp(logs, axis=0) - np.log(20_000)
        self.assertAllClose(kept.log_prob(Y_NEW), mixture, 0, 0.03)
        self.assertAllClose((sigma**2).mean(axis=0), kept.aleatoric_variance, 0.02)

    def test_two_inputs(self) -> None:
        keras.utils.set_random_seed(0)
        inputs = [keras.Input((3,)), keras.Input((2,), dtype="int32")]
        table = keras.layers.Flatten()(keras.layers.Embedding(4, 2)(inputs[1]))
        h = keras.layers.Concatenate()([inputs[0], table])
        model = keras.Model(inputs, keras.layers.Dense(1)(h))
        x = [X, RNG.integers(0, 4, (N, 2))]
        fitted = NeuralLinear(model).fit(x, Y[:, 0])
        embedded = model.layers[1 if "embedding" in model.layers[1].name else 2]
        phi = np.column_stack([X, embedded.get_weights()[0][x[1]].reshape(N, 4), np.ones(N)])
        mean = phi @ np.linalg.solve(phi.T @ phi + np.eye(8), phi.T @ Y[:, :1])
        self.assertAllClose(predict(fitted, x).mean, mean, 1e-4, 1e-5)
        self.assertAllClose(fitted.ensemble(3).members[:, :8], fitted.sample(3), 1e-6)


class RefusalTest(tf.test.TestCase):
    def refuses(self, message: str, function: Any, *arguments: Any, **named: Any) -> None:
        with self.assertRaisesRegex(ValueError, f"^{message}") as caught:
            function(*arguments, **named)
        self.assertNotIn("\n", str(caught.exception))

    def test_models(self) -> None:
        dense = keras.layers.Dense
        self.refuses(
            "model='fresh' is not", NeuralLinear, keras.Sequential([dense(1)], name="fresh")
        )
        inputs = keras.Input((3,))
        several = keras.Model(inputs, {"a": dense(1)(inputs), "b": dense(1)(inputs)}, name="two")
        self.refuses(r"model=two has 2 outputs; give keras.Model\(", NeuralLinear, several)
        drawn = keras.Sequential([keras.Input((3,)), layers.BayesDense(1, num_data=9)])
        self.refuses("model=.* has the random layer", NeuralLinear, drawn)
        scaled = keras.Sequential([keras.Input((3,)), dense(2), layers.LearnedScale()])
        self.refuses("model=.* ends in the layer 'learned_scale", NeuralLinear, scaled)
        behind = "model=.* does something behind the product of its last layer 'last'; let it end"
        scaled = keras.Sequential([network(), keras.layers.Rescaling(2.0)])
        self.refuses(behind, NeuralLinear(scaled).fit, X, Y)
        message = (
            r"model=.* ends in the layer 'last' \(Dense\); let the last one be a Dense, or a conv"
        )
        self.refuses(message, NeuralLinear, network(activation="relu"))
        message = r"model=.* ends in the layer 'last' \(Dense, quantized or with LoRA\); let"
        for change in (lambda layer: layer.quantize("int8"), lambda layer: layer.enable_lora(1)):
            adapted = network()
            change(adapted.layers[-1])
            self.refuses(message, lambda m: NeuralLinear(m, dtype="float32"), adapted)
        broken = network()
        broken.layers[0].set_weights([np.nan * w for w in broken.layers[0].get_weights()])
        self.refuses("model=.* has features that are not", NeuralLinear(broken).fit, X, Y)
        with mock.patch.object(memory, "_free", return_value=10**6):
            message = "the posterior of 1,000 features needs 40.1 MB of memory, and 1 MB is free"
            self.refuses(message, NeuralLinear, linear(1000))

    def test_arguments(self) -> None:
        for message, arguments in (
            ("sigma_noise=0 must be a positive number", {"sigma_noise": 0}),
            ("noise_prior=-1.0 must be two positive numbers", {"noise_prior": (1.0, -1.0)}),
            ("prior_precision=0.0 must be positive", {"prior_precision": 0.0}),
            (
                r"prior_precision has shape \(3,\); give a number, or an array of shape \(2,\) or",
                {"prior_precision": [1.0] * 3},
            ),
        ):
            self.refuses(message, NeuralLinear, network(), **arguments)
        outputs = NeuralLinear(network())
        for call in (
            outputs.log_marginal_likelihood,
            outputs.optimize_prior_precision,
            outputs.sample,
            outputs.ensemble,
            outputs.summary,
            predict,
            outputs.function_moments,
        ):
            needed: Any = {predict: [outputs, X], outputs.function_moments: [X]}.get(call, [])
            message = f"{call.__name__} needs a fitted NeuralLinear; call fit first$"
            self.refuses(message, call, *needed)
        self.refuses(
            "with_noise=True is for regression with one known noise",
            outputs.fit(X, Y).optimize_prior_precision,
            with_noise=True,
        )
        self.refuses(
            "sigma_noise=1.0 is for regression with one known noise",
            outputs.log_marginal_likelihood,
            None,
            1.0,
        )
        self.refuses("num_samples=0 must be a positive", outputs.sample, 0)
        self.refuses("num_samples=0 must be a positive", predict, outputs, X, 0)
        self.refuses("batch_size=0 must be a positive", predict, outputs, X, batch_size=0)
        self.refuses("batch_size=0 must be a positive", outputs.fit, X, Y, batch_size=0)

    def test_data(self) -> None:
        fitted = NeuralLinear(network()).fit(X, Y)
        before = float(fitted.log_marginal_likelihood())
        for message, *data in (
            ("y=None: give targets", X),
            ("y has 2 examples and x has 30", X, Y[:2]),
            ("x is not finite in example 0", np.nan * X, Y),
            (r"y has shape \(30, 3\); these outputs describe \(30, 2\)", X, np.ones((30, 3))),
        ):
            self.refuses(message, fitted.update, *data)
            self.assertEqual(float(fitted.log_marginal_likelihood()), before)


if __name__ == "__main__":
    tf.test.main()

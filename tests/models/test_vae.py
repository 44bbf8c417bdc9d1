"""The VAE: its bound by NumPy, by integration over z and in the limit; its arguments and files."""

import pickle
from functools import partial
from typing import Any
from unittest import mock

import keras
import numpy as np
import scipy.special
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp
import two_replicas
from absl.testing import parameterized

import tfbdl
from tfbdl import likelihoods
from tfbdl.draws import DrawnModel, make_draw
from tfbdl.models import VAE, vae_bounds

tfd = tfp.distributions
RNG = np.random.default_rng(0)
N, D = 10, 6
X = RNG.random((N, D)).astype("float32")
BINARY = (X > 0.5).astype("float32")


def make(
    latent_dim: int = 2,
    hidden_units: Any = (5, 4),
    scale: float = 1.0,
    shape: Any = (D,),
    **kwargs: Any,
) -> Any:
    """A model whose weights are all away from their start."""
    model = VAE(latent_dim, hidden_units, activation="tanh", seed=1, **kwargs)
    model.build((None, *shape))
    rng = np.random.default_rng(1)
    for v in model.trainable_variables:
        v.assign(v + scale * rng.normal(0, 0.3, v.shape))
    return model


def broad(**kwargs: Any) -> Any:
    """A model of one latent dimension with q(z | x) wide enough for importance sampling."""
    model = make(1, (4,), scale=3.0, **kwargs)
    model.mu.kernel.assign(0.2 * model.mu.kernel)
    model.mu.bias.assign([0.5])
    model.sigma.kernel.assign(0.05 * model.sigma.kernel)
    model.sigma.bias.assign([1.0])
    return model


def dense(layer: Any, h: Any) -> Any:
    return h @ layer.kernel.numpy().astype(np.float64) + layer.bias.numpy()


def encode(model: Any, x: Any) -> Any:
    h = np.asarray(x, np.float64).reshape(len(x), -1)
    for layer in model.encoder_hidden:
        h = np.tanh(dense(layer, h))
    return dense(model.mu, h), np.logaddexp(0, dense(model.sigma, h))


def decode(model: Any, z: Any) -> Any:
    h = z
    for layer in model.decoder_hidden:
        h = np.tanh(dense(layer, h))
    return dense(model.outputs_layer, h)


def log_likelihood(model: Any, x: Any, logits: Any) -> Any:
    """Sum over pixels of x h - log normaliser, for either likelihood, over the last axis."""
    if model.likelihood.name == "bernoulli":
        normaliser = np.logaddexp(0, logits)
    else:
        normaliser = np.log(np.expm1(logits) / logits)
    return np.sum(x.astype(np.float64) * logits - normaliser, axis=-1)


def kl_by_tfp(mu: Any, sigma: Any) -> Any:
    zero = tf.constant(0.0, tf.float64)
    return tf.reduce_sum(tfd.kl_divergence(tfd.Normal(mu, sigma), tfd.Normal(zero, 1.0)), -1)


class BoundTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters("bernoulli", "continuous_bernoulli")
    def test_at_the_mean(self, likelihood: Any) -> None:
        """training=False: z = mu; both parts by NumPy."""
        model = make(likelihood=likelihood)
        y = model(X)
        mu, sigma = encode(model, X)
        logits = decode(model, mu)
        self.assertAllClose(model.bound.log_likelihood, log_likelihood(model, X, logits), 1e-5)
        self.assertAllClose(model.bound.kl, kl_by_tfp(mu, sigma), 1e-5)
        self.assertLen(model.losses, 1)
        self.assertAllClose(model.losses[0], np.mean(kl_by_tfp(mu, sigma)), 1e-5)
        if likelihood == "bernoulli":
            self.assertAllClose(y, scipy.special.expit(logits), 1e-5)
        else:
            theirs = tfd.ContinuousBernoulli(logits=tf.constant(logits)).mean()
            self.assertAllClose(y, theirs, 1e-4)
        q = model.encode(X)
        self.assertAllClose(q.mu, mu, 1e-5, 1e-5)
        self.assertAllClose(q.sigma, sigma, 1e-5, 1e-5)
        self.assertAllClose(model.decode(q.mu), y, 1e-5)

    def test_in_training_z_is_drawn_for_each_example(self) -> None:
        """One latent dimension and one pixel of logit z: the log likelihood tells z."""
        model = make(1, (3,), shape=(1,))
        model.decoder_hidden[0].kernel.assign(np.full((1, 3), 1e-3))
        model.decoder_hidden[0].bias.assign(np.zeros(3))
        model.outputs_layer.kernel.assign(np.full((3, 1), 1e3 / 3))
        model.outputs_layer.bias.assign(np.zeros(1))
        n = 20_000
        x = np.full((n, 1), 1.0, "float32")
        mu, sigma = encode(model, x[:1])
        z = []
        for _ in range(2):
            model(x, training=True)
            p = np.exp(model.bound.log_likelihood.numpy().astype(np.float64))
            z.append((scipy.special.logit(p) - mu[0, 0]) / sigma[0, 0])
        law = scipy.stats.norm.cdf
        for e in z:
            self.assertGreater(scipy.stats.kstest(e, law, method="asymp").pvalue, 1e-5)
            self.assertLess(abs(np.corrcoef(e[1:], e[:-1])[0, 1]), 5 / np.sqrt(n))
        self.assertLess(abs(np.corrcoef(*z)[0, 1]), 5 / np.sqrt(n))

    @parameterized.parameters("bernoulli", "continuous_bernoulli")
    def test_elbo_against_integration(self, likelihood: Any) -> None:
        """E_q[log p(x | z)] by Gauss-Hermite quadrature over one latent dimension."""
        model = make(1, (4,), scale=3.0, likelihood=likelihood)
        mu, sigma = encode(model, X)
        nodes, weights = np.polynomial.hermite_e.hermegauss(60)
        z = mu + sigma * nodes
        ll = log_likelihood(model, X[:, None], decode(model, z[..., None]))
        weights = weights / weights.sum()
        expected = ll @ weights - kl_by_tfp(mu, sigma)
        variance = np.square(ll) @ weights - np.square(ll @ weights)
        got = model.elbo(X, 2000)
        self.assertLess(np.max(np.abs(got - expected) / (np.sqrt(variance / 2000) + 1e-4)), 5)
        one = [model.elbo(X, 1, seed=s) for s in range(100)]
        error = np.sqrt(variance / 100) + 1e-4
        self.assertLess(np.max(np.abs(np.mean(one, axis=0) - expected) / error), 5)

    @parameterized.parameters("bernoulli", "continuous_bernoulli")
    def test_log_likelihood_against_integration(self, likelihood: Any) -> None:
        """log of the integral of p(x | z) N(z; 0, 1) dz; the error of the mean of the weights."""
        model = broad(likelihood=likelihood)
        mu, sigma = encode(model, X)
        z = np.linspace(-10, 10, 4001)[:, None]
        log_joint = log_likelihood(model, X[:, None], decode(model, z)[None])
        log_joint += scipy.stats.norm.logpdf(z[:, 0])
        dz = z[1, 0] - z[0, 0]
        expected = scipy.special.logsumexp(log_joint, axis=1) + np.log(dz)
        log_q = scipy.stats.norm.logpdf(z[:, 0], mu, sigma)
        second = scipy.special.logsumexp(2 * log_joint - log_q, axis=1) + np.log(dz)
        samples = 5000
        error = np.sqrt((np.exp(second - 2 * expected) - 1) / samples)
        got = model.log_likelihood(X, samples)
        self.assertLess(np.max(error), 0.1)
        self.assertLess(np.max(np.abs(got - expected) / (error + 1e-4)), 5)

    @parameterized.parameters(100, 20_000)
    def test_many_samples_lose_no_digits(self, num_samples: int) -> None:
        """784 pixels whose likelihood does not depend on z, and q = p: every sample is exact."""
        model = make(1, (4,), shape=(784,))
        for layer in (model.outputs_layer, model.mu, model.sigma):
            layer.kernel.assign(tf.zeros_like(layer.kernel))
        model.mu.bias.assign([0.0])
        model.sigma.bias.assign([np.log(np.e - 1)])
        x = (np.random.default_rng(0).random((5, 784)) < 0.5).astype("float32")
        expected = log_likelihood(model, x, model.outputs_layer.bias.numpy().astype(np.float64))
        self.assertAllClose(model.elbo(x, num_samples), expected, atol=2e-3, rtol=0)
        self.assertAllClose(model.log_likelihood(x, num_samples), expected, atol=2e-3, rtol=0)

    def test_bounds_are_ordered(self) -> None:
        """ELBO = bound of one sample <= bound of S samples, rising in S, <= log p(x)."""
        model = broad()
        x = np.repeat(X[:1], 4000, axis=0)
        z = np.linspace(-10, 10, 4001)[:, None]
        log_joint = log_likelihood(model, x[:1], decode(model, z)) + scipy.stats.norm.logpdf(
            z[:, 0]
        )
        log_p = scipy.special.logsumexp(log_joint) + np.log(z[1, 0] - z[0, 0])
        means, errors = [], []
        for samples in (1, 4, 64):
            bounds = model.log_likelihood(x, samples, seed=samples).astype(np.float64)
            means.append(bounds.mean())
            errors.append(bounds.std() / np.sqrt(len(x)))
        elbo = model.elbo(x, 4).astype(np.float64)
        error = elbo.std() / np.sqrt(len(x))
        self.assertLess(abs(elbo.mean() - means[0]), 5 * np.hypot(error, errors[0]))
        for i in range(2):
            self.assertGreater(means[i + 1] - means[i], 5 * np.hypot(errors[i], errors[i + 1]))
        self.assertLess(means[-1], log_p + 5 * errors[-1])
        self.assertGreater(means[-1], log_p - 0.1 * abs(log_p - means[0]) - 5 * errors[-1])

    def test_rows_and_batches_have_independent_noise(self) -> None:
        model = make(1, (4,), scale=3.0)
        with mock.patch.object(vae_bounds, "BATCH", 500):
            bounds = model.elbo(np.repeat(X[:1], 1000, axis=0)).astype(np.float64)
        self.assertLess(abs(np.corrcoef(bounds[:500], bounds[500:])[0, 1]), 5 / np.sqrt(500))
        self.assertLess(abs(np.corrcoef(bounds[1:], bounds[:-1])[0, 1]), 5 / np.sqrt(999))

    def test_seed(self) -> None:
        model = make()
        self.assertAllEqual(model.elbo(X, 3, seed=1), model.elbo(X, 3, seed=1))
        self.assertGreater(np.abs(model.elbo(X, 3, seed=1) - model.elbo(X, 3, seed=2)).min(), 0)

    @parameterized.parameters("bernoulli", "continuous_bernoulli")
    def test_saturated_logits(self, likelihood: Any) -> None:
        """Bounds, losses and gradients stay finite where float32 probabilities are 0 and 1."""
        model = make(likelihood=likelihood)
        model.outputs_layer.bias.assign([1e4, -1e4, 200.0, -200.0, 50.0, -50.0])
        with tf.GradientTape() as tape:
            model(BINARY, training=True)
            loss = -tf.reduce_mean(model.bound.log_likelihood) + sum(model.losses)
        self.assertTrue(np.isfinite(loss))
        for gradient in tape.gradient(loss, [v.value for v in model.trainable_variables]):
            self.assertTrue(np.all(np.isfinite(gradient)))
        self.assertTrue(np.all(np.isfinite(model.elbo(BINARY, 2))))
        self.assertTrue(np.all(np.isfinite(model.log_likelihood(BINARY, 20))))

    def test_gradient_of_the_loss(self) -> None:
        """Against differences of the NumPy bound in the encoder's biases, at z = mu."""
        model = make()
        biases = [model.mu.bias, model.sigma.bias]
        with tf.GradientTape() as tape:
            model(X)
            loss = -tf.reduce_mean(model.bound.log_likelihood) + sum(model.losses)
        gradients = tape.gradient(loss, [v.value for v in biases])

        def bound() -> Any:
            mu, sigma = encode(model, X)
            ll = log_likelihood(model, X, decode(model, mu))
            return np.mean(np.asarray(kl_by_tfp(mu, sigma)) - ll)

        for bias, gradient in zip(biases, gradients, strict=True):
            start, h = bias.numpy(), np.float32(2.0**-10)
            for i in range(2):
                step = np.eye(2, dtype="float32")[i] * h
                bias.assign(start + step)
                above = bound()
                bias.assign(start - step)
                self.assertAllClose(gradient[i], (above - bound()) / (2 * h), 1e-3, 1e-3)
            bias.assign(start)


class DrawTest(tf.test.TestCase):
    def test_one_noise_vector_for_all_x(self) -> None:
        model = make(scale=3.0)
        x = np.concatenate([X, X[:3]])
        sampler = DrawnModel(model)
        y = sampler(x, draw=make_draw(0, 1)).numpy()
        self.assertAllClose(y[N:], y[:3], 1e-6)
        self.assertAllClose(sampler(X[4:], draw=make_draw(0, 1)), y[4:N], 1e-5)
        mu, _ = encode(model, x)
        nearest = scipy.special.expit(decode(model, mu))
        self.assertGreater(np.abs(y - nearest).max(), 1e-3)
        drawn = [sampler(X, draw=make_draw(0, s)).numpy() for s in range(2)]
        self.assertGreater(np.abs(drawn[0] - drawn[1]).max(), 1e-3)


class SampleTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters("bernoulli", "continuous_bernoulli")
    def test_law(self, likelihood: Any) -> None:
        """Means over samples are those of p(x | z) integrated over z ~ N(0, 1)."""
        model, n = make(1, (4,), scale=3.0, likelihood=likelihood), 20_000
        z = np.linspace(-8, 8, 801)[:, None]
        logits = decode(model, z)
        if likelihood == "bernoulli":
            mean = scipy.special.expit(logits)
        else:
            mean = tfd.ContinuousBernoulli(logits=tf.constant(logits)).mean().numpy()
        density = scipy.stats.norm.pdf(z)
        expected = np.sum(density * mean, axis=0) / np.sum(density)
        x, means = model.sample(n).astype(np.float64), model.sample(n, mean=True)
        self.assertEqual(x.shape, (n, D))
        error = x.std(axis=0) / np.sqrt(n)
        self.assertLess(np.max(np.abs(x.mean(axis=0) - expected) / error), 5)
        error = means.std(axis=0) / np.sqrt(n)
        gap = np.abs(means.mean(axis=0, dtype=np.float64) - expected)
        self.assertTrue(np.all(gap < 5 * error + 1e-5))
        if likelihood == "bernoulli":
            self.assertAllEqual(np.unique(x), [0.0, 1.0])
        else:
            self.assertAllInRange(x, 0.0, 1.0)

    def test_mean_belongs_to_the_sample(self) -> None:
        """The same seed has the same z: given z, x - E[x | z] has no correlation with E[x | z]."""
        model = make(1, (4,), scale=3.0)
        x, means = (model.sample(5000, mean=m, seed=5).astype(np.float64) for m in (False, True))
        products = (x - means) * (means - means.mean(axis=0))
        error = products.std(axis=0) / np.sqrt(5000)
        self.assertLess(np.max(np.abs(products.mean(axis=0)) / error), 5)

    def test_seed_and_shape(self) -> None:
        model = make(shape=(2, 3))
        x = model.sample(4, seed=1)
        self.assertEqual(x.shape, (4, 2, 3))
        self.assertAllEqual(model.sample(4, seed=1), x)
        self.assertGreater(
            np.abs(model.sample(4, mean=True, seed=2) - model.sample(4, mean=True)).max(), 0
        )

    def test_unbuilt_model(self) -> None:
        with self.assertRaisesRegex(ValueError, "built|fit|data"):
            VAE(2, (3,)).sample(1)


class TrainingTest(tf.test.TestCase, parameterized.TestCase):
    def test_fit_and_evaluate_report_the_bound(self) -> None:
        model = make()
        model.compile(keras.optimizers.SGD(0.0))
        history = model.fit(X, batch_size=4, epochs=2, verbose=0, validation_data=(X,)).history
        names = {"loss", "elbo", "log_likelihood", "kl"}
        self.assertEqual(set(history), names | {f"val_{name}" for name in names})
        for prefix in ("", "val_"):
            loss, elbo, ll, kl = (
                np.array(history[prefix + name])
                for name in ("loss", "elbo", "log_likelihood", "kl")
            )
            self.assertAllClose(loss, -elbo, 1e-5)
            self.assertAllClose(elbo, ll - kl, 1e-5)
        mu, sigma = encode(model, X)
        expected = {
            "log_likelihood": np.mean(log_likelihood(model, X, decode(model, mu))),
            "kl": np.mean(kl_by_tfp(mu, sigma)),
        }
        expected["elbo"] = expected["log_likelihood"] - expected["kl"]
        expected["loss"] = -expected["elbo"]
        evaluated = model.evaluate(X, batch_size=4, verbose=0, return_dict=True)
        self.assertEqual(set(evaluated), names)
        for name in names:
            self.assertAllClose(evaluated[name], expected[name], 1e-5)
            self.assertAllClose(history[f"val_{name}"], [expected[name]] * 2, 1e-5)
        self.assertAllClose(history["kl"], [expected["kl"]] * 2, 1e-5)

    @parameterized.parameters(False, True)
    def test_one_step_of_fit(self, jit_compile: Any) -> None:
        """A step by hand, with the same noise; the KL is the batch's mean and needs no N."""
        model = make()
        start = [v.numpy() for v in model.trainable_variables]
        noise = model.seed.state.numpy()
        with tf.GradientTape() as tape:
            model(X, training=True)
            loss = tf.reduce_mean(model.bound.kl - model.bound.log_likelihood)
        gradients = tape.gradient(loss, [v.value for v in model.trainable_variables])
        model.seed.state.assign(noise)
        model.compile(keras.optimizers.SGD(0.1), jit_compile=jit_compile)
        history = model.fit(X, batch_size=N, shuffle=False, verbose=0).history
        self.assertAllClose(history["loss"], [loss], 1e-5)
        for v, before, gradient in zip(model.trainable_variables, start, gradients, strict=True):
            self.assertAllClose(v.value, before - 0.1 * gradient, 1e-4, 1e-5, v.path)

    @parameterized.parameters("fit", "train")
    def test_the_weight_of_the_kl_and_its_schedule(self, by: str) -> None:
        """The loss is -(log likelihood - beta factor kl); the elbo knows of neither."""
        model, beta, w = make(), 0.25, RNG.uniform(0.5, 2, N).astype("float32")
        model.compile(keras.optimizers.SGD(0.0))
        tfbdl.set_kl_weight(model, beta)
        train = model.fit if by == "fit" else partial(tfbdl.train, model)
        history = train(
            X,
            sample_weight=w,
            batch_size=5,
            epochs=3,
            callbacks=[tfbdl.KLAnnealing(1, 3)],
            verbose=0,
        )
        history = {k: np.array(v) for k, v in getattr(history, "history", history).items()}
        parts = history["log_likelihood"], history["kl"]
        factors = np.array([0.0, 0.5, 1.0])
        self.assertAllClose(history["loss"], beta * factors * parts[1] - parts[0], 1e-5)
        self.assertAllClose(history["elbo"], parts[0] - parts[1], 1e-5)
        of_mean = model.evaluate(X, verbose=0, return_dict=True)
        self.assertAllClose(of_mean["loss"], beta * of_mean["kl"] - of_mean["log_likelihood"], 1e-5)

    def test_elbo_logger_tells_the_same_parts(self) -> None:
        model, w = make(), RNG.uniform(0.5, 2, N).astype("float32")
        model.compile(keras.optimizers.SGD(0.0))
        tfbdl.set_kl_weight(model, 0.25)
        told = [tfbdl.KLAnnealing(0, 4), tfbdl.ELBOLogger()]
        logs = model.fit(X, sample_weight=w, batch_size=5, epochs=2, callbacks=told, verbose=0)
        history = logs.history
        self.assertAllClose(history["kl_per_example"], history["kl"], 1e-5)
        self.assertAllClose(history["nll"], -np.array(history["log_likelihood"]), 1e-5)

    def test_learns(self) -> None:
        """Two clusters: the bound nears the entropy of the data, log 2 and a little noise."""
        keras.utils.set_random_seed(0)
        x = np.repeat(np.eye(2, dtype="float32"), 64, axis=0).repeat(3, axis=1)
        model = VAE(1, (16,), seed=0)
        model.compile(keras.optimizers.Adam(0.02))
        model.fit(tf.data.Dataset.from_tensors((x,)).repeat(300), verbose=0, shuffle=False)
        bound = model.log_likelihood(x, 500).mean()
        self.assertGreater(bound, -np.log(2) - 0.2)
        self.assertLess(bound, -np.log(2) + 0.05)

    def test_images_and_predict(self) -> None:
        model = make(shape=(2, 3))
        images = X.reshape(N, 2, 3)
        y = model.predict(images, batch_size=4, verbose=0)
        self.assertAllClose(y, model(images), 1e-5)
        self.assertEqual(y.shape, images.shape)
        flat = make()
        flat.set_weights(model.get_weights())
        self.assertAllClose(y.reshape(N, D), flat(X), 1e-5)
        self.assertAllClose(flat.elbo(X, 3), model.elbo(images, 3), 1e-5)

    def test_mixed_precision(self) -> None:
        wide = make()
        half = make(dtype="mixed_bfloat16")
        half.set_weights(wide.get_weights())
        wide(X), half(X)
        self.assertEqual(half.bound.kl.dtype, tf.float32)
        self.assertAllClose(half.bound.log_likelihood, wide.bound.log_likelihood, 0.05, 0.05)
        self.assertAllClose(half.bound.kl, wide.bound.kl, 0.05, 0.05)
        half.compile("sgd")
        self.assertTrue(np.isfinite(half.fit(X, verbose=0).history["loss"][0]))

    def test_replicas_have_the_numbers_of_one_device(self) -> None:
        """Sigma is near 0, so that the noise of the replicas does not matter."""

        def quiet() -> Any:
            model = VAE(2, (4,), activation="tanh", seed=1)
            model.build((None, D))
            rng = np.random.default_rng(1)
            for v in model.trainable_variables:
                v.assign(rng.normal(0, 0.3, v.shape))
            model.sigma.bias.assign([-15.0, -15.0])
            model.compile(keras.optimizers.SGD(0.01))
            return model

        single = quiet()
        with two_replicas.strategy().scope():
            double = quiet()
        x = X[:8]
        histories = [
            m.fit(x, batch_size=4, epochs=2, shuffle=False, verbose=0).history
            for m in (single, double)
        ]
        for name in ("loss", "elbo", "kl", "log_likelihood"):
            self.assertAllClose(histories[0][name], histories[1][name], 1e-4, msg=name)
        for a, b in zip(single.trainable_variables, double.trainable_variables, strict=True):
            self.assertAllClose(a.value, b.value, 1e-4, 1e-5, a.path)


class FileTest(tf.test.TestCase, parameterized.TestCase):
    def assert_same(self, model: Any, other: Any, bounds: bool = False) -> None:
        self.assertEqual(other.get_config(), model.get_config())
        for training in (False, True, True):
            self.assertAllEqual(other(X, training=training), model(X, training=training))
            self.assertAllEqual(other.losses, model.losses)
        self.assertAllEqual(other.sample(3), model.sample(3))
        if bounds:
            self.assertAllEqual(other.elbo(X, 2), model.elbo(X, 2))

    @parameterized.parameters(
        ({},),
        ({"likelihood": "continuous_bernoulli", "seed": 4},),
        ({"binarize": "dynamic", "activation": "tanh", "name": "mine"},),
    )
    def test_round_trips(self, arguments: Any) -> None:
        model = VAE(2, (5, 4), **arguments)
        model.build((None, D))
        model(X, training=True)
        folder = self.get_temp_dir()
        model.save(f"{folder}/m.keras")
        loaded = keras.models.load_model(f"{folder}/m.keras", safe_mode=True)
        self.assert_same(model, loaded, bounds=model.binarize == "dynamic")
        model.save_weights(f"{folder}/m.weights.h5")
        other = VAE.from_config(model.get_config())
        other.build((None, D))
        other.load_weights(f"{folder}/m.weights.h5")
        self.assert_same(model, other)
        self.assert_same(model, pickle.loads(pickle.dumps(model)))

    def test_training_goes_on(self) -> None:
        model = make()
        model.compile("adam")
        model.fit(X, batch_size=N, verbose=0)
        path = f"{self.get_temp_dir()}/m.keras"
        model.save(path)
        loaded = keras.models.load_model(path)
        losses = [m.fit(X, batch_size=N, verbose=0).history["loss"] for m in (model, loaded)]
        self.assertAllClose(losses[0], losses[1], 1e-6)


class ArgumentsTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(
        *[
            ({"likelihood": given}, "^likelihood=.* takes probabilities, .* leave from_logits out")
            for given in ("binary_crossentropy", likelihoods.Bernoulli(from_logits=False))
        ],
        ({"binarize": "static"}, "^binarize='static' is unknown; choose one of: dynamic$"),
        *[
            ({"latent_dim": d}, "^latent_dim=.* positive integer$")
            for d in (0, -1, 2.0, None, True)
        ],
        *[({"hidden_units": h}, "^hidden_units=.*$") for h in ((0,), (-3, 4), (2.5,), 500)],
    )
    def test_constructor(self, arguments: Any, message: str) -> None:
        with self.assertRaisesRegex(ValueError, message):
            VAE(**arguments)

    BAD = (
        (
            255 * X,
            r"^x has values from .* to .*; likelihood=Bernoulli\(\) needs pixels in \[0, 1\]",
        ),
        (X - 0.5, r"^x has values from -.*pixels in \[0, 1\] \(divide by 255\)$"),
        (
            np.where(X > 0.9, np.nan, X),
            r"^x is not finite in example \d+; remove it or fill it in$",
        ),
        (np.where(X > 0.9, np.inf, X), "^x is not finite"),
        (X[:0], r"^x has shape \(0, 6\); give \(N, ...\) with at least one example$"),
        (X[0], r"^x has shape \(6,\)"),
        (X[:, :4], r"^x has shape \(10, 4\); this model takes"),
        ((255 * X).astype("uint8"), r"pixels in \[0, 1\]"),
    )

    @parameterized.product(
        method=("fit", "evaluate", "elbo", "log_likelihood"), bad=tuple(range(len(BAD)))
    )
    def test_data(self, method: Any, bad: Any) -> None:
        """One line that names x, whatever the method."""
        x, message = self.BAD[bad]
        model = make()
        model.compile("sgd", run_eagerly=True)
        with self.assertRaisesRegex(ValueError, message) as raised:
            getattr(model, method)(x, **({"verbose": 0} if method in ("fit", "evaluate") else {}))
        self.assertNotIn("\n", str(raised.exception))

    def test_validation_data_and_tensors_are_checked_too(self) -> None:
        model = make()
        model.compile("sgd", run_eagerly=True)
        with self.assertRaisesRegex(ValueError, r"pixels in \[0, 1\]"):
            model.fit(X, validation_data=(255 * X,), verbose=0)
        with self.assertRaisesRegex(ValueError, r"pixels in \[0, 1\]"):
            model.fit(tf.constant(255 * X), verbose=0)
        numbers = tf.data.Dataset.range(3)
        for data in ({"x": numbers}, {"x": X, "validation_data": numbers}):
            with self.assertRaisesRegex(ValueError, r"^x has batches of shape \(\); give them of"):
                model.fit(**data, verbose=0)
        with self.assertRaisesRegex(TypeError, "class_weight"):
            model.fit(X, class_weight={0: 1.0}, verbose=0)

    def test_what_keras_takes_is_passed_on(self) -> None:
        """By place and by name, and targets that nothing looks at."""
        model = make()
        model.compile("sgd", run_eagerly=True)
        history = model.fit(X, X, 5, 3, 0, initial_epoch=1, validation_split=0.5).history
        self.assertLen(history["val_loss"], 2)
        by_name = model.evaluate(X, X, 5, 0, return_dict=True)
        self.assertAllClose(by_name["loss"], -by_name["elbo"], 1e-5)
        w = np.ones(len(X))
        weighted = model.evaluate(X, sample_weight=w, verbose=0, return_dict=True)
        self.assertAllClose(weighted["loss"], by_name["loss"], 1e-4)

    @parameterized.parameters("elbo", "log_likelihood")
    def test_num_samples(self, method: Any) -> None:
        for wrong in (0, -3):
            with self.assertRaisesRegex(ValueError, "^num_samples=.* must be a positive integer$"):
                getattr(make(), method)(X, wrong)

    def test_pixels_of_other_types(self) -> None:
        model = make()
        expected = model.elbo(BINARY)
        for dtype in ("uint8", "int64", "bool", "float64"):
            self.assertAllClose(model.elbo(BINARY.astype(dtype)), expected, 1e-6)


if __name__ == "__main__":
    tf.test.main()

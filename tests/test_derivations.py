"""The formulas of docs/course/notebooks, each held against numbers of another origin.

Here the bound, its gradient, and dropout; `test_derivations_posteriors` has the others.
"""

from __future__ import annotations

import keras
import numpy as np
import pytest
import scipy.integrate
import scipy.special
import scipy.stats
import tensorflow as tf

from tfbdl import priors, random
from tfbdl.layers import BayesDense, ConcreteDropout, MCDropout
from tfbdl.models import VAE
from tfbdl.models.vae import Latent, kl_to_standard_normal

rng = np.random.default_rng(0)


def normal_expectation(function: object, mean: float = 0.0, stddev: float = 1.0) -> float:
    """E[function(w)] for w ~ N(mean, stddev^2), by Gauss and Hermite."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    return float(weights @ function(mean + stddev * nodes) / np.sqrt(2 * np.pi))


class TestBound:
    """p(w) = N(0, 1), y given w ~ N(w, 1), q = N(m, s^2): all parts are known."""

    @staticmethod
    def bound(y: float, m: float, s: float) -> float:
        likelihood = normal_expectation(lambda w: scipy.stats.norm.logpdf(y, w), m, s)
        kl = kl_to_standard_normal(Latent(tf.constant([[m]]), tf.constant([[s]])))
        return likelihood - float(kl[0])

    def test_elbo(self) -> None:
        y = 0.7
        log_evidence = scipy.stats.norm.logpdf(y, 0, 2**0.5)
        assert self.bound(y, y / 2, 0.5**0.5) == pytest.approx(log_evidence, abs=1e-6)
        for m, s in ((0.0, 1.0), (0.35, 0.5), (1.0, 0.7)):
            assert self.bound(y, m, s) < log_evidence - 1e-3

    def test_gap_of_the_bound(self) -> None:
        y, m, s = 0.7, 1.0, 0.4
        gap = scipy.stats.norm.logpdf(y, 0, 2**0.5) - self.bound(y, m, s)
        to_posterior = np.log(0.5**0.5 / s) + (s * s + (m - y / 2) ** 2) - 0.5
        assert gap == pytest.approx(to_posterior, abs=1e-5)

    def test_closed_form_of_the_kl(self) -> None:
        """Minus the entropy, minus the prior's expectation."""
        mu, sigma, gamma = 0.3, 0.2, 1.5
        entropy = np.log(sigma) + 0.5 * np.log(2 * np.pi) + 0.5
        assert entropy == pytest.approx(float(scipy.stats.norm(mu, sigma).entropy()))
        expected = normal_expectation(lambda w: scipy.stats.norm.logpdf(w, 0, gamma), mu, sigma)
        kl = priors.Normal(gamma).kl_from_normal(tf.constant([mu]), tf.constant([sigma]))
        assert float(kl) == pytest.approx(-entropy - expected, rel=1e-5)

    def test_minibatches(self) -> None:
        """The mean over all batches of the loss is the bound of all data, whatever M is."""
        keras.utils.set_random_seed(0)
        layer = BayesDense(1, num_data=12)
        x, y = rng.standard_normal((12, 3)), rng.standard_normal((12, 1))
        layer(x)
        kl = sum(float(q.kl(random.key_of(0, "x"))) for q in layer.random_weights)

        def loss(rows: slice) -> float:
            error = np.mean((np.array(layer(x[rows])) - y[rows]) ** 2)
            return float(error + layer.losses[0])

        for size in (2, 6, 12):
            batches = [slice(i, i + size) for i in range(0, 12, size)]
            error = loss(slice(None)) - float(layer.losses[0])
            assert np.mean([loss(b) for b in batches]) == pytest.approx(error + kl / 12, rel=1e-5)

    def test_local_bounds_have_no_num_data(self) -> None:
        vae = VAE(2, (4,))
        x = rng.random((6, 5)).astype("float32")
        for rows in (x, x[:3]):
            vae(rows)
            kl = kl_to_standard_normal(vae.encode(rows))
            assert float(vae.losses[0]) == pytest.approx(float(tf.reduce_mean(kl)), rel=1e-5)


class TestReparameterization:
    mu, sigma, c = 0.8, 0.5, 0.1

    def test_reparameterization(self) -> None:
        """E[sin w] = sin(mu) exp(-sigma^2 / 2), by mu and by rho."""
        rho = float(np.log(np.expm1(self.sigma)))
        key = random.key_of(0, "derivations")
        mu_, rho_ = tf.constant(self.mu), tf.constant(rho)
        with tf.GradientTape() as tape:
            tape.watch([mu_, rho_])
            w = mu_ + tf.math.softplus(rho_) * random.normal(key, (400_000,))
            mean = tf.reduce_mean(tf.sin(w))
        gradient = [float(g) for g in tape.gradient(mean, [mu_, rho_])]
        shrink = np.exp(-(self.sigma**2) / 2)
        by_sigma = -self.sigma * np.sin(self.mu) * shrink
        exact = [np.cos(self.mu) * shrink, by_sigma * scipy.special.expit(rho)]
        assert gradient == pytest.approx(exact, abs=4e-3)

    def test_score_function_has_more_variance(self) -> None:
        d, eps = self.mu - self.c, rng.standard_normal(1_000_000)
        w = self.mu + self.sigma * eps
        path, score = 2 * (w - self.c), (w - self.c) ** 2 * eps / self.sigma
        assert path.mean() == pytest.approx(2 * d, abs=0.01)
        assert score.mean() == pytest.approx(2 * d, abs=0.02)
        assert path.var() == pytest.approx(4 * self.sigma**2, rel=0.01)
        stated = d**4 / self.sigma**2 + 14 * d**2 + 15 * self.sigma**2
        assert score.var() == pytest.approx(stated, rel=0.03)
        assert stated > 10 * path.var()

    def test_quantile_gradient(self) -> None:
        """The gradient in a normal's scale: -(dF / dsigma) / q, by differences of F."""
        w, h = 1.3, 1e-5
        law = lambda s: scipy.stats.norm(self.mu, s)  # noqa: E731
        slope = (law(self.sigma + h).cdf(w) - law(self.sigma - h).cdf(w)) / (2 * h)
        by_formula = -slope / law(self.sigma).pdf(w)
        assert by_formula == pytest.approx((w - self.mu) / self.sigma, rel=1e-6)

    def test_local_reparameterization(self) -> None:
        """Equal marginals; two examples are correlated under one W, and not here."""
        x = np.array([[1.0, 2.0], [1.0, 1.0]])
        mu, sigma = np.array([0.5, -0.2]), np.array([0.3, 0.4])
        layer = BayesDense(1, num_data=1, estimator="local_reparameterization", use_bias=False)
        layer.build((None, 2))
        layer.kernel.mu.assign(mu[:, None])
        layer.kernel.rho.assign(np.log(np.expm1(sigma))[:, None])
        rows = np.tile(x, (50_000, 1)).astype("float32")
        outputs = np.array(layer(rows, training=True)).reshape(-1, 2)
        assert outputs.mean(0) == pytest.approx(x @ mu, abs=0.02)
        assert outputs.var(0) == pytest.approx(x**2 @ sigma**2, rel=0.03)
        assert abs(np.cov(outputs.T)[0, 1]) < 0.02
        shared = np.sum(x[0] * x[1] * sigma**2)
        w = mu + sigma * rng.standard_normal((100_000, 2))
        assert np.cov((w @ x.T).T)[0, 1] == pytest.approx(shared, rel=0.05)


def bernoulli_entropy(k: float) -> float:
    return -k * np.log(k) - (1 - k) * np.log(1 - k)


class TestDropout:
    @pytest.mark.parametrize("keep", [0.2, 0.5, 0.9])
    def test_dropout_kl(self, keep: float) -> None:
        """The formula with its constants, by integration, where the lumps are apart."""
        m, s, scale = 0.5, 0.01, 0.7
        lumps = np.linspace(-12, 12, 24_001) * s
        w = np.union1d(lumps, m + lumps)
        log_q = np.logaddexp(
            np.log(1 - keep) + scipy.stats.norm.logpdf(w, 0, s),
            np.log(keep) + scipy.stats.norm.logpdf(w, m, s),
        )
        log_p = scipy.stats.norm.logpdf(w, 0, 1 / scale)
        exact = np.trapezoid(np.exp(log_q) * (log_q - log_p), w)
        squared = (s * scale) ** 2
        formula = keep * scale**2 / 2 * m**2 - bernoulli_entropy(keep)
        assert exact == pytest.approx(formula + 0.5 * (squared - 1 - np.log(squared)), abs=1e-5)

    def test_weight_decay_of_a_prior(self) -> None:
        """lambda ||W||^2 = KL / N up to the entropy: of the kernel, and of the kept values."""
        num_data, keep, scale = 50, 0.4, 0.7
        layer = ConcreteDropout(
            keras.layers.Dense(3), num_data=num_data, lengthscale=scale, initial_rate=1 - keep
        )
        layer.build((None, 4))
        kernel = np.array(layer.layer.kernel, float)
        decay = scale**2 / (2 * num_data * keep)
        of_kept = keep * scale**2 / (2 * num_data) * np.sum((kernel / keep) ** 2)
        assert decay * np.sum(kernel**2) == pytest.approx(of_kept)
        assert float(layer.weight_term()) / num_data == pytest.approx(of_kept, rel=1e-5)

    def test_dropout_is_a_law_of_weights(self) -> None:
        """The law has mean W and, for each sum over units, variance (1 - k) / k sum h^2 W^2."""
        keep, h, kernel = 0.8, np.array([1.0, -2.0, 0.5]), np.array([0.3, 0.7, -1.1])
        rows = np.tile(h, (200_000, 1)).astype("float32")
        f = np.array(MCDropout(1 - keep, seed=0)(rows, training=True)) @ kernel
        assert f.mean() == pytest.approx(h @ kernel, abs=0.01)
        assert f.var() == pytest.approx((1 - keep) / keep * np.sum(h**2 * kernel**2), rel=0.02)


class TestConcrete:
    def test_concrete_terms(self) -> None:
        """wd and ent of the slides, from kept values and probabilities."""
        scale = 0.7
        layer = ConcreteDropout(
            keras.layers.Dense(3), num_data=9, lengthscale=scale, per_unit=True, logit_scale=2.0
        )
        layer.build((None, 4))
        layer.scaled_logit.assign([-1.0, 0.0, 0.5, 2.0])
        keep = scipy.special.expit(2.0 * np.array([-1.0, 0.0, 0.5, 2.0]))
        kept = np.array(layer.layer.kernel) / keep[:, None]
        wd = np.sum(keep * scale**2 / 2 * np.sum(kept**2, axis=1))
        assert float(layer.weight_term()) == pytest.approx(wd, rel=1e-5)
        entropy = sum(bernoulli_entropy(k) for k in keep)
        assert float(layer.entropy_term()) == pytest.approx(entropy, rel=1e-5)

    def test_relaxed_mask(self) -> None:
        """Above 1/2 with probability k; the gradient by the logit has mean k (1 - k) when cold."""
        keep = 0.8
        logit = tf.fill([400_000], np.float32(scipy.special.logit(keep)))
        for temperature in (1.0, 0.1):
            with tf.GradientTape() as tape:
                tape.watch(logit)
                mask = random.relaxed_bernoulli(
                    random.key_of(1, "mask"), logit, temperature, (400_000,)
                )
            assert np.mean(mask > 0.5) == pytest.approx(keep, abs=0.003)
        gradient = np.array(tape.gradient(mask, logit))
        assert gradient.mean() == pytest.approx(keep * (1 - keep), rel=0.03)

    def test_optimum_of_the_prior_terms(self) -> None:
        """The optimum of a kept value, and of a kernel, whose optimum lies above 1/2."""
        keep = np.linspace(1e-4, 1 - 1e-4, 99_999)
        for c in (0.1, 1.0, 3.0):
            best = keep[np.argmin(c * keep - bernoulli_entropy(keep))]
            assert best == pytest.approx(scipy.special.expit(-c), abs=1e-3)
            assert keep[np.argmin(c / keep - bernoulli_entropy(keep))] > 0.5

"""The formulas of docs/course/notebooks: variational dropout, Laplace, chains, wide networks."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import scipy.integrate
import scipy.special
import scipy.stats
import tensorflow as tf

from tfbdl import priors, random
from tfbdl.inference import Laplace
from tfbdl.likelihoods import Bernoulli
from tfbdl.optimizers import SGHMC, SGLD
from tfbdl.priors import LogUniform

rng = np.random.default_rng(0)


def log_uniform_kl(log_alpha: float) -> float:
    """Half of E[psi(1/2 + j)] - psi(1/2), j ~ Poisson(1 / (2 alpha))."""
    mean = 0.5 * np.exp(-log_alpha)
    j = np.arange(int(mean + 12 * np.sqrt(mean) + 60))
    law = scipy.stats.poisson(mean).pmf(j)
    return float(0.5 * (law @ scipy.special.digamma(0.5 + j) - scipy.special.digamma(0.5)))


class TestVariationalDropout:
    @pytest.mark.parametrize("alpha", [0.3, 1.0, 5.0])
    def test_log_uniform_kl(self, alpha: float) -> None:
        t = np.linspace(-40, 4, 40_001)  # |u| = sqrt(alpha) e^t
        root, s = -1 / np.sqrt(alpha), np.exp(t)
        density = scipy.stats.norm.pdf(root + s) + scipy.stats.norm.pdf(root - s)
        mean = np.trapezoid(density * s * (t + 0.5 * np.log(alpha)), t)
        constant = 0.5 * (np.euler_gamma + np.log(2))
        by_integral = mean - 0.5 * np.log(alpha) + constant
        assert log_uniform_kl(np.log(alpha)) == pytest.approx(by_integral, abs=1e-8)

    def test_approximations_of_the_log_uniform_kl(self) -> None:
        grid = np.linspace(-8, 8, 401)
        exact = np.array([log_uniform_kl(v) for v in grid])
        actual = self.of("molchanov", grid)
        assert np.abs(actual - exact).max() == pytest.approx(0.0094, abs=2e-4)
        assert grid[np.abs(actual - exact).argmax()] == pytest.approx(-3.5, abs=0.05)
        assert np.abs(np.gradient(actual - exact, grid)).max() == pytest.approx(0.014, abs=1e-3)
        small = grid <= 0
        apart = self.of("kingma", grid[small]) - exact[small]
        assert (apart.max() - apart.min()) / 2 == pytest.approx(0.020, abs=1e-3)
        slopes = [f(-1e-3) - f(-2e-3) for f in (log_uniform_kl, self.of_kingma)]
        assert (slopes[0] - slopes[1]) / 1e-3 == pytest.approx(0.054, abs=2e-3)
        table = [round(log_uniform_kl(v), 4) for v in (-4, -2, -1, 0, 1, 2, 3)]
        assert table == [2.6258, 1.5442, 0.9145, 0.4267, 0.1732, 0.0662, 0.0247]

    @staticmethod
    def of(approximation: str, grid: np.ndarray) -> np.ndarray:
        prior = LogUniform(approximation)
        return np.array([float(prior.kl_from_log_alpha(tf.constant([v]))) for v in grid])

    @staticmethod
    def of_kingma(log_alpha: float) -> float:
        prior = LogUniform("kingma")
        return float(prior.kl_from_log_alpha(tf.constant([log_alpha], tf.float64)))

    def test_noise_of_outputs(self) -> None:
        """Dropout and Gaussian noise of alpha = (1 - k) / k: equal means and variances."""
        keep, h = 0.8, 3.0
        mask = (rng.random(400_000) < keep) / keep
        gaussian = 1 + np.sqrt((1 - keep) / keep) * rng.standard_normal(400_000)
        assert np.mean(h * mask) == pytest.approx(np.mean(h * gaussian), abs=0.02)
        assert np.var(h * mask) == pytest.approx(np.var(h * gaussian), rel=0.02)
        assert 1 / (1 + np.exp(3)) < 0.05


class TestLaplace:
    x = np.array([-2.0, -1.3, -0.5, 0.4, 1.1, 1.9])
    y = np.array([0, 0, 1, 0, 1, 1])

    def test_laplace_of_one_weight(self) -> None:
        grid = np.linspace(-8, 20, 280_001)
        signed = np.outer((2 * self.y - 1) * self.x, grid)
        log_joint = -np.logaddexp(0, -signed).sum(0) + scipy.stats.norm.logpdf(grid, 0, 2)
        mode = grid[log_joint.argmax()]
        p = scipy.special.expit(mode * self.x)
        curvature = np.sum(self.x**2 * p * (1 - p)) + 0.25
        evidence = log_joint.max() + 0.5 * np.log(2 * np.pi / curvature)
        layer = keras.layers.Dense(1, use_bias=False)
        network = keras.Sequential([keras.Input((1,)), layer])
        layer.kernel.assign([[mode]])
        posterior = Laplace(
            network,
            Bernoulli(),
            subset_of_weights="all",
            hessian_structure="full",
            prior_precision=0.25,
        ).fit(self.x[:, None].astype("float32"), self.y[:, None])
        stddev = posterior.function_moments(np.ones((1, 1), "float32"))[1].item() ** 0.5
        assert [round(mode, 3), round(stddev, 3)] == [1.151, 0.827]
        assert stddev == pytest.approx(curvature**-0.5, rel=1e-4)
        assert float(posterior.log_marginal_likelihood()) == pytest.approx(evidence, abs=1e-4)
        density = np.exp(log_joint - scipy.special.logsumexp(log_joint))
        mean = density @ grid
        assert [round(mean, 3), round(float(np.sqrt(density @ (grid - mean) ** 2)), 3)] == [
            1.449,
            0.924,
        ]

    def test_gauss_newton(self) -> None:
        """Hessian = J^T Lambda J + sum g f'', for f = tanh(w x) and squares, by differences."""
        x, y, w, h = 0.7, 0.2, 0.9, 1e-4
        loss = lambda w: 0.5 * (np.tanh(w * x) - y) ** 2  # noqa: E731
        exact = (loss(w + h) - 2 * loss(w) + loss(w - h)) / h**2
        f = np.tanh(w * x)
        slope, bend = x * (1 - f**2), -2 * f * (1 - f**2) * x**2
        assert exact == pytest.approx(slope**2 + (f - y) * bend, abs=1e-6)

    def test_probit(self) -> None:
        worst = 0.0
        for m in np.linspace(0, 12, 25):
            for v in np.geomspace(0.01, 200, 25):
                exact, _ = scipy.integrate.quad(
                    lambda z, m=m, v=v: scipy.special.expit(m + v**0.5 * z) * np.exp(-z * z / 2),
                    -10,
                    10,
                )
                approximate = scipy.special.expit(m / np.sqrt(1 + np.pi * v / 8))
                worst = max(worst, abs(exact / np.sqrt(2 * np.pi) - approximate))
        assert worst < 0.02


class TestMonteCarlo:
    def test_leapfrog(self) -> None:
        """Keeps its own energy exactly, turns round, and preserves volume."""
        h = 0.9
        step = np.array([[1.0, 0.0], [-h / 2, 1.0]]) @ np.array([[1.0, h], [0.0, 1.0]])
        step = step @ np.array([[1.0, 0.0], [-h / 2, 1.0]])
        kept = np.diag([1 - h**2 / 4, 1.0])
        flip = np.diag([1.0, -1.0])
        assert np.allclose(step.T @ kept @ step, kept)
        assert np.allclose(flip @ step @ flip @ step, np.eye(2))
        assert np.linalg.det(step) == pytest.approx(1.0)
        euler = np.array([[1.0, h], [-h, 1.0]])
        assert np.linalg.det(euler) == pytest.approx(1 + h**2)

    @pytest.mark.parametrize("rate", [0.1, 0.5])
    def test_langevin_noise(self, rate: float) -> None:
        """The variance of the package's SGLD on a parabola of curvature 2."""
        exact = (1 / 50) / (2 * (1 - rate * 2 / 2))
        sampler = SGLD(rate, num_data=50, seed=0)
        assert self.variance(sampler, 2.0) == pytest.approx(exact, rel=0.05)

    @pytest.mark.parametrize(("rate", "momentum"), [(0.3, 0.5)])
    def test_sghmc_noise(self, rate: float, momentum: float) -> None:
        exact = (1 / 50) / 2 / (1 - rate * 2 / (2 * (1 + momentum)))
        sampler = SGHMC(rate, momentum=momentum, num_data=50, seed=0)
        assert self.variance(sampler, 2.0) == pytest.approx(exact, rel=0.05)

    @staticmethod
    def variance(sampler: keras.optimizers.Optimizer, curvature: float, steps: int = 200) -> float:
        """Variance of 2,000 weights by U = curvature w^2 / 2, over the second half of the steps."""
        w = keras.Variable(np.zeros(2000, "float32"))
        sampler.build([w])

        @tf.function
        def run(total: tf.Tensor) -> tf.Tensor:
            sampler.apply([curvature * w.value], [w])
            return total + tf.reduce_mean(tf.square(w.value))

        total = tf.constant(0.0)
        for step in range(steps):
            total = run(total) if step >= steps // 2 else 0.0 * run(total)
        return float(total) / (steps - steps // 2)

    def test_minibatch_noise(self) -> None:
        """lr^2 s^2 / B is added to the variance of a step."""
        rate, heat, spread, size, curvature = 0.05, 1e-3, 1.5, 10, 1.0
        w = np.zeros(20_000)
        for _ in range(400):
            gradient = curvature * w + spread / np.sqrt(size) * rng.standard_normal(w.shape)
            w = w - rate * gradient + np.sqrt(2 * rate * heat) * rng.standard_normal(w.shape)
        of_step = 2 * rate * heat + rate**2 * spread**2 / size
        assert w.var() == pytest.approx(of_step / (1 - (1 - rate * curvature) ** 2), rel=0.05)


def arc_cosine(k: np.ndarray) -> np.ndarray:
    """E[phi(u) phi(u')] of ReLUs for (u, u') ~ N(0, k), of each pair."""
    roots = np.sqrt(np.outer(np.diag(k), np.diag(k)))
    cosine = np.clip(k / roots, -1, 1)
    angle = np.arccos(cosine)
    return roots * (np.sin(angle) + (np.pi - angle) * cosine) / (2 * np.pi)


def relu_outputs(x: np.ndarray, widths: tuple[int, ...], networks: int) -> np.ndarray:
    """f(x) of networks with weights N(0, 2 / fan-in), no biases: (networks, n)."""
    h = np.broadcast_to(x, (networks, *x.shape))
    for i, width in enumerate((*widths, 1)):
        w = rng.standard_normal((networks, h.shape[-1], width)) * np.sqrt(2 / h.shape[-1])
        h = (np.maximum(h, 0) if i else h) @ w
    return h[..., 0]


class TestWideNetworks:
    x = np.array([[1.0, 0.0], [0.6, -0.8], [-0.5, 1.2]])

    def test_arc_cosine_kernel(self) -> None:
        a = rng.standard_normal((400_000, 2))
        units = np.maximum(a @ self.x.T, 0)
        assert units.T @ units / len(a) == pytest.approx(arc_cosine(self.x @ self.x.T), abs=0.01)

    @pytest.mark.parametrize("width", [5, 20])
    def test_kurtosis_of_width(self, width: int) -> None:
        f = relu_outputs(self.x[:1], (width,), 200_000)
        assert scipy.stats.kurtosis(f[:, 0]) == pytest.approx(15 / width, rel=0.15)

    def test_deep_kernel(self) -> None:
        """At every width the covariance of one hidden layer is the limit's; of two, when wide."""
        k = 2 * self.x @ self.x.T / 2
        for _ in range(2):
            k = 2 * arc_cosine(k)
        f = relu_outputs(self.x, (60, 60), 4000)
        assert np.cov(f.T) == pytest.approx(k, abs=0.12)

    def test_kurtosis_of_depth(self) -> None:
        widths = (20, 20, 20)
        f = relu_outputs(self.x[:1], widths, 40_000)
        stated = 3 * ((1 + 5 / 20) ** 3 - 1)
        assert scipy.stats.kurtosis(f[:, 0]) == pytest.approx(stated, rel=0.3)

    def test_scale_by_fan_in(self) -> None:
        w = priors.Normal("fan_in", sigma=3.0).sample(random.key_of(0, "w"), (400, 1000))
        assert float(np.std(w)) == pytest.approx(3 / 20, rel=0.01)

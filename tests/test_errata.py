"""The numbers of docs/course/errata.md, each computed anew and found on the page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.integrate
import scipy.special
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp

from tfbdl import random
from tfbdl.data import blundell_curve

PAGE = (Path(__file__).parents[1] / "docs" / "course" / "errata.md").read_text()
Step = Callable[[np.ndarray, np.ndarray, float, int], tuple[np.ndarray, np.ndarray]]


def stated(number: str, heading: str) -> bool:
    """Whether an entry, a section or a row of a table, has that number."""
    section = next(
        part for part in PAGE.replace("\n| ", "\n### | ").split("\n### ") if heading in part[:20]
    )
    return number in section


def leapfrog(q: np.ndarray, p: np.ndarray, h: float, steps: int) -> tuple[np.ndarray, np.ndarray]:
    for _ in range(steps):
        p = p - h / 2 * q
        q = q + h * p
        p = p - h / 2 * q
    return q, p


def new_velocity(
    q: np.ndarray, p: np.ndarray, h: float, steps: int
) -> tuple[np.ndarray, np.ndarray]:
    for _ in range(steps):
        p = p - h * q
        q = q + h * p
    return q, p


def old_velocity(
    q: np.ndarray, p: np.ndarray, h: float, steps: int
) -> tuple[np.ndarray, np.ndarray]:
    for _ in range(steps):
        q, p = q + h * p, p - h * q
    return q, p


def hmc_variance(step: Step, h: float, steps: int) -> float:
    """The variance of the samples of N(0, 1), with the Metropolis test on the energy."""
    generator = np.random.default_rng(0)
    w, kept = generator.standard_normal(4000), []
    for iteration in range(250):
        v = generator.standard_normal(w.shape)
        q, p = step(w, v, h, steps)
        log_ratio = 0.5 * (w**2 + v**2 - q**2 - p**2)
        w = np.where(np.log(generator.random(w.shape)) < log_ratio, q, w)
        if iteration >= 50:
            kept.append(np.mean(w**2))
    return float(np.mean(kept))


class TestHamiltonianMonteCarlo:
    @pytest.mark.parametrize(
        ("step", "h", "steps", "variance"),
        [
            (leapfrog, 0.1, 15, 1.0),
            (leapfrog, 0.5, 1, 1.0),
            (old_velocity, 0.1, 15, 1.20),
            (new_velocity, 0.5, 1, 0.520),
        ],
    )
    def test_only_the_leapfrog_keeps_the_target(
        self, step: Step, h: float, steps: int, variance: float
    ) -> None:
        assert hmc_variance(step, h, steps) == pytest.approx(variance, rel=0.02)

    def test_one_step_samples_at_half_the_temperature(self) -> None:
        step = 0.1
        keep, noise = 1 - step**2, step**2
        assert noise / (1 - keep**2) == pytest.approx(1 / (2 - step**2))
        assert round(1 / (2 - step**2), 4) == 0.5025
        assert stated("0.5025", "E2")


def test_laplace_sum() -> None:
    x = np.array([-2.0, -1.3, -0.5, 0.4, 1.1, 1.9])
    y = np.array([0, 0, 1, 0, 1, 1])
    w = np.linspace(-8, 20, 200_001)
    log_joint = -w * w / 8 - np.logaddexp(0, -np.outer(2 * y - 1, 1) * np.outer(x, w)).sum(0)
    mode = w[log_joint.argmax()]
    p = scipy.special.expit(x * mode)
    data = np.sum(x * x * p * (1 - p))
    density = np.exp(log_joint - scipy.special.logsumexp(log_joint))
    exact = np.sqrt(density @ w**2 - (density @ w) ** 2)
    actual = [data, (data + 0.25) ** -0.5, (data + 6 * 0.25) ** -0.5, exact]
    assert [round(v, 3) for v in actual] == [1.214, 0.827, 0.607, 0.924]
    for number in ("1.2137", "0.827", "0.607", "0.924"):
        assert stated(number, "E3")


class TestRelaxedBernoulli:
    @pytest.mark.parametrize(("keep", "mean"), [(0.1, 0.523), (0.5, 0.622), (0.9, 0.712)])
    def test_second_position_is_the_logit(self, keep: float, mean: float) -> None:
        relaxed = tfp.distributions.RelaxedBernoulli
        masks = relaxed(0.01, tf.fill([200_000], keep)).sample(seed=(0, 1))
        error = 0.5 / 200_000**0.5  # at most, of a mean of zeros and ones
        assert float(tf.reduce_mean(masks)) == pytest.approx(
            scipy.special.expit(keep), abs=4 * error
        )
        assert scipy.special.expit(keep) == pytest.approx(mean, abs=0.003)
        named = relaxed(0.01, probs=tf.fill([200_000], keep)).sample(seed=(0, 2))
        assert float(tf.reduce_mean(named)) == pytest.approx(keep, abs=4 * error)
        assert stated(f"{mean:.3f}", "B1")

    @pytest.mark.parametrize(("keep", "count"), [(0.5, 1473), (0.9, 3960)])
    def test_gradients_are_nan(self, keep: float, count: int) -> None:
        prob = tf.fill([5000], keep)
        with tf.GradientTape() as tape:
            tape.watch(prob)
            relaxed = tfp.distributions.RelaxedBernoulli(0.01, probs=prob)
            sample = relaxed.sample(seed=(0, 3))
        lost = np.isnan(tape.gradient(sample, prob)).sum()
        assert lost == pytest.approx(count, rel=0.1)
        assert stated(f"{count:,}", "B2")

    @pytest.mark.parametrize("keep", [0.5, 0.9])
    def test_gradients_of_the_package_are_finite(self, keep: float) -> None:
        logit = tf.fill([5000], np.float32(scipy.special.logit(keep)))
        with tf.GradientTape() as tape:
            tape.watch(logit)
            sample = random.relaxed_bernoulli(random.key_of(0, "errata"), logit, 0.01, (5000,))
        assert np.isfinite(tape.gradient(sample, logit)).all()

    @pytest.mark.parametrize(
        ("temperature", "mean"), [(2 / 3, "0.8547"), (0.1, "0.8988"), (0.01, "0.89999")]
    )
    def test_mean_is_biased(self, temperature: float, mean: str) -> None:
        u = (np.arange(2_000_000) + 0.5) / 2e6
        mask = scipy.special.expit((np.log(9) + scipy.special.logit(u)) / temperature)
        assert mask.mean() == pytest.approx(float(mean), abs=1e-4)
        assert stated(mean, "B9")


def test_two_uses_of_p_reverse_the_optimum() -> None:
    keep = np.linspace(1e-4, 1 - 1e-4, 9999)
    entropy = -keep * np.log(keep) - (1 - keep) * np.log(1 - keep)
    assert keep[np.argmin(keep - entropy)] == pytest.approx(0.27, abs=0.005)
    assert keep[np.argmin((1 - keep) - entropy)] == pytest.approx(0.73, abs=0.005)
    assert stated("0.27 to 0.73", "B3")


@pytest.mark.parametrize(("prob", "mass"), [(0.5, "1/2"), (0.1, "0.364"), (0.001, "0.145")])
def test_bernoulli_is_no_density_of_grey_pixels(prob: float, mass: str) -> None:
    actual, _ = scipy.integrate.quad(lambda x: prob**x * (1 - prob) ** (1 - x), 0, 1)
    assert actual == pytest.approx(0.5 if mass == "1/2" else float(mass), abs=6e-4)
    assert stated(mass, "B4")
    assert 784 * np.log(2) == pytest.approx(543, abs=0.5)


def test_kl_of_dropout_as_lumps_merge() -> None:
    width, lengthscale_squared, rate = 0.01, 0.2, 0.5
    grid = np.linspace(-40, 40, 80_001) * width

    def error(m: float) -> float:
        w = np.union1d(grid, m + grid)
        log_q = np.logaddexp(
            np.log(rate) + scipy.stats.norm.logpdf(w, 0, width),
            np.log(1 - rate) + scipy.stats.norm.logpdf(w, m, width),
        )
        log_p = scipy.stats.norm.logpdf(w, 0, lengthscale_squared**-0.5)
        exact = np.trapezoid(np.exp(log_q) * (log_q - log_p), w)
        scaled = width**2 * lengthscale_squared
        constant = 0.5 * (scaled - 1 - np.log(scaled)) - np.log(2)
        return float(exact - (1 - rate) * lengthscale_squared / 2 * m**2 - constant)

    assert [round(error(m), 2) for m in (0.0, 2 * width)] == [0.69, 0.36]
    assert abs(error(0.1)) < 2e-6
    for s, constant in ((0.1, "2.6"), (0.01, "4.9"), (1e-4, "9.5")):
        assert round(0.5 * (0.2 * s * s - 1 - np.log(0.2 * s * s)), 1) == float(constant)
        assert stated(constant, "B5")


def test_prior_of_the_weight_decay() -> None:
    num_data, keep, decay = 1000, 0.5, 0.5e-4
    assert 2 * num_data * decay / keep == pytest.approx(0.2)
    assert 2 * num_data * decay * keep == pytest.approx(0.05)


def test_the_report() -> None:
    """The straight line's cost; what starting values do to the untrained network."""
    x, y = blundell_curve(500, 0)
    assert 0.5 * y.var() == pytest.approx(0.013, abs=0.001)
    residual = y[:, 0] - np.polyval(np.polyfit(x[:, 0], y[:, 0], 1), x[:, 0])
    assert 0.5 * residual.var() == pytest.approx(0.0125, abs=0.001)
    _, y = blundell_curve(500, 0, 0.02**0.5)
    assert 0.5 * y.var() == pytest.approx(0.045, abs=0.005)
    assert np.log1p(np.exp([0.0, -5.0])) == pytest.approx([0.69, 0.0067], abs=0.004)
    sizes = np.array([1 * 32, 32, 32 * 64, 64, 64, 1])
    assert sizes.sum() == 2241
    sigma = np.log1p(np.exp(np.array([0.0, -5.0])))
    kl = sizes.sum() * (0.5 * (sigma**2 + 0.01 - 1) - np.log(sigma)) / 500
    assert kl == pytest.approx([0.50, 20.2], abs=0.05)
    spread = [untrained_spread(rho) for rho in (0.0, -5.0)]
    assert spread == pytest.approx([8.2, 0.012], rel=0.15)


def untrained_spread(rho: float, draws: int = 1000) -> float:
    """Standard deviation of the report's untrained network at x = 0.25."""
    generator = np.random.default_rng(0)
    actual = []
    for _ in range(draws):
        a = np.array([0.25])
        for d_in, d_out in ((1, 32), (32, 64), (64, 1)):
            shape = (d_in, d_out)
            start = rho + 0.1 * generator.standard_normal(shape)
            spread = np.log1p(np.exp(start)) * generator.standard_normal(shape)
            w = 0.1 * generator.standard_normal(shape) + spread
            start = rho + generator.uniform(-0.01, 0.01, d_out)
            b = generator.uniform(-0.01, 0.01, d_out)
            b = b + np.log1p(np.exp(start)) * generator.standard_normal(d_out)
            z = a @ w + b
            a = np.maximum(z, 0)
        actual.append(z[0])
    return float(np.std(actual))


def test_gamma_is_a_scale() -> None:
    def kl(scale: float) -> float:
        return float(np.log(scale / 0.08) + (0.1**2 + 0.08**2) / (2 * scale**2) - 0.5)

    assert [round(kl(2.0), 2), round(kl(2.0**0.5), 2)] == [2.72, 2.38]
    assert np.log1p(np.exp([-3.0, -2.0])) == pytest.approx([0.049, 0.127], abs=5e-4)


def test_where_formulas_as_written_overflow() -> None:
    one = np.float32(1)
    sigmoid = one / (one + np.exp(np.float32(-17)))
    assert one - sigmoid == 0
    with np.errstate(under="ignore"):
        assert np.exp(np.float32(-52)) ** 2 == 0
        assert np.log(one + np.exp(np.float32(-17))) == 0
        assert np.log(1 + np.exp(-37.0)) == 0
        for w, real in ((5.3, np.float32), (14.2, np.float64)):
            scales = np.exp(real([-1, -7]))
            assert np.sum(np.exp(-(real(w) ** 2) / (2 * scales**2)) * real(0.26)) == 0


def test_scale_of_an_inverse_gamma() -> None:
    """The density of tau^2, integrated by d tau: half of E[1 / tau]."""
    actual, _ = scipy.integrate.quad(lambda t: scipy.stats.invgamma.pdf(t * t, 1.0), 0, np.inf)
    assert actual == pytest.approx(0.44, abs=0.005)
    assert stated("0.44", "E7")

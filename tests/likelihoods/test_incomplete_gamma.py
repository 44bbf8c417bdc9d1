"""The incomplete gamma function and what counts make of it, against SciPy and integrals."""

import math

import numpy as np
import pytest
import scipy.integrate
import scipy.special
import scipy.stats
import tensorflow as tf

from tfbdl import likelihoods
from tfbdl.likelihoods.incomplete_gamma import temme_coefficients, upper_gamma

RNG = np.random.default_rng(0)


def around(a: np.ndarray, deviations: float) -> np.ndarray:
    """Positive x as many standard deviations from a at most."""
    z = RNG.uniform(-deviations, deviations, a.shape)
    return np.maximum(a + np.sqrt(a) * z, 1e-3 * a)


def upper(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    return upper_gamma(tf.constant(a), tf.constant(np.log(x))).numpy()


def test_first_coefficients() -> None:
    """As Temme (1979) and DLMF 8.12 print them."""
    expected = [[-1 / 3, 1 / 12, -2 / 135], [-1 / 540, -1 / 288, 1 / 378]]
    np.testing.assert_allclose(temme_coefficients(12, 26)[:2, :3], expected, 1e-14)


@pytest.mark.parametrize("magnitude", range(-3, 10))
def test_around_the_mean(magnitude: int) -> None:
    """Farther than 4.5 deviations SciPy itself gives up."""
    a = 10.0 ** (magnitude + RNG.uniform(0, 1, 2000))
    x = around(a, 4.4)
    error = 1e-15 * np.maximum(np.sqrt(a) * np.log(a), 50)  # of log x
    assert np.all(np.abs(upper(a, x) - scipy.special.gammaincc(a, x)) < error)


@pytest.mark.parametrize("magnitude", range(-3, 4))
def test_anywhere(magnitude: int) -> None:
    a = 10.0 ** (magnitude + RNG.uniform(0, 1, 2000))
    x = a * np.exp(RNG.uniform(-4, 4, a.shape))
    np.testing.assert_allclose(upper(a, x), scipy.special.gammaincc(a, x), 1e-10, 1e-13)


@pytest.mark.parametrize("a", [21.0, 500.0, 1499.0, 1501.0, 1e6])
def test_tails(a: float) -> None:
    """Relative to their size, by integrals of the density."""
    for z in (5.0, 7.0, 9.0):
        x = a + z * math.sqrt(a)

        def density(t: float, x: float = x) -> float:
            return math.exp(scipy.stats.gamma.logpdf(t, a) - scipy.stats.gamma.logpdf(x, a))

        value, _ = scipy.integrate.quad(density, x, x + 12 * math.sqrt(a), epsabs=0, limit=200)
        expected = value * math.exp(scipy.stats.gamma.logpdf(x, a))
        assert upper(np.array(a), np.array(x)) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_counts_around_large_rates(dtype: str) -> None:
    """The distribution function of Poisson's law, of the rates as they are in their type."""
    largest = {"float16": 10.0, "float32": 40.0, "float64": 30.0}[dtype]
    log_rate = RNG.uniform(-3, largest, (5000, 1)).astype(dtype)
    rate = np.exp(log_rate.astype(np.float64))
    k = np.floor(np.maximum(rate + np.sqrt(rate) * RNG.uniform(-4, 4, rate.shape), 0))
    got = likelihoods.Poisson().cdf(k, log_rate).numpy()
    tolerance = 1e-6 if dtype != "float64" else 1e-7
    np.testing.assert_allclose(got, scipy.special.gammaincc(k + 1, rate), 0, tolerance)
    assert got.max() > 0.999
    assert got.min() < 0.001


def test_counts_at_the_ends() -> None:
    """No rate, no end of rates, and no end of counts."""
    y = np.array([0.0, 5.0, 3e8, 5.0, 3e8, np.inf, -1.0])[:, None]
    log_rate = np.array([-np.inf, -1e4, -np.inf, 1e4, 800.0, 3.0, 3.0])[:, None]
    got = likelihoods.Poisson().cdf(y, log_rate)
    np.testing.assert_array_equal(got[:, 0], [1, 1, 1, 0, 0, 1, 0])

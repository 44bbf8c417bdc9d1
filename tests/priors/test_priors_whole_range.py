"""Log densities of priors over the whole range of floats: finite and right, with gradients."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.special
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tfbdl import priors

SETTINGS = settings(max_examples=60, deadline=None, derandomize=True)
WIDTHS = {"float32": 32, "float64": 64}
TOLERANCE = {"float32": 3e-5, "float64": 1e-9}
HALF_LOG_2PI = 0.5 * np.log(2 * np.longdouble(np.pi))


class Law(NamedTuple):
    """A prior, and its log density and slope by terms, in long double."""

    prior: Callable[[], Any]
    terms: Callable[[Any], list[Any]]
    slopes: Callable[[Any], list[Any]]


def long(x: Any) -> Any:
    return np.asarray(x).astype(np.longdouble)


def normal(scale: float) -> Law:
    s = np.longdouble(scale)
    return Law(
        lambda: priors.Normal(scale),
        lambda w: [-((w / s) ** 2) / 2, -np.log(s) - HALF_LOG_2PI],
        lambda w: [-w / s**2],
    )


def laplace(scale: float) -> Law:
    b = np.longdouble(scale)
    return Law(
        lambda: priors.Laplace(scale),
        lambda w: [-np.abs(w) / b, -np.log(2 * b)],
        lambda w: [-np.sign(w) / b],
    )


def student_t(df: float, scale: float) -> Law:
    s, half = np.longdouble(scale), (np.longdouble(df) + 1) / 2
    constant = math.lgamma(half) - math.lgamma(half - 0.5)
    constant -= float(0.5 * np.log(np.pi * df) + np.log(s))
    return Law(
        lambda: priors.StudentT(df, scale),
        lambda w: [np.full_like(w, constant), -half * np.log1p((w / s) ** 2 / df)],
        lambda w: [-2 * half * w / (df * s**2 + w**2)],
    )


def mixture(pi: float, *scales: float) -> Law:
    shares, (a, b) = (np.longdouble(pi), 1 - np.longdouble(pi)), map(np.longdouble, scales)

    def parts(w: Any) -> list[Any]:
        pairs = zip(shares, (a, b), strict=True)
        return [np.log(p) - np.log(s) - (w / s) ** 2 / 2 - HALF_LOG_2PI for p, s in pairs]

    def slopes(w: Any) -> list[Any]:
        log_odds = np.log(shares[1] / shares[0]) + np.log(a / b)
        log_odds = log_odds - w**2 / 2 * (1 / b - 1 / a) * (1 / b + 1 / a)
        of_second = np.exp(-np.logaddexp(np.longdouble(0), -log_odds))
        of_first = np.exp(-np.logaddexp(np.longdouble(0), log_odds))
        return [-of_first * w / a**2, -of_second * w / b**2]

    return Law(
        lambda: priors.ScaleMixture(pi, *scales), lambda w: [np.logaddexp(*parts(w))], slopes
    )


def gamma_scale(a: float, b: float) -> Law:
    def softplus(w: Any) -> Any:
        return np.logaddexp(np.longdouble(0), w)

    def log_softplus(w: Any) -> Any:
        return np.where(w < -60, w, np.log(softplus(np.maximum(w, -60))))

    constant = a * math.log(b) - math.lgamma(a)

    def terms(w: Any) -> list[Any]:
        return [constant + 0 * w, (a - 1) * log_softplus(w), -b * softplus(w), -softplus(-w)]

    def slopes(w: Any) -> list[Any]:
        sigmoid = np.exp(-softplus(-w))
        of_log = np.exp(-softplus(-w) - log_softplus(w))
        return [(a - 1) * of_log, -b * sigmoid, np.exp(-softplus(w))]

    return Law(lambda: priors.GammaScale(a, b), terms, slopes)


LAWS = {
    "normal": normal(0.7),
    "narrow normal": normal(1e-15),
    "wide normal": normal(1e15),
    "laplace": laplace(0.3),
    "student_t": student_t(3.0, 0.5),
    "cauchy": student_t(1.0, 1e-10),
    "wide student_t": student_t(30.0, 1e10),
    "scale_mixture": mixture(0.25, float(np.exp(-1)), float(np.exp(-7))),
    "the narrow one first": mixture(0.25, 1e-10, 2.0),
    "equal ones": mixture(0.4, 0.7, 0.7),
    "near ones": mixture(0.4, 0.7, 0.7001),
    "gamma_scale": gamma_scale(0.5, 1.0),
    "steep gamma_scale": gamma_scale(3.0, 20.0),
}


def weights(width: int) -> Any:
    """All floats, those of networks more often, and those where formulas end."""
    info = np.finfo(f"float{width}")
    ends = [0.0, 1.0, 1e-3, 1e-30, 1e9, 1e18, 2e19, 1e30, 36.9, 37.1, 88.0, 90.0, 104.0, 746.0]
    ends += [float(info.tiny), float(info.eps), float(info.max)]
    ends = [float(np.asarray(x, info.dtype)) for x in ends]
    return st.one_of(
        st.sampled_from([*ends, *(-x for x in ends)]),
        st.floats(-120.0, 120.0, width=width),
        st.floats(width=width, allow_nan=False, allow_infinity=False),
    )


def check(what: str, got: Any, terms: Any, dtype: str) -> None:
    """Finite wherever the exact number is, and right to its size or that of its parts."""
    got, exact, size = long(got), sum(terms), sum(np.abs(t) for t in terms)
    fits = np.isfinite(size) & (size < long(np.finfo(dtype).max) / 8)
    assert np.isfinite(got[fits]).all(), (what, got[fits], exact[fits])
    wrong = fits & (np.abs(got - exact) > TOLERANCE[dtype] * (size + (what == "value")) + 1e-37)
    assert not wrong.any(), (what, got[wrong], exact[wrong])


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", WIDTHS)
@pytest.mark.parametrize("name", LAWS)
def test_log_density(name: str, dtype: str, compiled: bool) -> None:
    law, info = LAWS[name], np.finfo(dtype)
    prior = law.prior()

    @tf.function(jit_compile=compiled)
    def value_and_slope(w: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(w)
            value = prior.log_prob(w)
        return value, tape.gradient(value, w)

    @SETTINGS
    @given(st.lists(weights(WIDTHS[dtype]), min_size=8, max_size=8))
    def holds(drawn: Any) -> None:
        w = np.array(drawn, dtype)
        w[np.abs(w) < info.tiny] = 0.0  # as processors have it
        value, slope = value_and_slope(tf.constant(w))
        with np.errstate(all="ignore"):
            check("value", value, law.terms(long(w)), dtype)
            check("slope", slope, law.slopes(long(w)), dtype)

    holds()


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_horseshoe_with_its_scales_integrated_out(scale: float) -> None:
    """Value and slope at weights of any size, by exp(z) E1(z), and by its end 1 / z beyond it."""
    w = np.float32([1e-37, 1e-20, 1e-3, 0.5, 2.0, 1e3, 1e10, 1e19, 1e25, 1e37, -3.0, -1e30])
    x = tf.constant(w)
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = priors.Horseshoe(scale).marginal_log_prob(x)
    slope = tape.gradient(value, x)
    z = (w.astype(float) / scale) ** 2 / 2
    few = np.minimum(z, 600.0)
    scaled = np.where(z < 600, np.exp(few) * scipy.special.exp1(few), 1 / (z + 1))
    constant = np.log(scale) + 1.5 * np.log(np.pi) + 0.5 * np.log(2)
    np.testing.assert_allclose(value, np.log(scaled) - constant, 1e-5, 1e-5)
    ratio = np.where(z < 600, 1 - 1 / (few * scaled), -1 / z)  # of d log / dz
    expected = ratio * w.astype(float) / scale**2
    fits = np.abs(expected) < 1e37
    np.testing.assert_allclose(np.asarray(slope)[fits], expected[fits], 2e-3)

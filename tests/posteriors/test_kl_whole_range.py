"""KL of families from priors, over the whole range of floats: finite and right, with gradients."""

from typing import Any

import keras
import numpy as np
import pytest
import scipy.special
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from posterior_families import KEY

from tfbdl import posteriors, priors

SETTINGS = settings(max_examples=25, deadline=None, derandomize=True)
WIDTHS = {"float32": 32, "float64": 64}
TOLERANCE = {"float32": 3e-5, "float64": 1e-9}
ROOT2, ROOT_2_BY_PI = np.sqrt(np.longdouble(2)), np.sqrt(2 / np.longdouble(np.pi))
HALF_LOG_2PI = 0.5 * np.log(2 * np.longdouble(np.pi))


def numbers(width: int, largest: float) -> Any:
    """Numbers that training gives, those where formulas end, and all floats up to a size."""
    info = np.finfo(f"float{width}")
    ends = [0.0, 1.0, 30.0, 36.9, 37.1, 44.0, 87.0, 88.0, 90.0, 104.0, 709.0, 746.0, 1e-3, 1e-30]
    ends += [float(info.tiny), float(info.smallest_subnormal), float(info.eps), 1e6, 1e18, 1e30]
    ends = [float(np.asarray(x, info.dtype)) for x in ends if x <= largest]
    wide = float(np.asarray(largest, info.dtype))
    return st.one_of(
        st.sampled_from([*ends, *(-x for x in ends)]),
        st.floats(-120.0, 20.0, width=width),
        st.floats(-wide, wide, width=width),
    )


def wide(x: Any) -> Any:
    return np.asarray(x).astype(np.longdouble)


def softplus(rho: Any) -> Any:
    return np.logaddexp(np.longdouble(0), rho)


def log_softplus(rho: Any) -> Any:
    return np.where(rho < -60, rho, np.log(softplus(np.maximum(rho, -60))))


def sigmoid(rho: Any) -> Any:
    return np.exp(-np.logaddexp(np.longdouble(0), -rho))


class Exact:
    """A value, its slopes in mu and rho (or in w), and sizes against which errors count."""

    def __init__(self, value: Any, slopes: Any) -> None:
        self.value, self.slopes = value, slopes


def kl_of_normal(scale: float) -> Any:
    def exact(mu: Any, rho: Any, entropy: float = 0.5 + float(HALF_LOG_2PI)) -> Exact:
        s, sigma = np.longdouble(scale), softplus(rho)
        terms = [(mu / s) ** 2 / 2, (sigma / s) ** 2 / 2, np.log(s) + HALF_LOG_2PI]
        terms += [-log_softplus(rho), np.full_like(mu, -entropy)]
        of_log = sigmoid(rho) * np.exp(-log_softplus(rho))
        slopes = [[mu / s**2], [sigma / s**2 * sigmoid(rho), -of_log]]
        return Exact(terms, slopes)

    return exact


def kl_of_laplace(scale: float) -> Any:
    def exact(mu: Any, rho: Any) -> Exact:
        b, sigma = np.longdouble(scale), softplus(rho)
        z = np.minimum(np.abs(mu) / (ROOT2 * sigma), 100)
        erf = wide(scipy.special.erf(z.astype(float)))
        folded = ROOT_2_BY_PI * sigma * np.exp(-(z**2)), np.abs(mu) * erf
        terms = [folded[0] / b, folded[1] / b, np.log(2 * b), -log_softplus(rho)]
        terms += [np.full_like(mu, -0.5 - HALF_LOG_2PI)]
        of_log = sigmoid(rho) * np.exp(-log_softplus(rho))
        of_sigma = ROOT_2_BY_PI * np.exp(-(z**2)) / b * sigmoid(rho)
        return Exact(terms, [[np.sign(mu) * erf / b], [of_sigma, -of_log]])

    return exact


def laplace_of_laplace(scale: float) -> Any:
    def exact(mu: Any, rho: Any) -> Exact:
        b, p, size = np.sqrt(np.longdouble(0.5)) * softplus(rho), np.longdouble(scale), np.abs(mu)
        fall = np.exp(-np.minimum(size / b, 1e4))
        terms = [size / p, b * fall / p, np.log(2 * p), -log_softplus(rho)]
        terms += [np.full_like(mu, -1 - 0.5 * np.log(2))]
        of_b = (fall + np.where(size < 1e4 * b, size / b, 0) * fall) / p
        of_log = sigmoid(rho) * np.exp(-log_softplus(rho))
        slopes = [
            [np.sign(mu) / p, -np.sign(mu) * fall / p],
            [of_b * np.sqrt(0.5) * sigmoid(rho), -of_log],
        ]
        return Exact(terms, slopes)

    return exact


def entropy_of(family: Any, kl: Any) -> Any:
    return lambda mu, rho: kl(mu, rho, family.standard_entropy)


CLOSED = {
    "normal": ("mean_field", lambda: priors.Normal(0.7), kl_of_normal(0.7)),
    "narrow normal": ("mean_field", lambda: priors.Normal(1e-3), kl_of_normal(1e-3)),
    "laplace": ("mean_field", lambda: priors.Laplace(0.5), kl_of_laplace(0.5)),
    "full": ("full_covariance", lambda: priors.Normal(0.7), kl_of_normal(0.7)),
    "full, laplace": ("full_covariance", lambda: priors.Laplace(0.5), kl_of_laplace(0.5)),
    "low rank": ("low_rank", lambda: priors.Normal(0.7), kl_of_normal(0.7)),
    "low rank, laplace": ("low_rank", lambda: priors.Laplace(0.5), kl_of_laplace(0.5)),
    "logistic": (
        "logistic",
        lambda: priors.Normal(0.7),
        entropy_of(posteriors.Logistic, kl_of_normal(0.7)),
    ),
    "laplace, normal": (
        "laplace",
        lambda: priors.Normal(0.7),
        entropy_of(posteriors.Laplace, kl_of_normal(0.7)),
    ),
    "laplace, laplace": ("laplace", lambda: priors.Laplace(0.5), laplace_of_laplace(0.5)),
}
"""A family, a prior, and the exact KL of one weight, by terms, of each."""


def make(family: str, prior: Any, dtype: str, size: int = 1, exact: bool = True) -> Any:
    owner = keras.layers.Layer(dtype=dtype)
    q = posteriors.get(family).create(owner, "kernel", (size,), "zeros", prior, exact=exact)
    for variable in q.trainable_variables:
        if variable.name == "v":
            variable.assign(tf.zeros(variable.shape, dtype))
    return q


def variables(q: Any) -> tuple[Any, Any]:
    """Mu and rho."""
    by_name = {v.name: v for v in q.trainable_variables}
    return by_name["mu"], by_name["rho"]


def check(what: str, got: Any, terms: Any, dtype: str) -> None:
    """Finite wherever the exact sum and its terms are, and as right as their sizes allow."""
    info, got = np.finfo(dtype), wide(got)
    exact, size = sum(terms), sum(np.abs(t) for t in terms)
    fits = np.isfinite(size) & (size < wide(info.max) / 8)
    assert np.isfinite(got[fits]).all(), (what, got, exact)
    error = np.abs(got - exact)
    wrong = fits & (error > TOLERANCE[dtype] * size + 1e-24)
    assert not wrong.any(), (what, got[wrong], exact[wrong], size[wrong])


@pytest.mark.parametrize("dtype", WIDTHS)
@pytest.mark.parametrize("name", CLOSED)
def test_closed_form(name: str, dtype: str) -> None:
    family, prior, exact = CLOSED[name]
    q = make(family, prior(), dtype)
    mu, rho = variables(q)

    @tf.function
    def kl_and_slopes() -> Any:
        with tf.GradientTape() as tape:
            value = q.exact_kl()
        return value, tape.gradient(value, [mu.value, rho.value])

    @SETTINGS
    @given(numbers(WIDTHS[dtype], 1e30), numbers(WIDTHS[dtype], 1e18))
    def holds(m: float, r: float) -> None:
        mu.assign([m])
        rho.assign([r])
        value, slopes = kl_and_slopes()
        tiny = np.finfo(dtype).tiny
        with np.errstate(all="ignore"):
            true = exact(wide([0.0 if abs(m) < tiny else m]), wide([r]))
            check("value", np.reshape(value, 1), true.value, dtype)
            for where, got, terms in zip(("mu", "rho"), slopes, true.slopes, strict=True):
                check(f"slope in {where}", got, terms, dtype)

    holds()


FAMILIES = ("mean_field", "logistic", "laplace", "full_covariance", "low_rank", "matrix_normal")
SAMPLED = {
    "normal": lambda: priors.Normal(0.7),
    "laplace": lambda: priors.Laplace(0.5),
    "student_t": lambda: priors.StudentT(3.0, 0.5),
    "scale_mixture": priors.ScaleMixture,
}


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_narrow_laws(family: str, exact: bool) -> None:
    """Three weights: closed and sampled KL of scales that underflow, or whose squares do.

    What a lower rho costs is what it takes from the entropy: its slope is -1 for each weight.
    """
    for name, prior in SAMPLED.items():
        q = make(family, prior(), "float32", 3, exact)
        named = {v.name: v for v in q.trainable_variables}
        rho = [v for v in q.trainable_variables if v.name == "rho"][-1]  # that of columns
        named["mu"].assign([0.3, 0.0, -2.0])
        rest = []
        for r in (-40.0, -60.0, -90.0, -1000.0):
            rho.assign(tf.fill(rho.shape, r))
            with tf.GradientTape() as tape:
                value = q.sample_and_kl(KEY)[1]
            slope = tape.gradient(value, rho.value)
            np.testing.assert_allclose(slope, -np.ones(3), 1e-5, err_msg=f"{name} {r}")
            rest.append(float(value) + 3 * r)
        assert np.ptp(rest) < 2e-3, (name, rest)


@pytest.mark.parametrize("exact", [True, False])
def test_low_rank_alone_has_a_width(exact: bool) -> None:
    """The law is N(mu, V V^T) with d near 0 and V of full rank, whatever d."""
    for prior in (priors.Normal(0.7), priors.StudentT(3.0, 0.5)):
        values = []
        for r in (-30.0, -60.0, -90.0, -1000.0):
            q = make("low_rank", prior, "float32", 3, exact)
            named = {v.name: v for v in q.trainable_variables}
            named["v"].assign([[1.0, 0.2, 0.1], [0.3, 0.5, -0.4], [0.1, 0.2, 0.3]])
            named["rho"].assign([r, r - 1.0, r - 2.0])
            with tf.GradientTape() as tape:
                values.append(q.sample_and_kl(KEY)[1])
            slope = tape.gradient(values[-1], named["rho"].value)
            np.testing.assert_allclose(slope, np.zeros(3), atol=1e-4)
        np.testing.assert_allclose(values, values[0], 1e-4)


@pytest.mark.parametrize("prior", [priors.Horseshoe, priors.ARD, priors.InverseGammaScale])
@pytest.mark.parametrize("dtype", WIDTHS)
def test_scales_that_are_known_exactly(prior: Any, dtype: str) -> None:
    """Posteriors of a prior's own scales cost their entropy, however narrow they are."""
    p = prior()
    p.attach((3, 2))
    rhos = [v for v in p.trainable_variables if v.name == "rho"]
    rest = []
    for r in (-40.0, -90.0, -1000.0):
        for rho in rhos:
            rho.assign(tf.fill(rho.shape, r))
        with tf.GradientTape() as tape:
            value = p.kl()
        for rho, slope in zip(rhos, tape.gradient(value, [v.value for v in rhos]), strict=True):
            np.testing.assert_allclose(slope, -np.ones(rho.shape), 1e-5)
        rest.append(float(value) + r * sum(int(tf.size(v.value)) for v in rhos))
    assert np.ptp(rest) < 1e-2
    w = tf.constant([[0.0, 1e-30], [1e30, -1.0], [2.0, 0.0]], dtype)
    for m in (-100.0, -60.0, 100.0):  # of weights, where a scale times itself over- or underflows
        for v in p.trainable_variables:
            v.assign(tf.fill(v.shape, m if v.name == "m" else -40.0))
        with tf.GradientTape() as tape:
            tape.watch(w)
            value = p.log_prob(w)
        slope = tape.gradient(value, w)
        steps = len(rhos)
        fall = wide(w) * np.exp(np.longdouble(-m * steps))
        expected = -0.5 * fall**2 - m * steps - HALF_LOG_2PI
        for got, true in ((value, expected), (slope, -fall * np.exp(np.longdouble(-m * steps)))):
            fits = np.abs(true) < float(np.finfo(dtype).max) / 8
            np.testing.assert_allclose(wide(got)[fits], true[fits], 2e-4, 1e-30)

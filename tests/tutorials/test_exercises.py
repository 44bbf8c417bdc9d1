"""The solutions of the notebooks' exercises, held against what their texts say."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.stats

from tutorials import notebooks


def solutions(name: str) -> SimpleNamespace:
    """What the cells below "Solutions" define, which need none above."""
    text = (notebooks.FOLDERS[name] / f"{name}.md").read_text().partition("## Solutions")[2]
    namespace: dict[str, Any] = {"__name__": name}
    exec("\n".join(notebooks.CODE.findall(text)), namespace)
    return SimpleNamespace(**namespace)


def test_vae() -> None:
    of = solutions("vae")
    y, evidence = 0.7, scipy.stats.norm.logpdf(0.7, 0, 2**0.5)
    assert of.bound(y, y / 2, 0.5**0.5) == pytest.approx(evidence)
    others = [of.bound(y, m, s) for m in (0.0, 0.35, 1.0) for s in (0.3, 0.9)]
    assert max(others) < evidence
    for prob in (0.01, 0.3):
        x = np.linspace(0, 1, 10_001)
        by_sum = np.trapezoid(prob**x * (1 - prob) ** (1 - x), x)
        assert of.mass(prob) == pytest.approx(by_sum, rel=1e-6)
    bounds = [of.importance_weighted(y, k) for k in (1, 4, 16, 64)]
    assert bounds[0] == pytest.approx(of.bound(y, 0.0, 1.0), abs=0.02)
    assert bounds == sorted(bounds)
    assert bounds[-1] == pytest.approx(evidence, abs=0.01)


def test_bayes_by_backprop() -> None:
    of = solutions("bayes_by_backprop")
    eps = np.random.default_rng(0).standard_normal(1_000_000)
    values = np.var((0.7 + 0.5 * eps) ** 2 * eps / 0.5)
    assert of.score_variance(0.7, 0.5) == pytest.approx(values, rel=0.03)
    for u in (0.02, 0.4, 0.9):
        by_path, by_law = of.logistic_gradients(u, 1.0, 0.6)
        assert by_path == pytest.approx(by_law)
    assert of.wrong_divisor(50_000, 100) == (500, 0.002)
    correlations = {e: of.correlation_of_twins(e) for e in ("one sample", "local", "flipout")}
    assert correlations == pytest.approx({"one sample": 1, "local": 0, "flipout": 0}, abs=0.01)


def test_mc_dropout() -> None:
    of = solutions("mc_dropout")
    h, kernel, keep = np.array([1.0, -2.0]), np.array([0.3, 0.7]), 0.8
    masks = np.random.default_rng(0).random((400_000, 2)) < keep
    values = np.var((masks / keep * h) @ kernel)
    assert of.spread(h, kernel, keep) == pytest.approx(values, rel=0.02)
    decay = of.weight_decay(0.5e-4, num_data=1000, keep=0.5, new_num_data=60_000, new_keep=0.9)
    assert decay == pytest.approx(4.63e-7, rel=1e-3)
    assert of.error_of_the_formula(0.0) == pytest.approx(np.log(2))
    assert of.error_of_the_formula(6.0) == pytest.approx(0.0, abs=0.01)
    edge = of.separate_from()
    assert of.error_of_the_formula(edge) < 0.01 < of.error_of_the_formula(edge - 0.02)


def test_concrete_dropout() -> None:
    of = solutions("concrete_dropout")
    grid = np.linspace(1e-4, 1 - 1e-4, 99_999)
    for c in (0.01, 0.3, 2.0):
        cost = c / grid + grid * np.log(grid) + (1 - grid) * np.log(1 - grid)
        assert of.best_keep(c) == pytest.approx(grid[cost.argmin()], abs=1e-3)
        assert of.best_keep(c) > 0.5
    for temperature in (0.1, 0.01):
        mean, variance = of.gradient_of_the_mask(0.8, temperature)
        assert mean == pytest.approx(0.16, rel=0.03)
        assert variance == pytest.approx(0.16 / (6 * temperature) - 0.16**2, rel=0.05)
    kept = [round(of.taken_for_a_logit(k), 3) for k in (0.1, 0.5, 0.9)]
    assert kept == [0.525, 0.622, 0.711]


def test_variational_dropout() -> None:
    of = solutions("variational_dropout")
    assert of.alpha_of_rate(0.5) == 1.0
    for alpha in (0.3, 1.0, 4.0):
        assert of.kl_by_sum(alpha) == pytest.approx(of.kl_by_integral(alpha), abs=1e-6)
    grid = np.linspace(-8, 8, 161)
    slopes = of.slope_of_molchanov(grid)
    assert (slopes < 0).all()
    assert (np.diff([of.kl_by_sum(np.exp(v)) for v in grid]) < 0).all()
    assert slopes[-1] == pytest.approx(-0.5 * np.exp(-8.0), rel=0.01)


def test_posterior_inference_laplace() -> None:
    of = solutions("posterior_inference")
    actual = of.poisson_evidence()
    rates = np.linspace(1e-6, 30, 300_001)
    joint = scipy.stats.poisson.pmf(of.COUNTS[:, None], rates).prod(0) * np.exp(-rates)
    assert actual["exact"] == pytest.approx(np.log(np.trapezoid(joint, rates)), abs=1e-6)
    errors = {name: abs(actual[name] - actual["exact"]) for name in ("rate", "logarithm")}
    assert errors["logarithm"] < errors["rate"]
    rng = np.random.default_rng(0)
    exact, by_laplace = of.linear_regression(
        rng.standard_normal((9, 3)), rng.standard_normal(9), 0.4, 2.0
    )
    assert exact == pytest.approx(by_laplace)
    error, m, v = of.worst_probit()
    assert error == pytest.approx(0.018, abs=0.003)
    assert 0.5 < m / np.sqrt(v) < 2


def test_posterior_inference_chains() -> None:
    of = solutions("posterior_inference")
    assert of.leapfrog_growth(1.99) == pytest.approx(1.0)
    assert of.leapfrog_growth(2.01) > 1.1
    assert of.variance_of_one_step(0.1, 0.1) == pytest.approx(0.5025, rel=0.02)
    assert of.variance_of_one_step(0.05, 0.1) == pytest.approx(1.0, rel=0.02)
    rate = of.equal_noise(1000, 10, 1 / 0.5**2)
    curvature = 1 / 0.5**2
    exact = 2 / (1 - rate * curvature / 2)
    actual = of.sgld_variance(rate, num_data=1000, batch_size=10, noise=0.5)
    assert actual == pytest.approx(exact, rel=0.1)


def test_priors() -> None:
    of = solutions("priors")
    assert of.relu_moments() == pytest.approx((0.5, 1.5), abs=1e-6)
    assert of.excess_kurtosis(0.5, 1.5, 10) == pytest.approx(1.5)
    assert of.excess_kurtosis(1.0, 3.0, 10) == pytest.approx(0.6)
    cosines = of.cosines(1000)
    assert cosines == sorted(cosines)
    assert cosines[1] == pytest.approx(1 / np.pi)
    assert 1 - cosines[-1] == pytest.approx(9 * np.pi**2 / (2 * 1000**2), rel=0.05)
    assert of.kurtosis_of_signs(6) == pytest.approx(3 / 6, rel=0.1)


def test_report() -> None:
    of = solutions("report")
    assert of.cost_of_the_mean == pytest.approx(0.013, abs=0.001)
    rng, variance = np.random.default_rng(0), 0.3
    h = np.full((4000, 1), 0.25)
    for width in (32, 64, 1):
        w = variance**0.5 * rng.standard_normal((4000, h.shape[1], width))
        h = np.einsum("sd,sdk->sk", h, w) + variance**0.5 * rng.standard_normal((4000, width))
        f, h = h, np.maximum(h, 0)
    assert of.stddev_of_output(0.25, variance) == pytest.approx(f.std(), rel=0.05)
    assert of.worth(0.01, 500) == pytest.approx(of.worth(0.01) / 500)


def test_model_definition() -> None:
    of = solutions("model_definition")
    y = np.random.default_rng(0).normal(0, np.hypot(0.5 * 2, 1.0), 400_000)
    inside = np.mean(np.abs(y) < scipy.stats.norm.ppf(0.95))
    assert of.coverage(2.0, 0.5, 1.0) == pytest.approx(inside, abs=0.003)
    formula, sampled = of.variance_of_f(1.0, 5.0, 10), of.sampled_variance(1.0, 5.0, 10)
    assert formula == pytest.approx(sampled, rel=0.02)
    f = np.random.default_rng(0).normal(2.0, 2.0, 1_000_000)
    assert of.probability(2.0, 4.0) == pytest.approx(np.mean(1 / (1 + np.exp(-f))), abs=0.002)
    assert of.probability(2.0, 25.0) > 0.5

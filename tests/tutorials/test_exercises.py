"""The solutions of docs/course/exercises, held against what their texts say."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import scipy.stats

COURSE = Path(__file__).parents[2] / "docs" / "course"
PAGES = sorted(path.stem for path in (COURSE / "derivations").glob("*.md"))


def solutions(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, COURSE / "exercises" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", PAGES)
def test_three_exercises_a_page(page: str) -> None:
    text = (COURSE / "derivations" / f"{page}.md").read_text().partition("## Exercises")[2]
    assert re.findall(r"^(\d)\. ", text, flags=re.M) == ["1", "2", "3"]
    assert f"docs/course/exercises/{page}.py" in text
    assert (COURSE / "exercises" / f"{page}.py").exists()


def test_elbo() -> None:
    of = solutions("elbo")
    y, evidence = 0.7, scipy.stats.norm.logpdf(0.7, 0, 2**0.5)
    assert of.bound(y, y / 2, 0.5**0.5) == pytest.approx(evidence)
    others = [of.bound(y, m, s) for m in (0.0, 0.35, 1.0) for s in (0.3, 0.9)]
    assert max(others) < evidence
    assert of.wrong_divisor(50_000, 100) == (500, 0.002)
    bounds = [of.importance_weighted(y, k) for k in (1, 4, 16, 64)]
    assert bounds[0] == pytest.approx(of.bound(y, 0.0, 1.0), abs=0.02)
    assert bounds == sorted(bounds)
    assert bounds[-1] == pytest.approx(evidence, abs=0.01)


def test_reparameterization() -> None:
    of = solutions("reparameterization")
    eps = np.random.default_rng(0).standard_normal(1_000_000)
    values = np.var((0.7 + 0.5 * eps) ** 2 * eps / 0.5)
    assert of.score_variance(0.7, 0.5) == pytest.approx(values, rel=0.03)
    for u in (0.02, 0.4, 0.9):
        by_path, by_law = of.logistic_gradients(u, 1.0, 0.6)
        assert by_path == pytest.approx(by_law)
    correlations = {e: of.correlation_of_twins(e) for e in ("one sample", "local", "flipout")}
    assert correlations == pytest.approx({"one sample": 1, "local": 0, "flipout": 0}, abs=0.01)


def test_dropout() -> None:
    of = solutions("dropout")
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


def test_laplace() -> None:
    of = solutions("laplace")
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


def test_hmc_and_sgmcmc() -> None:
    of = solutions("hmc_and_sgmcmc")
    assert of.leapfrog_growth(1.99) == pytest.approx(1.0)
    assert of.leapfrog_growth(2.01) > 1.1
    assert of.variance_of_one_step(0.1, 0.1) == pytest.approx(0.5025, rel=0.02)
    assert of.variance_of_one_step(0.05, 0.1) == pytest.approx(1.0, rel=0.02)
    rate = of.equal_noise(1000, 10, 1 / 0.5**2)
    curvature = 1 / 0.5**2
    exact = 2 / (1 - rate * curvature / 2)
    actual = of.sgld_variance(rate, num_data=1000, batch_size=10, noise=0.5)
    assert actual == pytest.approx(exact, rel=0.1)


def test_wide_networks() -> None:
    of = solutions("wide_networks")
    assert of.relu_moments() == pytest.approx((0.5, 1.5), abs=1e-6)
    assert of.excess_kurtosis(0.5, 1.5, 10) == pytest.approx(1.5)
    assert of.excess_kurtosis(1.0, 3.0, 10) == pytest.approx(0.6)
    cosines = of.cosines(1000)
    assert cosines == sorted(cosines)
    assert cosines[1] == pytest.approx(1 / np.pi)
    assert 1 - cosines[-1] == pytest.approx(9 * np.pi**2 / (2 * 1000**2), rel=0.05)
    assert of.kurtosis_of_signs(6) == pytest.approx(3 / 6, rel=0.1)

"""Maps that calibrate afterwards, against scikit-learn, other minimisers, and brute force."""

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.optimize
import scipy.special
from metric_cases import classification
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from tfbdl import metrics

Y, P = classification(600)
LOGITS = 3.0 * np.log(P) + 5.0


def nll(p: Any, y: Any) -> Any:
    return -np.log(p[np.arange(len(y)), y]).mean()


def test_vector_scaling_of_two_classes_is_logistic_regression() -> None:
    """Both logits are in it, by scikit-learn, with b_1 - b_0 as intercept."""
    y, p = classification(500, 2)
    z = np.log(p) * [2.0, 1.0] + np.random.default_rng(0).normal(size=(500, 2))
    expected = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(z, y)
    scaling = metrics.fit_vector_scaling(y, z)
    np.testing.assert_allclose(scaling.scale * [-1, 1], expected.coef_[0], rtol=1e-5)
    actual = metrics.apply_vector_scaling(z, scaling)
    np.testing.assert_allclose(actual, expected.predict_proba(z), atol=1e-6)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_vector_scaling_against_another_minimiser(unit: float) -> None:
    """Without gradients of ours, of C factors and C - 1 shifts."""
    y, p = classification(300, 3)
    z = np.log(p) * [1.0, 2.0, 0.5] + [0.0, 1.0, 0.0]

    def loss(theta: Any) -> Any:
        return nll(scipy.special.softmax(z * theta[:3] + np.append(theta[3:], 0), axis=1), y)

    expected = scipy.optimize.minimize(loss, np.r_[1, 1, 1, 0, 0], method="BFGS", tol=1e-9)
    scaling = metrics.fit_vector_scaling(y, z * unit)
    np.testing.assert_allclose(scaling.scale * unit, expected.x[:3], rtol=1e-3)
    actual = nll(metrics.apply_vector_scaling(z * unit, scaling), y)
    assert actual <= expected.fun + 1e-10


def test_dirichlet_without_penalty_is_multinomial_regression() -> None:
    expected = LogisticRegression(C=np.inf, tol=1e-8, max_iter=5000).fit(np.log(P), Y)
    mapping = metrics.fit_dirichlet(Y, P, off_diagonal=0.0, intercept=0.0)
    actual = metrics.apply_dirichlet(P, mapping)
    np.testing.assert_allclose(actual, expected.predict_proba(np.log(P)), atol=1e-4)
    assert nll(actual, Y) <= nll(expected.predict_proba(np.log(P)), Y) + 1e-9


@pytest.mark.parametrize(("lam", "mu"), [(0.3, 0.05), (1e-4, 1.0), (1e3, 1e3)])
def test_dirichlet_with_odir_against_another_minimiser(lam: float, mu: float) -> None:
    """The loss in the words of the paper: means over k (k - 1) and over k."""
    y, p = classification(200, 3)

    def loss(theta: Any) -> Any:
        w, b = theta[:9].reshape(3, 3), theta[9:]
        off = sum(w[i, j] ** 2 for i in range(3) for j in range(3) if i != j) / 6
        q = scipy.special.softmax(np.log(p) @ w + b, axis=1)
        return nll(q, y) + lam * off + mu * np.mean(b**2)

    start = np.append(np.eye(3).ravel(), np.zeros(3))
    expected = scipy.optimize.minimize(loss, start, method="BFGS", tol=1e-8)
    mapping = metrics.fit_dirichlet(y, p, off_diagonal=lam, intercept=mu)
    actual = np.append(mapping.weights.ravel(), mapping.bias)
    assert loss(actual) <= expected.fun + 1e-10
    np.testing.assert_allclose(actual, expected.x, atol=2e-3)


def test_large_penalties_leave_a_factor_for_each_class() -> None:
    mapping = metrics.fit_dirichlet(Y, P, off_diagonal=1e9, intercept=1e9)
    off = mapping.weights - np.diag(np.diag(mapping.weights))
    np.testing.assert_allclose(off, 0, atol=1e-6)
    np.testing.assert_allclose(mapping.bias, 0, atol=1e-6)
    np.testing.assert_allclose(np.diag(mapping.weights), 0.5, atol=0.15)  # labels of half logits


def isotonic_by_min_max(x: Any, y: Any) -> Any:
    """max over a <= x_i of min over b >= x_i of the mean of y in [a, b], at each x."""
    levels = np.unique(x)
    value = {
        v: max(
            min(y[(x >= a) & (x <= b)].mean() for b in levels[levels >= v])
            for a in levels[levels <= v]
        )
        for v in levels
    }
    return np.array([value[v] for v in x])


def test_isotonic_by_brute_force_with_ties() -> None:
    rng = np.random.default_rng(0)
    p = np.round(rng.dirichlet(np.ones(3), 40), 1)
    p[:, 2] = np.round(1 - p[:, 0] - p[:, 1], 1)
    p = p.clip(0, 1)
    p = p[p.sum(axis=1) < 1.01]
    y = np.array([rng.choice(3, p=row) for row in p])
    raw = np.stack([isotonic_by_min_max(p[:, c], 1.0 * (y == c)) for c in range(3)], axis=1)
    mapping = metrics.fit_isotonic(y, p)
    actual = metrics.apply_isotonic(p, mapping)
    np.testing.assert_allclose(actual, raw / raw.sum(axis=1, keepdims=True), atol=1e-12)


def test_isotonic_against_scikit_learn() -> None:
    """Its calibration of a classifier that gives these probabilities as they are."""
    new = classification(300, seed=5)[1]
    regressions = [IsotonicRegression(out_of_bounds="clip").fit(P[:, c], c == Y) for c in range(4)]
    raw = np.stack([g.predict(new[:, c]) for c, g in enumerate(regressions)], axis=1)
    expected = raw / raw.sum(axis=1, keepdims=True)
    actual = metrics.apply_isotonic(new, metrics.fit_isotonic(Y, P))
    np.testing.assert_allclose(actual, expected, atol=1e-12)
    identity = LogisticRegression(C=np.inf).fit(np.log(P), Y)
    identity.coef_, identity.intercept_ = np.eye(4), np.zeros(4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calibrated = CalibratedClassifierCV(
            FrozenEstimator(identity), method="isotonic", ensemble=False
        )
        calibrated.fit(np.log(P), Y)
    theirs = calibrated.predict_proba(np.log(new))
    np.testing.assert_allclose(
        actual, theirs, atol=0.2
    )  # they map logits, between which lines differ
    assert np.abs(actual - theirs).mean() < 0.01


def test_isotonic_where_nothing_is_left() -> None:
    """Each class maps the row to 0: all are as likely, as in scikit-learn."""
    p, y = np.array([[0.1, 0.9], [0.9, 0.1]]), np.array([1, 0])
    p3 = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])
    mapping = metrics.fit_isotonic([0, 1, 2], p3)
    np.testing.assert_allclose(
        metrics.apply_isotonic([[0.1, 0.1, 0.8]], mapping), [[0, 0, 1]], atol=1e-12
    )
    thirds = metrics.IsotonicMap(mapping.thresholds, tuple(0 * v for v in mapping.values))
    np.testing.assert_allclose(metrics.apply_isotonic(p3, thirds), np.full((3, 3), 1 / 3))
    np.testing.assert_allclose(metrics.apply_isotonic(p, metrics.fit_isotonic(y, p)), np.eye(2)[y])


@pytest.mark.parametrize("name", ["vector_scaling", "dirichlet", "isotonic"])
def test_maps_calibrate_what_was_too_sure(name: str) -> None:
    """Examples are new to them; the NLL of the true ones is the bound."""
    y, p = classification(20_000)
    new_y, new = classification(20_000, seed=7)
    given = (np.log(p), np.log(new)) if name == "vector_scaling" else (p, new)
    mapping = getattr(metrics, f"fit_{name}")(y, given[0])
    actual = getattr(metrics, f"apply_{name}")(given[1], mapping)
    true = scipy.special.softmax(np.log(new) / 2, axis=1)
    error = metrics.classwise_calibration_error
    assert error(new_y, actual) < 0.5 * error(new_y, new)
    floor = metrics.negative_log_likelihood(new_y, true)
    assert floor < metrics.negative_log_likelihood(new_y, np.maximum(actual, 1e-6)) < floor + 0.05


def test_saturated_probabilities() -> None:
    """0 and 1 in floats: logarithms end at -87, and the maps are finite."""
    p = scipy.special.softmax(60.0 * LOGITS, axis=1)
    assert (p == 1.0).any()
    assert (p == 0.0).any()
    for name in ("dirichlet", "isotonic"):
        mapping = getattr(metrics, f"fit_{name}")(Y, p)
        q = getattr(metrics, f"apply_{name}")(p, mapping)
        assert np.isfinite(q).all()
        np.testing.assert_allclose(q.sum(axis=1), 1.0)
        assert metrics.brier_score(Y, q) < metrics.brier_score(Y, p)
        pairs = getattr(metrics, f"apply_{name}")(np.concatenate([p[:1], p[:1]]), mapping)
        np.testing.assert_array_equal(pairs[0], pairs[1])
    scaled = metrics.apply_vector_scaling(LOGITS, metrics.fit_vector_scaling(Y, LOGITS))
    huge = metrics.fit_vector_scaling(Y, 1e8 * LOGITS)
    np.testing.assert_allclose(metrics.apply_vector_scaling(1e8 * LOGITS, huge), scaled, atol=1e-5)


def test_refusals() -> None:
    mapping = metrics.fit_dirichlet(Y, P)
    for call, message in (
        (lambda: metrics.fit_vector_scaling(Y * 0, LOGITS), "^y has no example of class 1; give"),
        (lambda: metrics.fit_dirichlet(Y * 0, P), "^y has no example of class 1; give some of"),
        (lambda: metrics.fit_isotonic(Y * 0, P), "^y has no example of class 1; give some of each"),
        (lambda: metrics.fit_vector_scaling([0, 1], [[1, 0], [0, 1]]), "^logits tell the classes"),
        (lambda: metrics.fit_dirichlet(Y, P, off_diagonal=-1), "^off_diagonal=-1 must be at least"),
        (lambda: metrics.fit_dirichlet(Y, LOGITS), "^p has .* outside .0, 1.: the rows look like"),
        (lambda: metrics.apply_dirichlet(P[:, :2] * 0 + 0.5, mapping), "^p has 2 classes, and the"),
        (lambda: metrics.apply_isotonic(P, mapping), "^mapping=.* must be what fit_isotonic gives"),
        (lambda: metrics.apply_vector_scaling(P, 2.0), "^scaling=2.0 must be what fit_vector_scal"),
    ):
        with pytest.raises(ValueError, match=message):
            call()

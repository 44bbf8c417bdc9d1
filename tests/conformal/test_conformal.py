"""Conformal sets against the exact law of their coverage, brute force, and MAPIE."""

import math
from typing import Any

import numpy as np
import pytest
import scipy.stats
from mapie.classification import SplitConformalClassifier
from mapie.regression import SplitConformalRegressor

import tfbdl
from tfbdl.conformal import APS, CQR, LAC, RAPS, Split, quantile
from tfbdl.likelihoods import Categorical, Normal
from tfbdl.predictive import Prediction

NUM_CLASSES = 6
METHODS = {
    "LAC": lambda seed: LAC(),
    "APS": lambda seed: APS(seed=seed),
    "RAPS": lambda seed: RAPS(penalty=0.05, free=2, seed=seed),
}


def of_reals(mean: Any, stddev: float = 1.0, outputs: Any = None) -> Any:
    mean = np.asarray(mean, np.float32)
    variance = np.broadcast_to(np.float32(stddev) ** 2, mean.shape)
    return Prediction(mean, 0 * variance, variance, None, 1, Normal(1e-3), outputs)


def of_classes(p: Any) -> Any:
    p = np.asarray(p, np.float32)
    return Prediction(p, p * (1 - p), 0 * p, None, 1, Categorical(from_logits=False), None)


def labelled(rng: Any, n: Any, concentration: float = 0.5, temperature: float = 1.0) -> Any:
    """Probabilities as a model gives them, and labels by the true ones."""
    p = rng.dirichlet(np.full(NUM_CLASSES, concentration), n)
    y = (rng.uniform(size=(n, 1)) > np.cumsum(p, axis=1)).sum(axis=1)
    wrong = p**temperature
    return of_classes(wrong / wrong.sum(axis=1, keepdims=True)), np.minimum(y, NUM_CLASSES - 1)


@pytest.mark.parametrize("n", [1, 9, 10, 19, 99])
@pytest.mark.parametrize("coverage", [0.1, 0.5, 0.8, 0.9])
def test_quantile_by_counting(n: Any, coverage: Any) -> None:
    scores = np.random.default_rng(n).normal(size=n)
    k = next(k for k in range(1, n + 2) if k >= (n + 1) * coverage - 1e-9)
    expected = np.inf if k > n else np.sort(scores)[k - 1]
    assert quantile(scores, coverage) == expected


@pytest.mark.parametrize(("n", "coverage"), [(30, 0.9), (50, 0.5)])
def test_coverage_of_intervals_follows_its_beta_law(n: Any, coverage: Any) -> None:
    """1,000 data sets to calibrate by, each with its exact coverage of N(0, 1)."""
    rng = np.random.default_rng(0)
    method, new = Split(normalized=False), of_reals(np.zeros((1, 1)))
    covered = []
    for _ in range(1000):
        y = rng.normal(size=(n, 1))
        low, high = method.fit(of_reals(np.zeros((n, 1))), y).predict(new, coverage)
        covered.append((scipy.stats.norm.cdf(high) - scipy.stats.norm.cdf(low)).item())
    k = math.ceil((n + 1) * coverage)
    assert scipy.stats.kstest(covered, scipy.stats.beta(k, n + 1 - k).cdf).pvalue > 1e-3


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("temperature", [1.0, 4.0])
def test_coverage_of_sets_follows_its_beta_law(name: str, temperature: Any) -> None:
    """Whether the model is right or far too sure; coverage measured on 20,000 examples."""
    n, coverage = 40, 0.8
    rng = np.random.default_rng(1)
    new, labels = labelled(rng, 20_000, temperature=temperature)
    covered = []
    for seed in range(1000):
        held_out = labelled(rng, n, temperature=temperature)
        sets = METHODS[name](seed).fit(*held_out).predict(new, coverage)
        covered.append(sets[np.arange(len(labels)), labels].mean())
    k = math.ceil((n + 1) * coverage)
    assert scipy.stats.kstest(covered, scipy.stats.beta(k, n + 1 - k).cdf).pvalue > 1e-3


def test_each_class_is_covered_where_asked() -> None:
    rng = np.random.default_rng(2)
    skewed = np.array([8.0, 1, 1, 1, 1, 1])

    def data(n: Any) -> Any:
        p = rng.dirichlet(skewed, n)
        y = np.array([rng.choice(NUM_CLASSES, p=row) for row in p])
        return of_classes(np.full_like(p, 1 / NUM_CLASSES) * 0.9 + 0.1 * p), y

    held_out, y = data(8000)
    new, labels = data(8000)

    def by_class(method: Any) -> Any:
        sets = method.fit(held_out, y).predict(new, 0.9)
        hit = sets[np.arange(len(labels)), labels]
        return np.array([hit[labels == c].mean() for c in range(NUM_CLASSES)])

    error = 4 * np.sqrt(0.09 * 2 / min(np.bincount(y)))
    assert by_class(LAC()).min() < 0.9 - 2 * error
    assert by_class(LAC(by_class=True)).min() > 0.9 - error
    assert by_class(APS(by_class=True)).min() > 0.9 - error


@pytest.mark.parametrize("randomized", [True, False])
def test_adaptive_sets_by_hand(randomized: Any) -> None:
    """One example at a time, in the words of Angelopoulos et al. (2021), algorithm 3."""
    rng = np.random.default_rng(3)
    held_out, y = labelled(rng, 60)
    new, _ = labelled(rng, 25)
    method = RAPS(penalty=0.07, free=1, randomized=randomized, seed=5).fit(held_out, y)
    limit = np.sort(
        [
            score(p, label, u)
            for p, label, u in zip(held_out.mean, y, shares(60, 0, randomized), strict=True)
        ]
    )[math.ceil(61 * 0.8) - 1]
    expected = [
        [score(p, c, u) <= limit for c in range(NUM_CLASSES)]
        for p, u in zip(new.mean, shares(25, 1, randomized), strict=True)
    ]
    np.testing.assert_array_equal(method.predict(new, 0.8), expected)


def shares(n: Any, stream: Any, randomized: Any) -> Any:
    if not randomized:
        return np.ones(n)
    return np.random.default_rng([5, stream]).uniform(size=n)


def score(p: Any, c: Any, u: Any, penalty: float = 0.07, free: int = 1) -> Any:
    p = p.astype(float)
    likelier = [k for k in range(len(p)) if (p[k], -k) > (p[c], -c)]
    return sum(p[k] for k in likelier) + u * p[c] + penalty * max(len(likelier) + 1 - free, 0)


def test_intervals_are_as_wide_as_the_model_is_unsure() -> None:
    rng = np.random.default_rng(4)
    sigma = rng.uniform(0.1, 2.0, (3000, 1))
    y = sigma * rng.normal(size=sigma.shape)
    held_out, new = of_reals(0 * y, 3 * sigma), of_reals(np.zeros((2, 1)), [[0.3], [6.0]])
    low, high = Split().fit(held_out, y).predict(new, 0.9)
    z = scipy.stats.norm.ppf(0.95)
    np.testing.assert_allclose(high - low, 2 * z * np.array([[0.1], [2.0]]), rtol=0.1)
    low, high = Split(normalized=False).fit(held_out, y).predict(new, 0.9)
    np.testing.assert_allclose((high - low)[0], (high - low)[1])


def test_quantile_regression_moves_both_ends_alike() -> None:
    rng = np.random.default_rng(5)
    y = rng.normal(size=(999, 1))
    outputs = 0.5 * rng.normal(size=(400, 999, 1)).astype("float32")
    narrow = of_reals(0 * y, 0.5, outputs)
    raw = narrow.interval(0.9)
    low, high = CQR().fit(narrow, y).predict(narrow, 0.9)
    margin = np.sort(np.maximum(raw[0] - y, y - raw[1]), axis=0)[899]
    np.testing.assert_allclose(low, raw[0] - margin, 1e-5, 1e-5)
    np.testing.assert_allclose(high, raw[1] + margin, 1e-5, 1e-5)
    assert np.mean((low <= y) & (y <= high)) == pytest.approx(0.9, abs=0.002)


def test_each_output_has_its_own_quantile() -> None:
    rng = np.random.default_rng(6)
    y = rng.normal(size=(500, 2)) * [1.0, 10.0]
    low, high = Split(normalized=False).fit(of_reals(0 * y), y).predict(of_reals(0 * y[:1]), 0.8)
    for j in range(2):
        alone = Split(normalized=False).fit(of_reals(0 * y[:, j:][:, :1]), y[:, j : j + 1])
        got = alone.predict(of_reals(np.zeros((1, 1))), 0.8)
        np.testing.assert_array_equal((low[0, j], high[0, j]), (got.lower[0, 0], got.upper[0, 0]))


def test_too_few_examples_promise_nothing() -> None:
    few = of_reals(np.zeros((5, 1)))
    low, high = Split().fit(few, np.ones((5, 1))).predict(few, 0.9)
    assert np.isinf(low).all()
    assert np.isinf(high).all()
    held_out, y = labelled(np.random.default_rng(0), 5)
    assert LAC().fit(held_out, y).predict(held_out, 0.9).all()


def test_on_what_predict_gives() -> None:
    """End to end, on a model that knows nothing: coverage holds, sets are large."""
    import keras  # noqa: PLC0415 (slow)

    keras.utils.set_random_seed(0)
    layers = [keras.Input((2,)), tfbdl.layers.MCDropout(0.5), keras.layers.Dense(3)]
    model = keras.Sequential(layers)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(1500, 2)).astype("float32"), rng.integers(0, 3, 1500)
    prediction = tfbdl.predict(model, x, 20, likelihood=Categorical(), verbose=0)
    sets = APS().fit(prediction[:1000], y[:1000]).predict(prediction[1000:], 0.9)
    hit = sets[np.arange(500), y[1000:]].mean()
    assert hit == pytest.approx(0.9, abs=4 * math.sqrt(0.09 / 500 + 0.09 / 1000))
    assert sets.sum(axis=1).mean() > 2


MISUSES = {
    r"^coverage=1": lambda: Split().fit(of_reals([[0.0]]), [[0.0]]).predict(of_reals([[0.0]]), 1),
    r"^predict needs a fitted LAC": lambda: LAC().predict(of_classes([[0.5, 0.5]])),
    r"^Split is for real y": lambda: Split().fit(of_classes([[0.5, 0.5]]), [0]),
    r"^APS is for probabilities": lambda: APS().fit(of_reals([[0.0]]), [0]),
    r"^y has shape \(2,\)": lambda: CQR().fit(of_reals([[0.0, 1.0]]), [0.0, 1.0]),
    r"^y of shape \(1,\) must be 1 labels": lambda: LAC().fit(of_classes([[0.5, 0.5]]), [2]),
    r"^penalty=-1": lambda: RAPS(penalty=-1),
    r"^by_class=1": lambda: LAC(by_class=1),
    r"^seed='a'": lambda: APS(seed="a"),
    r"^prediction=3 must be what tfbdl.predict gives": lambda: LAC().fit(3, [0]),
    r"^coverage=2": lambda: quantile(np.ones(3), 2),
    r"^scores is the number 1": lambda: quantile(1.0, 0.5),
    r"^scores is not finite in example 1": lambda: quantile([0.0, np.nan], 0.5),
}


@pytest.mark.parametrize("pattern", MISUSES)
def test_refusals(pattern: str) -> None:
    with pytest.raises(ValueError, match=pattern):
        MISUSES[pattern]()


class Given:
    """A model that gives its input: for scikit-learn's interfaces."""

    classes_ = np.arange(NUM_CLASSES)
    fitted_ = True

    def fit(self, x: Any, y: Any) -> Any:
        return self

    def predict_proba(self, x: Any) -> Any:
        return np.asarray(x, np.float64)

    def predict(self, x: Any) -> Any:
        return np.asarray(x, np.float64)[:, 0]


N_AS_MAPIE_ROUNDS = 98
"""(n + 1) coverage is rounded to the same rank there for this n and a coverage of 0.8."""


def test_sets_of_another_package() -> None:
    rng = np.random.default_rng(7)
    held_out, y = labelled(rng, N_AS_MAPIE_ROUNDS)
    new, _ = labelled(rng, 200)
    theirs = SplitConformalClassifier(
        Given(), confidence_level=0.8, conformity_score="lac", prefit=True
    )
    _, sets = theirs.conformalize(held_out.mean, y).predict_set(new.mean)
    np.testing.assert_array_equal(sets[..., 0], LAC().fit(held_out, y).predict(new, 0.8))


def test_intervals_of_another_package() -> None:
    rng = np.random.default_rng(8)
    x, new = rng.normal(size=(N_AS_MAPIE_ROUNDS, 1)), rng.normal(size=(50, 1))
    y = x + rng.normal(size=x.shape)
    theirs = SplitConformalRegressor(Given(), confidence_level=0.8, prefit=True)
    _, ends = theirs.conformalize(x, y[:, 0]).predict_interval(new)
    got = Split(normalized=False).fit(of_reals(x), y).predict(of_reals(new), 0.8)
    np.testing.assert_allclose(ends[:, :, 0], np.hstack(got), 1e-5, 1e-6)


def test_what_a_method_shows() -> None:
    """Calls that make it, and the thresholds by which it answers."""
    rng = np.random.default_rng(9)
    assert repr(RAPS(penalty=0.1)) == "RAPS(penalty=0.1), not fitted"
    y = rng.normal(size=(40, 2)) * [1, 5]
    split = Split(normalized=False).fit(of_reals(np.zeros((40, 2))), y)
    assert repr(split) == "Split(normalized=False), fitted to 40 examples"
    of_two = split.summary(0.8)
    np.testing.assert_allclose(of_two.thresholds, quantile(np.abs(y), 0.8))
    np.testing.assert_array_equal(of_two.num_examples, [40, 40])
    lines = str(of_two).splitlines()
    assert lines[0] == "Split(normalized=False), fitted to 40 examples, coverage 0.8"
    assert lines[1] == f"threshold[0] {of_two.thresholds[0]:.4g} of 40 examples"
    held_out, labels = labelled(rng, 200)
    lac = LAC().fit(held_out, labels)
    new, _ = labelled(rng, 50)
    assert repr(lac.summary()) == str(lac.summary())
    np.testing.assert_array_equal(
        lac.predict(new), new.mean.astype(np.float64) >= 1 - lac.summary().thresholds
    )
    by_class = LAC(by_class=True).fit(held_out, labels).summary(0.5)
    np.testing.assert_array_equal(by_class.num_examples, np.bincount(labels, minlength=6))
    with pytest.raises(ValueError, match=r"^summary needs a fitted LAC; call fit first$"):
        LAC().summary()

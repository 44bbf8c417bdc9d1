"""Scores of inputs to label, against sums over all labellings in float64."""

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.stats

import tfbdl
from tfbdl import acquire
from tfbdl.likelihoods import Bernoulli, Categorical, Normal
from tfbdl.predictive import Prediction


def of_classes(p: Any, likelihood: Any = None) -> Any:
    """The prediction of functions with these probabilities, shape (S, N, C)."""
    p = np.asarray(p, np.float64)
    likelihood = likelihood or Categorical(from_logits=False)
    each = np.stack([likelihood.entropy(q).numpy() for q in p])
    mean, epistemic = p.mean(0), p.var(0)
    noise = (p * (1 - p)).mean(0)
    return Prediction(mean, noise, epistemic, each.mean(0), len(p), likelihood, p)


def of_reals(outputs: Any) -> Any:
    outputs = np.asarray(outputs, np.float64)
    variance = outputs.var(0)
    return Prediction(outputs.mean(0), variance, variance, None, len(outputs), Normal(1.0), outputs)


def drawn(S: int, N: int, C: int, seed: int = 0, concentration: float = 0.5) -> Any:
    return np.random.default_rng(seed).dirichlet(np.full(C, concentration), (S, N))


def joint_information(p: np.ndarray) -> float:
    """I(y_1..n; f) of all n inputs: the KL of p(y, f) from p(y) p(f), term by term."""
    S, n, C = p.shape
    total = 0.0
    for labels in itertools.product(range(C), repeat=n):
        of_each = [np.prod([p[s, i, c] for i, c in enumerate(labels)]) for s in range(S)]
        marginal = sum(of_each) / S
        total += sum(q / S * np.log(q / marginal) for q in of_each if q > 0)
    return total


def greedy(p: np.ndarray, num: int) -> Any:
    chosen: list[int] = []
    informations = []
    for _ in range(num):
        others = [i for i in range(p.shape[1]) if i not in chosen]
        values = [joint_information(p[:, [*chosen, i]]) for i in others]
        chosen.append(others[int(np.argmax(values))])
        informations.append(max(values))
    return chosen, informations


@pytest.mark.parametrize("seed", range(3))
def test_batches_are_those_of_enumeration(seed: int, monkeypatch: Any) -> None:
    """Also where candidates come in blocks of one."""
    p = drawn(4, 7, 3, seed)
    p[0, :3] = np.eye(3)  # what is sure, and impossible labellings
    chosen, informations = greedy(p, 4)
    for numbers in (2**22, 1):
        monkeypatch.setattr("tfbdl.acquire.joint.NUMBERS", numbers)
        batch = acquire.batch_bald(of_classes(p), 4)
        np.testing.assert_array_equal(batch.indices, chosen)
        np.testing.assert_allclose(batch.information, informations, rtol=1e-12)


def test_labellings_that_are_drawn() -> None:
    """The information of the same batch on average over seeds, within four standard errors."""
    p = drawn(5, 6, 3, concentration=1.0)
    exact = acquire.batch_bald(of_classes(p), 4)
    np.testing.assert_allclose(exact.information[-1], joint_information(p[:, exact.indices]))
    of_batch = of_classes(p[:, exact.indices])
    estimates = [
        acquire.batch_bald(of_batch, 4, num_configurations=25, seed=seed).information[-1]
        for seed in range(200)
    ]
    error = np.std(estimates) / np.sqrt(len(estimates))
    assert 0 < error < 0.02
    np.testing.assert_allclose(np.mean(estimates), exact.information[-1], atol=4 * error)
    many = acquire.batch_bald(of_classes(p), 4, num_configurations=26, seed=1)
    assert len(set(many.indices) & set(range(6))) == 4


def test_many_labels_of_many_functions_stay_finite() -> None:
    """A batch whose labellings have probabilities that underflow, at most log S nats."""
    batch = acquire.batch_bald(of_classes(drawn(8, 60, 10)), 60, num_configurations=500)
    assert np.isfinite(batch.information).all()
    np.testing.assert_allclose(batch.information[-1], np.log(8), atol=0.05)
    assert sorted(batch.indices) == list(range(60))


def test_a_batch_has_no_twins() -> None:
    """Three copies of the most informative input, and one that is less so."""
    p = drawn(6, 2, 4, seed=3)
    scores = acquire.bald(of_classes(p))
    best, other = np.argsort(-scores)
    copies = p[:, [best, best, best, other]]
    np.testing.assert_array_equal(acquire.top(acquire.bald(of_classes(copies)), 2), [0, 1])
    assert set(acquire.batch_bald(of_classes(copies), 2).indices) == {0, 3}


def test_scores_of_single_inputs() -> None:
    p = drawn(5, 9, 3)
    prediction = of_classes(p)
    expected = [joint_information(p[:, [i]]) for i in range(9)]
    np.testing.assert_allclose(acquire.bald(prediction), expected, atol=1e-12)
    np.testing.assert_allclose(
        acquire.entropy(prediction), scipy.stats.entropy(p.mean(0), axis=-1), atol=1e-12
    )
    ratios = 1 - p.mean(0).max(-1)
    np.testing.assert_allclose(acquire.variation_ratios(prediction), ratios, atol=1e-15)
    assert acquire.batch_bald(prediction, 1).indices[0] == np.argmax(expected)


def test_two_classes_are_bernoulli() -> None:
    """As one probability they are chosen as two are; several labels are one guess."""
    p = drawn(4, 6, 2)
    one, two = of_classes(p[..., 1:], Bernoulli(from_logits=False)), of_classes(p)
    for score in (acquire.bald, acquire.entropy, acquire.variation_ratios):
        np.testing.assert_allclose(score(one), score(two), atol=1e-12)
    for a, b in zip(acquire.batch_bald(one, 3), acquire.batch_bald(two, 3), strict=True):
        np.testing.assert_allclose(a, b)
    labels = of_classes(np.array([[[0.9, 0.2]]]), Bernoulli(from_logits=False))
    np.testing.assert_allclose(acquire.variation_ratios(labels), [1 - 0.9 * 0.8])


def test_what_predict_gives() -> None:
    """Positions have scores of their own."""
    p = drawn(5, 12, 3).reshape(5, 4, 3, 3)
    prediction = of_classes(p)
    for score in (acquire.bald, acquire.entropy, acquire.variation_ratios):
        values = score(prediction)
        assert values.shape == (4, 3)
        np.testing.assert_allclose(values[2], score(of_classes(p[:, 2])))
    with pytest.raises(ValueError, match="one label for each input"):
        acquire.batch_bald(prediction, 2)


def test_thompson_chooses_as_often_as_an_input_is_best() -> None:
    """Over seeds, the first choice has the law of the functions' best inputs."""
    values = np.array([[3.0, 1, 2], [0, 1, 2], [0, 1, 5], [9, 0, 0]])
    prediction = of_reals(values[..., np.newaxis])
    firsts = [acquire.thompson(prediction, seed=seed)[0] for seed in range(400)]
    counts = np.bincount(firsts, minlength=3)
    assert counts[1] == 0
    assert scipy.stats.binomtest(int(counts[0]), 400, 0.5).pvalue > 1e-3
    lowest = [acquire.thompson(prediction, maximize=False, seed=seed)[0] for seed in range(50)]
    assert set(lowest) == {0, 1}
    for seed in range(20):
        chosen = acquire.thompson(prediction, 3, seed=seed)
        assert sorted(chosen) == [0, 1, 2]
        order = np.random.default_rng(seed).permutation(4)
        free = values[order[1]].copy()
        free[chosen[0]] = -np.inf
        assert chosen[1] == np.argmax(free)


def test_top_takes_the_first_of_equals() -> None:
    np.testing.assert_array_equal(acquire.top(np.array([1.0, 3, 2, 3, 0]), 3), [1, 3, 2])


def test_refusals() -> None:
    prediction = of_classes(drawn(3, 4, 3))
    cases = [
        (lambda: acquire.bald(prediction.mean), "prediction=.* must be what tfbdl.predict"),
        (lambda: acquire.bald(of_classes(drawn(1, 4, 3))), "num_samples=1; predict with at least"),
        (lambda: acquire.batch_bald(of_classes(drawn(1, 4, 3)), 2), "predict with more"),
        (lambda: acquire.batch_bald(prediction, 5), "num=5 must be at most 4"),
        (lambda: acquire.batch_bald(of_reals(np.ones((3, 4, 1))), 2), "under Normal; give one of"),
        (lambda: acquire.variation_ratios(of_reals(np.ones((3, 4, 1)))), "under Normal; give"),
        (lambda: acquire.thompson(prediction), "one number for each input"),
        (lambda: acquire.thompson(of_reals(np.ones((3, 4))), 4), "num=4 must be at most 3"),
        (lambda: acquire.top(np.ones((2, 2)), 1), r"scores has shape \(2, 2\)"),
        (lambda: acquire.top(np.array([1.0, np.nan]), 1), "scores is not finite in example 1"),
    ]
    for call, message in cases:
        with pytest.raises(ValueError, match=message):
            call()
    kept = tfbdl.Prediction(*[getattr(prediction, n) for n in list(vars(prediction))[:6]], None)
    with pytest.raises(ValueError, match="return_samples=True"):
        acquire.batch_bald(kept, 2)

"""Subnetworks by the largest marginal variance, and the Gaussian process behind Laplace."""

from typing import Any

import brute_force
import numpy as np
import pytest
import tensorflow as tf
from brute_force import DELTA, X, case, fitted, fitted_case, jacobians

import tfbdl
from tfbdl import likelihoods
from tfbdl.inference import Laplace

SIZE = 9


def brute_subnetwork(name: str) -> Any:
    """The covariance of all weights, 0 but for the chosen ones, and H of all, in float64."""
    full = fitted_case(name)
    h = brute_force.curvature(full)
    variances = 1 / (np.diag(h) + DELTA)
    chosen = np.argsort(-variances)[:SIZE]
    covariance = np.zeros_like(h)
    block = h[np.ix_(chosen, chosen)] + DELTA * np.eye(SIZE)
    covariance[np.ix_(chosen, chosen)] = np.linalg.inv(block)
    return covariance, block


@pytest.mark.parametrize("name", ["categorical", "student", "heteroscedastic"])
def test_subnetwork_is_cut_out_of_the_full_matrix(name: str, tmp_path: Any) -> None:
    _, model, y = case(name)
    given = {"hessian_structure": "subnetwork", "subnetwork_size": SIZE}
    posterior = fitted(model, likelihoods.get(case(name)[0]), y, **given)
    covariance, block = brute_subnetwork(name)
    j = jacobians(model, X)
    expected = np.einsum("nkp,pq,njq->nkj", j, covariance, j)
    posterior.save(tmp_path / "posterior.keras")
    for of in (posterior, tfbdl.load(tmp_path / "posterior.keras")):
        np.testing.assert_allclose(of.function_moments(X)[1], expected, rtol=1e-7, atol=1e-12)
    draws = posterior.sample(20_000, seed=0)
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=0.06 * covariance.max())
    full = fitted_case(name)
    whole = brute_force.precision(full)
    change = np.linalg.slogdet(whole)[1] - np.linalg.slogdet(block)[1]
    change -= (len(whole) - SIZE) * np.log(DELTA)
    evidence = float(full.log_marginal_likelihood()) + change / 2
    np.testing.assert_allclose(float(posterior.log_marginal_likelihood()), evidence, rtol=1e-8)


def test_subnetwork_of_a_last_layer() -> None:
    """Without a Jacobian of the network; the whole layer is what "full" is."""
    likelihood, model, y = case("categorical")
    last = {"subset_of_weights": "last_layer"}
    full = fitted(model, likelihood, y, **last)
    given = {"hessian_structure": "subnetwork", **last}
    whole = fitted(model, likelihood, y, subnetwork_size=15, **given)
    for mine, theirs in zip(whole.function_moments(X), full.function_moments(X), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-12)
    for size in (1, 7):
        part = fitted(model, likelihood, y, subnetwork_size=size, **given)
        smaller = part.function_moments(X)[1]
        assert np.linalg.eigvalsh(full.function_moments(X)[1] - smaller).min() > -1e-9
        assert smaller.max() > 0


def test_subnetwork_is_updated_as_it_was_chosen() -> None:
    likelihood, model, y = case("categorical")
    given = {"hessian_structure": "subnetwork", "subnetwork_size": SIZE}
    posterior = fitted(model, likelihood, y, **given)
    h = posterior._result.precision.total[0][0].numpy()
    posterior.update(X, y)
    np.testing.assert_allclose(posterior._result.precision.total[0][0], 2 * h, rtol=1e-9)


@pytest.mark.parametrize("number", [5, 11])
def test_functional_laplace_is_low_rank_of_some_points(number: int) -> None:
    """The Gaussian process with the kernel J J^T / delta, given `number` points; Woodbury.

    Given all points it is the full posterior (Immer, Korzepa, Bauer 2021).
    """
    likelihood, model, y = case("categorical")
    j = jacobians(model, X)
    kernel = np.einsum("nkp,mjp->nkmj", j, j) / DELTA
    p = tf.nn.softmax(brute_force.outputs(model, X)).numpy()
    root = [np.diag(np.sqrt(q)) - np.outer(q, np.sqrt(q)) for q in p[:number]]
    rooted = np.einsum("nkmj,mja->nkma", kernel[:, :, :number], root)
    gram = np.einsum("mka,mknb->manb", root, rooted[:number]).reshape(3 * number, -1)
    known = np.linalg.solve(gram + np.eye(3 * number), rooted.reshape(33, -1).T)
    whole = kernel.reshape(33, 33) - rooted.reshape(33, -1) @ known
    expected = np.stack([whole[3 * n : 3 * n + 3, 3 * n : 3 * n + 3] for n in range(11)])
    settings = {"subset_of_weights": "all", "hessian_structure": "lowrank", "rank": 3 * number}
    posterior = Laplace(model, likelihood, prior_precision=DELTA, dtype="float64", **settings)
    posterior.fit(X[:number], y[:number])
    np.testing.assert_allclose(posterior.function_moments(X)[1], expected, rtol=1e-7, atol=1e-10)
    if number == len(X):
        full = fitted_case("categorical").function_moments(X)[1]
        np.testing.assert_allclose(full, expected, rtol=1e-7, atol=1e-10)


def test_refusals() -> None:
    likelihood, model, y = case("categorical")
    for given, message in (
        ({"subnetwork_size": 3}, "subnetwork_size=3 is for hessian_structure='subnetwork'"),
        ({"hessian_structure": "subnetwork"}, "subnetwork_size=None must be a positive integer"),
        (
            {"hessian_structure": "subnetwork", "subnetwork_size": 99},
            "subnetwork_size=99 must be at most 31, of the weights",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            fitted(model, likelihood, y, **given)

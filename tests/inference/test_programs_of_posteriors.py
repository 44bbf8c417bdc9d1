"""Posteriors compile for few sizes of batches, once, whatever is asked in whatever order."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import keras
import numpy as np
import pytest
import test_method
from tensorflow.python.framework.func_graph import FuncGraph

import tfbdl
from tfbdl.inference import SWAG, Laplace
from tfbdl.likelihoods import Normal

X = np.random.default_rng(0).normal(size=(16, *test_method.X.shape[1:])).astype("float32")
LABELS = np.arange(16) % 3
S = 5


@contextmanager
def traced() -> Iterator[list[str]]:
    """The names of the graphs that are made meanwhile."""
    names: list[str] = []
    make = FuncGraph.__init__

    def noted(self: Any, name: str, *args: Any, **kwargs: Any) -> None:
        names.append(name)
        make(self, name, *args, **kwargs)

    with mock.patch.object(FuncGraph, "__init__", noted):
        yield names


def asked(posterior: Any, x: Any = X, seed: int = 0) -> Any:
    return tfbdl.predict(posterior, x, S, seed=seed, verbose=0)


def classes(**given: Any) -> Laplace:
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(4, "tanh"), keras.layers.Dense(3)]
    model = keras.Sequential([keras.Input(X.shape[1:]), *layers])
    model.compile("sgd", tfbdl.likelihoods.Categorical())
    return Laplace(model, **given).fit(X, LABELS)


def check(posterior: Any) -> None:
    for size in (1, 2, 4, 8, 16):
        asked(posterior, X[:size])
    with traced() as names:
        for size, seed in ((3, 0), (5, 1), (11, 0), (16, 2), (7, 0)):
            asked(posterior, X[:size], seed)
    assert names == []


@pytest.mark.parametrize("name", list(test_method.METHODS))
def test_sizes_between_and_other_seeds_compile_nothing(name: str) -> None:
    check(test_method.fitted(name))


@pytest.mark.parametrize("given", [{}, {"subset_of_weights": "all"}, {"link_approx": "mc"}])
def test_laplace_of_classes(given: dict[str, Any]) -> None:
    check(classes(**given))


def test_a_grid_compiles_once() -> None:
    laplace = classes()
    grid = np.geomspace(0.01, 100, 7)
    laplace.optimize_prior_precision(method="gridsearch", x=X, y=LABELS, grid=grid[:2])
    with traced() as names:
        laplace.optimize_prior_precision(method="gridsearch", x=X, y=LABELS, grid=grid)
    assert names == []


def swag() -> SWAG:
    model = test_method.network()
    model.compile(keras.optimizers.SGD(0.05), Normal(0.5))
    return SWAG(model, rank=3, jit_compile=False).fit(
        test_method.X, test_method.Y, epochs=5, batch_size=20, verbose=0
    )


def test_answers_are_those_of_the_ensemble() -> None:
    """Each seed has its answers, in any order; and so has what the posterior has become."""
    posterior = swag()

    def expected(seed: int) -> Any:
        return tfbdl.predict(posterior.ensemble(S, seed=seed), X, S, seed=seed, verbose=0).mean

    for seed in (0, 1, 0, 2):
        np.testing.assert_array_equal(asked(posterior, seed=seed).mean, expected(seed))
    before = asked(posterior).mean
    posterior.fit(test_method.X, 2 * test_method.Y, epochs=5, batch_size=20, verbose=0)
    np.testing.assert_array_equal(asked(posterior).mean, expected(0))
    assert np.ptp(asked(posterior).mean - before) > 1e-3


def test_a_layer_that_changes_is_seen() -> None:
    posterior = swag()
    before = asked(posterior).mean
    posterior.model.layers[0].activation = keras.activations.linear
    after = asked(posterior).mean
    expected = tfbdl.predict(posterior.ensemble(S), X, S, seed=0, verbose=0).mean
    np.testing.assert_array_equal(after, expected)
    assert np.ptp(after - before) > 1e-3


def test_threads_have_answers_of_their_own() -> None:
    posterior = swag()
    alone = {seed: asked(posterior, seed=seed).mean for seed in range(4)}
    together: dict[int, Any] = {}

    def ask(seed: int) -> None:
        together[seed] = [asked(posterior, seed=seed).mean for _ in range(3)]

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in alone]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed, answers in together.items():
        for answer in answers:
            np.testing.assert_allclose(answer, alone[seed], rtol=1e-6)
    assert set(together) == set(alone)

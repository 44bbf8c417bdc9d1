"""Predictions of several threads at once, of models that are new, and of models that train."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np

import tfbdl
from soak.jobs import N, X, Y

THREADS = 8
SIZES = (1, 5, 17, 50)
TRAININGS: dict[str, Callable[[keras.Model], object]] = {
    "fit": lambda model: model.fit(X, Y, batch_size=16, epochs=20, verbose=0),
    "train": lambda model: tfbdl.train(model, X, Y, batch_size=16, epochs=20, verbose=0),
}


def network() -> keras.Model:
    """All kinds of layers: random weights, recurrent ones, dropout, costs of both."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Reshape((2, 2)),
            tfbdl.layers.BayesLSTM(6, num_data=N, seed=1),
            tfbdl.layers.MCDropout(0.2, seed=2),
            keras.layers.BatchNormalization(),
            tfbdl.layers.ConcreteDropout(
                keras.layers.Dense(8), num_data=N, lengthscale=1.0, seed=3
            ),
            tfbdl.layers.BayesDense(3, num_data=N, seed=4),
        ]
    )
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def together(times: int, seed: int) -> Counter[str]:
    """Threads that ask a model nothing has been compiled for; each answer as of one thread alone.

    Raises:
        AssertionError: if an answer differs from that of one thread alone.
    """
    alone = network()
    questions = {
        "predict": lambda model, n, s: tfbdl.predict(model, X[:n], 7, seed=s, verbose=0).stddev,
        "elbo": lambda model, n, s: np.array(tfbdl.elbo(model, X[:n], Y[:n], 7, seed=s)),
    }
    expected = {
        (kind, n, s): ask(alone, n, s)
        for kind, ask in questions.items()
        for n in SIZES
        for s in (0, 1)
    }
    chance, actual = random.Random(seed), Counter[str]()
    for _ in range(times):
        model, keys = network(), chance.choices(list(expected), k=4 * THREADS)

        def ask(key: tuple[str, int, int], model: keras.Model = model) -> np.ndarray:
            kind, n, s = key
            return questions[kind](model, n, s)

        with ThreadPoolExecutor(THREADS) as pool:
            for key, answer in zip(keys, pool.map(ask, keys), strict=True):
                np.testing.assert_allclose(answer, expected[key], 1e-5, 1e-6, err_msg=str(key))
                actual[key[0]] += 1
    return actual


def while_training(by: str, times: int) -> str:
    """Threads that ask a model while it trains, from before its first step on.

    Raises:
        AssertionError: if an answer is not finite, or the weights in the end are not, bit for bit,
            those of a training that was let alone.
    """
    expected, asked = _trained(by, 0)[0], 0
    for _ in range(times):
        weights, number = _trained(by, THREADS // 2)
        asked += number
        for a, b in zip(weights, expected, strict=True):
            np.testing.assert_array_equal(a, b)
    return f"{times} trainings, {asked} predictions meanwhile"


def _trained(by: str, threads: int) -> tuple[list[np.ndarray], int]:
    model, over = network(), threading.Event()

    def ask(thread: int) -> int:
        number = 0
        while not over.is_set():
            n = SIZES[(thread + number) % len(SIZES)]
            answer = tfbdl.predict(model, X[:n], 3, seed=0, verbose=0)
            if not np.isfinite(answer.mean).all():
                raise AssertionError("a prediction while training is not finite")
            number += 1
        return number

    with ThreadPoolExecutor(threads + 1) as pool:
        asking = [pool.submit(ask, i) for i in range(threads)]
        try:
            TRAININGS[by](model)
        finally:
            over.set()
        number = sum(task.result() for task in asking)
    return model.get_weights(), number

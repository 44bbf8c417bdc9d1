"""The memory of a process that calls one thing again and again."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tfbdl
from soak.jobs import N, X, Y
from soak.memory import Growth, megabytes

ALLOWED = 32.0
"""Megabytes by which a process may grow from the first tenth of 500 calls on."""
SERVICE = 50.0
"""Megabytes by which a service may grow after its first minute."""
MINUTE = 60.0
PROGRAMS = 11
"""How many programs `predict` compiles for batches of any size at most."""


def _network(*layers: keras.layers.Layer) -> keras.Model:
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((4,)), *layers, keras.layers.Dense(3)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def _bayes() -> keras.Model:
    return _network(tfbdl.layers.BayesDense(6, num_data=N, seed=1))


def _logged(model: keras.Model) -> None:
    with tempfile.TemporaryDirectory() as folder:
        logger = tfbdl.TrainLogger(Path(folder) / "train.log")
        model.fit(X, Y, batch_size=25, verbose=0, callbacks=[logger])


def _trained(model: keras.Model) -> None:
    tfbdl.train(model, X, Y, epochs=1, batch_size=25, jit_compile=False, verbose=0)


def _laplace(model: keras.Model) -> None:
    posterior = tfbdl.inference.Laplace(model, jit_compile=False).fit(X, Y)
    tfbdl.predict(posterior, X, verbose=0)


def _chains(model: keras.Model) -> None:
    tfbdl.inference.MCMC(
        model, 1.0, kernel="hmc", num_warmup=30, num_samples=20, jit_compile=False
    ).fit(X, Y, verbose=0)


def _plain() -> keras.Model:
    return _network(keras.layers.Dense(6, "tanh"))


def _asked_anew(_: keras.Model) -> None:
    """What XLA compiles for a model stays until the process ends, so it is told not to."""
    tfbdl.predict(_bayes(), X, 2, jit_compile=False, verbose=0)


CALLS: dict[str, tuple[Callable[[], keras.Model], Callable[[keras.Model], Any]]] = {
    "fit": (_bayes, lambda model: model.fit(X, Y, batch_size=25, verbose=0)),
    "fit with TrainLogger": (_plain, _logged),
    "tfbdl.train": (_plain, _trained),
    "Laplace": (_plain, _laplace),
    "MCMC": (_plain, _chains),
    "predict": (_bayes, lambda model: tfbdl.predict(model, X, 20, verbose=0)),
    "predict of new models": (_bayes, _asked_anew),
}


def again(name: str, calls: int) -> Growth:
    """How a process grows from a tenth of so many calls on."""
    make, call = CALLS[name]
    model, seen = make(), {}
    for done in range(1, calls + 1):
        call(model)
        if done in (max(calls // 10, 1), calls):
            seen[done] = _needed()
    return Growth(calls, seen[max(calls // 10, 1)], seen[calls])


def _needed() -> float:
    """Megabytes that are not garbage, of Python or of the allocator (where that is glibc's)."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    return megabytes()


def checked(name: str, calls: int) -> str:
    """Raises AssertionError where a process grows by more than `ALLOWED`."""
    growth = again(name, calls)
    if growth.late - growth.early > ALLOWED:
        raise AssertionError(f"{name}: from {growth.early:.0f} to {growth.late:.0f} MB")
    return f"{calls} calls, {growth.early:.0f} MB to {growth.late:.0f} MB"


def service(questions: int, seed: int) -> str:
    """Asks `predict` for 1 to 5,000 examples again and again.

    Raises:
        AssertionError: if memory grows by more than `SERVICE` after the first minute, or a tenth
            of the questions if that is later, or more than `PROGRAMS` programs are compiled.
    """
    drop = tfbdl.layers.MCDropout(0.2, seed=1)
    model, rng = _network(keras.layers.Dense(8), drop), np.random.default_rng(seed)
    sizes = _sizes_traced(drop)
    x, begun, early = rng.normal(size=(5000, 4)).astype("float32"), time.monotonic(), 0.0
    for number in range(questions):
        tfbdl.predict(model, x[: rng.integers(1, 5001)], 20, seed=number, verbose=0)
        is_early = time.monotonic() - begun < MINUTE or number < questions / 10
        if is_early:
            early = megabytes()
    late = megabytes()
    if late - early > SERVICE:
        raise AssertionError(f"a service grew from {early:.0f} to {late:.0f} MB")
    if len(sizes) > PROGRAMS:
        raise AssertionError(f"a service compiled programs for batches of {sorted(sizes)}")
    return f"{early:.0f} MB to {late:.0f} MB, {len(sizes)} sizes of batches compiled"


def _sizes_traced(layer: keras.layers.Layer) -> set[int]:
    """Grows with the sizes of batches for which `layer` is traced."""
    sizes: set[int] = set()
    call = layer.call

    def traced(x: tf.Tensor, *args: Any, **kwargs: Any) -> tf.Tensor:
        if not tf.executing_eagerly():
            sizes.add(int(x.shape[0]))
        return call(x, *args, **kwargs)

    layer.call = traced
    return sizes

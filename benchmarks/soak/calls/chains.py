"""Modes and Markov chains, and what diagnoses them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from soak.calls.case import TARGETS, Case, Made, Wrong, X, folder, shaped
from soak.calls.networks import line, network
from tfbdl import inference, likelihoods

CHAINS = np.random.default_rng(0).normal(size=(8, 2, 3))


def density(theta: tf.Tensor) -> tf.Tensor:
    """That of three independent normal weights."""
    return -0.5 * tf.reduce_sum(theta**2, axis=1)


def log_posterior(scale: float = 1.0) -> inference.LogPosterior:
    """Of a line through the targets."""
    return inference.LogPosterior(line(), likelihoods.Normal(scale), 1.0, X, TARGETS)


def _target(**given: Any) -> Any:
    target = inference.LogPosterior(**given)
    theta = tf.ones([2, target.size], target.dtype)
    return {"chains": shaped(target(theta), 2), "one": target(theta[0]), "dtype": str(theta.dtype)}


def _at(method: str, theta: Any) -> Any:
    found = getattr(kept_target(), method)(theta)
    return np.nan_to_num(shaped(found, *np.shape(theta)[:-1]))


@cache
def kept_target() -> inference.LogPosterior:
    """One for calls that leave it as it is."""
    return log_posterior()


def _mode(**given: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a search that ends before the mode
        found = inference.MAP(**given).run()
    return {"theta": found.theta, "log_prob": found.log_prob, "steps": found.num_iterations}


def _chains(**given: Any) -> Any:
    chains = inference.MCMC(**given).run()
    shaped(chains.theta, given["num_samples"], given["num_chains"], chains.theta.shape[-1])
    files = sorted(p.name for p in Path(given["savedir"] or "/nowhere").rglob("*"))
    draws = [np.nan_to_num(part, neginf=-1e30) for part in chains.draws]
    return {"draws": draws, "kernel": repr(chains.kernel), "files": files}


def _with_kernel(kind: type, **given: Any) -> Any:
    few = {"num_warmup": 10, "num_samples": 6, "num_chains": 1, "verbose": 0, "jit_compile": False}
    kernel, start = kind(**given), np.ones(3, "float32")
    if kind is inference.Flip:
        start = np.float32(kernel.values)[[0, 0, 1]]
    return _chains(target=density, kernel=kernel, initial=start, **few, savedir=None)


@cache
def kept_chains() -> inference.MCMC:
    """A run of a few samples."""
    few = {"num_warmup": 100, "num_samples": 8, "num_chains": 2, "verbose": 0}
    return inference.MCMC(log_posterior(), "rwmh", **few, jit_compile=False).run()


def _summary(x: Any) -> Any:
    found = kept_chains().summary(x)
    return {name: np.nan_to_num(q.mean) for name, q in found.quantities.items()}


def cases() -> Iterator[Case]:
    """Densities, methods, kernels and diagnostics."""
    yield Case(
        "tfbdl.inference.LogPosterior",
        inference.LogPosterior,
        _target,
        {
            "model": (Made(line), Made(lambda: network(keras.layers.Dense(1, "relu")))),
            "likelihood": (likelihoods.Normal(), likelihoods.Normal(2.0)),
            "prior": (1.0, Made(lambda: {"dense": "laplace", "*": 0.5})),
            "x": (X, X[::-1]),
            "y": (TARGETS, TARGETS + 1.0),
            "chunk_size": (None, Wrong(0)),
            "dtype": ("float32", "float64"),
        },
        slow=True,
    )
    theta = np.linspace(-1.0, 1.0, 5, dtype="float32")
    for method in ("__call__", "log_likelihood", "log_prior"):
        yield Case(
            f"LogPosterior.{method}",
            getattr(inference.LogPosterior, method),
            lambda method=method, **given: _at(method, **given),
            {"theta": (theta, theta[::-1].copy())},
        )
    target = (density, Made(log_posterior))
    how = {"jit_compile": (False, Wrong("yes"))}
    search = {
        "optimizer": (Made(lambda: keras.optimizers.Adam(0.1)), "lbfgs"),
        "max_iterations": (20, 1),
        "tolerance": (1e-3, 100.0),
        "initial": (np.ones(3, "float32"), np.full(3, 0.5, "float32")),
        **how,
    }
    yield Case(
        "tfbdl.inference.MAP",
        inference.MAP,
        _mode,
        {**search, "target": target, "seed": (0, Wrong("abc"))},
        slow=True,
    )
    yield Case(
        "tfbdl.inference.MAP, 'prior'",
        inference.MAP,
        _mode,
        {**search, "target": target[::-1], "initial": ("prior", "model"), "seed": (0, 1)},
        slow=True,
    )
    chains = {
        "target": target,
        "kernel": ("rwmh", "mala"),
        "num_warmup": (20, 19),
        "num_samples": (20, 19),
        "num_chains": (2, 1),
        "thinning": (1, 2),
        "initial": (np.ones(3, "float32"), np.full(3, 0.5, "float32")),
        "jitter": (0.0, 0.1),
        "seed": (0, 1),
        "savedir": (None, Made(folder)),
        "strategy": (None, Wrong("mirrored")),
        "verbose": (0, Wrong("loud")),
        **how,
    }
    yield Case("tfbdl.inference.MCMC", inference.MCMC, _chains, chains, slow=True)
    adaptive = {
        "step_size": (None, 0.2),
        "target_accept": (None, 0.5),
        "mass_matrix": ("identity", "diagonal"),
    }
    fixed = {**adaptive, "step_size": (0.1, 0.2)}
    own = {
        "HMC": {
            "trajectory_length": (None, 0.5),
            "jitter": (0.5, 0.2),
            "max_leapfrog_steps": (10, 1),
        },
        "NUTS": {"max_tree_depth": (3, 1)},
    }
    for name in ("HMC", "NUTS", "MALA", "Langevin", "RandomWalk"):
        for mode, given in (("", adaptive), (", a step size", fixed)):
            kind = getattr(inference, name)
            yield Case(
                f"tfbdl.inference.{name}{mode}",
                kind,
                lambda kind=kind, **given: _with_kernel(kind, **given),
                {**given, **own.get(name, {})},
                slow=True,
            )
    yield Case(
        "tfbdl.inference.Flip",
        inference.Flip,
        lambda **given: _with_kernel(inference.Flip, **given),
        {"num_flips": (1, 2), "values": ((-1.0, 1.0), (-0.5, 0.5))},
        slow=True,
    )
    yield Case(
        "MCMC.outputs",
        inference.MCMC.outputs,
        lambda x: shaped(kept_chains().outputs(x), 8, 2, len(x), 1),
        {"x": (X, X + 1.0)},
        slow=True,
    )
    summarised = {"x": (None, X)}
    yield Case("MCMC.summary", inference.MCMC.summary, _summary, summarised, slow=True)
    samples = {"samples": (CHAINS, CHAINS**3 + np.arange(8)[:, None, None])}
    yield Case(
        "tfbdl.inference.rhat",
        inference.rhat,
        lambda samples: np.nan_to_num(
            shaped(inference.rhat(samples), *np.shape(samples)[2:])  # NaN by its documentation
        ),
        samples,
        called={"samples": "num_samples"},
    )
    yield Case(
        "tfbdl.inference.ess",
        inference.ess,
        lambda samples, kind: np.nan_to_num(
            shaped(inference.ess(samples, kind), *np.shape(samples)[2:])
        ),
        {**samples, "kind": ("bulk", "mean")},
        called={"samples": "num_samples"},
    )


BASES = (inference.kernels.Kernel,)
"""What cannot be used itself."""

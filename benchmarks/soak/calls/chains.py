"""Densities, modes and chains, their kernels, and what diagnoses them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from soak.calls.answers import DRAWS, drawn
from soak.calls.case import TARGETS, WEIGHTED, Case, Made, Wrong, X, folder, shaped
from soak.calls.networks import line, noisy
from tfbdl import inference, likelihoods

CHAINS = np.random.default_rng(0).normal(size=(20, 2, 3)).cumsum(axis=0)


def density(theta: tf.Tensor) -> tf.Tensor:
    """The log density of independent normal weights."""
    return -0.5 * tf.reduce_sum(theta**2, axis=1)


def log_posterior(scale: float = 1.0) -> inference.LogPosterior:
    """The log posterior of a line through the targets."""
    return inference.LogPosterior(line(scale), 1.0, X, TARGETS)


def _target(**given: Any) -> Any:
    target = inference.LogPosterior(**given)
    theta = tf.ones([2, target.size], target.dtype)
    return {"chains": shaped(target(theta), 2), "one": target(theta[0]), "dtype": str(theta.dtype)}


def _at(method: str, theta: Any) -> Any:
    actual = getattr(kept_target(), method)(theta)
    return np.nan_to_num(shaped(actual, *np.shape(theta)[:-1]))


@cache
def kept_target() -> inference.LogPosterior:
    """One for calls that leave it as it is."""
    return log_posterior()


def _data(model: Any, y: np.ndarray = TARGETS) -> tuple[np.ndarray, ...]:
    """What a method of this model or density is fitted to."""
    return (X, y) if isinstance(model, keras.Model) else ()


def _mode(**given: Any) -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "no mode after")
        fitted = inference.MAP(**given).fit(*_data(given["model"]))
    return [fitted.theta, fitted.log_prob, fitted.num_iterations, fitted.name]


def _descended(**given: Any) -> inference.MAP:
    """A mode by a few steps down, which take less time than the line searches of L-BFGS."""
    adam = keras.optimizers.Adam(0.1)
    search = {"optimizer": adam, "max_iterations": 20, "jit_compile": False}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "no mode after")
        return inference.MAP(line(), 1.0, **search).fit(**given)


@cache
def kept_mode() -> inference.MAP:
    """A mode that is only asked."""
    return _descended(x=X, y=TARGETS)


def _mode_of(**given: Any) -> Any:
    return _descended(**given).theta


def _chains(**given: Any) -> Any:
    chains = inference.MCMC(**given).fit(*_data(given["model"]), verbose=0)
    shaped(chains.theta, given["num_samples"], given["num_chains"], chains.theta.shape[-1])
    draws = [np.nan_to_num(part, neginf=-1e30) for part in chains.draws]
    return {"draws": draws, "kernel": repr(chains.kernel), "called": chains.name}


def _chains_of(savedir: Path | None, **given: Any) -> Any:
    few = {"num_warmup": 30, "num_samples": 8, "num_chains": 2, "jit_compile": False}
    chains = inference.MCMC(line(), 1.0, kernel="rwmh", **few).fit(savedir=savedir, **given)
    files = sorted(p.name for p in Path(savedir or "/nowhere").rglob("*"))
    return [chains.theta, chains.draws.log_prob, files]


def _with_kernel(kind: type, **given: Any) -> Any:
    num_chains = 2 if kind is inference.ChEES else 1  # it learns from differences between chains
    few = {"num_warmup": 30, "num_samples": 8, "num_chains": num_chains, "jit_compile": False}
    kernel, start = kind(**given), np.ones(3, "float32")
    if kind is inference.Flip:
        start = np.float32(kernel.values)[[0, 0, 1]]
    return _chains(model=density, kernel=kernel, initial=start, **few)


@cache
def kept_chains() -> inference.MCMC:
    """A run of a few samples."""
    few = {"num_warmup": 100, "num_samples": 8, "num_chains": 2, "jit_compile": False}
    return inference.MCMC(line(), 1.0, kernel="rwmh", **few).fit(X, TARGETS, verbose=0)


def _summary(x: Any) -> Any:
    summary = kept_chains().summary(x)
    return {name: np.nan_to_num(q.mean) for name, q in summary.quantities.items()}


def cases() -> Iterator[Case]:
    """Densities, methods, kernels and diagnostics."""
    yield from _densities()
    yield from _constructors()
    yield from _methods()
    yield from _kernels()
    yield from _diagnostics()


def _densities() -> Iterator[Case]:
    yield Case(
        "tfbdl.inference.LogPosterior",
        inference.LogPosterior,
        _target,
        {
            "model": (Made(line), Made(lambda: line(2.0))),
            "likelihood": (None, likelihoods.Normal(2.0)),
            "prior": (1.0, Made(lambda: {"dense": "laplace", "*": 0.5})),
            "x": (X, X[::-1]),
            "y": (TARGETS, TARGETS + 1.0),
            **WEIGHTED,
            "batch_size": (None, Wrong(0)),
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
            {"theta": (theta, theta + 1.0)},
        )


def _constructors() -> Iterator[Case]:
    how = {"jit_compile": (False, Wrong("yes")), "name": ("one", "two")}
    own_density = {
        "model": (density, Made(log_posterior)),
        "prior": (None, Wrong(1.0)),
        "likelihood": (None, Wrong(likelihoods.Normal())),
        "initial": (np.ones(5, "float32"), np.full(5, 0.5, "float32")),
        "dtype": ("float32", Wrong("float16")),
    }
    own_network = {
        "model": (Made(line), Made(noisy)),
        "prior": (1.0, Made(lambda: {"dense": "laplace", "*": 0.5})),
        "likelihood": (None, likelihoods.Normal(2.0)),
        "initial": ("prior", "model"),
        "dtype": ("float32", "float64"),
    }
    search = {
        "optimizer": (Made(lambda: keras.optimizers.Adam(0.1)), "lbfgs"),
        "max_iterations": (20, 1),
        "tolerance": (1e-3, 1e3),
        **how,
    }
    seeds = {"a density": (0, Wrong("abc")), "a network": (0, 1)}
    chains = {
        "kernel": ("rwmh", "mala"),
        "num_warmup": (20, 19),
        "num_samples": (20, 19),
        "num_chains": (2, 1),
        "thinning": (1, 2),
        "jitter": (0.0, 0.1),
        "seed": (0, 1),
        "strategy": (None, Wrong("mirrored")),
        **how,
    }
    for mode, own in (("a density", own_density), ("a network", own_network)):
        arguments = {**search, **own, "seed": seeds[mode]}
        yield Case(f"tfbdl.inference.MAP, {mode}", inference.MAP, _mode, arguments, slow=True)
        arguments = {**chains, **own}
        yield Case(f"tfbdl.inference.MCMC, {mode}", inference.MCMC, _chains, arguments, slow=True)


def _methods() -> Iterator[Case]:
    targets = (TARGETS, TARGETS + 1.0)
    data = {"x": (X, X + 1.0), "y": targets, **WEIGHTED, "batch_size": (None, Wrong(0))}
    start = {"x": "initial"}
    yield Case("MAP.fit", inference.MAP.fit, _mode_of, data, called=start, slow=True)
    run = {**data, "savedir": (None, Made(folder)), "verbose": (0, Wrong("loud"))}
    yield Case("MCMC.fit", inference.MCMC.fit, _chains_of, run, slow=True)
    fixed_seed = {"seed": (0, Wrong("abc"))}
    one = {"num_samples": (1, Wrong(0)), **fixed_seed}
    yield from drawn(inference.MAP, kept_mode, one, "sample", "ensemble")
    yield from drawn(inference.MCMC, kept_chains, DRAWS, "sample", "ensemble")
    yield Case(
        "MCMC.outputs",
        inference.MCMC.outputs,
        lambda x: shaped(kept_chains().outputs(x), 8, 2, len(x), 1),
        {"x": (X, X + 1.0)},
        slow=True,
    )
    summarised = {"x": (None, X)}
    yield Case("MCMC.summary", inference.MCMC.summary, _summary, summarised, slow=True)


def _kernels() -> Iterator[Case]:
    adaptive = {
        "step_size": (None, 0.2),
        "target_accept": (None, 0.9),
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
        "MCLMC": {"decoherence_length": (None, 0.5), "energy_variance": (5e-4, 1e-2)},
    }
    own["MAMS"] = own["HMC"]
    own["ChEES"] = {
        "trajectory_length": (0.1, 0.5),
        "max_leapfrog_steps": (10, 1),
        "num_adaptation": (None, 0),
        "learning_rate": (0.025, 0.5),
    }
    for name in ("HMC", "NUTS", "ChEES", "MAMS", "MCLMC", "MALA", "Langevin", "RandomWalk"):
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


def _diagnostics() -> Iterator[Case]:
    samples = {"samples": (CHAINS, CHAINS[::-1] ** 3 + np.arange(20)[:, None, None])}
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
        "tfbdl.inference.bfmi",
        inference.bfmi,
        lambda energy: shaped(inference.bfmi(energy), energy.shape[1]),
        {"energy": (CHAINS[:, :, 0], CHAINS[:, :, 0] ** 2)},
    )
    yield Case(
        "tfbdl.inference.ess",
        inference.ess,
        lambda samples, kind: np.nan_to_num(
            shaped(inference.ess(samples, kind), *np.shape(samples)[2:])
        ),
        {**samples, "kind": ("bulk", "tail")},
        called={"samples": "num_samples"},
    )


BASES = (inference.Method, inference.mcmc.kernels.Kernel)
"""What cannot be used itself."""

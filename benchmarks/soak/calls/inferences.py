"""Inference over the weights of small networks, and what its results answer."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from soak.calls.case import (
    LABELS,
    TARGETS,
    Case,
    Made,
    N,
    Wrong,
    X,
    classifier,
    floats,
    folder,
    network,
    regression,
    shaped,
)
from soak.calls.networks import normalised
from tfbdl import inference, likelihoods, optimizers

CHAINS = np.random.default_rng(0).normal(size=(8, 2, 3))


def line() -> keras.Model:
    """A network of five weights."""
    return network(keras.layers.Dense(1, kernel_initializer="ones"), loss="mse")


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
    found = inference.MAP(**given).run()
    return {"theta": found.theta, "log_prob": found.log_prob, "steps": found.num_iterations}


def _chains(**given: Any) -> Any:
    chains = inference.MCMC(**given).run()
    shaped(chains.theta, given["num_samples"], given["num_chains"], chains.theta.shape[-1])
    files = sorted(p.name for p in Path(given["savedir"] or "/nowhere").rglob("*"))
    draws = [np.nan_to_num(part, neginf=-1e30) for part in chains.draws]
    return {"draws": draws, "kernel": repr(chains.kernel), "files": files}


def _with_kernel(kind: type, **given: Any) -> Any:
    few = {"num_warmup": 3, "num_samples": 2, "num_chains": 1, "verbose": 0, "jit_compile": False}
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


def _laplace(model: keras.Model, likelihood: Any, **given: Any) -> Any:
    laplace = inference.Laplace(model, likelihood, **given)
    outputs = model.outputs[0].shape[-1]
    laplace.fit(X, LABELS if outputs == 3 else TARGETS)
    found = laplace.predict(X, return_samples=True, n_samples=3)
    return {
        "mean": shaped(found.mean, N, outputs),
        "stddev": shaped(found.stddev, N, outputs),
        "evidence": laplace.log_marginal_likelihood(),
        "paths": [path.rpartition("/")[2] for path in laplace.paths],
        "precision": laplace.prior_precision,
    }


@cache
def kept_laplace(kind: str = "classification") -> inference.Laplace:
    """A fitted one, whose prior may be changed and is put back."""
    model, y = (classifier(), LABELS) if kind == "classification" else (regression(), TARGETS)
    return inference.Laplace(model, kind, jit_compile=False).fit(X, y)


def _of_laplace(what: str, kind: str, **given: Any) -> Any:
    laplace = kept_laplace(kind)
    laplace.prior_precision = 1.0
    found = getattr(laplace, what)(**given)
    if what == "fit":
        found = found.log_marginal_likelihood()
        laplace.fit(X, LABELS)
    elif what == "optimize_prior_precision":
        found = [laplace.prior_precision, laplace.sigma_noise]
        if laplace.sigma_noise != 1.0:
            laplace.sigma_noise = 1.0
    return _shown(found)


def _shown(found: Any) -> Any:
    """What is to be seen of any result of an inference."""
    if hasattr(found, "epistemic_variance"):
        return [found.mean, found.stddev, found.outputs, found.num_samples]
    if hasattr(found, "members"):
        return [found.members, found(X)]
    return list(floats(found)) or found


def _neural_linear(**given: Any) -> Any:
    found = inference.NeuralLinear(**given).fit(X, TARGETS)
    prediction = found.predict(X)
    return {
        "mean": shaped(prediction.mean, N, 1),
        "stddev": shaped(prediction.stddev, N, 1),
        "evidence": found.log_marginal_likelihood(),
    }


def _of_neural_linear(method: str, sigma: float | None, **given: Any) -> Any:
    model = network(keras.layers.Dense(2, "tanh", kernel_initializer="ones"), keras.layers.Dense(1))
    found = inference.NeuralLinear(model, sigma_noise=sigma).fit(X, TARGETS)
    result = getattr(found, method)(**given)
    if result is found:
        return [found.log_marginal_likelihood(), found.prior_precision, found.sigma_noise]
    return _shown(result)


def _samples(**given: Any) -> Any:
    samples = inference.PosteriorSamples(**given)
    model = line()
    model.compile(optimizers.SGLD(0.01, num_data=N, seed=1), "mse", jit_compile=False)
    model.fit(X, TARGETS, 3, 4, callbacks=[samples], verbose=0)
    files = sorted(p.name for p in Path(given["savedir"] or "/nowhere").rglob("*"))
    return {"epochs": samples.epochs, "members": samples.ensemble().members, "files": files}


@cache
def kept_path(last: int = 3) -> inference.PosteriorSamples:
    """The path of a network with statistics."""
    samples = inference.PosteriorSamples()
    model = normalised()
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(X, LABELS, 3, last, callbacks=[samples], verbose=0)
    return samples


def _swag(path: Any, **given: Any) -> Any:
    swag = inference.SWAG(path, **given)
    return {"mean": swag.mean, "deviations": swag.deviations, "draw": swag.sample(2)}


def _of_swag(method: str, **given: Any) -> Any:
    swag = inference.SWAG(kept_path(), rank=2)
    return _shown(getattr(swag, method)(**given))


def _members(build: Any, **given: Any) -> Any:
    ensemble = inference.DeepEnsemble(build, **given).fit(X, LABELS, epochs=1, verbose=0)
    return _shown(ensemble.ensemble())


def _deep_fit(**given: Any) -> Any:
    ensemble = inference.DeepEnsemble(classifier, 1).fit(**given, jit_compile=False)
    files = sorted(p.name for p in Path(given["savedir"] or "/nowhere").rglob("*"))
    return [_shown(ensemble.ensemble()), files]


def _evidence(laplace: Any, **given: Any) -> Any:
    callback = inference.MarginalLikelihood(laplace, **given)
    network = laplace.network
    history = network.fit(X, LABELS, 3, 3, callbacks=[callback], verbose=0).history
    found = callback.log_marginal_likelihood
    return [history, laplace.prior_precision, list(found), list(found.values())]


def _trained_laplace() -> inference.Laplace:
    return inference.Laplace(classifier(), "classification", jit_compile=False)


def cases() -> Iterator[Case]:
    """Each method of inference, its results, kernels and diagnostics."""
    yield from _of_chains()
    yield from _closed()
    yield from _paths()


def _of_chains() -> Iterator[Case]:
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
        "tolerance": (1e-3, 1.0),
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


def _closed() -> Iterator[Case]:
    common = {
        "subset_of_weights": ("last_layer", "all"),
        "hessian_structure": ("kron", "diag"),
        "prior_precision": (1.0, 2.0),
        "sigma_noise": (None, 0.5),
        "curvature": ("ggn", "ef"),
        "temperature": (1.0, 0.5),
        "rank": (None, 2),
        "dtype": ("float32", "float64"),
        "jit_compile": (False, Wrong("yes")),
    }
    modes = {
        "classification": (classifier, "classification", {}),
        "regression": (regression, "regression", {}),
        "Normal": (regression, likelihoods.Normal(0.1), {}),
        "lowrank": (
            classifier,
            "classification",
            {"hessian_structure": ("lowrank", "full"), "rank": (3, 2)},
        ),
    }
    for mode, (build, likelihood, own) in modes.items():
        yield Case(
            f"tfbdl.inference.Laplace, {mode}",
            inference.Laplace,
            _laplace,
            {
                **common,
                "model": (Made(build), Made(lambda: network(keras.layers.Dense(1)))),
                "likelihood": (likelihood, Made(lambda: likelihoods.StudentT())),
                **own,
            },
            slow=True,
        )
    size = {"batch_size": (None, Wrong(0))}
    predict = {"x": (X, X + 1.0), "seed": (0, 1), **size}
    methods: dict[tuple[str, str], dict[str, tuple[Any, Any]]] = {
        ("fit", "classification"): {"x": (X, X + 1.0), "y": (LABELS, (LABELS + 1) % 3), **size},
        ("predict", "classification"): {
            **predict,
            "pred_type": ("glm", "nn"),
            "link_approx": (None, "mc"),
            "n_samples": (3, 2),
            "return_samples": (False, True),
        },
        ("predict", "regression"): {
            **predict,
            "seed": (0, Wrong("abc")),
            "pred_type": ("glm", "nn"),
            "link_approx": (None, "mc"),
            "n_samples": (None, 3),
            "return_samples": (False, True),
        },
        ("sample", "classification"): {"n_samples": (3, 2), "seed": (0, 1)},
        ("ensemble", "classification"): {"n_samples": (3, 2), "seed": (0, 1)},
        ("function_moments", "classification"): {"x": (X, X + 1.0), **size},
        ("log_marginal_likelihood", "regression"): {
            "prior_precision": (None, 2.0),
            "sigma_noise": (None, 0.5),
        },
        ("optimize_prior_precision", "regression"): {
            "method": ("marglik", "gridsearch"),
            "prior_structure": ("scalar", "layerwise"),
            "x": (None, X),
            "y": (None, TARGETS),
            "with_noise": (False, True),
            "grid": (None, (0.1, 1.0)),
        },
        ("optimize_prior_precision", "classification"): {
            "method": ("gridsearch", "marglik"),
            "prior_structure": ("scalar", "layerwise"),
            "x": (X, X + 1.0),
            "y": (LABELS, LABELS[:3]),
            "with_noise": (False, True),
            "grid": ((0.1, 1.0), (0.01,)),
        },
    }
    for (method, kind), arguments in methods.items():
        yield Case(
            f"Laplace.{method}, {kind}",
            getattr(inference.Laplace, method),
            lambda what=method, kind=kind, **given: _of_laplace(what, kind, **given),
            arguments,
            slow=True,
        )
    neural = {
        "model": (Made(regression), Made(line)),
        "prior_precision": (1.0, 2.0),
        "dtype": ("float32", "float64"),
    }
    noises = {
        "known": ((0.5, 1.0), (None, (1.0, 1.0))),
        "unknown": ((None, 1.0), (None, (2.0, 1.0))),
    }
    for mode, (sigma, noise_prior) in noises.items():
        yield Case(
            f"tfbdl.inference.NeuralLinear, {mode} noise",
            inference.NeuralLinear,
            _neural_linear,
            {**neural, "sigma_noise": sigma, "noise_prior": noise_prior},
            slow=True,
        )
    size = {"batch_size": (1000, Wrong(0))}
    data = {"x": (X, X + 1.0), "y": (TARGETS, TARGETS + 1.0), **size}
    draws = {"n_samples": (3, 2), "seed": (0, 1)}
    of_linear: dict[str, dict[str, tuple[Any, Any]]] = {
        "fit": data,
        "update": data,
        "predict": {
            "x": (X, X + 1.0),
            "n_samples": (None, 3),
            "seed": (0, Wrong("abc")),
            "return_samples": (False, True),
            **size,
        },
        "sample": draws,
        "ensemble": draws,
        "function_moments": {"x": (X, X + 1.0), **size},
        "log_marginal_likelihood": {"prior_precision": (None, 2.0), "sigma_noise": (None, 0.5)},
        "optimize_prior_precision": {
            "prior_structure": ("scalar", "layerwise"),
            "with_noise": (False, True),
        },
    }
    for method, arguments in of_linear.items():
        for mode, sigma in (("known", 0.7), ("unknown", None)):
            yield Case(
                f"NeuralLinear.{method}, {mode} noise",
                getattr(inference.NeuralLinear, method),
                lambda method=method, sigma=sigma, **given: _of_neural_linear(
                    method, sigma, **given
                ),
                arguments,
                slow=True,
            )


def _paths() -> Iterator[Case]:
    yield Case(
        "tfbdl.inference.PosteriorSamples",
        inference.PosteriorSamples,
        _samples,
        {"start": (0, 1), "every": (1, 2), "savedir": (None, Made(folder))},
        slow=True,
    )
    yield Case(
        "tfbdl.inference.SWAG",
        inference.SWAG,
        _swag,
        {
            "path": (Made(kept_path), Made(lambda: kept_path(4))),
            "rank": (3, 2),
            "scale": (0.5, 1.0),
        },
        slow=True,
    )
    draws = {"num_samples": (3, 2), "seed": (0, 1)}
    yield Case(
        "SWAG.sample",
        inference.SWAG.sample,
        lambda **given: _of_swag("sample", **given),
        draws,
    )
    yield Case(
        "SWAG.ensemble",
        inference.SWAG.ensemble,
        lambda **given: _of_swag("ensemble", **given),
        {**draws, "x": (X, X + 1.0), "batch_size": (4, 3)},
        slow=True,
    )
    yield Case(
        "tfbdl.inference.DeepEnsemble",
        inference.DeepEnsemble,
        _members,
        {
            "build": (classifier, lambda: network(keras.layers.Dense(3), loss="mse")),
            "num_members": (2, 1),
            "seed": (0, 1),
        },
        slow=True,
    )
    yield Case(
        "DeepEnsemble.fit",
        inference.DeepEnsemble.fit,
        _deep_fit,
        {
            "x": (X, X + 1.0),
            "y": (LABELS, (LABELS + 1) % 3),
            "savedir": (None, Made(folder)),
            "epochs": (2, 1),
            "batch_size": (3, 2),
            "verbose": (0, Wrong("loud")),
        },
        slow=True,
    )
    yield Case(
        "tfbdl.inference.MarginalLikelihood",
        inference.MarginalLikelihood,
        _evidence,
        {
            "laplace": (Made(_trained_laplace), Made(lambda: None)),
            "x": (X, X + 1.0),
            "y": (LABELS, (LABELS + 1) % 3),
            "prior_structure": ("layerwise", "scalar"),
            "start": (0, 1),
            "every": (1, 2),
        },
        slow=True,
    )


BASES = (inference.kernels.Kernel,)
"""What cannot be used itself."""

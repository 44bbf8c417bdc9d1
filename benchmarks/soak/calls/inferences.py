"""Inference over the weights of small networks, and what its results answer."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tfbdl
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


def line(scale: float = 1.0) -> keras.Model:
    """A network of five weights, and the noise beside it."""
    dense = keras.layers.Dense(1, kernel_initializer="ones")
    return network(dense, loss=likelihoods.Normal(scale))


def noisy() -> keras.Model:
    """A network with a hidden layer, and the noise beside it."""
    hidden = keras.layers.Dense(3, "tanh")
    return network(hidden, keras.layers.Dense(1), loss=likelihoods.Normal(0.7))


def density(theta: tf.Tensor) -> tf.Tensor:
    """That of three independent normal weights."""
    return -0.5 * tf.reduce_sum(theta**2, axis=1)


def log_posterior(scale: float = 1.0) -> inference.LogPosterior:
    """Of a line through the targets."""
    return inference.LogPosterior(line(scale), 1.0, X, TARGETS)


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


def _data(model: Any, y: np.ndarray = TARGETS) -> tuple[np.ndarray, ...]:
    """What a method of this model or density is fitted to."""
    return (X, y) if isinstance(model, keras.Model) else ()


def _mode(**given: Any) -> Any:
    found = inference.MAP(**given).fit(*_data(given["model"]))
    return [found.theta, found.log_prob, found.num_iterations, found.name]


@cache
def kept_mode() -> inference.MAP:
    """A mode that is only asked."""
    return inference.MAP(line(), 1.0, max_iterations=5, jit_compile=False).fit(X, TARGETS)


def _mode_of(**given: Any) -> Any:
    found = inference.MAP(line(), 1.0, tolerance=1e-6, jit_compile=False).fit(**given)
    return found.theta


def _chains(**given: Any) -> Any:
    chains = inference.MCMC(**given).fit(*_data(given["model"]), verbose=0)
    shaped(chains.theta, given["num_samples"], given["num_chains"], chains.theta.shape[-1])
    draws = [np.nan_to_num(part, neginf=-1e30) for part in chains.draws]
    return {"draws": draws, "kernel": repr(chains.kernel), "called": chains.name}


def _chains_of(savedir: Path | None, **given: Any) -> Any:
    few = {"num_warmup": 3, "num_samples": 4, "num_chains": 2, "jit_compile": False}
    chains = inference.MCMC(line(), 1.0, kernel="rwmh", **few).fit(savedir=savedir, **given)
    files = sorted(p.name for p in Path(savedir or "/nowhere").rglob("*"))
    return [chains.theta, chains.draws.log_prob, files]


def _with_kernel(kind: type, **given: Any) -> Any:
    few = {"num_warmup": 3, "num_samples": 2, "num_chains": 1, "jit_compile": False}
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
    found = kept_chains().summary(x)
    return {name: np.nan_to_num(q.mean) for name, q in found.quantities.items()}


def _laplace(model: keras.Model, **given: Any) -> Any:
    laplace = inference.Laplace(model, **given)
    outputs = model.outputs[0].shape[-1]
    laplace.fit(X, LABELS if outputs == 3 else TARGETS)
    found = tfbdl.predict(laplace, X, 3, seed=0, return_samples=True, verbose=0)
    return {
        "mean": shaped(found.mean, N, outputs),
        "stddev": shaped(found.stddev, N, outputs),
        "evidence": laplace.log_marginal_likelihood(),
        "paths": laplace.paths,
        "precision": laplace.prior_precision,
        "called": laplace.name,
    }


@cache
def kept_laplace(kind: str = "classes") -> inference.Laplace:
    """A fitted one, whose prior may be changed and is put back."""
    model, y = (classifier(), LABELS) if kind == "classes" else (noisy(), TARGETS)
    return inference.Laplace(model, jit_compile=False).fit(X, y)


def _of_laplace(what: str, kind: str, **given: Any) -> Any:
    laplace = kept_laplace(kind)
    laplace.prior_precision = 1.0
    found = getattr(laplace, what)(**given)
    if what == "fit":
        found = found.log_marginal_likelihood()
        laplace.fit(X, LABELS)
    elif what == "optimize_prior_precision":
        found = [laplace.prior_precision, laplace.sigma_noise]
        if laplace.has_known_noise:
            laplace.sigma_noise = 0.7
    return _shown(found)


def _asked(posterior: inference.Method, **given: Any) -> Any:
    return _shown(tfbdl.predict(posterior, **given))


def _saved(path: Path) -> Any:
    kept_laplace().save(path)
    return sorted(p.name for p in Path(path).parent.iterdir())


def _shown(found: Any) -> Any:
    """What is to be seen of any result of an inference."""
    if hasattr(found, "epistemic_variance"):
        return [found.mean, found.stddev, found.outputs, found.num_samples]
    if hasattr(found, "members"):
        return [found.members, found(X)]
    return list(floats(found)) or found


def _neural_linear(**given: Any) -> Any:
    found = inference.NeuralLinear(**given).fit(X, TARGETS)
    prediction = tfbdl.predict(found, X, verbose=0)
    return {
        "mean": shaped(prediction.mean, N, 1),
        "stddev": shaped(prediction.stddev, N, 1),
        "evidence": found.log_marginal_likelihood(),
        "called": found.name,
    }


def _linear(sigma: float | None) -> inference.NeuralLinear:
    model = network(keras.layers.Dense(2, "tanh", kernel_initializer="ones"), keras.layers.Dense(1))
    return inference.NeuralLinear(model, sigma_noise=sigma).fit(X, TARGETS)


def _of_neural_linear(method: str, sigma: float | None, **given: Any) -> Any:
    found = _linear(sigma)
    result = getattr(found, method)(**given)
    if result is found:
        return [found.log_marginal_likelihood(), found.prior_precision, found.sigma_noise]
    return _shown(result)


def _snapshots(**given: Any) -> Any:
    kept = inference.WeightSnapshots(**given)
    sampling().fit(X, TARGETS, 3, 4, callbacks=[kept], verbose=0)
    files = sorted(p.name for p in Path(given["savedir"] or "/nowhere").rglob("*"))
    return {"epochs": kept.epochs, "members": kept.ensemble().members, "files": files}


def sampling(rate: float = 0.01) -> keras.Model:
    """A network whose optimizer samples."""
    return network(keras.layers.Dense(1), optimizer=_sampler(rate), loss=likelihoods.Normal())


def _sampler(rate: float) -> keras.optimizers.Optimizer:
    return optimizers.SGLD(rate, num_data=N, seed=1)


def descending(rate: float = 0.1) -> keras.Model:
    """A classifier that is trained by gradient descent."""
    model = classifier()
    model.compile(keras.optimizers.SGD(rate), model.loss, jit_compile=False)
    return model


TRAINED = {"epochs": 5, "batch_size": 3, "verbose": 0}


def _swag(**given: Any) -> Any:
    swag = inference.SWAG(**given).fit(X, LABELS, **TRAINED)
    return [swag.mean, swag.deviations, swag.sample(2), swag.name]


@cache
def kept_swag() -> inference.SWAG:
    """That of a network with statistics."""
    model = normalised()
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return inference.SWAG(model, rank=2, jit_compile=False).fit(X, LABELS, **TRAINED)


def _sgmcmc(**given: Any) -> Any:
    found = inference.SGMCMC(**given).fit(X, TARGETS, **TRAINED)
    return [found.sample(), found.name]


@cache
def kept_sgmcmc() -> inference.SGMCMC:
    """A few snapshots."""
    return inference.SGMCMC(sampling(), jit_compile=False).fit(X, TARGETS, **TRAINED)


def _members(**given: Any) -> Any:
    found = inference.DeepEnsemble(**given).fit(X, LABELS, epochs=1, verbose=0)
    return [_shown(found.ensemble()), found.name]


@cache
def kept_members() -> inference.DeepEnsemble:
    """Two members."""
    found = inference.DeepEnsemble(classifier, 2, jit_compile=False)
    return found.fit(X, LABELS, epochs=1, verbose=0)


def _trained(make: Any, **given: Any) -> Any:
    posterior = make().fit(**given)
    files = sorted(p.name for p in Path(given["savedir"] or "/nowhere").rglob("*"))
    return [posterior.sample(), files]


def _evidence(laplace: Any, **given: Any) -> Any:
    callback = inference.EmpiricalBayes(laplace, **given)
    history = laplace.model.fit(X, LABELS, 3, 3, callbacks=[callback], verbose=0).history
    found = callback.log_marginal_likelihood
    return [history, laplace.prior_precision, list(found), list(found.values())]


def _trained_laplace() -> inference.Laplace:
    return inference.Laplace(classifier(), jit_compile=False)


DRAWS = {"num_samples": (3, 2), "seed": (0, 1)}


def _draws(kind: type, kept: Any, arguments: Any, *methods: str) -> Iterator[Case]:
    for method in methods:
        yield Case(
            f"{kind.__name__}.{method}",
            getattr(kind, method),
            lambda method=method, **given: _shown(getattr(kept(), method)(**given)),
            arguments,
            slow=True,
        )


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
            "model": (Made(line), Made(lambda: line(2.0))),
            "likelihood": (None, likelihoods.Normal(2.0)),
            "prior": (1.0, Made(lambda: {"dense": "laplace", "*": 0.5})),
            "x": (X, X[::-1]),
            "y": (TARGETS, TARGETS + 1.0),
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
            {"theta": (theta, theta[::-1].copy())},
        )
    how = {"jit_compile": (False, Wrong("yes")), "name": ("one", "two")}
    own_density = {
        "model": (density, Made(log_posterior)),
        "prior": (None, Wrong(1.0)),
        "likelihood": (None, Wrong(likelihoods.Normal())),
        "initial": (np.ones(3, "float32"), np.full(3, 0.5, "float32")),
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
    data = {"x": (X, X + 1.0), "y": (TARGETS, TARGETS + 1.0), "batch_size": (None, Wrong(0))}
    yield Case("MAP.fit", inference.MAP.fit, _mode_of, data, slow=True)
    run = {**data, "savedir": (None, Made(folder)), "verbose": (0, Wrong("loud"))}
    yield Case("MCMC.fit", inference.MCMC.fit, _chains_of, run, slow=True)
    fixed_seed = {"seed": (0, Wrong("abc"))}
    yield from _draws(inference.MAP, kept_mode, {"num_samples": (1, 2), **fixed_seed}, "sample")
    one = {"num_samples": (1, Wrong(0)), **fixed_seed}
    yield from _draws(inference.MAP, kept_mode, one, "ensemble")
    yield from _draws(inference.MCMC, kept_chains, DRAWS, "sample", "ensemble")
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
        "pred_type": ("glm", "nn"),
        "link_approx": (None, "mc"),
        "jit_compile": (False, Wrong("yes")),
        "name": ("one", "two"),
    }
    modes = {
        "classes": (classifier, None, {}),
        "noise": (noisy, None, {}),
        "Normal": (regression, likelihoods.Normal(0.1), {}),
        "lowrank": (
            classifier,
            None,
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
    methods: dict[tuple[str, str], dict[str, tuple[Any, Any]]] = {
        ("fit", "classes"): {"x": (X, X + 1.0), "y": (LABELS, (LABELS + 1) % 3), **size},
        ("sample", "classes"): DRAWS,
        ("ensemble", "classes"): DRAWS,
        ("function_moments", "classes"): {"x": (X, X + 1.0), **size},
        ("log_marginal_likelihood", "noise"): {
            "prior_precision": (None, 2.0),
            "sigma_noise": (None, 0.5),
        },
        ("optimize_prior_precision", "noise"): {
            "method": ("marglik", "gridsearch"),
            "prior_structure": ("scalar", "layerwise"),
            "x": (None, Wrong(X)),
            "y": (None, Wrong(TARGETS)),
            "with_noise": (False, True),
            "grid": (None, Wrong((0.1, 1.0))),
        },
        ("optimize_prior_precision", "classes"): {
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
    yield Case(
        "Laplace.save",
        inference.Laplace.save,
        _saved,
        {"path": (Made(lambda: folder() / "one.keras"), Made(lambda: folder() / "two.keras"))},
        slow=True,
    )
    closed = {
        "Laplace, classes": (kept_laplace, (3, 2), (0, 1)),
        "Laplace, noise": (lambda: kept_laplace("noise"), (1, 3), (0, Wrong("abc"))),
        "NeuralLinear, known noise": (lambda: _linear(0.7), (1, 3), (0, Wrong("abc"))),
        "NeuralLinear, unknown noise": (lambda: _linear(None), (1, 3), (0, Wrong("abc"))),
    }
    for mode, (posterior, number, seed) in closed.items():
        yield Case(
            f"tfbdl.predict, {mode}",
            tfbdl.predict,
            lambda posterior=posterior, **given: _asked(posterior(), **given),
            {
                "x": (X, X + 1.0),
                "num_samples": number,
                "batch_size": (None, Wrong(0)),
                "seed": seed,
                "likelihood": (None, Wrong(likelihoods.Normal())),
                "return_samples": (False, True),
                "jit_compile": (None, Wrong("yes")),
                "verbose": (0, Wrong("loud")),
            },
            slow=True,
        )
    neural = {
        "model": (Made(regression), Made(line)),
        "prior_precision": (1.0, 2.0),
        "dtype": ("float32", "float64"),
        "name": ("one", "two"),
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
    of_linear: dict[str, dict[str, tuple[Any, Any]]] = {
        "fit": data,
        "update": data,
        "sample": DRAWS,
        "ensemble": DRAWS,
        "function_moments": {"x": (X, X + 1.0), **size},
        "log_marginal_likelihood": {"prior_precision": (None, 2.0), "sigma_noise": (None, 0.5)},
        "optimize_prior_precision": {
            "method": ("marglik", Wrong("cv")),
            "prior_structure": ("scalar", "layerwise"),
            "x": (None, Wrong(X)),
            "y": (None, Wrong(TARGETS)),
            "with_noise": (False, True),
            "grid": (None, Wrong((0.1, 1.0))),
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
        "tfbdl.inference.WeightSnapshots",
        inference.WeightSnapshots,
        _snapshots,
        {"start": (0, 1), "every": (1, 2), "savedir": (None, Made(folder))},
        slow=True,
    )
    along = {
        "start": (0, 1),
        "every": (1, 2),
        "seed": (0, 1),
        "jit_compile": (False, Wrong("yes")),
        "name": ("one", "two"),
    }
    yield Case(
        "tfbdl.inference.SWAG",
        inference.SWAG,
        _swag,
        {
            "model": (Made(descending), Made(lambda: descending(0.2))),
            "rank": (3, 2),
            "scale": (0.5, 1.0),
            **along,
        },
        slow=True,
    )
    yield from _draws(inference.SWAG, kept_swag, DRAWS, "sample")
    arguments = {**DRAWS, "x": (X, X + 1.0), "batch_size": (4, 3)}
    yield from _draws(inference.SWAG, kept_swag, arguments, "ensemble")
    yield Case(
        "tfbdl.inference.SGMCMC",
        inference.SGMCMC,
        _sgmcmc,
        {"model": (Made(sampling), Made(lambda: sampling(0.02))), **along},
        slow=True,
    )
    yield from _draws(inference.SGMCMC, kept_sgmcmc, DRAWS, "sample", "ensemble")
    yield Case(
        "tfbdl.inference.DeepEnsemble",
        inference.DeepEnsemble,
        _members,
        {
            "build_model": (
                Made(lambda: classifier),
                Made(lambda: lambda: network(keras.layers.Dense(3), loss=classifier().loss)),
            ),
            "num_members": (2, 1),
            "seed": (0, 1),
            "jit_compile": (False, Wrong("yes")),
            "name": ("one", "two"),
        },
        slow=True,
    )
    first = {"num_samples": (2, 1), "seed": (0, Wrong("abc"))}
    yield from _draws(inference.DeepEnsemble, kept_members, first, "sample", "ensemble")
    trained = {
        "DeepEnsemble": lambda: inference.DeepEnsemble(classifier, 1, jit_compile=False),
        "SWAG": lambda: inference.SWAG(descending(), jit_compile=False),
    }
    for kind, make in trained.items():
        yield Case(
            f"{kind}.fit",
            getattr(inference, kind).fit,
            lambda make=make, **given: _trained(make, **given),
            {
                "x": (X, X + 1.0),
                "y": (LABELS, (LABELS + 1) % 3),
                "epochs": (4, 3),
                "num_data": (None, Wrong(3)),
                "batch_size": (3, 2),
                "savedir": (None, Made(folder)),
                "columns": (None, Wrong(["speed"])),
                "callbacks": ((), Wrong("many")),
                "changed": ((), Wrong("weather")),
                "verbose": (0, Wrong("loud")),
            },
            slow=True,
        )
    yield Case(
        "tfbdl.inference.EmpiricalBayes",
        inference.EmpiricalBayes,
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


BASES = (inference.Method, inference.mcmc.kernels.Kernel)
"""What cannot be used itself."""

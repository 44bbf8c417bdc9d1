"""What trains, predicts, converts and saves networks, and models of this package."""

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
    folder,
    network,
    shaped,
)
from tfbdl import layers, likelihoods, models
from tfbdl.flat_model import FlatModel

CROSSENTROPY = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
PIXELS = np.linspace(0.0, 1.0, N * 4, dtype="float32").reshape(N, 4)


def random_network(posterior: str = "mean_field", seed: int = 1) -> keras.Model:
    """A small Bayesian network of three classes."""
    dense = layers.BayesDense(3, num_data=N, posterior=posterior, seed=seed)
    return network(dense, loss=CROSSENTROPY)


def dropout_network(rate: float = 0.5) -> keras.Model:
    """A network that is random and has a KL, and whose training is quickly compiled."""
    dense = layers.BayesDense(3, num_data=N, posterior="point", seed=1)
    return network(layers.MCDropout(rate, seed=1), dense, loss=CROSSENTROPY)


@cache
def kept_network(seed: int = 1) -> keras.Model:
    """One for calls that leave it as it is."""
    return random_network(seed=seed)


@cache
def kept_vae(seed: int = 1) -> models.VAE:
    """A small autoencoder, built."""
    vae = models.VAE(2, (3,), seed=seed)
    vae.compile("sgd")
    vae.build((None, 4))
    return vae


def _train(model: keras.Model, **given: Any) -> Any:
    history = tfbdl.train(model, **given)
    files = sorted(p.name for p in Path(given["savedir"] or "/nowhere").rglob("*"))
    return {"history": history, "weights": model.get_weights(), "files": files}


def _fit(callback: Any, model: keras.Model | None = None) -> Any:
    model = model or dropout_network()
    history = model.fit(X, LABELS, 3, 3, callbacks=[callback], verbose=0).history
    return {"history": history, "weights": model.get_weights()}


def _logged(**given: Any) -> Any:
    found = _fit(tfbdl.TrainLogger(**given))
    log = tfbdl.read_log(given["path"])
    return {**found, "metrics": log.metrics, "epochs": shaped(log.epochs, 3)}


def _prediction(x: Any, **given: Any) -> Any:
    found = tfbdl.predict(x=x, **given)
    parts = {
        name: value for name, value in vars(found).items() if name not in ("joint", "marginal")
    }
    if isinstance(x, np.ndarray):
        shaped(found.mean, len(x), 3)
    shaped(found.epistemic_variance, *found.mean.shape)
    return parts


def _exported(path: Any, **given: Any) -> Any:
    tfbdl.export(path=path, **given)
    return dict(tf.saved_model.load(str(path)).signatures["serving_default"](tf.constant(X)))


def _weighted(**given: Any) -> Any:
    tfbdl.set_kl_weight(**given)
    given["model"](X)
    return list(given["model"].losses)


def _converted(found: keras.Model) -> Any:
    shaped(found(X), N, 3)
    config = [layer.get_config() for layer in found.layers]
    return {"y": found(X), "config": config, "weights": found.get_weights()}


def _vae(**given: Any) -> Any:
    vae = models.VAE(**given)
    vae.compile("sgd")
    y = shaped(vae(PIXELS, training=True), N, 4)
    return {"y": y, "mean": vae(PIXELS), "losses": list(vae.losses), "config": vae.get_config()}


def _of_vae(method: str, seed_of_vae: int = 1, **given: Any) -> Any:
    return shaped(
        getattr(kept_vae(seed_of_vae), method)(**given), given.get("n", N), *_tail(method)
    )


def _tail(method: str) -> tuple[int, ...]:
    return (4,) if method == "sample" else ()


def _ensemble(found: models.WeightEnsemble) -> Any:
    return {"y": shaped(found(X), N, 3), "k": found.num_functions, "members": found.members}


def normalised(activation: str | None = None) -> keras.Model:
    """A small network that keeps statistics."""
    return network(keras.layers.BatchNormalization(), keras.layers.Dense(3, activation))


def _dropout() -> keras.Model:
    return network(keras.layers.Dropout(0.5, seed=1), keras.layers.Dense(3, name="last"))


def _of_epoch(epoch: Any, context: Any) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices((X, LABELS))


def cases() -> Iterator[Case]:
    """Each function, callback and model."""
    yield from _training()
    yield from _predicting()
    yield from _converting()
    yield from _models()


def _training() -> Iterator[Case]:
    callback = Made(lambda: [keras.callbacks.LambdaCallback(on_epoch_end=_lower_rate)])
    how = {
        "epochs": (2, 1),
        "batch_size": (3, 2),
        "savedir": (None, Made(folder)),
        "columns": (None, ("loss",)),
        "callbacks": ((), callback),
        "jit_compile": (False, Wrong("yes")),
        "verbose": (0, Wrong("loud")),
    }
    arrays = {
        "model": (Made(dropout_network), Made(lambda: dropout_network(0.2))),
        "x": (X, X[::-1]),
        "y": (LABELS, (LABELS + 1) % 3),
        "num_data": (None, N),
        "seed": (0, 1),
    }
    yield Case("tfbdl.train", tfbdl.train, _train, {**arrays, **how}, slow=True)
    stream = {**arrays, "x": (_of_epoch, lambda *_: _of_epoch(*_).map(lambda x, y: (2.0 * x, y)))}
    stream |= {"y": (None, LABELS), "num_data": (N, N - 3)}
    del stream["seed"]
    yield Case("tfbdl.train, a function", tfbdl.train, _train, {**stream, **how}, slow=True)
    path = (Made(lambda: folder() / "train.log"), Made(lambda: folder() / "other" / "train.log"))
    log = {"path": path, "columns": (None, ("loss",)), "verbose": (0, Wrong("loud"))}
    yield Case("tfbdl.TrainLogger", tfbdl.TrainLogger, _logged, log, slow=True)
    annealing = {
        "start": (0, 1),
        "end": (2, 3),
        "period": (None, 3),
        "temperature": (1.0, 0.5),
    }
    yield Case(
        "tfbdl.KLAnnealing",
        tfbdl.KLAnnealing,
        lambda **given: _fit(tfbdl.KLAnnealing(**given)),
        annealing,
        slow=True,
    )
    yield Case(
        "tfbdl.MinibatchKL",
        tfbdl.MinibatchKL,
        lambda **given: _fit(tfbdl.MinibatchKL(**given)),
        {"temperature": (1.0, 0.5)},
        slow=True,
    )
    yield Case(
        "tfbdl.ELBOLogger", tfbdl.ELBOLogger, lambda: _fit(tfbdl.ELBOLogger()), {}, slow=True
    )
    yield Case(
        "tfbdl.PosteriorTensorBoard",
        tfbdl.PosteriorTensorBoard,
        lambda log_dir: [_fit(tfbdl.PosteriorTensorBoard(log_dir)), Path(log_dir).name],
        {"log_dir": (Made(lambda: folder() / "a"), Made(lambda: folder() / "b"))},
        slow=True,
    )
    made_log = Made(lambda: _log(3))
    yield Case(
        "tfbdl.read_log",
        tfbdl.read_log,
        lambda path: vars(tfbdl.read_log(path)),
        {"path": (made_log, Made(lambda: _log(2)))},
    )


def _lower_rate(epoch: int, logs: Any) -> None:
    raise ValueError("callbacks: this one stops the training")


def _log(epochs: int) -> Path:
    path = folder() / "train.log"
    lines = [
        f"\nEpoch {i} start, learning rate 0.001000\ntrain: epoch {i}, (0.535 secs), elbo {i}.000000\n"
        for i in range(1, epochs + 1)
    ]
    path.write_text("".join(lines))
    return path


def _predicting() -> Iterator[Case]:
    likelihood = (None, Made(lambda: likelihoods.Normal(2.0)))
    model = (Made(kept_network), Made(lambda: kept_network(2)))
    how = {"batch_size": (None, Wrong(0)), "seed": (0, 1), "likelihood": likelihood}
    yield Case(
        "tfbdl.predict",
        tfbdl.predict,
        _prediction,
        {
            **how,
            "model": model,
            "x": (X, X[::-1]),
            "num_samples": (3, 2),
            "return_samples": (False, True),
            "verbose": (0, Wrong("loud")),
        },
        slow=True,
    )
    labelled = {
        **how,
        "model": model,
        "x": (X, X[::-1]),
        "y": (LABELS, (LABELS + 1) % 3),
        "num_samples": (3, 2),
        "likelihood": (None, Made(lambda: likelihoods.Normal(2.0))),
    }
    yield Case("tfbdl.elbo", tfbdl.elbo, tfbdl.elbo, labelled, slow=True)
    yield Case(
        "tfbdl.log_predictive_density",
        tfbdl.log_predictive_density,
        lambda y, **given: shaped(tfbdl.log_predictive_density(y=y, **given), len(y)),
        labelled,
        slow=True,
    )
    yield Case(
        "tfbdl.export",
        tfbdl.export,
        _exported,
        {
            "model": model,
            "path": (Made(lambda: folder() / "a"), Made(folder)),
            "num_samples": (3, 2),
            "seed": (0, 1),
            "likelihood": likelihood,
        },
        slow=True,
    )
    normal = likelihoods.Normal(0.5)

    def kept() -> tfbdl.Prediction:
        outputs = np.stack([TARGETS, TARGETS + 1.0]).astype("float32")
        variance = np.ones_like(TARGETS)
        return tfbdl.Prediction(
            outputs.mean(axis=0), variance, variance, np.ones(N), 2, normal, outputs
        )

    yield Case(
        "Prediction.interval",
        tfbdl.Prediction.interval,
        lambda level: [shaped(end, N, 1) for end in kept().interval(level)],
        {"level": (0.95, 0.5)},
        slow=True,
    )
    yield Case(
        "Prediction.log_prob",
        tfbdl.Prediction.log_prob,
        lambda y: shaped(kept().log_prob(y), N),
        {"y": (TARGETS, TARGETS + 1.0)},
    )


def _converting() -> Iterator[Case]:
    yield Case(
        "tfbdl.set_kl_weight",
        tfbdl.set_kl_weight,
        _weighted,
        {
            "model": (Made(random_network), Made(lambda: random_network("point"))),
            "weight": (1.0, 0.5),
        },
    )
    plain = (Made(classifier), Made(lambda: network(keras.layers.Dense(3, name="other"))))
    bayesian = {
        "model": plain,
        "num_data": (10, 20),
        "prior": (1.0, "laplace"),
        "posterior": ("mean_field", "point"),
        "estimator": ("reparameterization", "flipout"),
        "bias_prior": (None, 0.5),
        "bias_posterior": (None, "point"),
        "layers": (None, "nowhere"),
        "initial_sigma": (0.1, 0.2),
    }
    yield Case(
        "tfbdl.to_bayesian",
        tfbdl.to_bayesian,
        lambda **given: _converted(tfbdl.to_bayesian(**given)),
        bayesian,
        slow=True,
    )
    yield Case(
        "tfbdl.to_mc_dropout",
        tfbdl.to_mc_dropout,
        lambda **given: _converted(tfbdl.to_mc_dropout(**given)),
        {"model": (Made(_dropout), Made(classifier)), "layers": (None, "last")},
    )
    yield Case(
        "tfbdl.to_deterministic",
        tfbdl.to_deterministic,
        lambda model: _converted(tfbdl.to_deterministic(model)),
        {"model": (Made(random_network), Made(lambda: random_network(seed=3)))},
    )
    yield Case(
        "tfbdl.prune",
        tfbdl.prune,
        lambda **given: _converted(tfbdl.prune(**given)),
        {"model": (Made(random_network), Made(classifier)), "fraction": (0.5, 0.2)},
    )


def _models() -> Iterator[Case]:
    vae = {
        "latent_dim": (2, 3),
        "hidden_units": ((3,), (3, 2)),
        "likelihood": ("bernoulli", "continuous_bernoulli"),
        "binarize": (None, "dynamic"),
        "activation": ("relu", "tanh"),
        "seed": (1, 2),
    }
    yield Case("tfbdl.models.VAE", models.VAE, _vae, vae, slow=True)
    estimate = {"x": (PIXELS, PIXELS[::-1]), "num_samples": (2, 3), "seed": (0, 1)}
    for method in ("elbo", "log_likelihood"):
        yield Case(
            f"VAE.{method}",
            getattr(models.VAE, method),
            lambda method=method, **given: _of_vae(method, **given),
            estimate,
            slow=True,
        )
    yield Case(
        "VAE.sample",
        models.VAE.sample,
        lambda **given: _of_vae("sample", **given),
        {"n": (3, 4), "mean": (False, True), "seed": (0, 1)},
    )
    yield Case(
        "VAE.evaluate",
        models.VAE.evaluate,
        lambda x: kept_vae().evaluate(x, verbose=0),
        {"x": (PIXELS, PIXELS**2)},
        slow=True,
    )
    model = normalised()
    flat = FlatModel(model)
    members = np.linspace(-1.0, 1.0, 2 * flat.size, dtype="float32").reshape(2, -1)
    yield Case(
        "tfbdl.models.WeightEnsemble",
        models.WeightEnsemble,
        lambda **given: _ensemble(models.WeightEnsemble(**given)),
        {
            "model": (model, Made(lambda: normalised("relu"))),
            "members": (members, 2.0 * members),
            "states": (None, np.ones((2, 8), "float32")),
        },
    )
    several = Made(lambda: [normalised(), normalised()])
    yield Case(
        "WeightEnsemble.of",
        models.WeightEnsemble.of,
        lambda **given: _ensemble(models.WeightEnsemble.of(**given)),
        {"models": (several, Made(lambda: [normalised()]))},
    )

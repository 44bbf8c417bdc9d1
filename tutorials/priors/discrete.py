"""Discrete weights: w ~ Bernoulli(1/2) over two values, +-3 / sqrt(d_in).

Pixels have a root mean square near 1/3, so that units see sums of variance 1. The posterior is a
probability for each weight. It has no gradient through its samples, and trains relaxed
(`RelaxedBernoulli`); what is measured here is the discrete law. Beside it is the same network with
real weights. A binary network can be kept in one bit a weight: its mode.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

import keras
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

import tfbdl
from tfbdl.data import ImageData
from tfbdl.layers import BayesDense
from tfbdl.posteriors import MeanFieldNormal
from tfbdl.priors import Bernoulli, Normal, Prior
from tutorials import classifiers, image_data
from tutorials.priors.run import CLASSIFICATION, Run

UNITS = 100
SETTINGS: dict[str, dict[str, Any]] = {
    "binary": {"posterior": "relaxed_bernoulli"},
    "real": {
        "posterior": MeanFieldNormal(keras.initializers.Constant(-4.0)),
        "estimator": "local_reparameterization",
    },
}
PRIORS: dict[str, Callable[[float], Prior]] = {
    "binary": lambda s: Bernoulli(0.5, (-s, s)),
    "real": Normal,
}
"""Both have the standard deviation s."""
RATES = {"binary": 3e-2, "real": 1e-2}
"""Learning rates: logits move by units, means by hundredths."""


def network(name: str, args: argparse.Namespace) -> keras.Model:
    """784-100-10 without biases."""
    keras.utils.set_random_seed(args.seed)
    layers = [
        BayesDense(
            units,
            activation,
            num_data=args.N,
            prior=PRIORS[name](3 / d_in**0.5),
            use_bias=False,
            seed=args.seed + i,
            **SETTINGS[name],
        )
        for i, (d_in, units, activation) in enumerate(((784, UNITS, "relu"), (UNITS, 10, None)))
    ]
    model = keras.Sequential([keras.Input((784,)), *layers])
    steps = classifiers.num_steps(args)
    schedule = keras.optimizers.schedules.CosineDecay(RATES[name], steps)
    return classifiers.compiled(model, keras.optimizers.Adam(schedule))


def runs(args: argparse.Namespace) -> dict[str, Run]:
    data = image_data.chosen(args)

    def run(name: str) -> Run:
        return Run(
            lambda: network(name, args),
            data.x_train,
            data.y_train,
            args.n_epochs,
            args.batch_size,
            CLASSIFICATION,
        )

    return {name: run(name) for name in SETTINGS}


def measure(args: argparse.Namespace, models: Mapping[str, keras.Model]) -> dict[str, Any]:
    """Accuracies on the test images, and the bound in nats per training image."""
    data = image_data.chosen(args)
    rows: dict[str, dict[str, Any]] = {}
    for name, model in models.items():
        rows[name] = {
            label: accuracy(
                tfbdl.predict(model, data.x_test, n, seed=args.seed, verbose=0).mean, data
            )
            for label, n in (
                ("acc, mean weights", 0),
                ("acc, one draw", 1),
                (f"acc, mean of {args.S} draws", args.S),
            )
        }
        bound = tfbdl.elbo(model, data.x_train, data.y_train, args.S, seed=args.seed)
        rows[name]["elbo"] = bound.elbo
    rows["binary"]["acc, mode: one bit a weight"] = accuracy(
        mode(models["binary"], data.x_test), data
    )
    return rows


def accuracy(outputs: np.ndarray, data: ImageData) -> float:
    return float(np.mean(outputs.argmax(-1) == data.y_test))


def mode(model: keras.Model, x: np.ndarray) -> np.ndarray:
    """Logits of the network whose weights have the more probable of their values, shape (N, 10)."""
    first, last = (
        np.where(np.asarray(layer.kernel.logit) > 0, layer.kernel.high, layer.kernel.low)
        for layer in model.layers
    )
    return np.maximum(x @ first, 0.0) @ last


def figures(
    args: argparse.Namespace, models: Mapping[str, keras.Model], rows: Mapping[str, dict[str, Any]]
) -> dict[str, Figure]:
    """How sure it is of each weight, what single units look for, and what that gives."""
    first, last = (layer.kernel for layer in models["binary"].layers)
    figure, axes = plt.subplots(1, 3, figsize=(13, 3.8), layout="constrained")
    for q, label in ((first, "first layer"), (last, "last layer")):
        p = np.ravel(q.prob)
        axes[0].hist(
            p, np.linspace(0, 1, 51), weights=np.full(p.size, 1 / p.size), alpha=0.6, label=label
        )
    axes[0].set(xlabel="q(w = high)", ylabel="share of the weights", yscale="log")
    axes[0].legend(fontsize=8)
    strongest = np.argsort(-np.sum(np.abs(last.prob - 0.5), axis=1))[:8]
    images = np.asarray(first.prob)[:, strongest].T.reshape(2, 4, 28, 28)
    tiles = np.concatenate([np.concatenate(list(row), axis=1) for row in images], axis=0)
    shown = axes[1].imshow(tiles, cmap="RdBu_r", vmin=0, vmax=1)
    axes[1].set(title="first layer, eight units", xticks=[], yticks=[])
    figure.colorbar(shown, ax=axes[1], shrink=0.6, label="q(w = high) of each pixel")
    labels = [label for label in rows["binary"] if label.startswith("acc")]
    for i, name in enumerate(rows):
        values = [rows[name].get(label, np.nan) for label in labels]
        places = np.arange(len(labels)) + 0.4 * i - 0.2
        axes[2].barh(places, values, 0.4, label=f"{name} weights")
    axes[2].set_yticks(range(len(labels)), [label.removeprefix("acc, ") for label in labels])
    axes[2].invert_yaxis()
    axes[2].set(xlabel="accuracy on the test images", xlim=(0, 1))
    axes[2].legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    return {"discrete": figure}

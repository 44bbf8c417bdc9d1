"""Priors that know the architecture: smooth filters, scales of filters, scales of LSTM gates.

A convolution's kernel is drawn and trained under three priors: independent weights; filters whose
weights are correlated in space (`SpatialNormal`); and a scale for each filter
(`groups="output"`), small for those that are not needed. An LSTM reads the rows of the digits from
top to bottom, with a scale for the weights of each gate (`groups=4`).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

import keras
import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import tfbdl
from tfbdl import random
from tfbdl.layers import BayesConv2D, BayesDense, BayesLSTM
from tfbdl.posteriors import MeanFieldNormal
from tfbdl.priors import Horseshoe, InverseGammaScale, Normal, Prior, SpatialNormal
from tutorials import classifiers, image_data
from tutorials.priors.run import CLASSIFICATION, Run

FILTERS, SIZE = 16, 7
LSTM_UNITS = 32
GATES = ("input", "forget", "candidate", "output")
"""Gates in the order of Keras' weights."""

CONVOLUTIONS: dict[str, Callable[[], Prior]] = {
    "independent": lambda: Normal(0.3, trainable=True),
    "smooth": lambda: SpatialNormal(1.0, 0.3, trainable=True),
    "scale of each filter": lambda: Horseshoe(0.1, "output"),
}
DRAWN: dict[str, Prior] = {
    "independent": Normal(1.0),
    "smooth": SpatialNormal(1.0),
    "smoother, lengthscale 1.5": SpatialNormal(1.5),
}


def posterior() -> MeanFieldNormal:
    return MeanFieldNormal(keras.initializers.Constant(-4.0))


def convolution(prior: Prior, args: argparse.Namespace) -> keras.Model:
    """28x28, sixteen 7x7 filters at every second place, their largest values, 10 logits."""
    keras.utils.set_random_seed(args.seed)
    kind = {"num_data": args.N, "posterior": posterior()}
    layers = [
        keras.layers.Reshape((28, 28, 1)),
        BayesConv2D(
            FILTERS, SIZE, 2, activation="relu", prior=prior, bias_prior=1.0, seed=args.seed, **kind
        ),
        keras.layers.MaxPooling2D(2),
        keras.layers.Flatten(),
        BayesDense(10, seed=args.seed + 1, **kind),
    ]
    return compiled(layers, args)


def recurrent(args: argparse.Namespace) -> keras.Model:
    """28 steps of 28 pixels, an LSTM of 32 units, 10 logits."""
    keras.utils.set_random_seed(args.seed)
    kind = {"num_data": args.N, "posterior": posterior()}
    layers = [
        keras.layers.Reshape((28, 28)),
        BayesLSTM(LSTM_UNITS, prior=InverseGammaScale(1.0, 0.3, groups=4), seed=args.seed, **kind),
        BayesDense(10, seed=args.seed + 1, **kind),
    ]
    return compiled(layers, args)


def compiled(layers: list[keras.layers.Layer], args: argparse.Namespace) -> keras.Model:
    model = keras.Sequential([keras.Input((784,)), *layers])
    steps = classifiers.num_steps(args)
    schedule = keras.optimizers.schedules.CosineDecay(1e-2, steps)
    return classifiers.compiled(model, keras.optimizers.Adam(schedule))


def runs(args: argparse.Namespace) -> dict[str, Run]:
    data = image_data.chosen(args)

    def run(model: Callable[[], keras.Model]) -> Run:
        shape = (args.n_epochs, args.batch_size, CLASSIFICATION)
        return Run(model, data.x_train, data.y_train, *shape)

    def of(prior: Callable[[], Prior]) -> Callable[[], keras.Model]:
        return lambda: convolution(prior(), args)

    convolutions = {name.replace(" ", "_"): run(of(prior)) for name, prior in CONVOLUTIONS.items()}
    return {**convolutions, "lstm": run(lambda: recurrent(args))}


def measure(args: argparse.Namespace, models: Mapping[str, keras.Model]) -> dict[str, Any]:
    """Bounds in nats per training image, accuracies, and the scales of the LSTM's gates."""
    data = image_data.chosen(args)
    rows: dict[str, dict[str, Any]] = {}
    for name, model in models.items():
        p = tfbdl.predict(model, data.x_test, args.S, seed=args.seed, verbose=0).mean
        bound = tfbdl.elbo(model, data.x_train, data.y_train, args.S, seed=args.seed)
        acc = float(np.mean(p.argmax(-1) == data.y_test))
        rows[name] = {"elbo": bound.elbo, "kl": bound.kl, "test acc": acc}
        if name != "lstm":
            kernel = model.layers[1].kernel
            rows[name]["neighbours' correlation"] = neighbour_correlation(kernel.mean)
    for name, (median, _) in gate_scales(models["lstm"]).items():
        rows[f"lstm, {name} kernel"] = {
            f"scale of gate {gate}": float(s) for gate, s in zip(GATES, median, strict=True)
        }
    return rows


def neighbour_correlation(w: tf.Tensor) -> float:
    """Correlation of weights beside or below each other; w of shape (rows, columns, 1, filters)."""
    w = np.asarray(w)
    pairs = [(w[1:], w[:-1]), (w[:, 1:], w[:, :-1])]
    first, second = (np.concatenate([p[i].ravel() for p in pairs]) for i in (0, 1))
    return float(np.sum(first * second) / np.sqrt(np.sum(first**2) * np.sum(second**2)))


def gate_scales(model: keras.Model) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The median of s and the standard deviation of log s of each gate, (4,), of both kernels."""
    lstm = model.layers[1]
    posteriors = {
        "input": lstm.prior.scale_posterior,
        "recurrent": lstm.recurrent_prior.scale_posterior,
    }
    return {name: (np.exp(np.ravel(q.mean)), np.ravel(q.stddev)) for name, q in posteriors.items()}


def figures(
    args: argparse.Namespace, models: Mapping[str, keras.Model], rows: Mapping[str, dict[str, Any]]
) -> dict[str, Figure]:
    return {"filters": filters(args.seed, models), "groups": groups(models)}


def tiles(w: np.ndarray) -> np.ndarray:
    """Eight filters of (SIZE, SIZE, 1, filters) in a row, each by its largest weight."""
    rows = [np.pad(f / np.abs(f).max(), 1, constant_values=np.nan) for f in w[:, :, 0, :8].T]
    return np.concatenate([row.T for row in rows], axis=1)


def filters(seed: int, models: Mapping[str, keras.Model]) -> Figure:
    """Drawn from the priors, and learned under them."""
    figure, axes = plt.subplots(len(DRAWN), 2, figsize=(13, 4.2), layout="constrained")
    for ax, (name, prior) in zip(axes[:, 0], DRAWN.items(), strict=True):
        w = prior.sample(random.key_of(seed, "structure"), (SIZE, SIZE, 1, 8))
        ax.imshow(tiles(np.asarray(w)), cmap="RdBu_r", vmin=-1, vmax=1)
        ax.set_title(f"drawn: {name}")
    for ax, name in zip(axes[:, 1], CONVOLUTIONS, strict=True):
        w = np.asarray(models[name.replace(" ", "_")].layers[1].kernel.mean)
        strongest = np.argsort(-np.abs(w).sum((0, 1, 2)))
        shown = ax.imshow(tiles(w[..., strongest]), cmap="RdBu_r", vmin=-1, vmax=1)
        ax.set_title(f"learned, the strongest eight means: {name}")
    for ax in axes.flat:
        ax.set(xticks=[], yticks=[])
    figure.colorbar(shown, ax=axes, shrink=0.6, label="weight, of the filter's largest")
    return figure


def groups(models: Mapping[str, keras.Model]) -> Figure:
    """The scales of filters and of gates, medians and 95 % of q(s)."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4), layout="constrained")
    layer = models["scale_of_each_filter"].layers[1]
    m, v = (np.ravel(part) for part in log_scale(layer.prior))
    order, places = np.argsort(-m), np.arange(1, FILTERS + 1)
    interval(left, places, np.exp(m[order]), v[order], "its scale s, median and 95 %")
    left.plot(places, sizes(layer)[order], "s", color="C0", mfc="none", label="size of its weights")
    independent = np.sort(sizes(models["independent"].layers[1]))[::-1]
    left.plot(places, independent, "x", color="C1", label="size under the independent prior")
    left.set(xlabel="filter, in the order of s", yscale="log", title="a scale for each filter")
    left.set_ylabel("s, and root mean square of E[w]")
    for i, (name, (median, stddev)) in enumerate(gate_scales(models["lstm"]).items()):
        interval(right, np.arange(4) + 0.2 * i - 0.1, median, stddev, f"{name} kernel")
    right.set_xticks(range(4), GATES)
    right.set(xlabel="gate", ylabel="s, median and 95 %", title="a scale for each gate of the LSTM")
    for ax in (left, right):
        ax.legend(fontsize=8)
    return figure


def sizes(layer: BayesConv2D) -> np.ndarray:
    """The root mean square of the weights' means, of each filter, shape (filters,)."""
    return np.sqrt(np.mean(np.square(layer.kernel.mean), axis=(0, 1, 2)))


def log_scale(prior: Horseshoe) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of log (tau lambda) of each group."""
    local, overall = prior.local_posterior, prior.global_posterior
    variance = np.square(local.stddev) + np.square(overall.stddev)
    return np.asarray(local.mean) + np.asarray(overall.mean), np.sqrt(variance)


def interval(ax: Axes, x: np.ndarray, median: np.ndarray, stddev: np.ndarray, label: str) -> None:
    """A log-normal's median and 95 %."""
    ends = median * np.abs(np.exp([-2 * stddev, 2 * stddev]) - 1)
    ax.errorbar(x, median, ends, fmt="o", capsize=3, label=label)

"""Sparsity: which priors leave few weights and pull the others to zero.

A linear regression of 80 points on 100 inputs, where 5 count: a normal prior takes as much from
those as from noise. Under the horseshoe, noise is pulled down and signals are left alone. Laplace's
prior, whose mode is sparse, has a posterior that is not (the lecture's caution). And the digits:
how many weights of 784-50-10 can be removed, those of least |mu| / sigma first, before it errs.
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
from tfbdl.likelihoods import Normal as NormalLikelihood
from tfbdl.posteriors import MeanFieldNormal
from tfbdl.priors import Horseshoe, Laplace, Normal, Prior
from tutorials import classifiers, image_data
from tutorials.priors.run import CLASSIFICATION, REGRESSION, Run

N, INPUTS, NOISE = 80, 100, 0.5
SIGNALS = np.array([2.0, -2.0, 1.5, -1.5, 1.0])
EPOCHS, STEPS_AN_EPOCH = 60, 50
"""Epochs of the regression, and steps of each."""
FRACTIONS = (0.0, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998)
"""Fractions of the weights removed."""

PRIORS: dict[str, Callable[[], Prior]] = {
    "normal": lambda: Normal(0.3, trainable=True),
    "Laplace": lambda: Laplace(0.2, trainable=True),
    "horseshoe": lambda: Horseshoe(0.1),
}
"""The scales of all three are learned."""


def regression(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs (N, 100), targets (N, 1) and the weights (100,), the first of which are `SIGNALS`."""
    generator = np.random.default_rng(seed)
    x = generator.standard_normal((N, INPUTS))
    w = np.concatenate([SIGNALS, np.zeros(INPUTS - len(SIGNALS))])
    y = x @ w + NOISE * generator.standard_normal(N)
    return x.astype("float32"), y[:, None].astype("float32"), w


def linear(prior: Prior, seed: int) -> keras.Model:
    keras.utils.set_random_seed(seed)
    layer = BayesDense(
        1,
        num_data=N,
        prior=prior,
        estimator="local_reparameterization",
        use_bias=False,
        seed=seed,
    )
    model = keras.Sequential([keras.Input((INPUTS,)), layer])
    schedule = keras.optimizers.schedules.CosineDecay(3e-2, EPOCHS * STEPS_AN_EPOCH)
    model.compile(keras.optimizers.Adam(schedule), NormalLikelihood(NOISE))
    return model


def classifier(prior: Prior, args: argparse.Namespace) -> keras.Model:
    """784-50-10; the prior is that of the first layer's weights."""
    keras.utils.set_random_seed(args.seed)

    def layer(units: int, activation: str | None, prior: float | Prior, seed: int) -> BayesDense:
        return BayesDense(
            units,
            activation,
            num_data=args.N,
            prior=prior,
            bias_prior=1.0,
            posterior=MeanFieldNormal(keras.initializers.Constant(-4.0)),
            estimator="local_reparameterization",
            seed=seed,
        )

    layers = [layer(50, "relu", prior, args.seed), layer(10, None, 1.0, args.seed + 1)]
    model = keras.Sequential([keras.Input((784,)), *layers])
    steps = classifiers.num_steps(args)
    schedule = keras.optimizers.schedules.CosineDecay(1e-2, steps)
    return classifiers.compiled(model, keras.optimizers.Adam(schedule))


def runs(args: argparse.Namespace) -> dict[str, Run]:
    x, y, _ = regression(args.seed)
    data = image_data.chosen(args)
    runs = {}
    for name, prior in PRIORS.items():

        def of_regression(prior: Callable[[], Prior] = prior) -> keras.Model:
            return linear(prior(), args.seed)

        def of_digits(prior: Callable[[], Prior] = prior) -> keras.Model:
            return classifier(prior(), args)

        runs[f"regression_{name}"] = Run(of_regression, x, y, EPOCHS, N, REGRESSION, STEPS_AN_EPOCH)
        runs[f"digits_{name}"] = Run(
            of_digits, data.x_train, data.y_train, args.n_epochs, args.batch_size, CLASSIFICATION
        )
    return runs


def measure(args: argparse.Namespace, models: Mapping[str, keras.Model]) -> dict[str, Any]:
    rows: dict[str, dict[str, Any]] = {}
    x, y, w = regression(args.seed)
    data = image_data.chosen(args)
    signal = w != 0
    for name, model in models.items():
        if name.startswith("regression"):
            error = np.ravel(model.layers[0].kernel.mean) - w
            rows[name] = {
                "elbo": tfbdl.elbo(model, x, y, 10 * args.S, seed=args.seed).elbo,
                "error of signals": float(np.sqrt(np.mean(error[signal] ** 2))),
                "error of zeros": float(np.sqrt(np.mean(error[~signal] ** 2))),
            }
        else:
            p = tfbdl.predict(model, data.x_test, args.S, seed=args.seed, verbose=0).mean
            bound = tfbdl.elbo(model, data.x_train, data.y_train, args.S, seed=args.seed)
            rows[name] = {"elbo": bound.elbo, "acc": float(np.mean(p.argmax(-1) == data.y_test))}
            rows[name] |= {
                f"acc, {100 * fraction:g} % removed": accuracy(tfbdl.prune(model, fraction), data)
                for fraction in FRACTIONS
            }
    return rows


def accuracy(model: keras.Model, data: ImageData) -> float:
    """The accuracy at the mean weights, on the test images."""
    return float(np.mean(model.predict(data.x_test, verbose=0).argmax(-1) == data.y_test))


def figures(
    args: argparse.Namespace, models: Mapping[str, keras.Model], rows: Mapping[str, dict[str, Any]]
) -> dict[str, Figure]:
    return {
        "sparse_regression": estimates(args.seed, models),
        "sparse_digits": digits(models, rows),
    }


def estimates(seed: int, models: Mapping[str, keras.Model]) -> Figure:
    """The posterior of each weight of the regression beside the truth."""
    *_, w = regression(seed)
    figure, axes = plt.subplots(
        1, len(PRIORS), figsize=(13, 3.8), layout="constrained", sharey=True, squeeze=False
    )
    places = np.arange(1, INPUTS + 1)
    for ax, name in zip(axes[0], PRIORS, strict=True):
        q = models[f"regression_{name}"].layers[0].kernel
        mu, sigma = np.ravel(q.mean), np.ravel(q.stddev)
        ax.errorbar(places, mu, 2 * sigma, fmt="o", markersize=2, linewidth=0.7, label="q(w), 95 %")
        ax.plot(places, w, "k_", markersize=5, label="truth")
        ax.set(title=f"{name} prior", xlabel="input")
    axes[0, 0].set_ylabel("its weight w")
    axes[0, 0].legend(fontsize=8)
    return figure


def digits(models: Mapping[str, keras.Model], rows: Mapping[str, dict[str, Any]]) -> Figure:
    """Accuracy against the weights that are left, and how each pixel's weights are used."""
    ratios = (1.5, *(1 for _ in PRIORS))
    figure, axes = plt.subplots(
        1, len(ratios), figsize=(14, 3.6), layout="constrained", width_ratios=ratios
    )
    for name in PRIORS:
        row = rows[f"digits_{name}"]
        values = [row[f"acc, {100 * fraction:g} % removed"] for fraction in FRACTIONS]
        axes[0].plot(100 - 100 * np.array(FRACTIONS), values, "o-", markersize=4, label=name)
    axes[0].set(xscale="log", xlabel="weights left (%)", ylabel="accuracy at the mean weights")
    axes[0].invert_xaxis()
    axes[0].legend(fontsize=8)
    for ax, name in zip(axes[1:], PRIORS, strict=True):
        q = models[f"digits_{name}"].layers[0].kernel
        ratio = np.max(np.abs(q.mean) / q.stddev, axis=1)
        image = ax.imshow(ratio.reshape(28, 28), vmin=0, vmax=5, cmap="magma")
        ax.set(title=f"{name} prior", xticks=[], yticks=[])
    label = r"largest $|\mu| / \sigma$ of a pixel's weights"
    figure.colorbar(image, ax=axes[1:], shrink=0.8, label=label)
    return figure

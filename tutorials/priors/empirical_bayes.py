"""Empirical Bayes: the scale of a prior p(w; s) chosen by the evidence, or by the bound on it.

    log p(y | x; s) = log int p(y | x, w) p(w; s) dw  >=  ELBO(q, s).

A model that is linear in its weights, y = phi(x) w + N(0, 0.1^2) with w ~ N(0, s^2 I), has an
evidence in closed form. The bound of a normal q with a full covariance reaches it; that of a
mean-field q lies below. Learned with q (`trainable=True`), s ends where its curve is highest. The
last model is a network, of whose evidence the bound is all we know.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import keras
import matplotlib.pyplot as plt
import numpy as np
import scipy.optimize
import scipy.stats
from matplotlib.figure import Figure

import tfbdl
from tfbdl.data import gapped_sine
from tfbdl.layers import BayesDense
from tfbdl.likelihoods import Normal
from tfbdl.posteriors import FullCovarianceNormal, MeanFieldNormal
from tfbdl.priors import Normal as NormalPrior
from tutorials.priors.run import REGRESSION, Run

NOISE = 0.1
FREQUENCIES = np.arange(1, 4)
STEPS_AN_EPOCH = 50
GRID = (0.25, 0.35, 0.5, 1.0, 2.0, 4.0, 8.0)


def features(x: np.ndarray) -> np.ndarray:
    """1, sin(k x) and cos(k x), shape (N, 7)."""
    waves = np.concatenate([np.sin(FREQUENCIES * x), np.cos(FREQUENCIES * x)], axis=1)
    return np.concatenate([np.ones_like(x), waves], axis=1).astype("float32")


def log_evidence(scale: float, phi: np.ndarray, y: np.ndarray) -> float:
    """Log N(y; 0, s^2 phi phi^T + 0.1^2 I), in nats per data point."""
    phi = phi.astype(float)
    covariance = scale**2 * phi @ phi.T + NOISE**2 * np.eye(len(y))
    return float(scipy.stats.multivariate_normal(cov=covariance).logpdf(np.ravel(y))) / len(y)


def best_scale(phi: np.ndarray, y: np.ndarray) -> float:
    """The scale of highest evidence."""
    optimum = scipy.optimize.minimize_scalar(
        lambda log_s: -log_evidence(np.exp(log_s), phi, y), bounds=(-3, 4), method="bounded"
    )
    return float(np.exp(optimum.x))


class Model(NamedTuple):
    """The model of one curve.

    Attributes:
        label: the label of the curve.
        num_data: N.
        steps: training steps, `STEPS_AN_EPOCH` an epoch.
        inputs: what it is given for x.
        layers: makes them, with the prior they share.
    """

    label: str
    num_data: int
    steps: int
    inputs: Callable[[np.ndarray], np.ndarray]
    layers: Callable[[NormalPrior, int, int], list[BayesDense]]


def linear(
    posterior: type[FullCovarianceNormal | MeanFieldNormal],
) -> Callable[[NormalPrior, int, int], list[BayesDense]]:
    def layers(prior: NormalPrior, num_data: int, seed: int) -> list[BayesDense]:
        q = posterior(keras.initializers.Constant(-3.0))
        return [
            BayesDense(1, num_data=num_data, prior=prior, posterior=q, use_bias=False, seed=seed)
        ]

    return layers


def network(prior: NormalPrior, num_data: int, seed: int) -> list[BayesDense]:
    """1-8-1 with tanh; all weights and biases share the scale."""
    q = MeanFieldNormal(keras.initializers.Constant(-3.0))
    common = {
        "num_data": num_data,
        "prior": prior,
        "posterior": q,
        "estimator": "local_reparameterization",
        "kernel_initializer": keras.initializers.RandomNormal(stddev=1.0),
        "bias_initializer": keras.initializers.RandomNormal(stddev=1.0),
    }
    return [BayesDense(8, "tanh", seed=seed, **common), BayesDense(1, seed=seed + 1, **common)]


MODELS = {
    "full": Model(
        "linear model, full covariance", 20, 3000, features, linear(FullCovarianceNormal)
    ),
    "mean_field": Model("linear model, mean field", 20, 3000, features, linear(MeanFieldNormal)),
    "network": Model("1-8-1, mean field", 100, 10_000, lambda x: x, network),
}


def compiled(name: str, scale: float, trainable: bool, seed: int) -> keras.Model:
    keras.utils.set_random_seed(seed)
    of = MODELS[name]
    layers = of.layers(NormalPrior(scale, trainable=trainable), of.num_data, seed)
    width = of.inputs(np.zeros((1, 1))).shape[1]
    model = keras.Sequential([keras.Input((width,)), *layers])
    schedule = keras.optimizers.schedules.CosineDecay(3e-2, of.steps)
    model.compile(keras.optimizers.Adam(schedule), Normal(NOISE))
    return model


def runs(args: argparse.Namespace) -> dict[str, Run]:
    """Each model with its scale fixed on a grid, and learned from 1 on."""
    runs = {}
    for name, of in MODELS.items():
        x, y = gapped_sine(of.num_data, args.seed)
        for scale in (*GRID, None):

            def model(name: str = name, scale: float | None = scale) -> keras.Model:
                return compiled(name, scale or 1.0, scale is None, args.seed)

            key = f"{name}_learned" if scale is None else f"{name}_{scale:g}"
            runs[key] = Run(
                model,
                of.inputs(x),
                y,
                of.steps // STEPS_AN_EPOCH,
                of.num_data,
                REGRESSION,
                STEPS_AN_EPOCH,
            )
    return runs


def measure(args: argparse.Namespace, models: Mapping[str, keras.Model]) -> dict[str, Any]:
    """Scales and bounds, in nats per data point."""
    rows = {}
    for key, model in models.items():
        of = MODELS[key.rpartition("_")[0]]
        x, y = gapped_sine(of.num_data, args.seed)
        phi = of.inputs(x)
        rows[key] = {
            "scale": float(model.layers[0].prior.scale),
            "elbo": tfbdl.elbo(model, phi, y, 10 * args.S, seed=args.seed).elbo,
        }
        if not key.startswith("network"):
            rows[key]["log evidence"] = log_evidence(rows[key]["scale"], phi, y)
    x, y = gapped_sine(MODELS["full"].num_data, args.seed)
    phi = features(x)
    best = best_scale(phi, y)
    rows["evidence"] = {"scale": best, "log evidence": log_evidence(best, phi, y)}
    return rows


def figures(
    args: argparse.Namespace, models: Mapping[str, keras.Model], rows: Mapping[str, dict[str, Any]]
) -> dict[str, Figure]:
    titles = ["a linear model of 7 weights", "a network of 25 weights"][: 1 + ("network" in MODELS)]
    figure, row = plt.subplots(
        1, len(titles), figsize=(12, 4.5), layout="constrained", squeeze=False
    )
    axes = row[0]
    x, y = gapped_sine(MODELS["full"].num_data, args.seed)
    line = np.geomspace(0.2, 10, 100)
    evidence = [log_evidence(s, features(x), y) for s in line]
    axes[0].plot(line, evidence, "k", linewidth=1, label="log evidence, exact")
    for i, (name, of) in enumerate(MODELS.items()):
        ax = axes[int(name == "network")]
        points = [rows[key] for key in rows if key.startswith(f"{name}_") and "learned" not in key]
        ax.plot(
            [row["scale"] for row in points],
            [row["elbo"] for row in points],
            "o",
            color=f"C{i}",
            markersize=5,
            label=f"{of.label}: s fixed",
        )
        learned = rows[f"{name}_learned"]
        label = f"s learned: {learned['scale']:.2f}"
        ax.plot(learned["scale"], learned["elbo"], "*", color=f"C{i}", markersize=14, label=label)
    for ax, title in zip(axes, titles, strict=True):
        ax.set(
            title=title, xscale="log", xlabel="scale s of the prior", ylabel="nats per data point"
        )
        ax.set_xticks(GRID, [f"{s:g}" for s in GRID])
        ax.xaxis.minorticks_off()
        ax.legend(fontsize=8)
    return {"empirical_bayes": figure}

"""Automatic relevance determination: a scale for the weights of each input (MacKay 1994).

    s_i^-2 ~ Gamma(1/2, 0.005),    w_ij ~ N(0, s_i^2),

with a posterior over s_i that is learned with the weights. Inputs that say nothing about y end with
small scales. Two regressions: one whose relevant inputs are known, and the strength of concrete
(UCI), to whose eight inputs ten columns of noise are added.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import keras
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

import tfbdl
from tfbdl.data import RegressionData, uci
from tfbdl.layers import BayesDense, LearnedScale
from tfbdl.likelihoods import Normal
from tfbdl.posteriors import MeanFieldNormal
from tutorials.priors.run import REGRESSION, Run

PRIORS: dict[str, float | str] = {"normal": 1.0, "ARD": "ard"}
EPOCHS = {"made": 100, "concrete": 60}
REPEATS = 10
"""Passes over the data an epoch."""
NOISE_INPUTS = 10
CONCRETE = (
    "cement",
    "slag",
    "fly ash",
    "water",
    "superplasticizer",
    "coarse aggregate",
    "fine aggregate",
    "age",
)


class Data(NamedTuple):
    """A regression with inputs of mean 0 and variance 1, and so the training targets.

    Attributes:
        x: training inputs, shape (N, D).
        y: training targets, shape (N, 1).
        x_test: shape (M, D).
        y_test: shape (M, 1), scaled as the training targets.
        unit: the standard deviation of the training targets before they were scaled.
        inputs: names of the D inputs.
        relevant: how many of the first inputs are not added noise.
    """

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    unit: float
    inputs: tuple[str, ...]
    relevant: int


def made(seed: int) -> Data:
    """The sum y = sin(2 x_1) + x_2 + N(0, 0.1^2) of the first two of five inputs."""
    generator = np.random.default_rng(seed)
    x = generator.standard_normal((1300, 5))
    y = np.sin(2 * x[:, :1]) + x[:, 1:2] + 0.1 * generator.standard_normal((1300, 1))
    names = tuple(f"x{i + 1}" for i in range(5))
    return scaled(RegressionData(x[:300], y[:300], x[300:], y[300:]), names, 2)


def concrete(seed: int) -> Data:
    """The first published split, with inputs drawn from N(0, 1) behind the eight of the file."""
    x, y, x_test, y_test = uci("concrete")
    generator = np.random.default_rng(seed)
    x, x_test = (
        np.concatenate([part, generator.standard_normal((len(part), NOISE_INPUTS))], axis=1)
        for part in (x, x_test)
    )
    names = (*CONCRETE, *(f"noise {i + 1}" for i in range(NOISE_INPUTS)))
    return scaled(RegressionData(x, y, x_test, y_test), names, len(CONCRETE))


def scaled(split: RegressionData, inputs: tuple[str, ...], relevant: int) -> Data:
    """All by the means and standard deviations of the training examples."""
    x, y, x_test, y_test = split
    mean, stddev, centre, unit = x.mean(0), x.std(0), y.mean(), y.std()
    arrays = ((x - mean) / stddev, (y - centre) / unit, (x_test - mean) / stddev, y_test - centre)
    x, y, x_test, y_test = (array.astype("float32") for array in arrays)
    return Data(x, y, x_test, y_test / unit, float(unit), inputs, relevant)


DATA: dict[str, Callable[[int], Data]] = {"made": made, "concrete": concrete}


def network(prior: float | str, data: Data, steps: int, seed: int) -> keras.Model:
    """D-50-1 with tanh, and a noise that is learned."""
    keras.utils.set_random_seed(seed)

    def layer(units: int, activation: str | None, prior: float | str, seed: int) -> BayesDense:
        return BayesDense(
            units,
            activation,
            num_data=len(data.x),
            prior=prior,
            posterior=MeanFieldNormal(keras.initializers.Constant(-5.0)),
            estimator="local_reparameterization",
            seed=seed,
        )

    layers = [layer(50, "tanh", prior, seed), layer(1, None, 1.0, seed + 1), LearnedScale(0.5)]
    model = keras.Sequential([keras.Input((len(data.inputs),)), *layers])
    schedule = keras.optimizers.schedules.CosineDecay(1e-2, steps)
    model.compile(keras.optimizers.Adam(schedule), Normal("predicted"))
    return model


def runs(args: argparse.Namespace) -> dict[str, Run]:
    """Each regression under each prior; concrete only with files, and so not with `digits`."""
    runs = {}
    for name, epochs in EPOCHS.items():
        if name == "concrete" and args.data == "digits":
            continue
        data = DATA[name](args.seed)
        steps = epochs * (REPEATS * len(data.x) // 100)
        for family, prior in PRIORS.items():

            def model(
                prior: float | str = prior, data: Data = data, steps: int = steps
            ) -> keras.Model:
                return network(prior, data, steps, args.seed)

            runs[f"{name}_{family}"] = Run(model, data.x, data.y, epochs, 100, REGRESSION, REPEATS)
    return runs


def sizes(model: keras.Model) -> np.ndarray:
    """The root mean square of the weights' means, of each input, shape (D,)."""
    return np.sqrt(np.mean(np.square(model.layers[0].kernel.mean), axis=1))


def measure(args: argparse.Namespace, models: Mapping[str, keras.Model]) -> dict[str, Any]:
    """What is left of the inputs that are noise, and errors in units of y."""
    rows = {}
    for name, model in models.items():
        data = DATA[name.split("_")[0]](args.seed)
        size = sizes(model)
        prediction = tfbdl.predict(model, data.x_test, args.S, seed=args.seed, verbose=0)
        density = tfbdl.log_predictive_density(
            model, data.x_test, data.y_test, args.S, seed=args.seed
        )
        rows[name] = {
            "elbo": tfbdl.elbo(model, data.x, data.y, args.S, seed=args.seed).elbo
            - np.log(data.unit),
            "test log density": float(density.mean()) - np.log(data.unit),
            "test RMSE": data.unit * float(np.sqrt(np.mean((prediction.mean - data.y_test) ** 2))),
            "weights of relevant inputs": float(np.median(size[: data.relevant])),
            "weights of noise": float(np.median(size[data.relevant :])),
        }
    return rows


def figures(
    args: argparse.Namespace, models: Mapping[str, keras.Model], rows: Mapping[str, dict[str, Any]]
) -> dict[str, Figure]:
    names = list(dict.fromkeys(name.split("_")[0] for name in models))
    figure, axes = plt.subplots(
        len(names), 2, figsize=(12, 4 * len(names)), layout="constrained", squeeze=False
    )
    for row, name in zip(axes, names, strict=True):
        data = DATA[name](args.seed)
        places = np.arange(len(data.inputs))
        for i, family in enumerate(PRIORS):
            model = models[f"{name}_{family}"]
            row[0].bar(places + 0.4 * i - 0.2, sizes(model), 0.4, label=f"{family} prior")
        row[0].set_ylabel("root mean square of E[w]")
        q = models[f"{name}_ARD"].layers[0].prior.scale_posterior
        m, v = np.ravel(q.mean), np.ravel(q.stddev)
        row[1].errorbar(
            places, np.exp(m), np.exp(m) * np.abs(np.exp([-2 * v, 2 * v]) - 1), fmt="o", capsize=3
        )
        row[1].set(ylabel="scale s of ARD, median and 95 %", yscale="log")
        for ax in row:
            ax.axvspan(data.relevant - 0.5, len(places) - 0.5, color="0.93", zorder=-1)
            turn = {"rotation": 45, "ha": "right"} if len(places) > 5 else {}
            ax.set_xticks(places, data.inputs, **turn)
            ax.set_title({"made": "y = sin(2 x1) + x2 + noise", "concrete": "concrete"}[name])
            ax.set_xlim(-0.5, len(places) - 0.5)
        row[0].legend(fontsize=8, title="grey: inputs that are noise", title_fontsize=8)
    return {"relevance": figure}

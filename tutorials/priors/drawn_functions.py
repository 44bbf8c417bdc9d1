"""Functions of a 1-50-50-1 network under each prior, before there are data.

The weights and biases of the first layer are N(0, 5^2), so that units turn all along the line; the
priors are those of the other layers. Under all of finite variance functions look alike: a unit adds
up many small numbers, and the law of the sum forgets theirs. Under those without a variance, few
weights of a layer are far larger than all others and make the function alone, steeply where their
units turn.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import keras
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

import tfbdl
from tfbdl.layers import BayesDense
from tutorials.priors.families import FAMILIES, HEAVY

LINE = np.linspace(-2, 2, 401, dtype="float32")[:, None]
SHOWN = 8


def network(family: str, seed: int) -> keras.Model:
    """1-50-50-1 whose weights are drawn from their priors."""
    common: dict[str, Any] = {"num_data": 1, "posterior": "prior"}
    layers = [
        BayesDense(50, "tanh", prior=5.0, seed=seed, **common),
        BayesDense(50, "tanh", prior=FAMILIES[family](50), bias_prior=1.0, seed=seed + 1, **common),
        BayesDense(1, prior=FAMILIES[family](50), use_bias=False, seed=seed + 2, **common),
    ]
    return keras.Sequential([keras.Input((1,)), *layers])


def draw(family: str, num_samples: int, seed: int) -> np.ndarray:
    """Functions on `LINE`, shape (S, n)."""
    model = network(family, seed)
    prediction = tfbdl.predict(model, LINE, num_samples, seed=seed, return_samples=True, verbose=0)
    return prediction.samples[..., 0]


def steepest_share(f: np.ndarray) -> np.ndarray:
    """The share of the total variation that is in the steepest hundredth of `LINE`, shape (S,)."""
    steps = np.sort(np.abs(np.diff(f)), axis=-1)
    return steps[:, -(steps.shape[1] // 100) :].sum(-1) / steps.sum(-1)


def measure(args: argparse.Namespace, models: Mapping[str, keras.Model]) -> dict[str, Any]:
    """The medians over S functions of |f(0)| and of the share of the steepest hundredth."""
    rows = {}
    for family in FAMILIES:
        f = draw(family, args.S, args.seed)
        rows[family] = {
            "median of |f(0)|": float(np.median(np.abs(f[:, f.shape[1] // 2]))),
            "variation in the steepest 1 %": float(np.median(steepest_share(f))),
        }
    return rows


def figures(
    args: argparse.Namespace, models: Mapping[str, keras.Model], rows: Mapping[str, dict[str, Any]]
) -> dict[str, Figure]:
    figure, axes = plt.subplots(2, 4, figsize=(13, 6), layout="constrained", sharex=True)
    for ax, family in zip(axes.flat, FAMILIES, strict=False):
        ax.plot(LINE, draw(family, SHOWN, args.seed).T, linewidth=1)
        title = (
            f"{family}: no variance, scale 1/H" if family in HEAVY else f"{family}: variance 1/H"
        )
        ax.set_title(title, fontsize=10)
        if family not in HEAVY:
            ax.set_ylim(-3, 3)
    axes[1, 3].axis("off")
    for ax in axes[:, 0]:
        ax.set_ylabel("f(x)")
    for ax in (*axes[1, :3], axes[0, 3]):
        ax.set_xlabel("x")
    axes[0, 3].xaxis.set_tick_params(labelbottom=True)
    figure.suptitle(
        f"{SHOWN} functions of 1-50-50-1 networks (tanh) with N(0, 5²) in the first layer, "
        "and the prior named in the others"
    )
    return {"functions": figure}

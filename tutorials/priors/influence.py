"""Densities, tails and influence functions of the priors, side by side.

The influence of a weight on the log prior, d log p(w) / dw, is the force that pulls it to zero.
Under the normal prior it grows with the weight without end (weight decay); under Laplace's it is
the same everywhere; under the heavy-tailed ones it is bounded and falls off: a weight that the data
make large is left alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

import keras
import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf
from matplotlib.figure import Figure

from tfbdl.priors import Horseshoe
from tutorials.priors.families import DISCRETE, FAMILIES

DENSITIES = [name for name in FAMILIES if name not in DISCRETE]
WEIGHTS = (0.1, 1.0, 3.0, 10.0, 100.0)
"""Where the influence is tabled."""


def log_density(family: str) -> Callable[[tf.Tensor], tf.Tensor]:
    """Log p(w) of a unit with one input, with the scales of the horseshoe integrated out."""
    prior = FAMILIES[family](1)
    return prior.marginal_log_prob if isinstance(prior, Horseshoe) else prior.log_prob


def influence(family: str, w: Any) -> np.ndarray:
    """The derivative d log p(w) / dw at each w, by automatic differentiation."""
    w = tf.constant(w, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(w)
        log_p = log_density(family)(w)
    return tape.gradient(log_p, w).numpy()


def measure(args: argparse.Namespace, models: Mapping[str, keras.Model]) -> dict[str, Any]:
    """The influence at `WEIGHTS`."""
    return {
        family: {
            f"w = {w:g}": float(pull)
            for w, pull in zip(WEIGHTS, influence(family, WEIGHTS), strict=True)
        }
        for family in DENSITIES
    }


def figures(
    args: argparse.Namespace, models: Mapping[str, keras.Model], rows: Mapping[str, dict[str, Any]]
) -> dict[str, Figure]:
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
    near, far = np.linspace(-4, 4, 800), np.geomspace(1e-2, 100, 400)
    for i, family in enumerate(DENSITIES):
        log_p, style = log_density(family), {"color": f"C{i}", "label": family, "linewidth": 1.5}
        axes[0].plot(near, np.exp(log_p(tf.constant(near))), **style)
        axes[1].plot(far, log_p(tf.constant(far)), **style)
        axes[2].loglog(far, -influence(family, far), **style)
    axes[0].set(title="density", xlabel="w", ylabel="p(w)", ylim=(0, 1.2))
    axes[1].set(title="tails", xlabel="w", ylabel="log p(w) (nats)", xscale="log", ylim=(-15, 4))
    axes[2].set(title="influence: the pull to zero", xlabel="w", ylabel="- d log p(w) / dw")
    axes[1].legend(fontsize=8)
    return {"influence": figure}

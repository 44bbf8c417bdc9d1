r"""Priors of a whole layer, and of all layers together: the same single weights, other functions.

A 1-H-1 network of tanh units that turn at fixed places all along the line, f(x) = sum_j v_j h_j(x),
under three priors that give each v_j the variance 1 / H:

    of each weight    v_j ~ N(0, 1 / H)
    of the layer      v ~ N(0, S),  S_ij = exp(-|c_i - c_j|^2 / 2 r^2) / H,  c_j where unit j turns
    of all weights    w = (v, c0) ~ t_nu(0, diag): one scale of all weights of all layers, which is
                      unknown, so that functions are small or large as a whole

The second says that neighbours act together: f is smoother, and larger. The third is a joint prior
of all layers, which no product of priors of single layers is; `LogPosterior` takes it as a function
of all weights. After data each is a posterior, here by NUTS.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping
from typing import Any

import keras
import matplotlib.pyplot as plt
import numpy as np
import scipy.stats
import tensorflow as tf
from matplotlib.figure import Figure

import tfbdl
from tfbdl.data import gapped_sine
from tfbdl.inference import MCMC, LogPosterior
from tfbdl.likelihoods import Normal as NormalLikelihood
from tfbdl.priors import MultivariateNormal

UNITS = 40
CENTRES = np.linspace(-4, 4, UNITS)
RANGE = 0.7
DEGREES = 3.0
NOISE = 0.1
POINTS = 20
LINE = np.linspace(-4.5, 4.5, 181, dtype="float32")[:, None]
STEPS = 500
"""Steps of each chain's warm-up, and after it."""


def units(x: np.ndarray) -> np.ndarray:
    """The hidden layer, whose weights are known: tanh(2 (x - c_j)) of x (n, 1), shape (n, H)."""
    return np.tanh(2.0 * (x - CENTRES)).astype("float32")


def network() -> keras.Model:
    """The last layer: V and the constant are the weights."""
    return keras.Sequential([keras.Input((UNITS,)), keras.layers.Dense(1)])


def layer_covariance() -> np.ndarray:
    """S, and a variance of 1 for the constant, shape (H + 1, H + 1)."""
    apart = CENTRES[:, None] - CENTRES
    s = np.exp(-0.5 * (apart / RANGE) ** 2) + 1e-4 * np.eye(UNITS)
    return np.block([[s / UNITS, np.zeros((UNITS, 1))], [np.zeros((1, UNITS)), np.eye(1)]])


def single_covariance() -> np.ndarray:
    """Independent weights of the same variances."""
    return np.diag(np.diagonal(layer_covariance()))


def of_all_layers(theta: tf.Tensor) -> tf.Tensor:
    """Log density of the multivariate t with the variances of the others, shape ()."""
    size = UNITS + 1
    scale = (DEGREES - 2) / DEGREES * np.diagonal(single_covariance())
    square = tf.reduce_sum(tf.square(theta) / tf.constant(scale, theta.dtype))
    constant = (
        math.lgamma(0.5 * (DEGREES + size))
        - math.lgamma(0.5 * DEGREES)
        - 0.5 * size * math.log(DEGREES * math.pi)
        - 0.5 * float(np.log(scale).sum())
    )
    return constant - 0.5 * (DEGREES + size) * tf.math.log1p(square / DEGREES)


def normal(covariance: np.ndarray) -> Callable[[tf.Tensor], tf.Tensor]:
    """Log density of N(0, covariance)."""
    prior = MultivariateNormal(covariance)
    prior.attach((len(covariance),))
    return prior.log_prob


PRIORS: dict[str, Callable[[], Callable[[tf.Tensor], tf.Tensor]]] = {
    "of each weight": lambda: normal(single_covariance()),
    "of the layer": lambda: normal(layer_covariance()),
    "of all layers": lambda: of_all_layers,
}


def sampled(name: str, number: int, seed: int) -> np.ndarray:
    """Weights drawn from the prior, shape (number, H + 1)."""
    generator = np.random.default_rng(seed)
    if name == "of all layers":
        shape = (DEGREES - 2) / DEGREES * single_covariance()
        return scipy.stats.multivariate_t(shape=shape, df=DEGREES, seed=generator).rvs(number)
    covariance = layer_covariance() if name == "of the layer" else single_covariance()
    return generator.multivariate_normal(np.zeros(UNITS + 1), covariance, number)


def functions(theta: np.ndarray) -> np.ndarray:
    """Functions of weights (S, H + 1) on `LINE`, shape (S, n)."""
    return theta[:, :UNITS] @ units(LINE).T + theta[:, UNITS:]


def chains(name: str, seed: int) -> MCMC:
    """The posterior under a prior."""
    x, y = gapped_sine(POINTS, seed)
    target = LogPosterior(
        network(), PRIORS[name](), units(x), y, likelihood=NormalLikelihood(NOISE)
    )
    mcmc = MCMC(
        target,
        kernel="nuts",
        num_warmup=STEPS,
        num_samples=STEPS,
        num_chains=4,
        initial=sampled(name, 4, seed).astype("float32"),
        seed=seed,
    )
    return mcmc.fit()


def measure(args: argparse.Namespace, models: Mapping[str, keras.Model]) -> dict[str, Any]:
    """How drawn functions differ in size, and how rough they are; of posteriors: R-hat."""
    rows = {}
    for name in PRIORS:
        f = functions(sampled(name, 4000, args.seed))
        size = f.std(1)
        rough = np.abs(np.diff(f, 2)).mean(1) / size
        posterior = chains(name, args.seed)
        spread = tfbdl.predict(posterior, units(LINE), 1000, seed=0, verbose=0).epistemic_stddev[
            :, 0
        ]
        at = np.abs(LINE[:, 0])
        rows[name] = {
            "size, 95 % over 5 %": float(np.divide(*np.quantile(size, [0.95, 0.05]))),
            "roughness, median": float(np.median(rough)),
            "R-hat, largest": float(
                posterior.summary(units(LINE[::20])).quantities["f(x)"].rhat.max()
            ),
            "sd of f at data": float(spread[(at >= 1) & (at <= 3)].mean()),
            "sd of f in the gap": float(spread[at < 1].mean()),
        }
    return rows


def figures(
    args: argparse.Namespace, models: Mapping[str, keras.Model], rows: Mapping[str, dict[str, Any]]
) -> dict[str, Figure]:
    figure, axes = plt.subplots(2, 3, figsize=(12, 6.4), layout="constrained", sharex=True)
    x, y = gapped_sine(POINTS, args.seed)
    for column, name in zip(axes.T, PRIORS, strict=True):
        column[0].plot(LINE, functions(sampled(name, 12, args.seed)).T, linewidth=1)
        column[0].set(title=f"prior {name}", ylim=(-5, 5))
        after = tfbdl.predict(
            chains(name, args.seed), units(LINE), 1000, return_samples=True, verbose=0
        )
        f = after.samples[..., 0]
        column[1].fill_between(
            LINE[:, 0],
            *np.quantile(f, [0.05, 0.95], axis=0),
            color="C0",
            alpha=0.3,
            label="90 % of f",
        )
        column[1].plot(LINE, f[::100].T, color="black", linewidth=0.5, alpha=0.6)
        column[1].plot(x, y, ".", color="C3", label="data")
        column[1].set(xlabel="x", ylim=(-3, 3))
    axes[0, 0].set_ylabel("f(x), before data")
    axes[1, 0].set_ylabel("f(x), after data")
    axes[1, 0].legend(fontsize=8, loc="lower left")
    figure.suptitle("each single weight has the same variance under all three")
    return {"joint": figure}

"""Why the mode is not the posterior: under Laplace's prior it is sparse, and no sample is.

    p(w, y | x) = N(y; x w, sigma^2) prod_i exp(-|w_i| / b) / (2 b)

The mode is the lasso's: where the likelihood pulls a weight with less than 1 / b, it is exactly 0.
It has no probability: the posterior has a density, and the mode is one point of it (the lecture's
caution; Kaban 2007). The data are those of `tutorials.priors.sparsity`.
"""

from __future__ import annotations

import keras
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from tfbdl.inference import HMC, MCMC, rhat
from tfbdl.likelihoods import Normal
from tfbdl.priors import Laplace
from tutorials.posterior_inference.running import Run
from tutorials.priors.sparsity import NOISE, regression

SCALE = 0.1
"""b."""
SMALL = 0.01
"""Below which a weight counts as pruned."""
ITERATIONS = 5000


def mode(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The most probable weights, by steps down the likelihood that are shrunk by the prior's pull.

    Iterative soft thresholding (Daubechies, Defrise, De Mol 2004), in float64.

    Args:
        x: shape (N, D).
        y: shape (N, 1).
    """
    x, y = x.astype(float), np.ravel(y).astype(float)
    step = NOISE**2 / np.linalg.norm(x, 2) ** 2
    w = np.zeros(x.shape[1])
    for _ in range(ITERATIONS):
        down = w + step * x.T @ (y - x @ w) / NOISE**2
        w = np.sign(down) * np.maximum(np.abs(down) - step / SCALE, 0.0)
    return w


def samples(x: np.ndarray, y: np.ndarray, run: Run) -> MCMC:
    """Samples of the posterior, by Hamiltonian Monte Carlo."""
    layer = keras.layers.Dense(1, use_bias=False)
    model = keras.Sequential([keras.Input(x.shape[1:]), layer])
    chains = MCMC(
        model,
        Laplace(SCALE),
        likelihood=Normal(NOISE),
        kernel=HMC(mass_matrix="diagonal"),
        num_warmup=run.chain_steps,
        num_samples=run.chain_steps,
        num_chains=run.num_chains,
        seed=run.seed,
    )
    return chains.fit(x, y, savedir=run.savedir)


def measure(run: Run) -> dict[str, float]:
    """The share of small weights in the mode, in a sample, and in the posterior mean."""
    x, y, _ = regression(run.seed)
    w, chains = mode(x, y), samples(x, y, run)
    return {
        "zeros of the mode": float(np.mean(w == 0)),
        "small in the mode": share(w),
        "small in a sample": share(chains.theta),
        "small in the mean": share(chains.theta.mean(axis=(0, 1))),
        "largest rhat": float(rhat(chains.theta).max()),
    }


def share(w: np.ndarray) -> float:
    """The share of weights below `SMALL`."""
    return float(np.mean(np.abs(w) < SMALL))


def figure(run: Run) -> Figure:
    """The mode beside the posterior of each weight, and the sizes of the weights in order."""
    x, y, truth = regression(run.seed)
    w, theta = mode(x, y), np.asarray(samples(x, y, run).theta)
    theta = theta.reshape(-1, len(w))
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(12, 4.2), layout="constrained", width_ratios=(1.6, 1.0)
    )
    places = np.arange(1, len(w) + 1)
    low, high = np.quantile(theta, (0.05, 0.95), axis=0)
    left.vlines(places, low, high, color="C0", alpha=0.5, linewidth=2, label="90 % of the samples")
    left.plot(places, w, "o", color="C3", markersize=3, label="mode")
    left.plot(places, truth, "k_", markersize=6, label="truth")
    left.set(xlabel="input", ylabel="its weight", title="each weight")
    left.legend(fontsize=8)
    order = np.sort(np.abs(theta), axis=1)[:, ::-1]
    for sizes in order[:: max(len(order) // 20, 1)]:
        right.plot(places, sizes, color="C0", linewidth=0.5, alpha=0.5)
    right.plot([], [], color="C0", linewidth=0.5, label="20 samples")
    mean = np.sort(np.abs(theta.mean(axis=0)))[::-1]
    right.plot(places, mean, color="black", linewidth=1, label="posterior mean")
    sizes = np.sort(np.abs(w))[::-1]
    label = f"mode: {100 * np.mean(w == 0):.0f} % are 0"
    right.plot(places[sizes > 0], sizes[sizes > 0], "o-", color="C3", markersize=3, label=label)
    right.set(yscale="log", ylim=(1e-4, 4), xlabel="rank", ylabel="|weight|")
    right.set_title("weights in the order of their size")
    right.legend(fontsize=8)
    figure.suptitle("under Laplace's prior the mode is sparse; samples of the posterior are not")
    return figure

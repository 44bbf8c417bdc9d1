"""Markov chains and what tells whether they have arrived, at an equal number of steps.

A trajectory of Hamiltonian Monte Carlo takes many gradients; the others take one a step, and
`THINNING` steps a sample in their place. Hidden units can change places and signs without any
change of f: chains that agree on f need not agree on weights.
"""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from tfbdl import plots
from tfbdl.inference import HMC, MALA, MCMC, Langevin, RandomWalk, ess, rhat
from tfbdl.inference.mcmc.kernels import Kernel

THINNING = 100
KERNELS: dict[str, tuple[Kernel, int]] = {
    "HMC": (HMC(), 1),
    "Metropolis-Hastings": (RandomWalk(), THINNING),
    "Langevin, adjusted": (MALA(), THINNING),
    "Langevin, unadjusted": (Langevin(), THINNING),
}
POINTS = np.linspace(-4, 4, 17, dtype="float32")[:, None]
GAP = np.zeros((1, 1), "float32")


def diagnostics(chains: MCMC) -> dict[str, float]:
    """Whether chains agree on functions at `POINTS`, and on weights, and what that took."""
    summary = chains.summary(POINTS)
    weights = [q.rhat for name, q in summary.quantities.items() if name != "f(x)"]
    f = summary.quantities["f(x)"]
    return {
        "acceptance": float(summary.accept_prob.mean()),
        "step size": float(summary.step_size.mean()),
        "rhat of f: largest": float(f.rhat.max()),
        "rhat of weights: largest": float(max(r.max() for r in weights)),
        "ess of f: smallest": float(f.ess_bulk.min()),
        "gradients": float(summary.num_gradients),
    }


def figure(runs: Mapping[str, MCMC]) -> Figure:
    """Traces of f in the gap, and of one weight, kernel by kernel."""
    figure, axes = plt.subplots(
        len(runs), 2, figsize=(13, 2.4 * len(runs)), layout="constrained", squeeze=False
    )
    for row, (name, chains) in zip(axes, runs.items(), strict=True):
        traces = {
            "f(0), in the gap": chains.outputs(GAP)[..., 0, 0],
            "one weight of W": chains.theta[..., 0],
        }
        for ax, (quantity, values) in zip(row, traces.items(), strict=True):
            plots.chains(values, ax)
            ax.set_title(
                f"{name}: R-hat {rhat(values):.2f}, effective sample size {ess(values):.0f}"
            )
            ax.set_ylabel(quantity)
    for ax in axes[:-1].flat:
        ax.set_xlabel("")
    lines, labels = axes.flat[0].get_legend_handles_labels()
    for ax in axes.flat:
        ax.get_legend().remove()
    names = [f"chain {label}" for label in labels]
    figure.legend(lines, names, loc="outside upper center", ncols=len(names), fontsize=8)
    return figure

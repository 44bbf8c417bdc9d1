"""Pictures of Markov chains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tfbdl.plots import checks
from tfbdl.plots.axes import new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def chains(samples: Any, ax: Axes | None = None) -> Axes:
    """Draws the samples of each chain in their order, with R-hat and the effective sample size.

    Chains that agree lie over each other and have no trend; R-hat is then near 1. Look at a
    quantity of the function (an output, the log density), as weights may agree less.

    Args:
        samples: the samples of one quantity, shape (S, C): S samples of each of C chains.
        ax: the axes to draw on; None makes a new pyplot figure.

    Raises:
        ValueError: if they are not so, or S < 4.
    """
    from tfbdl.inference.mcmc.diagnostics import ess, rhat  # noqa: PLC0415

    samples = checks.shaped("samples", samples, "S", "C")
    title = f"R-hat {float(rhat(samples)):.3f}, effective sample size {float(ess(samples)):.0f}"
    ax = new_axes(ax, figsize=(7, 3))
    for c, chain in enumerate(samples.T):
        ax.plot(np.arange(1, len(chain) + 1), chain, linewidth=0.7, alpha=0.8, label=f"{c}")
    ax.set(title=title, xlabel="sample", ylabel="value", xlim=(1, len(samples)))
    ax.legend(title="chain", fontsize=8, loc="upper right", ncols=min(samples.shape[1], 4))
    return ax

"""Posteriors over the weights, before and after training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tfbdl.plots import checks
from tfbdl.plots.axes import new_grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tfbdl.posteriors import Posterior


FARTHEST = 30.0
"""Signal to noise in dB, either way."""


def weight_posteriors(
    posteriors: Mapping[str, Posterior], axes: Sequence[Axes] | np.ndarray | None = None
) -> np.ndarray:
    """Draws, over the weights, their means, standard deviations, and signal to noise ratios.

    The ratio is 10 log10(|mu| / sigma), as in Blundell et al. (2015), figure 5: below 0 dB a
    weight is mostly noise, and pruning starts there. Ratios beyond 30 dB either way stand in the
    last bins.

    Args:
        posteriors: the posteriors by name, as `{"layer 1": layer.kernel}`.
        axes: three axes; None makes a new pyplot figure.

    Raises:
        ValueError: if there are none, or something else.
    """
    checks.not_empty("posteriors", posteriors)
    for name, posterior in posteriors.items():
        if not hasattr(posterior, "mean") or not hasattr(posterior, "stddev"):
            raise ValueError(f"posteriors[{name!r}] must be a built tfbdl.posteriors.Posterior")
    axes = new_grid(axes, 3, figsize=(12, 3.5))
    label = r"signal to noise $|\mu| / \sigma$ (dB)"
    for name, posterior in posteriors.items():
        mu, sigma = np.ravel(posterior.mean), np.ravel(posterior.stddev)
        ratio = 10.0 * np.log10(np.abs(mu) / np.maximum(sigma, 1e-30) + 1e-6)
        if np.any(np.abs(ratio) > FARTHEST):
            label = rf"signal to noise $|\mu| / \sigma$ (dB), last bins: beyond {FARTHEST:g}"
        for ax, values in zip(axes, (mu, sigma, np.clip(ratio, -FARTHEST, FARTHEST)), strict=True):
            ax.hist(values, 80, density=True, histtype="step", label=name)
    axes[0].set_xlabel(r"mean $\mu$ of a weight")
    axes[1].set_xlabel(r"standard deviation $\sigma$ of a weight")
    axes[2].set_xlabel(label)
    axes[0].set_ylabel("density over weights")
    axes[0].legend(fontsize=8)
    return axes

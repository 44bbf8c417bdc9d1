"""Pictures of a VAE's latent space."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from tfbdl.arguments import positive_integer, shown
from tfbdl.memory import require
from tfbdl.plots import checks
from tfbdl.plots.axes import new_axes
from tfbdl.plots.images import image_grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tfbdl.models import VAE


def latent_scatter(points: np.ndarray, labels: np.ndarray, ax: Axes | None = None) -> Axes:
    """Draws points of the plane in the colour of their class.

    Args:
        points: shape (n, 2).
        labels: shape (n,), integers; a legend names them.
        ax: the axes to draw on; None makes a new pyplot figure.

    Raises:
        ValueError: if the arrays are not such.
    """
    points = checks.shaped("points", points, "n", 2)
    labels = checks.shaped("labels", labels, len(points))
    if labels.dtype.kind not in "iu":
        raise ValueError(f"labels has dtype {labels.dtype}; give integers")
    ax = new_axes(ax, figsize=(6, 5.5))
    for label in np.unique(labels):
        mine = points[labels == label]
        ax.scatter(mine[:, 0], mine[:, 1], s=8, color=f"C{label % 10}", label=str(label))
    ax.legend(title="class", markerscale=2, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    return ax


def manifold(vae: VAE, size: int = 20, ax: Axes | None = None) -> Axes:
    """Draws what a VAE with two latent dimensions decodes over the plane.

    Cells are the quantiles of N(0, I), so that each has the same prior probability.

    Args:
        vae: trained on images, or rows of their pixels if they are square; with `latent_dim=2`.
        size: cells a side.
        ax: the axes to draw on; None makes a new pyplot figure.

    Raises:
        ValueError: if `vae` is none, not built, or its latent space no plane, or `size` is out of
            range.
    """
    from scipy.stats import norm  # noqa: PLC0415

    if not hasattr(vae, "latent_dim") or not hasattr(vae, "decode"):
        raise ValueError(f"vae={shown(vae)} must be a tfbdl.models.VAE")
    if not vae.built:
        raise ValueError("vae is not built; fit it, or call it on data, first")
    if vae.latent_dim != 2:
        raise ValueError(f"vae has latent_dim={vae.latent_dim}; a manifold is drawn for 2")
    positive_integer("size", size)
    require(8 * size**2 * math.prod(vae.data_shape), f"size={size}", "take fewer cells")
    z = norm.ppf((np.arange(size) + 0.5) / size)
    grid = np.stack(np.meshgrid(z, z[::-1]), axis=-1).reshape(-1, 2).astype("float32")
    images = np.asarray(vae.decode(grid))
    if images.ndim == 2:
        side = round(images[0].size ** 0.5)
        images = images.reshape(len(images), side, -1)
    ax = new_axes(ax, figsize=(7, 7))
    image_grid(images, size, ax, gap=0)
    marked = [0, size // 4, size // 2, 3 * size // 4, size - 1]
    height, width = images.shape[1:3]
    ax.set_xticks([(i + 0.5) * width for i in marked], [f"{z[i]:.1f}" for i in marked])
    ax.set_yticks([(i + 0.5) * height for i in marked], [f"{z[::-1][i]:.1f}" for i in marked])
    ax.set_xlabel(r"$z_1$")
    ax.set_ylabel(r"$z_2$")
    return ax

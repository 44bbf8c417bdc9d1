"""Images in grids, beside their reconstructions, and with their class distributions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tfbdl.arguments import integer, positive_integer, words
from tfbdl.memory import require
from tfbdl.plots import checks
from tfbdl.plots.axes import new_axes, new_grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def image_grid(images: np.ndarray, columns: int, ax: Axes | None = None, gap: int = 1) -> Axes:
    """Draws images in rows of `columns`: in colour, or black ink on white.

    Args:
        images: shape (n, height, width), or with a last axis of 1 or 3; values in [0, 1].
        columns: images in a row.
        ax: the axes to draw on; None makes a new pyplot figure.
        gap: pixels between images.

    Raises:
        ValueError: if the images are no such array, or `columns` or `gap` is out of its range.
    """
    images = checks.pictures("images", images)
    columns, gap = positive_integer("columns", columns), integer("gap", gap, least=0)
    n, height, width, *colours = images.shape
    rows = -(-n // columns)
    size = 8 * rows * (height + gap) * columns * (width + gap) * math.prod(colours)
    require(size, f"a picture with columns={columns} and gap={gap}", "take fewer")
    shape = rows * (height + gap) - gap, columns * (width + gap) - gap, *colours
    canvas = np.ones(shape) if colours else np.zeros(shape)
    for i, image in enumerate(images):
        top, left = (i // columns) * (height + gap), (i % columns) * (width + gap)
        canvas[top : top + height, left : left + width] = image
    ax = new_axes(ax, figsize=(columns / 2, rows / 2))
    ax.imshow(canvas, cmap="gray_r", vmin=0, vmax=1)
    ax.set_xticks([])
    ax.set_yticks([])
    return ax


def reconstructions(
    original: np.ndarray, reconstructed: np.ndarray, axes: Sequence[Axes] | np.ndarray | None = None
) -> np.ndarray:
    """Draws images on the left and their reconstructions on the right, in equal square grids.

    Args:
        original: shape (n, height, width), or with a last axis of 1 or 3.
        reconstructed: the reconstructions of the images, of the same shape.
        axes: two axes; None makes a new pyplot figure.

    Raises:
        ValueError: if the images are no such arrays.
    """
    original = checks.pictures("original", original)
    reconstructed = checks.pictures("reconstructed", reconstructed)
    checks.shaped("reconstructed", reconstructed, *original.shape)
    axes = new_grid(axes, 2, figsize=(8, 4.3))
    columns = int(np.ceil(np.sqrt(len(original))))
    both = {"original": original, "reconstructed": reconstructed}
    for ax, (title, images) in zip(axes, both.items(), strict=True):
        image_grid(images, columns, ax).set_title(title)
    return axes


def class_distributions(
    images: np.ndarray,
    probabilities: np.ndarray,
    titles: Sequence[str],
    axes: np.ndarray | None = None,
) -> np.ndarray:
    """Draws each image above the distribution, over drawn functions, of its class probabilities.

    A box holds the middle half of the draws, its line the median, the whiskers 5 % to 95 %; the
    dot is the mean over draws, which is the prediction.

    Args:
        images: shape (n, height, width).
        probabilities: shape (S, n, C), the class probabilities of S drawn functions.
        titles: n lines, one over each image.
        axes: array of axes of shape (2, n); None makes a new pyplot figure.

    Returns:
        The axes.

    Raises:
        ValueError: if the arrays are not such, or there are not n titles.
    """
    images = checks.shaped("images", images, "n", "height", "width")
    n = len(images)
    probabilities = checks.shaped("probabilities", probabilities, "S", n, "C")
    checks.in_unit_interval("probabilities", probabilities, ": apply softmax to logits first")
    titles = words("titles", titles, "a line of text for each image")
    if len(titles) != n:
        raise ValueError(f"titles has {len(titles)} lines for {n} images; give one for each")
    classes = probabilities.shape[-1]
    axes = new_grid(axes, 2, n, figsize=(2.1 * n, 4.2), sharey="row")
    for i in range(n):
        image_grid(images[i : i + 1], 1, axes[0, i]).set_title(titles[i], fontsize=9)
        ax = axes[1, i]
        ax.boxplot(
            probabilities[:, i],
            positions=range(classes),
            whis=(5, 95),
            showfliers=False,
            widths=0.6,
            medianprops={"color": "C0"},
        )
        ax.plot(range(classes), probabilities[:, i].mean(0), "o", color="C1", markersize=4)
        ax.set_ylim(-0.03, 1.03)
        ax.set_xticks(range(classes), range(classes), fontsize=7)
        ax.set_xlabel("class")
    axes[1, 0].set_ylabel("probability")
    handles = [
        axes[1, 0].plot([], [], "o", color="C1", markersize=4)[0],
        axes[1, 0].plot([], [], "s", color="black", fillstyle="none")[0],
    ]
    labels = ["mean over drawn functions", "quartiles, median, and 5 % to 95 % of them"]
    axes[0, 0].figure.legend(handles, labels, fontsize=8, ncols=2, loc="outside lower center")
    return axes

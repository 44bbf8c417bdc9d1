"""Maps of uncertainty, of outputs that have a class at each position of an image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tfbdl.arguments import integer, optional, shown
from tfbdl.examples import as_array
from tfbdl.plots import checks
from tfbdl.plots.axes import new_grid
from tfbdl.plots.images import image_grid

if TYPE_CHECKING:
    from tfbdl.predictive import Prediction


def uncertainty_maps(
    images: np.ndarray,
    prediction: Prediction,
    y: np.ndarray | None = None,
    *,
    ignore_class: int | None = None,
    axes: np.ndarray | None = None,
) -> np.ndarray:
    """Draws, in a row for each image, what was predicted at its positions and how surely.

    The columns are the image, its labels if they are given, the predicted class, the entropy of the
    prediction (all uncertainty) and the mutual information (its epistemic part). All rows share the
    colours of a column, whose bar, in nats, stands at its foot. Positions that do not count are
    left blank and set no scale: those whose label is `ignore_class`, and those that
    `prediction.mask` leaves out.

    Args:
        images: shape (n, height, width), or with a last axis of 1 or 3; values in [0, 1].
        prediction: the prediction for the n images, with a mean of shape (n, H, W, C):
            probabilities of C classes, or with C = 1 the probability of the second of two. H and W
            may be smaller than height and width.
        y: integer labels, shape (n, H, W); an axis of length 1 may end them. None for none.
        ignore_class: the label that stands for none.
        axes: array of axes of shape (n, 4), with labels (n, 5); None makes a new pyplot figure.

    Returns:
        The axes.

    Raises:
        ValueError: if shapes do not go together, the prediction is not one of classes, a label is
            none of theirs, or no position counts.
    """
    mean = _probabilities(prediction)
    images = checks.pictures("images", images, len(mean))
    counted = np.ones(mean.shape[:-1], bool) if prediction.mask is None else prediction.mask
    panels = {
        "prediction": mean.argmax(-1) if mean.shape[-1] > 1 else (mean[..., 0] > 0.5).astype(int),
        "entropy": prediction.entropy,
        "mutual information": prediction.mutual_information,
    }
    if y is not None:
        labels, labelled = _labels(y, mean.shape, ignore_class)
        counted = counted & labelled
        panels = {"labels": labels, **panels}
    elif ignore_class is not None:
        raise ValueError(f"ignore_class={shown(ignore_class)} needs y")
    if not counted.any():
        raise ValueError("y has no label that counts; all are ignored or masked")
    width = 2.2 * (1 + len(panels))
    axes = new_grid(axes, len(mean), 1 + len(panels), figsize=(width, 2.1 * len(mean) + 1.0))
    for ax, image in zip(axes[:, 0], images, strict=True):
        image_grid(image[None], 1, ax)
    axes[0, 0].set_title("image")
    columns = dict(zip(panels, axes[:, 1:].T, strict=True))
    for title, column in columns.items():
        column[0].set_title(title)
    of_classes = [title for title in ("labels", "prediction") if title in panels]
    colours = _class_colours(max(mean.shape[-1], 2))
    for titles, given, unit in (
        (of_classes, colours, "class"),
        (["entropy"], {"cmap": "magma", "vmin": 0.0}, "nats"),
        (["mutual information"], {"cmap": "magma", "vmin": 0.0}, "nats"),
    ):
        values = np.ma.array([panels[title] for title in titles], mask=[~counted] * len(titles))
        _draw(np.stack([columns[title] for title in titles]), values, given, unit)
    return axes


def _probabilities(prediction: Prediction) -> np.ndarray:
    """The mean of a prediction, if it holds probabilities of classes, (n, H, W, C)."""
    likelihood = prediction.likelihood
    if likelihood is None or not likelihood.is_discrete:
        family = "no likelihood" if likelihood is None else type(likelihood).__name__
        raise ValueError(f"prediction is of {family}; give one of classes")
    mean = checks.shaped("prediction.mean", prediction.mean, "n", "H", "W", "C")
    checks.in_unit_interval("prediction.mean", mean, ": probabilities of classes")
    total = mean.sum(-1)
    if mean.shape[-1] > 1 and not np.allclose(total, 1.0, atol=1e-3):
        raise ValueError(
            f"prediction.mean sums to {total.flat[np.abs(total - 1).argmax()]:g} at a position; "
            "give probabilities of which one class is right"
        )
    return mean


def _labels(
    y: np.ndarray, shape: tuple[int, ...], ignore_class: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """The labels, (n, H, W), and where they are not `ignore_class`."""
    labels = as_array("y", y)
    labels = labels[..., 0] if labels.ndim == 4 and labels.shape[-1] == 1 else labels
    labels = checks.shaped("y", labels, *shape[:-1])
    ignored = optional(integer, "ignore_class", ignore_class)
    labelled = np.ones(labels.shape, bool) if ignored is None else labels != ignored
    known = np.isin(labels, range(max(shape[-1], 2)))
    if not known[labelled].all():
        label = labels[labelled & ~known][0]
        raise ValueError(
            f"y has the label {label:g}; give integers below {max(shape[-1], 2)}, or "
            f"ignore_class={label:g} if it stands for none"
        )
    return labels, labelled


def _draw(axes: np.ndarray, maps: np.ma.MaskedArray, colours: dict[str, Any], unit: str) -> None:
    """Maps, (columns, n, H, W), on their axes, with one bar for all of them."""
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415 (slow)

    colours = {"vmax": max(float(maps.max()), 1e-6), **colours}
    for ax, values in zip(axes.flat, maps.reshape(-1, *maps.shape[2:]), strict=True):
        drawn = ax.imshow(values, interpolation="nearest", **colours)
        ax.set(xticks=[], yticks=[])
    bar = ax.figure.colorbar(drawn, ax=axes.ravel().tolist(), location="bottom", label=unit)
    if unit == "class":
        bar.locator = MaxNLocator(integer=True, nbins=20)


def _class_colours(num_classes: int) -> dict[str, Any]:
    """A colour for each class, as arguments of `imshow`."""
    import matplotlib as mpl  # noqa: PLC0415

    name = "tab10" if num_classes <= 10 else "tab20" if num_classes <= 20 else "turbo"
    whole = mpl.colormaps[name]
    colours = whole(np.arange(num_classes) if num_classes <= 20 else np.linspace(0, 1, num_classes))
    listed = mpl.colors.ListedColormap(colours)
    return {"cmap": listed, "vmin": -0.5, "vmax": num_classes - 0.5}

"""Figures, drawn without a screen."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import matplotlib as mpl
import numpy as np

mpl.use("agg")
import matplotlib.pyplot as plt
from matplotlib.patches import Patch

from soak.calls.case import Case, Made, N
from soak.calls.scores import ENTROPY, OTHER, REAL, P, Q, Y
from tfbdl import layers, likelihoods, models, plots
from tfbdl.predictive import Prediction
from tfbdl.training.log import TrainLog

GREY = np.linspace(0.0, 1.0, N * 9).reshape(N, 3, 3)
DRAWS = np.stack([REAL, REAL**2, REAL + 1.0])
LOG = TrainLog(np.arange(1, 4), np.ones(3), np.ones(3), {"elbo": np.arange(3.0), "kl": np.ones(3)})


def _axes(*shape: int) -> Made:
    return Made(lambda: plt.subplots(*(shape or (1, 1)))[1])


def _outline(patch: Patch) -> np.ndarray:
    """The corners of a bar or a polygon, as data."""
    return patch.get_patch_transform().transform_path(patch.get_path()).vertices


def _picture(target: Any, **given: Any) -> Any:
    """What is drawn: the data of all that is on the axes, and its texts."""
    axes = np.ravel(target(**given))
    actual = []
    for ax in axes:
        actual += [ax.get_title(), ax.get_xlabel(), ax.get_ylabel(), len(ax.figure.axes)]
        actual += [np.asarray(line.get_xydata(), float) for line in ax.get_lines()]
        actual += [_outline(p) for p in ax.patches]
        actual += [np.ma.filled(image.get_array().astype(float), -1.0) for image in ax.get_images()]
        actual += [np.asarray(c.get_offsets(), float) for c in ax.collections]
        actual += [p.vertices for c in ax.collections for p in c.get_paths()]
        actual += [tick.get_text() for tick in ax.get_xticklabels()]
        legends = [ax.get_legend(), *ax.figure.legends]
        actual += [text.get_text() for legend in legends if legend for text in legend.get_texts()]
    plt.close("all")
    return [np.nan_to_num(part) if isinstance(part, np.ndarray) else part for part in actual]


@cache
def _vae(latent_dim: int = 2) -> models.VAE:
    vae = models.VAE(latent_dim, (3,), seed=1)
    vae.build((None, 3, 3))
    return vae


@cache
def _posterior(seed: int) -> Any:
    layer = layers.BayesDense(3, num_data=10, seed=seed)
    layer.build((None, 4))
    layer.kernel.mu.assign(np.full((4, 3), 0.1 * seed + 0.01 * np.arange(3), "float32"))
    return layer.kernel


def _prediction(scale: float) -> Prediction:
    mean = REAL[:, None].astype("float32")
    variance = np.full_like(mean, scale)
    entropy = np.ones(N, "float32")
    return Prediction(mean, variance, variance, entropy, 3, likelihoods.Normal(), None)


def _map(p: np.ndarray) -> Prediction:
    """Classes at 2 x 3 positions of two images."""
    p = p.reshape(2, 1, -1, p.shape[-1]).astype("float32")
    variance = p * (1 - p)
    entropy = np.full(p.shape[:-1], 0.1, "float32")
    return Prediction(p, variance, 0.1 * variance, entropy, 3, likelihoods.Categorical(), None)


def _curves() -> dict[str, dict[str, tuple[Any, Any]]]:
    curve, other = (REAL, REAL), (REAL, REAL + 1.0)
    return {
        "chains": {"samples": (np.random.default_rng(0).normal(size=(8, 2)), DRAWS.T[:, :2])},
        "function_draws": {
            "x": (REAL, REAL + 1.0),
            "draws": (DRAWS, DRAWS + 1.0),
            "data": (curve, other),
            "shown": (2, 1),
        },
        "keep_probabilities": {"layers": ({"a": REAL}, {"b": REAL**2})},
        "log_curves": {"logs": ({"a": LOG}, {"b": LOG}), "metric": ("elbo", "kl")},
        "predictive_bands": {
            "x": (REAL, REAL + 1.0),
            "prediction": (_prediction(1.0), _prediction(2.0)),
            "data": (curve, other),
            "level": (0.95, 0.5),
        },
        "pit_histogram": {"pit": (REAL, REAL**2), "num_bins": (10, 3)},
        "quantile_calibration": {"pit": (REAL, REAL**2)},
        "reliability_diagram": {
            "y": (Y, OTHER),
            "p": (P, Q),
            "num_bins": (15, 3),
        },
        "risk_coverage": {
            "methods": (
                {"a": (Y, P, ENTROPY)},
                {"b": (Y, P, REAL)},
            )
        },
        "uncertainty_histograms": {
            "uncertainties": ({"a": REAL}, {"b": REAL**2}),
            "label": ("nats", "bits"),
        },
        "weight_posteriors": {
            "posteriors": ({"a": _posterior(1)}, {"b": _posterior(2)}),
            "axes": (None, _axes(1, 3)),
        },
    }


def _pictures() -> dict[str, dict[str, tuple[Any, Any]]]:
    return {
        "class_distributions": {
            "images": (GREY, 1.0 - GREY),
            "probabilities": (np.stack([P] * 4), np.stack([Q] * 4)),
            "titles": (list("abcdef"), list("ghijkl")),
            "axes": (None, Made(lambda: plt.subplots(3, N)[1][:2])),
        },
        "image_grid": {"images": (GREY, 1.0 - GREY), "columns": (3, 2), "gap": (1, 2)},
        "latent_scatter": {
            "points": (np.stack([REAL, REAL], axis=1), np.stack([REAL, REAL**2], axis=1)),
            "labels": (Y, (Y + 1) % 2),
        },
        "manifold": {"vae": (_vae(), Made(lambda: _vae(3))), "size": (3, 4)},
        "reconstructions": {
            "original": (GREY, 1.0 - GREY),
            "reconstructed": (GREY, GREY**2),
            "axes": (None, Made(lambda: plt.subplots(2, 2)[1][:1])),
        },
        "uncertainty_maps": {
            "images": (GREY[:2], 1.0 - GREY[:2]),
            "prediction": (_map(P), _map(Q)),
            "y": (Y.reshape(2, 1, -1), OTHER.reshape(2, 1, -1)),
            "ignore_class": (None, 0),
            "axes": (None, Made(lambda: plt.subplots(3, 5)[1][:2])),
        },
    }


def cases() -> Iterator[Case]:
    """Each figure; `ax` is one of their own, and given."""
    for name, given in {**_curves(), **_pictures()}.items():
        target = getattr(plots, name)
        with_axes = dict(given)
        if "axes" not in given:
            with_axes["ax"] = (None, Made(lambda: plt.subplots(1, 2)[1][0]))
        yield Case(
            f"tfbdl.plots.{name}",
            target,
            lambda target=target, **drawn: _picture(target, **drawn),
            with_axes,
            slow=True,
        )

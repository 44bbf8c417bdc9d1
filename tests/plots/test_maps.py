"""Maps of uncertainty: each panel shows its array, in colours that all rows share."""

from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import keras
import matplotlib.pyplot as plt
import numpy as np
import pytest
import scipy.stats

import tfbdl
from tfbdl import likelihoods, plots
from tfbdl.predictive import Prediction

RNG = np.random.default_rng(0)
N, H, W, C, S = 3, 4, 5, 3, 6
IMAGES = RNG.uniform(size=(N, H, W))
P = RNG.dirichlet(np.ones(C), size=(S, N, H, W))
Y = RNG.integers(0, C, (N, H, W))
BORDER = np.where(np.arange(W) == 0, 255, Y)


def predicted(p: np.ndarray, mask: np.ndarray | None = None) -> Prediction:
    """The prediction of functions whose class probabilities are `p`, (S, N, H, W, C)."""
    aleatoric = (p * (1 - p)).mean(0)
    entropies = scipy.stats.entropy(p, axis=-1).mean(0)
    categorical = likelihoods.Categorical()
    return Prediction(
        p.mean(0), aleatoric, p.var(0), entropies, len(p), categorical, None, mask=mask
    )


def shown(ax: Any) -> np.ma.MaskedArray:
    (image,) = ax.images
    return image.get_array()


@pytest.fixture(autouse=True)
def _closed() -> Any:
    yield
    plt.close("all")


def test_panels_are_the_arrays() -> None:
    axes = plots.uncertainty_maps(IMAGES, predicted(P))
    assert axes.shape == (N, 4)
    mean = P.mean(0)
    entropy = scipy.stats.entropy(mean, axis=-1)
    information = entropy - scipy.stats.entropy(P, axis=-1).mean(0)
    for i in range(N):
        expected = IMAGES[i], mean[i].argmax(-1), entropy[i], information[i]
        for ax, values in zip(axes[i], expected, strict=True):
            np.testing.assert_allclose(shown(ax), values, atol=1e-6)
    titles = [ax.get_title() for ax in axes[0]]
    assert titles == ["image", "prediction", "entropy", "mutual information"]


def test_rows_share_their_colours_and_a_bar_has_units() -> None:
    axes = plots.uncertainty_maps(IMAGES, predicted(P), Y)
    for column, most in ((3, scipy.stats.entropy(P.mean(0), axis=-1).max()), (4, None)):
        images = [ax.images[0] for ax in axes[:, column]]
        assert {image.get_clim() for image in images} == {images[0].get_clim()}
        low, high = images[0].get_clim()
        assert low == 0.0
        if most is not None:
            np.testing.assert_allclose(high, most, rtol=1e-6)
    bars = [ax for ax in axes[0, 0].figure.axes if ax not in set(axes.flat)]
    assert [bar.get_xlabel() for bar in bars] == ["class", "nats", "nats"]
    ticks = [t for t in bars[0].get_xticks() if -0.5 < t < C - 0.5]
    assert ticks == [0, 1, 2]
    colours = [ax.images[0] for ax in axes[:, 1:3].flat]
    assert len({image.get_clim() for image in colours}) == 1
    assert len({image.cmap(0) for image in colours}) == 1


def test_what_has_no_label_is_blank_and_sets_no_scale() -> None:
    """A border without labels, of all positions the most uncertain ones, is not drawn."""
    sure = P**8 / (P**8).sum(-1, keepdims=True)
    p = np.where((np.arange(W) == 0)[:, None], 1 / C, sure)
    axes = plots.uncertainty_maps(IMAGES, predicted(p), BORDER, ignore_class=255)
    assert axes.shape == (N, 5)
    for row in axes:
        for ax in row[1:]:
            np.testing.assert_array_equal(np.ma.getmaskarray(shown(ax)), BORDER[0] == 255)
    np.testing.assert_array_equal(shown(axes[1, 1])[:, 1:], Y[1][:, 1:])
    counted = scipy.stats.entropy(p.mean(0), axis=-1)[..., 1:]
    np.testing.assert_allclose(axes[0, 3].images[0].get_clim()[1], counted.max(), rtol=1e-6)
    assert counted.max() < np.log(C) - 0.01


def test_masked_positions_are_blank() -> None:
    mask = RNG.uniform(size=(N, H, W)) < 0.7
    axes = plots.uncertainty_maps(IMAGES, predicted(P, mask))
    for i in range(N):
        for ax in axes[i, 1:]:
            np.testing.assert_array_equal(np.ma.getmaskarray(shown(ax)), ~mask[i])


def test_of_predict() -> None:
    """A network of pixels with dropout, in colour, at half of the resolution of its images."""
    x = RNG.uniform(size=(2, 8, 8, 3)).astype("float32")
    stack = [
        keras.Input((8, 8, 3)),
        keras.layers.Conv2D(8, 3, 2, "same"),
        keras.layers.Dropout(0.5),
    ]
    network = keras.Sequential([*stack, keras.layers.Conv2D(C, 1)])
    network.compile("adam", likelihoods.Categorical())
    prediction = tfbdl.predict(tfbdl.to_mc_dropout(network), x, 5, seed=1, verbose=0)
    axes = plots.uncertainty_maps(x, prediction)
    np.testing.assert_allclose(shown(axes[1, 0]), x[1])
    np.testing.assert_allclose(shown(axes[1, 3]), prediction.mutual_information[1], atol=1e-6)


def test_two_classes_of_one_output() -> None:
    """The probability of class 1, in one channel: class 1 where it is above one half."""
    p = RNG.uniform(size=(S, N, H, W, 1))
    entropies = scipy.stats.bernoulli(p[..., 0]).entropy().mean(0)
    parts = p.mean(0), (p * (1 - p)).mean(0), p.var(0), entropies, S, likelihoods.Bernoulli(), None
    axes = plots.uncertainty_maps(IMAGES, Prediction(*parts), Y % 2)
    np.testing.assert_array_equal(shown(axes[2, 2]), p.mean(0)[2, ..., 0] > 0.5)
    entropy = scipy.stats.bernoulli(p.mean(0)[..., 0]).entropy()
    np.testing.assert_allclose(shown(axes[2, 3]), entropy[2], atol=1e-6)


def test_given_axes() -> None:
    axes = plt.subplots(N, 4)[1]
    actual = plots.uncertainty_maps(IMAGES, predicted(P), axes=axes)
    assert actual[0, 0] is axes[0, 0]
    assert len(plt.get_fignums()) == 1


NORMAL = Prediction(P.mean(0), P.mean(0), P.mean(0), None, S, likelihoods.Normal(), None)
REFUSED = {
    "examples": (lambda: predicted(P[:, 0]), {}, r"^prediction.mean has shape \(4, 5, 3\); give"),
    "images": (lambda: predicted(P[:, :2]), {}, r"^images has shape \(3, 4, 5\); give shape \(2, "),
    "regression": (lambda: NORMAL, {}, "^prediction is of Normal; give one of classes$"),
    "labels": (
        lambda: predicted(P),
        {"y": Y[:, 1:]},
        r"^y has shape \(3, 3, 5\); give shape \(3, 4",
    ),
    "classes": (
        lambda: predicted(P),
        {"y": BORDER},
        "^y has the label 255; give integers below 3, or ignore",
    ),
    "no labels": (lambda: predicted(P), {"ignore_class": 255}, "^ignore_class=255 needs y$"),
    "all ignored": (
        lambda: predicted(P),
        {"y": 0 * Y, "ignore_class": 0},
        "^y has no label that counts",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusal(name: str) -> None:
    prediction, given, message = REFUSED[name]
    with pytest.raises(ValueError, match=message) as caught:
        plots.uncertainty_maps(IMAGES, prediction(), **given)
    assert "\n" not in str(caught.value)
    assert plt.get_fignums() == []

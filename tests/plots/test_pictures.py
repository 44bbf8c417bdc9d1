"""What pictures show are the arrays that were given; what cannot be shown is refused in a line."""

from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import keras
import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

import tfbdl
from tfbdl import layers, likelihoods, plots

RNG = np.random.default_rng(0)
IMAGES = RNG.uniform(size=(5, 3, 4))
POINTS, LABELS = RNG.normal(size=(6, 2)), np.array([0, 1, 1, 2, 2, 2])
X = np.linspace(0, 1, 7)
DRAWS = RNG.normal(size=(9, 7))
P = RNG.dirichlet(np.ones(3), size=(40, 5))
Y_OF_CLASSES, P_OF_CLASSES = np.array([0, 1, 2]), P[0, :3]


class PictureTest(tf.test.TestCase):
    def tearDown(self) -> None:
        plt.close("all")
        super().tearDown()

    def test_image_grid(self) -> None:
        canvas = np.asarray(plots.image_grid(IMAGES, 2).images[0].get_array())
        self.assertEqual(canvas.shape, (3 * 4 - 1, 2 * 5 - 1))
        for i, image in enumerate(IMAGES):
            top, left = 4 * (i // 2), 5 * (i % 2)
            self.assertAllClose(canvas[top : top + 3, left : left + 4], image)
        self.assertAllEqual(canvas[3], np.zeros(9))
        self.assertAllEqual(canvas[8:, 5:], np.zeros((3, 4)))

    def test_colours_and_one_channel(self) -> None:
        """White between coloured images; an axis of one channel changes nothing."""
        colours = np.random.default_rng(3).uniform(size=(3, 3, 4, 3))
        canvas = np.asarray(plots.image_grid(colours, 2).images[0].get_array())
        self.assertAllClose(canvas[4:, :4], colours[2])
        self.assertAllEqual(canvas[3], np.ones((9, 3)))
        self.assertAllEqual(canvas[4:, 5:], np.ones((3, 4, 3)))
        grey, same = (plots.image_grid(x, 2).images[0] for x in (IMAGES, IMAGES[..., None]))
        self.assertAllEqual(np.asarray(grey.get_array()), np.asarray(same.get_array()))
        axes = plots.reconstructions(colours, 1 - colours)
        shown = np.asarray(axes[1].images[0].get_array())
        self.assertAllClose(shown[:3, 5:9], 1 - colours[1])

    def test_reconstructions(self) -> None:
        axes = plots.reconstructions(IMAGES[:1], IMAGES[1:2])
        for ax, image in zip(axes, IMAGES, strict=False):
            self.assertAllClose(np.asarray(ax.images[0].get_array()), image)

    def test_class_distributions(self) -> None:
        axes = plots.class_distributions(IMAGES, P, list("abcde"))
        for i in range(5):
            self.assertEqual(axes[0, i].get_title(), "abcde"[i])
            dots = [line for line in axes[1, i].lines if line.get_marker() == "o"]
            self.assertAllClose(dots[0].get_ydata(), P[:, i].mean(0))
            medians = [line.get_ydata()[0] for line in axes[1, i].lines if line.get_color() == "C0"]
            self.assertAllClose(medians, np.median(P[:, i], axis=0))

    def test_latent_scatter(self) -> None:
        ax = plots.latent_scatter(POINTS, LABELS)
        self.assertEqual([text.get_text() for text in ax.get_legend().texts], ["0", "1", "2"])
        for label, dots in enumerate(ax.collections):
            self.assertAllClose(dots.get_offsets(), POINTS[label == LABELS])

    def test_keep_probabilities(self) -> None:
        ax = plots.keep_probabilities({"a": [0.2, 0.4], "b": 0.9})
        texts = [text.get_text() for text in ax.get_legend().texts]
        self.assertEqual(texts, ["a: mean 0.300", "b: mean 0.900"])

    def test_function_draws(self) -> None:
        for draws in (DRAWS, DRAWS[..., None]):
            ax = plots.function_draws(X[:, None], draws, (X, X), shown=4)
            ys = [line.get_ydata() for line in ax.lines]
            self.assertAllClose(ys, [*DRAWS[:4], DRAWS.mean(0), X])

    def test_the_band_of_draws_beside_a_large_mean(self) -> None:
        draws = (1e4 + 0.02 * RNG.normal(size=(500, 7))).astype("float32")
        ax = plots.function_draws(X, draws, (X, X))
        band = ax.collections[0].get_paths()[0].vertices[:, 1]
        exact = draws.astype(np.float64)
        ends = np.concatenate([exact.mean(0) + side * 2 * exact.std(0) for side in (-1, 1)])
        self.assertAllClose([band.min(), band.max()], [ends.min(), ends.max()], 0, 1e-6)

    def test_histograms_hold_every_value(self) -> None:
        ax = plots.uncertainty_histograms({"logs": RNG.normal(size=100)})
        area = sum(bar.get_width() * bar.get_height() for bar in ax.containers[0])
        self.assertAllClose(area, 1.0, 1e-6)


def prediction(units: int = 1, likelihood: Any = None) -> Any:
    model = keras.Sequential([keras.Input((1,)), layers.BayesDense(units, num_data=7)])
    return tfbdl.predict(model, X[:, None], 3, likelihood=likelihood)


REFUSED = {
    "grid: shape": (
        lambda: plots.image_grid(np.ones((5, 3, 4, 2)), 2),
        r"^images has shape \(5, 3, 4, 2\); give shape \(n, height, width, 3\)$",
    ),
    "grid: none": (lambda: plots.image_grid(IMAGES[:0], 2), r"^images has shape \(0, 3, 4\); give"),
    "grid: columns": (
        lambda: plots.image_grid(IMAGES, 0),
        "^columns=0 must be a positive integer$",
    ),
    "grid: 8 bits": (
        lambda: plots.image_grid(255 * IMAGES, 2),
        r"^images ranges from .*; give values in \[0, 1\] \(divide 8-bit pixels by 255\)$",
    ),
    "reconstructions": (
        lambda: plots.reconstructions(IMAGES, IMAGES[:2]),
        r"^reconstructed has shape \(2, 3, 4\); give shape \(5, 3, 4\)$",
    ),
    "classes: shape": (
        lambda: plots.class_distributions(IMAGES, P[0], list("abcde")),
        r"^probabilities has shape \(5, 3\); give shape \(S, 5, C\)$",
    ),
    "classes: logits": (
        lambda: plots.class_distributions(IMAGES, 9 * P - 3, list("abcde")),
        "^probabilities ranges from .*: apply softmax to logits first$",
    ),
    "classes: titles": (lambda: plots.class_distributions(IMAGES, P, ["a"]), "^titles has 1 lines"),
    "latent: shape": (
        lambda: plots.latent_scatter(P[0], LABELS),
        r"^points has shape \(5, 3\); give shape \(n, 2\)$",
    ),
    "latent: labels": (
        lambda: plots.latent_scatter(POINTS, LABELS[:2]),
        r"^labels has shape \(2,\); give shape \(6,\)$",
    ),
    "keep: range": (lambda: plots.keep_probabilities({"a": [1.5]}), r"^layers\['a'\] ranges from"),
    "keep: none": (lambda: plots.keep_probabilities({}), "^layers is empty; give at least one"),
    "draws: shape": (
        lambda: plots.function_draws(X[:3], DRAWS, (X, X)),
        r"^draws has shape \(9, 7\); give shape \(S, 3\)$",
    ),
    "draws: NaN": (
        lambda: plots.function_draws(X, DRAWS * np.nan, (X, X)),
        "^draws is not finite in example 0; remove it or fill it in$",
    ),
    "draws: data": (lambda: plots.function_draws(X, DRAWS, (X, X[:2])), r"^data\[1\] has shape"),
    "bands: x": (lambda: plots.predictive_bands(X[:2], prediction()), "^prediction.mean has shape"),
    "bands: two outputs": (
        lambda: plots.predictive_bands(X, prediction(2)),
        r"^prediction.mean has shape \(7, 2\); give shape \(7,\)$",
    ),
    "bands: classes": (
        lambda: plots.predictive_bands(X, prediction(2, likelihoods.Categorical())),
        "^interval is for real y, not for Categorical$",
    ),
    "histograms: none": (lambda: plots.uncertainty_histograms({}), "^uncertainties is empty; give"),
    "histograms: empty": (
        lambda: plots.uncertainty_histograms({"a": []}),
        r"^uncertainties\['a'\] has shape \(0,\); give shape \(N,\)$",
    ),
    "histograms: words": (
        lambda: plots.uncertainty_histograms({"a": ["b"]}),
        r"^uncertainties\['a'\] has dtype <U1; give real numbers$",
    ),
    "risk: none": (
        lambda: plots.risk_coverage({}),
        "^methods is empty; give at least one to draw$",
    ),
    "risk: lengths": (
        lambda: plots.risk_coverage({"a": (Y_OF_CLASSES, P_OF_CLASSES, X)}),
        r"^methods\['a'\]: uncertainty has 7 examples and y has 3; give both",
    ),
    "risk: no names": (
        lambda: plots.risk_coverage([X]),
        "^methods is a list; give a dictionary from names to arrays$",
    ),
    "posteriors": (lambda: plots.weight_posteriors({}), "^posteriors is empty; give at least one"),
}


class RefusalTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.named_parameters((name, *case) for name, case in REFUSED.items())
    def test_refusal(self, draw: Any, message: str) -> None:
        with self.assertRaisesRegex(ValueError, message) as caught:
            draw()
        self.assertNotIn("\n", str(caught.exception))
        self.assertEqual(plt.get_fignums(), [], "no empty figure is left")


if __name__ == "__main__":
    tf.test.main()

"""Figures of uncertainty: what is drawn are the numbers that were given."""

from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import keras
import matplotlib.pyplot as plt
import numpy as np
import scipy.stats
import tensorflow as tf

import tfbdl
from tfbdl import inference, layers, likelihoods, metrics, plots

RNG = np.random.default_rng(0)
N, C = 200, 4
P = RNG.dirichlet(np.ones(C), N)
LABELS = np.array([RNG.choice(C, p=p) for p in P])
ENTROPY = -np.sum(P * np.log(P), axis=-1)
X = np.linspace(-2, 2, 40, dtype="float32")[:, None]


class FigureCase(tf.test.TestCase):
    def tearDown(self) -> None:
        plt.close("all")
        super().tearDown()

    def line(self, ax: Any, label: Any) -> Any:
        (actual,) = (line for line in ax.lines if line.get_label().startswith(label))
        return actual.get_xydata()

    def assert_readable(self, ax: Any) -> None:
        self.assertTrue(ax.get_xlabel())
        self.assertTrue(ax.get_ylabel())
        self.assertIsNotNone(ax.get_legend())
        self.assertIs(ax.figure, plt.gcf())


class CalibrationTest(FigureCase):
    def test_reliability_diagram(self) -> None:
        ax = plots.reliability_diagram(LABELS, P, 10)
        self.assert_readable(ax)
        score = metrics.reliability(LABELS, P, 10)
        filled = score.count > 0
        points = self.line(ax, "at the mean confidence")
        self.assertAllClose(points[:, 0], score.confidence[filled])
        self.assertAllClose(points[:, 1], score.accuracy[filled])
        accuracy, share = (bars.patches for bars in ax.containers)
        self.assertAllClose([bar.get_height() for bar in accuracy], score.accuracy[filled])
        self.assertAllClose(sum(bar.get_height() for bar in share), 1.0)
        for bar, confidence in zip(accuracy, score.confidence[filled], strict=True):
            self.assertBetween(confidence, bar.get_x(), bar.get_x() + bar.get_width())
        error = metrics.expected_calibration_error(LABELS, P, 10)
        self.assertIn(f"{100 * error:.1f} %", ax.get_title())

    def test_risk_coverage(self) -> None:
        figure, ax = plt.subplots()
        self.assertIs(plots.risk_coverage({"a": (LABELS, P, ENTROPY)}, ax), ax)
        self.assert_readable(ax)
        curve = self.line(ax, "a, area")
        self.assertAllClose(curve[-1], [1.0, 100 * np.mean(P.argmax(-1) != LABELS)])
        self.assertIs(ax.figure, figure)

    def test_each_of_many_methods_has_a_line_of_its_own(self) -> None:
        ax = plots.risk_coverage({f"method {i}": (LABELS, P, ENTROPY) for i in range(12)})
        looks = {(line.get_color(), line.get_linestyle()) for line in ax.lines}
        self.assertLen(looks, 12)


class TransformTest(FigureCase):
    def test_pit_histogram(self) -> None:
        """Densities of the bins, and the band of the binomial law of a count."""
        u = np.r_[RNG.beta(2, 2, size=(30, 3)).ravel(), 0.0, 1.0, 0.5, 0.5]
        ax = plots.pit_histogram(u, num_bins=4)
        self.assert_readable(ax)
        count = [np.sum((u >= a) & ((u < a + 0.25) | (a == 0.75))) for a in (0, 0.25, 0.5, 0.75)]
        heights = [bar.get_height() for bar in ax.containers[0]]
        self.assertAllClose(heights, 4 * np.array(count) / u.size)
        band = ax.patches[-1].get_bbox()
        counts = scipy.stats.binom(u.size, 0.25).interval(0.95)
        self.assertAllClose([band.y0, band.y1], 4 * np.array(counts) / u.size)

    def test_quantile_calibration(self) -> None:
        u = RNG.beta(2, 3, size=(40, 2))
        ax = plots.quantile_calibration(u)
        self.assert_readable(ax)
        line = self.line(ax, "targets")
        self.assertAllClose(line[:, 1], [np.mean(u <= q) for q in line[:-1, 0]] + [1.0])
        error = metrics.quantile_calibration_error(u)
        self.assertIn(f"{100 * error:.1f} %", ax.get_title())
        with self.assertRaisesRegex(ValueError, "^pit ranges from 0 to 2; give values in"):
            plots.quantile_calibration([0.0, 2.0])


class HistogramTest(FigureCase):
    def test_equal_bins_and_densities(self) -> None:
        ax = plots.uncertainty_histograms({"in": ENTROPY, "out": ENTROPY + 0.5})
        self.assert_readable(ax)
        self.assertIn("nats", ax.get_xlabel())
        edges = []
        for bars in ax.containers:
            widths = np.array([bar.get_width() for bar in bars])
            heights = np.array([bar.get_height() for bar in bars])
            self.assertAllClose(np.sum(widths * heights), 1.0, 1e-6)
            edges.append([bar.get_x() for bar in bars])
        self.assertAllClose(*edges)

    def test_weight_posteriors(self) -> None:
        layer = layers.BayesDense(30, num_data=10)
        layer.build((None, 20))
        axes = plots.weight_posteriors({"layer": layer.kernel})
        means = axes[0].patches[0].get_xy()[:, 0]
        mu = np.ravel(layer.kernel.mean)
        self.assertAllClose([means.min(), means.max()], [mu.min(), mu.max()], 1e-5)
        ratio = 10 * np.log10(np.abs(mu) / np.ravel(layer.kernel.stddev))
        self.assertAllClose(axes[2].patches[0].get_xy()[:, 0].max(), ratio.max(), 1e-4)
        for ax in axes:
            self.assertTrue(ax.get_xlabel())


class BandsTest(FigureCase):
    def test_bands_are_those_of_the_prediction(self) -> None:
        model = keras.Sequential([keras.Input((1,)), layers.BayesDense(1, num_data=10)])
        for likelihood in (likelihoods.Normal(0.3), None):
            prediction = tfbdl.predict(model, X, 50, seed=1, likelihood=likelihood)
            ax = plots.predictive_bands(X, prediction, (X, X), level=0.8)
            ax.legend()
            self.assert_readable(ax)
            outer, inner = (np.array(band.get_paths()[0].vertices) for band in ax.collections)
            low, high = prediction.interval(0.8)
            for band, bottom, top in (
                (outer, low, high),
                (
                    inner,
                    prediction.mean - 2 * prediction.epistemic_stddev,
                    prediction.mean + 2 * prediction.epistemic_stddev,
                ),
            ):
                at_zero = band[np.isclose(band[:, 0], X[0, 0]), 1]
                self.assertAllClose([at_zero.min(), at_zero.max()], [bottom[0, 0], top[0, 0]], 1e-4)
            self.assertAllClose(self.line(ax, "predictive mean")[:, 1], prediction.mean[:, 0])


class ChainsTest(FigureCase):
    def test_each_chain_is_a_line(self) -> None:
        samples = RNG.normal(size=(50, 3)) + np.array([0.0, 0.0, 4.0])
        ax = plots.chains(samples)
        self.assert_readable(ax)
        for chain, line in zip(samples.T, ax.lines, strict=True):
            self.assertAllEqual(line.get_xydata(), np.stack([np.arange(1, 51), chain], axis=1))
        self.assertIn(f"R-hat {inference.rhat(samples):.3f}", ax.get_title())
        self.assertGreater(inference.rhat(samples), 1.5)

    def test_refusals(self) -> None:
        with self.assertRaisesRegex(ValueError, r"^samples has shape \(5,\); give shape \(S, C\)$"):
            plots.chains(np.zeros(5))
        with self.assertRaisesRegex(ValueError, "^num_samples=3 is too few"):
            plots.chains(np.zeros((3, 2)))


if __name__ == "__main__":
    tf.test.main()

"""The curves of training logs."""

import io
import unittest

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from tfbdl.plots import log_curves
from tfbdl.training.log import TrainLog


def made_log(**metrics: list[float]) -> TrainLog:
    n = len(next(iter(metrics.values()), []))
    arrays = {name: np.array(values) for name, values in metrics.items()}
    return TrainLog(np.arange(1, n + 1), np.full(n, 0.1), np.ones(n), arrays)


class LogCurvesTest(unittest.TestCase):
    def setUp(self) -> None:
        self.ax = Figure().subplots()

    def legend(self) -> list[str]:
        return [text.get_text() for text in self.ax.get_legend().get_texts()]

    def test_draws_each_run_against_its_epochs(self) -> None:
        logs = {"a": made_log(elbo=[-3.0, -2.0, -1.0]), "b": made_log(elbo=[-4.0])}
        self.assertIs(log_curves(logs, "elbo", self.ax), self.ax)
        first, second = self.ax.lines
        np.testing.assert_array_equal(first.get_xydata(), [[1, -3], [2, -2], [3, -1]])
        np.testing.assert_array_equal(second.get_xydata(), [[1, -4]])
        self.assertEqual(self.legend(), ["a", "b"])

    def test_labels_have_units(self) -> None:
        for metric, label in (
            ("elbo", "elbo (nats per example)"),
            ("acc", "acc (fraction)"),
            ("loss", "loss"),
        ):
            ax = log_curves({"run": made_log(**{metric: [1.0]})}, metric, Figure().subplots())
            self.assertEqual((ax.get_xlabel(), ax.get_ylabel()), ("epoch", label))

    def test_a_run_keeps_its_colour_where_others_lack_the_metric(self) -> None:
        logs = {"a": made_log(elbo=[1.0]), "b": made_log(cent=[1.0]), "none": made_log()}
        log_curves(logs, "cent", self.ax)
        self.assertEqual(self.legend(), ["b"])
        self.assertEqual(self.ax.lines[0].get_color(), "C1")

    def test_forty_runs_look_different(self) -> None:
        log_curves({str(i): made_log(elbo=[1.0]) for i in range(40)}, "elbo", self.ax)
        looks = {(line.get_color(), line.get_linestyle()) for line in self.ax.lines}
        self.assertEqual(len(looks), 40)

    def test_names_are_shown_literally(self) -> None:
        runs = {"_old": made_log(elbo=[1.0]), "$x_": made_log(elbo=[2.0])}
        log_curves(runs, "elbo", self.ax)
        self.assertEqual(self.legend(), ["_old", r"\$x_"])
        self.ax.figure.savefig(io.BytesIO())

    def test_draws_what_is_not_finite(self) -> None:
        values = [float("nan"), 1.0, float("inf"), -float("inf"), 2.0]
        log_curves({"run": made_log(elbo=values)}, "elbo", self.ax)
        self.ax.figure.savefig(io.BytesIO())
        np.testing.assert_array_equal(self.ax.lines[0].get_ydata(), values)

    def test_epoch_ticks_are_integers(self) -> None:
        log_curves({"run": made_log(elbo=[1.0, 2.0])}, "elbo", self.ax)
        ticks = self.ax.get_xticks()
        np.testing.assert_array_equal(ticks, np.round(ticks))

    def test_without_axes_makes_a_pyplot_figure(self) -> None:
        ax = log_curves({"run": made_log(elbo=[1.0])}, "elbo")
        self.addCleanup(plt.close, ax.figure)
        self.assertIs(plt.gcf(), ax.figure)

    def test_refuses_a_metric_that_no_run_has(self) -> None:
        logs = {"a": made_log(cent=[1.0], acc=[1.0])}
        with self.assertRaisesRegex(ValueError, "^metric is 'elbo', but the logs have: cent, acc$"):
            log_curves(logs, "elbo", self.ax)
        with self.assertRaisesRegex(ValueError, "^logs is empty; give at least one to draw$"):
            log_curves({}, "elbo", self.ax)

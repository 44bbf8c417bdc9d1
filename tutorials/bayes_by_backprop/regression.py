"""Bayes by Backprop on a toy curve: a network that fails to train, and what mends it.

    python -m tutorials.bayes_by_backprop.regression --mode train
    python -m tutorials.bayes_by_backprop.regression --mode test
    python -m tutorials.bayes_by_backprop.regression --mode visualize
    python -m tutorials.bayes_by_backprop.regression --mode gradients   # by hand and by autodiff

The data are those of Blundell et al. (2015, section 5.2),

    y = x + 0.3 sin(2 pi (x + e)) + 0.3 sin(4 pi (x + e)) + e,   e ~ N(0, 0.02^2),  x in [0, 0.5].

The paper writes N(0, 0.02); its figure shows a standard deviation of 0.02, which is taken here, and
the report reads a variance of 0.02, on which three networks more are trained (`WIDE`).

The first network of `STEPS` is the report's, which ends as a line through the middle of the data;
each further one changes one thing. Its gradients are right (`--mode gradients`); its model is not.
With noise of variance 1 the whole curve, whose variance is 0.025, is worth N / 2 * 0.025 = 6.3 nats
to the 500 points together, and a posterior that tells it costs far more than that in KL: a line is
the best there is, however it is trained (`WITHOUT`). Where sigma starts near log 2, functions are
so far apart that learned noise explains them before the mean does. Plain descent then finds the
curve, but leaves the spread of most weights where it started, so that nothing widens beside the
data.
"""

from __future__ import annotations

import tfbdl  # isort: skip  (before anything that imports TensorFlow)

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import keras
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tfbdl.data import blundell_curve
from tutorials import commands, run_files
from tutorials.bayes_by_backprop import report_gradients
from tutorials.bayes_by_backprop.regression_steps import (
    NETWORKS,
    REPORT,
    STEPS,
    WIDE,
    WITHOUT,
    Settings,
    network,
)

Data = tuple[np.ndarray, np.ndarray]

LINE = np.linspace(-0.2, 1.2, 141, dtype="float32")[:, None]
TEST_POINTS = 10_000
HALF_LOG_2PI = 0.5 * float(np.log(2 * np.pi))
"""What the report's losses leave out, where the noise of the likelihood has scale 1."""
INSIDE, OUTSIDE = 0.25, 1.2
"""Where the width of the 90 % range is measured: among the data, and far from them."""


class Ranges(NamedTuple):
    """The predictive mean at n inputs, (n,), and the ends, (2, n), of 90 % and half of y."""

    mean: np.ndarray
    most: np.ndarray
    half: np.ndarray


def parser() -> argparse.ArgumentParser:
    return commands.toy_parser(
        "bayes_by_backprop.regression", "Bayes by Backprop on a toy curve.", N=500, S=500
    )


def data_of(settings: Settings, n: int, seed: int) -> Data:
    """N points of the curve with the noise of these settings."""
    return blundell_curve(n, seed, settings.noise_stddev)


def train(args: argparse.Namespace) -> None:
    for name, settings in NETWORKS.items():
        x, y = data_of(settings, args.N, args.seed)
        print(f"==> {name}: {settings.title}", flush=True)
        model = network(settings, args.N, args.seed)
        tfbdl.train(
            model,
            x,
            y,
            epochs=settings.n_epochs,
            batch_size=settings.batch_size,
            savedir=args.savedir / name,
            columns=["loss", "kl"],
            seed=args.seed,
        )
        run_files.save(model, args.savedir / name)
    test(args)


def test(args: argparse.Namespace) -> None:
    """The bound on the training points, and how well new ones are predicted, in nats a point."""
    scores: dict[str, Any] = {}
    for noise, key in ((REPORT.noise_stddev, "best"), (0.02**0.5, "best_of_variance")):
        x_test, _ = blundell_curve(TEST_POINTS, args.seed + 1, noise)
        scores[key] = best_densities(x_test, noise)
        best = ", ".join(f"{v:f} ({k})" for k, v in scores[key].items())
        print(f"test: noise of standard deviation {noise:.3f}: best possible {best}")
    for name, settings in NETWORKS.items():
        x, y = data_of(settings, args.N, args.seed)
        x_test, y_test = data_of(settings, TEST_POINTS, args.seed + 1)
        mean, _ = truth(x_test, settings.noise_stddev)
        model = run_files.trained(args.savedir / name)
        bound = tfbdl.elbo(model, x, y, args.S, seed=args.seed)
        density = tfbdl.log_predictive_density(model, x_test, y_test, args.S, seed=args.seed)
        predicted = tfbdl.predict(model, x_test, args.S, seed=args.seed).mean
        inside, outside = widths(model, args)
        scores[name] = {
            "train_elbo": bound.elbo,
            "train_kl_per_point": bound.kl,
            "train_report_loss": -bound.elbo - HALF_LOG_2PI,
            "test_log_density": float(density.mean()),
            "test_log_density_stderr": float(density.std() / np.sqrt(len(density))),
            "test_mse_to_mean": float(np.mean(np.square(predicted - mean))),
            "width_inside": inside,
            "width_outside": outside,
        }
        print(
            f"test: elbo {bound.elbo:f}, density {scores[name]['test_log_density']:f}, "
            f"mse {scores[name]['test_mse_to_mean']:f}, width {inside:f} and {outside:f} ({name})",
            flush=True,
        )
    run_files.write_metrics(args, **scores)


def truth(x: np.ndarray, noise_stddev: float = 0.02) -> tuple[np.ndarray, np.ndarray]:
    """E[y | x] and Var[y | x] of the curve, of the shape of x, by Gauss-Hermite quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(64)
    e, p = noise_stddev * nodes, weights / weights.sum()
    x = x[..., None].astype(float)
    y = x + 0.3 * np.sin(2 * np.pi * (x + e)) + 0.3 * np.sin(4 * np.pi * (x + e)) + e
    mean = (y * p).sum(-1)
    return mean, (np.square(y - mean[..., None]) * p).sum(-1)


def best_densities(x: np.ndarray, noise_stddev: float) -> dict[str, float]:
    """E[log p(y | x)] of the best normal densities there are at x, in nats a point."""
    _, variance = truth(x, noise_stddev)
    return {
        "one noise": float(-0.5 * np.log(2 * np.pi * np.e * variance.mean())),
        "noise of each x": float(-0.5 * np.log(2 * np.pi * np.e * variance).mean()),
    }


def widths(model: keras.Model, args: argparse.Namespace) -> tuple[float, float]:
    """Widths of the range that holds 90 % of y, at `INSIDE` and `OUTSIDE`."""
    x = np.array([[INSIDE], [OUTSIDE]], "float32")
    drawn = tfbdl.predict(model, x, args.S, seed=args.seed, return_samples=True)
    low, high = drawn.interval(0.9)
    inside, outside = np.ravel(high - low)
    return float(inside), float(outside)


def visualize(args: argparse.Namespace) -> None:
    scores = run_files.read_metrics(args.savedir)
    ranges = {
        name: predicted_ranges(run_files.trained(args.savedir / name), args) for name in NETWORKS
    }
    data = data_of(REPORT, args.N, args.seed)
    wide = data_of(WIDE["variance_report"], args.N, args.seed)
    for name, figure in (
        ("steps", panels(ranges, scores, data, list(STEPS))),
        ("without", panels(ranges, scores, data, list(WITHOUT))),
        ("variance", panels(ranges, scores, wide, list(WIDE))),
        ("densities", densities(scores)),
        ("curve", curve(ranges, data)),
    ):
        run_files.write_figure(figure, args.savedir / f"{name}.png")


def predicted_ranges(model: keras.Model, args: argparse.Namespace) -> Ranges:
    """The predictive mean on `LINE`, and the ends of the ranges that hold 90 % and half of y."""
    drawn = tfbdl.predict(model, LINE, args.S, seed=args.seed, return_samples=True)
    return Ranges(drawn.mean[:, 0], *(np.squeeze(drawn.interval(v), -1) for v in (0.9, 0.5)))


def panels(
    ranges: Mapping[str, Ranges], scores: Mapping[str, Any], data: Data, names: Sequence[str]
) -> Figure:
    """Predictions of the named networks, with their numbers, three in a row."""
    rows = -(-len(names) // 3)
    size = (11.4, 3.6 * rows)
    figure, axes = plt.subplots(rows, 3, figsize=size, layout="constrained", squeeze=False)
    for ax in axes.flat[len(names) :]:
        ax.axis("off")
    for ax, name in zip(axes.flat, names, strict=False):
        draw(ranges[name], data, ax, NETWORKS[name].noise_stddev)
        of = scores[name]
        ax.set_title(
            f"{NETWORKS[name].title}\n"
            f"bound {of['train_elbo']:.2f}, test {of['test_log_density']:.2f} nats a point",
            fontsize=10,
        )
    axes[0, 0].legend(fontsize=7, loc="lower right")
    return figure


def densities(scores: Mapping[str, Any]) -> Figure:
    """Test log density of each network, beside the best that normal densities reach."""
    figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
    for names, colour, label in ((STEPS, "C0", "step by step"), (WITHOUT, "C1", "one step back")):
        values = [scores[name]["test_log_density"] for name in names]
        ax.barh([NETWORKS[name].title for name in names], values, color=colour, label=label)
    for (name, value), style in zip(scores["best"].items(), ("--", ":"), strict=True):
        ax.axvline(value, color="black", linestyle=style, label=f"best normal density, {name}")
    ax.invert_yaxis()
    ax.set_xlabel("test log density (nats a point)")
    ax.legend(fontsize=8, loc="upper left")
    return figure


def curve(ranges: Mapping[str, Ranges], data: Data) -> Figure:
    """Figure 5 of Blundell et al.: ranges that are narrow on the data and wide beside them."""
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained", sharey=True)
    for ax, name in zip(axes, ("local", "predicted"), strict=True):
        draw(ranges[name], data, ax)
    axes[0].set_title("one noise for all x")
    axes[1].set_title("noise that varies with x")
    axes[0].legend(fontsize=8, loc="lower right")
    return figure


def draw(ranges: Ranges, data: Data, ax: Axes, noise_stddev: float = 0.02) -> None:
    """The data, the truth, the predictive mean, and the ranges that hold half and 90 % of y."""
    x = LINE[:, 0]
    for (low, high), alpha, label in (
        (ranges.most, 0.2, "90 % of y"),
        (ranges.half, 0.4, "half of y"),
    ):
        ax.fill_between(x, low, high, color="C0", alpha=alpha, label=label, linewidth=0)
    ax.plot(x, ranges.mean, color="C0", label="predictive mean")
    ax.plot(
        x, truth(x, noise_stddev)[0], color="black", linewidth=0.8, linestyle="--", label="E[y | x]"
    )
    ax.plot(*data, ".", color="C3", markersize=2, label=f"{len(data[0])} training points")
    ax.set(xlabel="x", ylabel="y", xlim=(-0.2, 1.2), ylim=(-1.0, 2.0))


def gradients(args: argparse.Namespace) -> None:
    """Holds the gradients that the report derives against autodiff, in float64."""
    x, y = (array.astype("float64") for array in blundell_curve(args.N, args.seed))
    model = network(REPORT, args.N, args.seed, kl="sample", dtype="float64")
    for name, difference in report_gradients.differences(model, x, y).items():
        print(f"gradients: {name}: relative difference {difference:.1e}")


def main() -> None:
    commands.run_modes(parser(), train=train, test=test, visualize=visualize, gradients=gradients)


if __name__ == "__main__":
    main()

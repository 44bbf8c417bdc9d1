"""Pruning by signal to noise: how much of a network can go before it errs more.

    python -m tutorials.bayes_by_backprop.mnist --mode train --savedir runs/bayes_by_backprop_mnist
    python -m tutorials.bayes_by_backprop.pruning --run runs/bayes_by_backprop_mnist

Weights are ranked by |mu| / sigma over all layers, the least are removed (mean and noise), and the
rest stays as it is: Blundell et al. (2015), section 5.2, table 3 and figure 5.
"""

from __future__ import annotations

import tfbdl  # isort: skip  (before anything that imports TensorFlow)

import argparse
from pathlib import Path

import keras
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from tfbdl.convert.pruning import random_weights, signal_to_noise
from tutorials import commands, image_data, run_files

FRACTIONS = (0.0, 0.5, 0.75, 0.95, 0.98)
CURVE = (0.0, 0.25, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.93, 0.95, 0.96, 0.97, 0.98, 0.99, 0.995)


def parser() -> argparse.ArgumentParser:
    parser = commands.image_parser(
        "bayes_by_backprop.pruning", "Pruning by signal to noise.", split="full"
    )
    parser.add_argument(
        "--run",
        type=Path,
        default=Path("runs/bayes_by_backprop_mnist"),
        help="folder of `mnist`, with a trained network in bayes/",
    )
    parser.add_argument("--S", type=int, default=10, help="drawn functions a prediction")
    return parser


def test_errors(
    model: keras.Model, fraction: float, args: argparse.Namespace, x: np.ndarray, y: np.ndarray
) -> dict[str, float]:
    """Test error after pruning, in percent: at the mean weights, and averaged over functions."""
    pruned = tfbdl.prune(model, fraction)
    pruned.compile(loss=model.loss)
    errors = {}
    for kind, num_samples in (("naive", 0), ("mc", args.S)):
        p = tfbdl.predict(pruned, x, num_samples, seed=args.seed, verbose=0).mean
        errors[kind] = 100.0 * float(np.mean(p.argmax(-1) != y))
    return errors


def ratios(model: keras.Model) -> np.ndarray:
    """|mu| / sigma of all weights in decibels, 10 log10 as in the paper."""
    both = np.concatenate([signal_to_noise(q).ravel() for q in random_weights(model)])
    return 10.0 * np.log10(np.maximum(both, 1e-6))


def signal_figure(values: np.ndarray) -> Figure:
    """Density and distribution function of the ratios, as figure 5 of the paper."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    shown = np.clip(values, -30, 30)
    axes[0].hist(shown, 120, density=True, color="C0")
    axes[0].set_ylabel("density over weights")
    axes[1].plot(np.sort(shown), np.linspace(0, 1, len(shown)), color="C0")
    axes[1].set_ylabel("fraction of weights below")
    for ax in axes:
        for fraction, colour in ((0.75, "C1"), (0.95, "C3")):
            threshold = float(np.quantile(shown, fraction))
            ax.axvline(threshold, color=colour, label=f"{100 * fraction:g} % are below")
        ax.legend(fontsize=8)
        ax.set_xlabel(r"signal to noise $|\mu| / \sigma$ (dB)")
    return figure


def error_figure(curve: dict[str, dict[str, float]]) -> Figure:
    figure, ax = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
    left = 100.0 * (1.0 - np.array([float(f) for f in curve]))
    for kind, label in (("naive", "mean weights"), ("mc", "average over functions")):
        ax.plot(left, [e[kind] for e in curve.values()], "o-", markersize=3, label=label)
    ax.set(xlabel="weights left (%)", ylabel="test error (%)", xscale="log", yscale="log")
    ax.set_xticks([100, 50, 20, 10, 5, 2, 1, 0.5])
    ax.set_yticks([1, 2, 5, 10, 20, 50])
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("")
    ax.invert_xaxis()
    ax.grid(alpha=0.3)
    ax.legend()
    return figure


def prune(args: argparse.Namespace) -> None:
    data = image_data.chosen(args)
    model = run_files.trained(args.run / "bayes")
    x, y = data.x_test, data.y_test
    curve = {str(f): test_errors(model, f, args, x, y) for f in sorted({*FRACTIONS, *CURVE})}
    lines = [
        f"| removed | test error, mean weights | test error, S = {args.S} |",
        "|---|---|---|",
    ]
    for fraction in FRACTIONS:
        error = curve[str(fraction)]
        lines.append(f"| {100 * fraction:g} % | {error['naive']:.2f} % | {error['mc']:.2f} % |")
    run_files.write_table(args.savedir / "pruning.md", lines)
    run_files.write_figure(signal_figure(ratios(model)), args.savedir / "signal_to_noise.png")
    run_files.write_figure(error_figure(curve), args.savedir / "error.png")
    run_files.write_metrics(args, test_error=curve)


def main() -> None:
    commands.run(parser(), prune)


if __name__ == "__main__":
    main()

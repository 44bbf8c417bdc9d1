"""Is the uncertainty any good? Digits turned step by step, and clothes given for digits.

    python tutorials/uncertainty.py

Trains each method on all of MNIST (784-500-500-10), and asks it about test digits turned by 0 to 90
degrees, and about Fashion-MNIST, of which it knows nothing. A method is good if its accuracy,
likelihood and calibration hold as long as they can, its entropy rises where they do not, and its
entropy tells clothes from digits. Each method is kept in the output folder as it ends.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import common
import keras
import matplotlib.pyplot as plt
import numpy as np
import part2_mc_dropout
import part3_concrete_dropout
from bayes_dense import network as bayes_network
from compare import defaults, once

import tfbdl
from tfbdl import metrics, plots
from tfbdl.data import load, rotate

ANGLES = tuple(range(0, 91, 15))
COLUMNS = {
    "accuracy": "accuracy",
    "nll": "negative log likelihood (nats)",
    "ece": "expected calibration error",
    "entropy": "mean predictive entropy (nats)",
}


def concrete(args: argparse.Namespace) -> keras.Model:
    """The network of part III."""
    return part3_concrete_dropout.network(defaults(part3_concrete_dropout.parser(), args))


def weight_decay(args: argparse.Namespace) -> float:
    """That of part II, whose prior is the same for any number of images."""
    return 1e-4 * 1000 / args.N


METHODS: dict[str, Callable[[argparse.Namespace], keras.Model]] = {
    "base": lambda args: part2_mc_dropout.network(1.0, weight_decay(args), args.seed),
    "MC dropout": lambda args: part2_mc_dropout.network(0.5, weight_decay(args), args.seed),
    "Concrete dropout": concrete,
    "Bayes by Backprop": bayes_network,
}


def probabilities(model: keras.Model, x: np.ndarray, args: argparse.Namespace) -> tuple[Any, Any]:
    """Class probabilities, and their entropy in nats; the mean weights where nothing is random."""
    num_samples = args.S if tfbdl.predictive.is_random(model) else 0
    found = tfbdl.predict(model, x, num_samples, seed=args.seed)
    return found.mean, found.entropy


def evaluate(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """Trains a method; its scores at each angle, and the area under the curve for clothes."""
    data = common.images(args)
    model = common.classification(METHODS[name](args), common.adam(args))
    folder = args.savedir / "runs" / name.lower().replace(" ", "_")
    tfbdl.train(
        model,
        data.x_train,
        data.y_train,
        epochs=args.n_epochs,
        batch_size=args.batch_size,
        savedir=folder,
        seed=args.seed,
    )
    rotated: dict[str, list[float]] = {column: [] for column in COLUMNS}
    y = data.y_test
    for angle in ANGLES:
        x = common.flat(rotate(common.square(data.x_test), angle))
        p, entropy = probabilities(model, x, args)
        rotated["accuracy"].append(float(np.mean(p.argmax(-1) == y)))
        rotated["nll"].append(metrics.negative_log_likelihood(y, np.maximum(p, 1e-12)))
        rotated["ece"].append(metrics.expected_calibration_error(y, p))
        rotated["entropy"].append(float(np.mean(entropy)))
    p, entropy = probabilities(model, data.x_test, args)
    out = probabilities(model, clothes(args), args)[1]
    return {
        "rotated": rotated,
        "auroc": metrics.auroc(entropy, out),
        "aupr": metrics.aupr(entropy, out),
        "error_auroc": metrics.error_auroc(y, p, entropy),
        "risk_coverage_area": metrics.area_under_risk_coverage(y, p, entropy),
        "entropy_in": [round(float(v), 5) for v in entropy[::10]],
        "entropy_out": [round(float(v), 5) for v in out[::10]],
    }


def clothes(args: argparse.Namespace) -> np.ndarray:
    """Fashion-MNIST's test images."""
    return common.flat(load("fashion_mnist", "full", directory=args.mnist_path).x_test)


def rotated_figure(found: dict[str, dict[str, Any]]) -> plt.Figure:
    figure, axes = plt.subplots(1, 4, figsize=(15, 3.6), layout="constrained")
    for ax, (column, label) in zip(axes, COLUMNS.items(), strict=True):
        for name, record in found.items():
            ax.plot(ANGLES, record["rotated"][column], "o-", markersize=4, label=name)
        ax.set(xlabel="test digits turned by (degrees)", ylabel=label, xticks=ANGLES)
        ax.grid(alpha=0.3)
    axes[0].legend(fontsize=8)
    return figure


def clothes_figure(found: dict[str, dict[str, Any]]) -> plt.Figure:
    figure, axes = plt.subplots(1, len(found), figsize=(15, 3.4), layout="constrained")
    for ax, (name, record) in zip(axes, found.items(), strict=True):
        entropies = {"digits": record["entropy_in"], "clothes": record["entropy_out"]}
        plots.uncertainty_histograms({k: np.array(v) for k, v in entropies.items()}, ax=ax)
        ax.set_title(f"{name}: AUROC {100 * record['auroc']:.1f} %", fontsize=10)
    return figure


def main_table(args: argparse.Namespace) -> None:
    found = {}
    for name in METHODS:
        path = args.savedir / f"{name.lower().replace(' ', '_')}.json"
        found[name] = once(path, lambda name=name: evaluate(name, args))
    lines = [
        "| | test error | NLL (nats) | ECE | AUROC, clothes | AUPR, clothes | AUROC, errors |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, record in found.items():
        first = {column: values[0] for column, values in record["rotated"].items()}
        cells = [f"{100 * (1 - first['accuracy']):.2f} %", f"{first['nll']:.4f}"]
        cells += [f"{100 * first['ece']:.2f} %"]
        cells += [f"{100 * record[key]:.1f} %" for key in ("auroc", "aupr", "error_auroc")]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    common.write_text(args.savedir / "uncertainty.md", lines)
    common.write_figure(rotated_figure(found), args.savedir / "rotated.png")
    common.write_figure(clothes_figure(found), args.savedir / "clothes.png")


def parser() -> argparse.ArgumentParser:
    parser = common.arguments(
        "Is the uncertainty any good?", "uncertainty", split="full", n_epochs=20
    )
    parser.add_argument("--gamma", type=float, default=1.0, help="prior scale of Bayes by Backprop")
    parser.add_argument(
        "--estimator", default="local_reparameterization", help="of Bayes by Backprop"
    )
    parser.add_argument("--S", type=int, default=100, help="drawn functions a prediction")
    return parser


def main() -> None:
    common.run(parser(), main_table)


if __name__ == "__main__":
    main()

"""Is the uncertainty any good? Digits turned step by step, and clothes given for digits.

    python -m tutorials.uncertainty

Trains each method on all of MNIST (784-500-500-10), and asks it about test digits turned by 0 to 90
degrees, and about Fashion-MNIST, which it has never seen. A method is good if its accuracy,
likelihood and calibration hold as long as they can, its entropy rises where they do not, and its
entropy tells clothes from digits. Each method is kept as it ends.
"""

from __future__ import annotations

import tfbdl  # isort: skip  (before anything that imports TensorFlow)

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from tfbdl import metrics, plots
from tfbdl.data import ImageData, load, rotate
from tfbdl.inference import DeepEnsemble, Laplace
from tutorials import (
    classifiers,
    commands,
    image_data,
    part2_mc_dropout,
    part3_concrete_dropout,
    run_files,
)
from tutorials.bayes_by_backprop import mnist
from tutorials.records import RecordFile

ANGLES = tuple(range(0, 91, 15))
MIDDLE = len(ANGLES) // 2
"""The angle at which calibration is drawn."""
SHOWN = 10
"""Of so many images, one is kept for figures."""
COLUMNS = {
    "accuracy": "accuracy",
    "nll": "negative log likelihood (nats)",
    "ece": "expected calibration error",
    "entropy": "mean predictive entropy (nats)",
}


Method = Callable[[argparse.Namespace, ImageData, Path], keras.Model]


def plain(args: argparse.Namespace) -> keras.Model:
    """The network of part II without dropout, under the Keras seed of the moment."""
    decay = keras.regularizers.L2(0.5 * weight_decay(args))

    def dense(units: int, activation: str | None = None) -> keras.layers.Dense:
        return keras.layers.Dense(units, activation, kernel_regularizer=decay)

    return keras.Sequential(
        [keras.Input((784,)), dense(500, "relu"), dense(500, "relu"), dense(10)]
    )


def weight_decay(args: argparse.Namespace) -> float:
    """That of part II, whose prior is the same for any number of images."""
    return 1e-4 * 1000 / args.N


def settings(args: argparse.Namespace) -> dict[str, Any]:
    """How all methods train."""
    return {"epochs": args.n_epochs, "batch_size": args.batch_size}


def trained(network: Callable[[argparse.Namespace], keras.Model], optimizer: Any = None) -> Method:
    """The method that trains one network."""

    def method(args: argparse.Namespace, data: ImageData, folder: Path) -> keras.Model:
        keras.utils.set_random_seed(args.seed)
        model = network(args)
        classifiers.compiled(model, (optimizer or classifiers.adam)(args))
        tfbdl.train(
            model, data.x_train, data.y_train, savedir=folder, seed=args.seed, **settings(args)
        )
        return model

    return method


def deep_ensemble(args: argparse.Namespace, data: ImageData, folder: Path) -> keras.Model:
    """Networks like the base one, from different starts."""

    def build() -> keras.Model:
        return classifiers.compiled(plain(args), classifiers.adam(args))

    members = DeepEnsemble(build, args.K, seed=args.seed)
    members.fit(data.x_train, data.y_train, savedir=folder, **settings(args))
    return members.ensemble()


def last_layer_laplace(args: argparse.Namespace, data: ImageData, folder: Path) -> keras.Model:
    """The base network; the weights of its last layer have a posterior, records after training."""
    model = METHODS["base"](args, data, folder.with_name("base"))
    posterior = Laplace(model, subset_of_weights="last_layer", hessian_structure="kron")
    posterior.fit(data.x_train, data.y_train).optimize_prior_precision()
    print(f"last-layer Laplace: prior precision {float(posterior.prior_precision):.3f}", flush=True)
    return posterior.ensemble(args.S, seed=args.seed)


def bayes(args: argparse.Namespace) -> keras.Model:
    """784-500-500-10 with the scale mixture of `bayes_by_backprop.mnist`."""
    return mnist.bayes(bayes_arguments(args))


def bayes_arguments(args: argparse.Namespace) -> argparse.Namespace:
    """The flags of that tutorial."""
    own = commands.own_defaults(mnist, args)
    own.units, own.pi, own.sigma2 = [500, 500], 0.5, np.exp(-6)
    own.rho, own.estimator, own.optimizer, own.lr = -3.25, "local_reparameterization", "sgd", 0.1
    own.batch_size = args.batch_size
    return own


METHODS: dict[str, Method] = {
    "base": trained(plain),
    "MC dropout": trained(
        lambda args: part2_mc_dropout.network(0.5, weight_decay(args), args.seed)
    ),
    "Concrete dropout": trained(
        lambda args: part3_concrete_dropout.network(
            commands.own_defaults(part3_concrete_dropout, args)
        )
    ),
    "Bayes by Backprop": trained(
        bayes, lambda args: mnist.optimizer(bayes_arguments(args), args.n_epochs)
    ),
    "deep ensemble": deep_ensemble,
    "last-layer Laplace": last_layer_laplace,
}


def slug(name: str) -> str:
    """The name of a method's folder."""
    return name.lower().replace(" ", "_").replace("-", "_")


def probabilities(model: keras.Model, x: np.ndarray, args: argparse.Namespace) -> tuple[Any, Any]:
    """Class probabilities, and their entropy in nats; the mean weights where nothing is random."""
    num_samples = args.S if tfbdl.predictive.is_random(model) else 0
    prediction = tfbdl.predict(model, x, num_samples, seed=args.seed)
    return prediction.mean, prediction.entropy


def evaluate(name: str, args: argparse.Namespace, data: ImageData) -> dict[str, Any]:
    """Trains a method; its scores at each angle, and the area under the curve for clothes."""
    model = METHODS[name](args, data, args.savedir / "runs" / slug(name))
    rotated: dict[str, list[float]] = {column: [] for column in COLUMNS}
    y, p_turned = data.y_test, []
    for angle in ANGLES:
        x = image_data.flat(rotate(image_data.square(data.x_test), angle))
        p, entropy = probabilities(model, x, args)
        rotated["accuracy"].append(float(np.mean(p.argmax(-1) == y)))
        rotated["nll"].append(metrics.negative_log_likelihood(y, np.maximum(p, 1e-12)))
        rotated["ece"].append(metrics.expected_calibration_error(y, p))
        rotated["entropy"].append(float(np.mean(entropy)))
        p_turned.append(p[::SHOWN])
    p, entropy = probabilities(model, data.x_test, args)
    out = probabilities(model, clothes(args), args)[1]
    return {
        "rotated": rotated,
        "auroc": metrics.auroc(entropy, out),
        "aupr": metrics.aupr(entropy, out),
        "error_auroc": metrics.error_auroc(y, p, entropy),
        "risk_coverage_area": metrics.area_under_risk_coverage(y, p, entropy),
        "p_turned": np.round(p_turned[MIDDLE].astype(float), 5).tolist(),
        "entropy_in": np.round(entropy[::SHOWN].astype(float), 5).tolist(),
        "entropy_out": np.round(out[::SHOWN].astype(float), 5).tolist(),
    }


def clothes(args: argparse.Namespace) -> np.ndarray:
    """Fashion-MNIST's test images."""
    return image_data.flat(load("fashion_mnist", "full", directory=args.mnist_path).x_test)


def rotated_figure(records: dict[str, dict[str, Any]]) -> Figure:
    figure, axes = plt.subplots(1, 4, figsize=(15, 3.6), layout="constrained")
    for ax, (column, label) in zip(axes, COLUMNS.items(), strict=True):
        for name, record in records.items():
            ax.plot(ANGLES, record["rotated"][column], "o-", markersize=4, label=name)
        ax.set(xlabel="test digits turned by (degrees)", ylabel=label, xticks=ANGLES)
        ax.grid(alpha=0.3)
    axes[0].legend(fontsize=8)
    return figure


def clothes_figure(records: dict[str, dict[str, Any]]) -> Figure:
    """The height is logarithmic: most digits lie in the first bar."""
    figure, axes = two_rows(len(records), 6.0)
    for ax, (name, record) in zip(axes.flat, records.items(), strict=False):
        entropies = {"digits": record["entropy_in"], "clothes": record["entropy_out"]}
        plots.uncertainty_histograms({k: np.array(v) for k, v in entropies.items()}, ax=ax)
        ax.set_yscale("log")
        ax.set_title(f"{name}: AUROC {100 * record['auroc']:.1f} %")
        ax.label_outer()
    return figure


def turned(records: dict[str, dict[str, Any]]) -> dict[str, np.ndarray]:
    """Class probabilities of the shown digits at the middle angle, by method."""
    rounded = {name: np.array(record["p_turned"]) for name, record in records.items()}
    return {name: p / p.sum(-1, keepdims=True) for name, p in rounded.items()}


def reliability_figure(records: dict[str, dict[str, Any]], y: np.ndarray) -> Figure:
    figure, axes = two_rows(len(records), 8.0)
    for ax, (name, p) in zip(axes.flat, turned(records).items(), strict=False):
        plots.reliability_diagram(y, p, num_bins=10, ax=ax)
        ax.set_title(f"{name}: {ax.get_title()}", fontsize=10)
        ax.label_outer()
    figure.suptitle(f"digits turned by {ANGLES[MIDDLE]} degrees")
    return figure


def risk_figure(records: dict[str, dict[str, Any]], y: np.ndarray) -> Figure:
    figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
    shown = turned(records).items()
    entropies = {name: -np.sum(p * np.log(p + 1e-12), -1) for name, p in shown}
    plots.risk_coverage({name: (y, p, entropies[name]) for name, p in shown}, ax=ax)
    ax.set_title(f"digits turned by {ANGLES[MIDDLE]} degrees, the least certain refused first")
    return figure


def two_rows(count: int, height: float) -> tuple[Figure, np.ndarray]:
    """A figure with a panel for each method."""
    return plt.subplots(
        2, -(-count // 2), figsize=(12, height), layout="constrained", sharex=True, sharey=True
    )


def main_table(args: argparse.Namespace) -> None:
    data, records = image_data.chosen(args), {}
    record_file = RecordFile(args.savedir / "uncertainty.jsonl", "method")
    for name in METHODS:
        records[name] = record_file.kept(
            {"method": slug(name)},
            commands.configuration(args),
            lambda name=name: evaluate(name, args, data),
        )
    run_files.write_metrics(args, **{slug(name): row(records[name]) for name in records})
    lines = [
        "| | test error | NLL (nats) | ECE | AUROC, clothes | AUPR, clothes | AUROC, errors |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, record in records.items():
        of = row(record)
        cells = [f"{100 * (1 - of['accuracy']):.2f} %", f"{of['nll']:.4f}"]
        cells += [f"{100 * of['ece']:.2f} %"]
        cells += [f"{100 * of[key]:.1f} %" for key in ("auroc", "aupr", "error_auroc")]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    run_files.write_table(args.savedir / "uncertainty.md", lines)
    run_files.write_figure(rotated_figure(records), args.savedir / "rotated.png")
    run_files.write_figure(clothes_figure(records), args.savedir / "clothes.png")
    y = data.y_test[::SHOWN]
    run_files.write_figure(reliability_figure(records, y), args.savedir / "reliability.png")
    run_files.write_figure(risk_figure(records, y), args.savedir / "risk_coverage.png")


def row(record: dict[str, Any]) -> dict[str, float]:
    """The numbers of a method: those on digits as they are, and how well its entropy tells."""
    upright = {column: values[0] for column, values in record["rotated"].items()}
    return upright | {key: value for key, value in record.items() if isinstance(value, float)}


def parser() -> argparse.ArgumentParser:
    parser = commands.image_parser(
        "uncertainty", "Is the uncertainty any good?", split="full", n_epochs=20
    )
    parser.add_argument("--K", type=int, default=5, help="networks of the deep ensemble")
    parser.add_argument("--S", type=int, default=100, help="drawn functions a prediction")
    return parser


def main() -> None:
    commands.run(parser(), main_table)


if __name__ == "__main__":
    main()

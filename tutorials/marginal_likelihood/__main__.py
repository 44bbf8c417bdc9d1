"""Which network? Width, depth and prior precision by the marginal likelihood of the training data.

    python -m tutorials.marginal_likelihood --mode train
    python -m tutorials.marginal_likelihood --mode visualize
    python -m tutorials.marginal_likelihood --sets boston       # some of the data sets, in any mode

Laplace's approximation at the trained weights theta*, of P in all, with H the curvature of
-log p(y | theta, x) there and delta the precision of the normal prior (MacKay 1992; Immer et al.
2021, equation 2):

    log p(y | x) ~ log p(y | theta*, x) + log p(theta*) + P/2 log 2 pi - 1/2 log det(H + delta).

It is asked twice. Each width and depth trains with the precisions and the noise of its own highest
evidence, found while it trains (`EmpiricalBayes`, H in Kronecker factors); and one network
trains under each of a grid of precisions. Beside the evidence, which has seen the training data
alone, stands the mean log probability of the test data, which nobody could choose by. Where H fits
as a whole, the evidence by it stands there too: what the factors leave out can change the order.

Each network writes its `train.log`, and a record as it ends: stopped, the same command goes on with
the next network.
"""

from __future__ import annotations

import tfbdl  # isort: skip  (before anything that imports TensorFlow)

import argparse
import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np
import scipy.stats

from tfbdl.data import uci
from tfbdl.inference import EmpiricalBayes, Laplace
from tfbdl.likelihoods import Categorical, Likelihood, Normal
from tutorials import commands, image_data, run_files
from tutorials.marginal_likelihood import figures
from tutorials.records import Record, RecordFile
from tutorials.uci.split import Split

SETS = ("boston", "concrete", "energy", "images")
IMAGES = ("data", "split", "N")
"""Flags that say which images."""
WIDTHS = (2, 5, 10, 20, 50)
DEPTHS = (1, 2, 3)
PRECISIONS = tuple(float(delta) for delta in np.logspace(-3, 4, 15))
OF_PRECISIONS = (50, 1)
"""Width and depth of the network that trains under each of them."""
TRAINS_BY = "kron"
"""The structure of H by whose evidence precisions and noise are found."""
EXAMPLES_AN_EPOCH = 5000
"""At least: small sets are gone through several times."""


class Task(NamedTuple):
    """A data set and what networks say of it.

    Attributes:
        x: (N, D), to train on.
        y: (N, 1), normalised, or labels, (N,).
        x_test: (M, D).
        y_test: (M, 1) or (M,).
        likelihood: p(y | f(x)), the loss.
        outputs: the number of outputs of a network.
        rate: the learning rate of Adam at the start.
        log_scale: the log scale of the targets, which takes log densities into their units.
    """

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    likelihood: Likelihood
    outputs: int
    rate: float
    log_scale: float


def task(name: str, args: argparse.Namespace) -> Task:
    """The first published split of a regression, or the images."""
    if name == "images":
        data = image_data.chosen(argparse.Namespace(**vars(args)))
        return Task(*data, Categorical(), 10, 1e-3, 0.0)
    split = Split.of(uci(name, directory=args.uci_path))
    return Task(*split[:4], Normal(1.0), 1, 1e-2, float(np.log(split.scale)))


def structures(name: str) -> tuple[str, ...]:
    """Structures of H for computing the evidence; with 784 inputs H is too large as a whole."""
    return (TRAINS_BY,) if name == "images" else (TRAINS_BY, "full")


class Choice(NamedTuple):
    """Width, depth, and prior precision; None for those of the highest evidence."""

    width: int
    depth: int
    precision: float | None = None

    @property
    def name(self) -> str:
        """The name of its folder."""
        under = "" if self.precision is None else f"_{self.precision:.2g}"
        return f"{self.width}x{self.depth}{under}"


def networks() -> list[Choice]:
    """Each width and depth."""
    return [Choice(width, depth) for depth in DEPTHS for width in WIDTHS]


def precisions() -> list[Choice]:
    """One network under each precision, with the noise of the one that has chosen its own."""
    return [Choice(*OF_PRECISIONS, delta) for delta in PRECISIONS]


def posterior(
    of: Task, choice: Choice, noise: float | None, savedir: Path, args: argparse.Namespace
) -> Laplace:
    """The posterior of a network which is trained for it, at a `noise` or its own."""
    keras.utils.set_random_seed(args.seed)
    hidden = [keras.layers.Dense(choice.width, "relu") for _ in range(choice.depth)]
    inputs = keras.Input((of.x.shape[1],))
    model = keras.Sequential([inputs, *hidden, keras.layers.Dense(of.outputs)])
    batch_size = min(args.batch_size, len(of.x))
    repeats = -(-EXAMPLES_AN_EPOCH // len(of.x))
    steps = args.n_epochs * (repeats * len(of.x) // batch_size)
    rate = keras.optimizers.schedules.CosineDecay(of.rate, steps)
    model.compile(keras.optimizers.Adam(rate), of.likelihood)
    laplace = Laplace(
        model,
        subset_of_weights="all",
        hessian_structure=TRAINS_BY,
        prior_precision=choice.precision or 1.0,
        sigma_noise=noise,
    )
    every = max(args.n_epochs // 20, 1)
    start = args.n_epochs % every + every if choice.precision is None else args.n_epochs
    evidence = EmpiricalBayes(laplace, of.x, of.y, start=start, every=every)
    shutil.rmtree(savedir, ignore_errors=True)  # of a run that ended before its record
    tfbdl.train(
        model,
        np.repeat(of.x, repeats, axis=0),
        np.repeat(of.y, repeats, axis=0),
        epochs=args.n_epochs,
        batch_size=batch_size,
        savedir=savedir,
        callbacks=[evidence],
        seed=args.seed,
        verbose=0,
    )
    return laplace


def evidence(of: Task, laplace: Laplace, structure: str) -> float:
    """At the precisions and the noise it has, in nats per example and the units of the data."""
    if structure != TRAINS_BY:
        laplace = Laplace(
            laplace.model,
            subset_of_weights="all",
            hessian_structure=structure,
            prior_precision=laplace.prior_precision,
            sigma_noise=laplace.sigma_noise,
        ).fit(of.x, of.y)
    return float(laplace.log_marginal_likelihood()) / len(of.x) - of.log_scale


def measured(of: Task, laplace: Laplace, by: Sequence[str]) -> Record:
    """Evidence by each structure, and test log probability, as `evidence` has them."""
    prediction = tfbdl.predict(laplace, of.x_test, verbose=0)
    if of.outputs == 1:
        log_prob = prediction.log_prob(of.y_test)
    else:
        log_prob = np.log(prediction.mean[np.arange(len(of.y_test)), of.y_test])
    return {
        "evidence": {structure: evidence(of, laplace, structure) for structure in by},
        "test_log_prob": float(np.mean(log_prob)) - of.log_scale,
        "prior_precision": np.atleast_1d(laplace.prior_precision).tolist(),
        "noise": laplace.sigma_noise if of.outputs == 1 else None,
        "weights": sum(math.prod(weight.shape) for weight in laplace.weights_with_posterior),
    }


def record(name: str, choice: Choice, args: argparse.Namespace, make: bool = False) -> Record:
    """What was `measured` of a network; to `make` it, it is trained first."""

    def made() -> Record:
        of, noise = task(name, args), None
        if choice.precision is not None:
            noise = record(name, Choice(*OF_PRECISIONS), args, make)["noise"]
        laplace = posterior(of, choice, noise, args.savedir / name / choice.name, args)
        return measured(of, laplace, structures(name))

    flags = ("n_epochs", "batch_size", "seed") + IMAGES * (name == "images")
    settings = {flag: getattr(args, flag) for flag in flags}
    record_file = RecordFile(args.savedir / f"{name}.jsonl", "network")
    return record_file.kept({"network": choice.name}, settings, made if make else None)


def train(args: argparse.Namespace) -> None:
    for name in args.sets:
        for choice in (*networks(), *precisions()):
            row = record(name, choice, args, make=True)
            by = ", ".join(f"{value:.4f} ({of})" for of, value in row["evidence"].items())
            print(
                f"{name}, {choice.name}: log evidence {by}, test log probability "
                f"{row['test_log_prob']:.4f} (nats per example)",
                flush=True,
            )
            keras.backend.clear_session()
    test(args)


def correlation(rows: Sequence[Record], structure: str) -> float:
    """Spearman's, of evidence and test log probability."""
    pairs = [(row["evidence"][structure], row["test_log_prob"]) for row in rows]
    return float(scipy.stats.spearmanr(pairs).statistic)


def test(args: argparse.Namespace) -> None:
    """What the evidence would choose, beside the best and the mean of all in hindsight."""
    lines = [
        "| data | compared | H | rank correlation | chosen | its test log prob. | best | mean |",
        "|---" * 8 + "|",
    ]
    for name in args.sets:
        for label, compared in (("networks", networks()), ("precisions", precisions())):
            rows = [record(name, choice, args) for choice in compared]
            scores = np.array([row["test_log_prob"] for row in rows])
            for structure in structures(name):
                chosen = int(np.argmax([row["evidence"][structure] for row in rows]))
                cells = [
                    f"{len(rows)} {label}",
                    structure,
                    f"{correlation(rows, structure):.2f}",
                    compared[chosen].name,
                    *(f"{score:.4f}" for score in (scores[chosen], scores.max(), scores.mean())),
                ]
                lines.append(f"| {name} | {' | '.join(cells)} |")
    run_files.write_table(args.savedir / "marginal_likelihood.md", lines)


def visualize(args: argparse.Namespace) -> None:
    panels = {}
    for name in args.sets:
        rows = [record(name, choice, args) for choice in networks()]
        for structure in structures(name):
            title = f"{name}, H {structure}: rank correlation {correlation(rows, structure):.2f}"
            panels[title] = [
                figures.Point(*choice[:2], row["evidence"][structure], row["test_log_prob"])
                for choice, row in zip(networks(), rows, strict=True)
            ]
    run_files.write_figure(figures.networks(panels), args.savedir / "networks.png")
    curves = {}
    for name in args.sets:
        rows = [record(name, choice, args) for choice in precisions()]
        curves[name] = {
            f"log evidence, H {structure}": [row["evidence"][structure] for row in rows]
            for structure in structures(name)
        }
        curves[name]["test data"] = [row["test_log_prob"] for row in rows]
    run_files.write_figure(figures.precisions(PRECISIONS, curves), args.savedir / "precisions.png")


def parser() -> argparse.ArgumentParser:
    parser = commands.image_parser("marginal_likelihood", "Which network?", n_epochs=200)
    parser.add_argument(
        "--sets", nargs="+", choices=SETS, default=list(SETS), metavar="SET", help=", ".join(SETS)
    )
    parser.add_argument("--uci_path", default=None, help="folder of the UCI data")
    return parser


def main() -> None:
    commands.run_modes(parser(), train=train, test=test, visualize=visualize)


if __name__ == "__main__":
    main()

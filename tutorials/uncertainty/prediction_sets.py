"""What conformal prediction mends, and what it does not: sets of classes for turned images.

    python -m tutorials.uncertainty.prediction_sets

The plain networks of `tutorials.uncertainty` are calibrated by training images that they were not
trained on. Test images as they are come from where these do, and so the sets hold their class as
often as asked (Vovk, Gammerman and Shafer 2005). Turned images do not, and a threshold that upright
ones have taught holds for those alone.
"""

from __future__ import annotations

import os

os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # some processors have it off: twice as fast

import tfbdl  # isort: skip  (before anything that imports TensorFlow)

import argparse
from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from tfbdl import conformal
from tfbdl.data import rotate
from tutorials import commands, run_files
from tutorials.records import Record, RecordFile
from tutorials.uncertainty import record
from tutorials.uncertainty.figures import NAMES
from tutorials.uncertainty.record import ANGLES
from tutorials.uncertainty.run import OTHER, Run

METHODS: dict[str, Callable[[], conformal.LAC | conformal.APS]] = {
    "LAC": conformal.LAC,
    "APS": conformal.APS,
    "RAPS": conformal.RAPS,
    "LAC, by class": lambda: conformal.LAC(by_class=True),
}
AS_IT_IS = "the network's own"
COLUMNS = {"held": "share of sets that hold the class", "size": "classes in a set"}


def own(p: np.ndarray, coverage: float) -> np.ndarray:
    """The likeliest classes until their probabilities, (N, C), sum up to `coverage`."""
    order = np.argsort(-p, axis=-1)
    ranked = np.take_along_axis(p, order, axis=-1)
    sets = np.empty(p.shape, bool)
    np.put_along_axis(sets, order, np.cumsum(ranked, axis=-1) - ranked < coverage, axis=-1)
    return sets


def answers(args: argparse.Namespace) -> Record:
    """How often sets hold the class, and how large they are, at each angle, by each method."""
    run = Run(args)
    model = run.plain()

    def asked(x: np.ndarray) -> tfbdl.Prediction:
        return tfbdl.predict(model, x, 0, verbose=0)

    held_out = asked(run.x_held_out)
    fitted = {name: make().fit(held_out, run.y_held_out) for name, make in METHODS.items()}
    scores: Record = {name: {key: [] for key in COLUMNS} for name in (AS_IT_IS, *METHODS)}
    for angle in ANGLES:
        prediction = asked(rotate(run.x_test[..., 0], angle)[..., None])
        sets = {name: method.predict(prediction, args.coverage) for name, method in fitted.items()}
        for name, of in {AS_IT_IS: own(prediction.mean, args.coverage), **sets}.items():
            scores[name]["held"].append(float(of[np.arange(len(of)), run.y_test].mean()))
            scores[name]["size"].append(float(of.sum(-1).mean()))
    return scores


def means(records: list[Record], name: str, column: str) -> np.ndarray:
    """Over seeds, at each angle."""
    return np.mean([of[name][column] for of in records], axis=0)


def table(data: str, records: list[Record], coverage: float) -> list[str]:
    """A row a method, a column an angle."""
    seeds = "one seed" if len(records) == 1 else f"means of {len(records)} seeds"
    lines = [
        f"**{NAMES[data]}**, coverage {100 * coverage:g} % asked for, {seeds}: share of sets that "
        "hold the class, and classes in a set",
        "",
        f"| | {' | '.join(f'{angle}°' for angle in ANGLES)} |",
        "|---" * (len(ANGLES) + 1) + "|",
    ]
    for name in (AS_IT_IS, *METHODS):
        pairs = zip(*(means(records, name, column) for column in COLUMNS), strict=True)
        cells = [f"{100 * held:.1f} %, {size:.2f}" for held, size in pairs]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return [*lines, ""]


def figure(sets: dict[str, list[Record]], coverage: float) -> Figure:
    """A row a data set: coverage and size as test images turn."""
    figure, axes = plt.subplots(
        len(sets), 2, figsize=(9, 3.4 * len(sets)), layout="constrained", squeeze=False
    )
    for row, (data, records) in zip(axes, sets.items(), strict=True):
        row[0].axhline(coverage, color="black", linewidth=0.5)
        for ax, (column, label) in zip(row, COLUMNS.items(), strict=True):
            for name in (AS_IT_IS, *METHODS):
                ax.plot(ANGLES, means(records, name, column), "o-", markersize=3, label=name)
            ax.set(xlabel=f"{NAMES[data]} turned by (degrees)", ylabel=label, xticks=ANGLES)
            ax.grid(alpha=0.3)
    axes[0, 0].legend(fontsize=8)
    return figure


def main_sets(args: argparse.Namespace) -> None:
    file = RecordFile(args.savedir / "prediction_sets.jsonl", "data", "seed")
    settings = {**record.settings(args), "coverage": args.coverage}

    def of(data: str, seed: int) -> Record:
        own = argparse.Namespace(**{**vars(args), "data": data, "seed": seed})
        return file.kept({"data": data, "seed": seed}, settings, lambda: answers(own))

    seeds = range(args.seed, args.seed + args.seeds)
    sets = {data: [of(data, seed) for seed in seeds] for data in args.sets}
    lines = [line for data, some in sets.items() for line in table(data, some, args.coverage)]
    run_files.write_table(args.savedir / "prediction_sets.md", lines)
    run_files.write_figure(figure(sets, args.coverage), args.savedir / "prediction_sets.png")


def parser() -> argparse.ArgumentParser:
    flags = record.shared("uncertainty.prediction_sets")
    flags.add_argument(
        "--sets", nargs="+", choices=OTHER, default=["mnist", "fashion_mnist"], help="of images"
    )
    flags.add_argument("--seeds", type=int, default=3, help="how many, from --seed on")
    flags.add_argument("--coverage", type=float, default=0.99, help="share of sets to be right")
    return flags


def main() -> None:
    commands.run(parser(), main_sets)


if __name__ == "__main__":
    main()

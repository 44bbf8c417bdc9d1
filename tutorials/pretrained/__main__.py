"""A pretrained network that knows when not to be trusted.

    export TFBDL_DATA=...                       # holds cifar10/ and mnist/
    python -m tutorials.pretrained --weights efficientnet_lite0_imagenet.npz
    python -m tutorials.pretrained --weights EfficientNetV2B0      # of keras.applications

EfficientNet-Lite0 with the weights of ImageNet learns six classes of CIFAR-10: first a head on
features that stay as they are, then its last blocks too, each by every method that applies. What
people doubt, four other classes and digits in colour then tell whose doubts are worth something.
Each method is kept as it ends, by a process of its own. What it costs changes with the code:
`--costs` measures that anew, without the long trainings.
"""

from __future__ import annotations

import tfbdl  # noqa: F401  # isort: skip  (before anything that imports TensorFlow)

import argparse

from tfbdl.npz_file import read_npz
from tutorials import commands, processes, run_files
from tutorials.pretrained import features, pictures, problem, record
from tutorials.records import Record


def run(args: argparse.Namespace) -> None:
    """Makes what is missing, and the table and figures of what is there."""
    images = problem.images(args.N, args.data_path)
    for part in args.parts if features.is_file(args) else ["head"]:
        features.keep(args, part, images)
        for method in record.METHODS[part]:
            made(args, part, method)
    records = rows(args)
    pictures.table(args.savedir, records)
    paths = [record.answers_of(args.savedir, of["part"], of["method"]) for of in records]
    if not all(path.exists() for path in paths):
        print(f"{args.savedir} lacks answers of some scores: figures are left as they are")
        return
    answers = {path.stem: read_npz(path, dict) for path in paths}
    for name, figure in pictures.figures(answers, images).items():
        run_files.write_figure(figure, args.savedir / f"{name}.png")


def made(args: argparse.Namespace, part: str, method: str) -> None:
    """Has a process make the record, if it is not there."""
    key = {"part": part, "method": method}
    file = record.file_of(args.savedir, costs=args.costs)
    if file.get(key, record.settings(args)) is None:
        flags = {name: value for name, value in vars(args).items() if name != "parts"}
        processes.run("pretrained.record", {**key, **flags})


def rows(args: argparse.Namespace) -> list[Record]:
    """The scores of all methods, with what they cost by now where that is known."""
    settings = record.settings(args)
    scores, costs = (record.file_of(args.savedir, costs=of) for of in (False, True))
    return [{**of, **(costs.get(of, settings) or {})} for of in scores.records()]


def parser() -> argparse.ArgumentParser:
    flags = record.shared("pretrained")
    flags.add_argument("--parts", nargs="+", choices=record.METHODS, default=list(record.METHODS))
    return flags


if __name__ == "__main__":
    commands.run(parser(), run)

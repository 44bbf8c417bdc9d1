"""A pretrained network that knows when not to be trusted.

    export TFBDL_DATA=...                       # holds cifar10/ and mnist/
    python -m tutorials.pretrained --weights efficientnet_lite0_imagenet.npz
    python -m tutorials.pretrained --weights EfficientNetV2B0      # of keras.applications

EfficientNet-Lite0 with the weights of ImageNet learns six classes of CIFAR-10: first a head on
features that stay as they are, then its last blocks too, each by every method that applies. What
people doubt, four other classes and digits in colour then tell whose doubts are worth something.
Each method is kept as it ends.
"""

from __future__ import annotations

import tfbdl  # isort: skip  (before anything that imports TensorFlow)

import argparse
import resource
import time
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import scipy.stats

from tfbdl import metrics
from tfbdl.inference import NeuralLinear
from tfbdl.npz_file import read_npz
from tfbdl.whole_file import write_whole
from tutorials import commands, run_files
from tutorials.pretrained import efficientnet_lite0, heads, pictures, problem, tails
from tutorials.records import RecordFile

SETS = ("test", "unknown", "digits")
POINTS = ("softmax", "fine-tuned")
"""Methods without a posterior."""


def parser() -> argparse.ArgumentParser:
    parser = commands.photo_parser(
        "pretrained", __doc__.splitlines()[0], N=12_000, batch_size=100, n_epochs=40
    )
    parser.add_argument("--weights", required=True, help="a file, or a name of keras.applications")
    parser.add_argument("--size", type=int, default=96, help="pixels a side")
    parser.add_argument("--tail_epochs", type=int, default=10, help="of the last blocks")
    parser.add_argument("--K", type=int, default=5, help="members of an ensemble")
    parser.add_argument("--rank", type=int, default=4, help="of LoRA")
    parser.add_argument("--S", type=int, default=50, help="functions drawn of a head")
    parser.add_argument("--tail_S", type=int, default=10, help="and of the last blocks")
    parser.add_argument(
        "--parts", nargs="+", choices=("heads", "tails"), default=["heads", "tails"]
    )
    return parser


def body(args: argparse.Namespace) -> tuple[keras.Model, problem.Scale]:
    """The pretrained features, and how pixels are scaled for them."""
    if Path(args.weights).exists():
        network = efficientnet_lite0.body(args.size)
        efficientnet_lite0.load_weights(network, Path(args.weights))
        return network, efficientnet_lite0.scaled
    build = getattr(keras.applications, args.weights, None)
    if build is None:
        raise ValueError(f"--weights {args.weights} is no file, and none of keras.applications")
    shape = (args.size, args.size, 3)
    return build(include_top=False, pooling="avg", input_shape=shape), np.float32


def computed(
    args: argparse.Namespace, network: keras.Model, scale: problem.Scale, images: problem.Images
) -> dict[str, np.ndarray]:
    """What the network gives for all images, kept in the folder of the run."""
    path = args.savedir / f"{network.name}.npz"
    if not path.exists():
        given = {
            name: problem.outputs(network, getattr(images, name), scale, args.size)
            for name in ("train", *SETS)
        }
        write_npz(path, given)
    return read_npz(path, dict)


def write_npz(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Writes a file that is whole or not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, lambda file: np.savez(file, **arrays))  # type: ignore[arg-type]


def scores(
    number: int, seed: int, made: Any, x: dict[str, np.ndarray], images: problem.Images
) -> Any:
    """How good the answers are, and whether doubts are where they belong; and the answers."""
    p: dict[str, np.ndarray] = {}
    doubts: dict[str, np.ndarray] = {}
    for name in SETS:
        prediction = tfbdl.predict(made, x[name], number, seed=seed)
        p[name] = prediction.mean
        if isinstance(made, NeuralLinear):
            positive = np.maximum(prediction.mean, 1e-3)
            p[name] = positive / positive.sum(axis=1, keepdims=True)
        doubts[name] = scipy.stats.entropy(p[name], axis=1)
    y = images.y_test
    scored = {
        "accuracy": float((p["test"].argmax(axis=1) == y).mean()),
        "nll": metrics.negative_log_likelihood(y, p["test"]),
        "ece": metrics.expected_calibration_error(y, p["test"]),
        "auroc_errors": metrics.error_auroc(y, p["test"], doubts["test"]),
        "auroc_unknown": metrics.auroc(doubts["test"], doubts["unknown"]),
        "auroc_digits": metrics.auroc(doubts["test"], doubts["digits"]),
        "people": float(scipy.stats.spearmanr(doubts["test"], images.people).statistic),
    }
    return scored, p


def measured(args: argparse.Namespace, name: str, make: Any, x: Any, images: problem.Images) -> Any:
    """Trains, asks, and keeps the answers."""
    part, _, method = name.partition(", ")
    begun = time.process_time()
    made = make()
    trained = time.process_time()
    number = {"head": args.S, "tail": args.tail_S}[part] if method not in POINTS else 0
    scored, p = scores(number, args.seed, made, x, images)
    write_npz(args.savedir / f"{name.replace(' ', '_')}.npz", p)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    seconds = {"train": round(trained - begun), "ask": round(time.process_time() - trained)}
    print(f"{name}: " + ", ".join(f"{k} {v:.4f}" for k, v in scored.items()), flush=True)
    return {**scored, "cpu_seconds": seconds, "peak_GB_so_far": round(memory, 2)}


def run(args: argparse.Namespace) -> None:
    network, scale = body(args)
    images = problem.images(args.N, args.data_path)
    records = RecordFile(args.savedir / "scores.jsonl", "part", "method")
    settings = commands.configuration(args, "parts", "weights", "data_path")
    args.savedir.mkdir(parents=True, exist_ok=True)
    if "heads" in args.parts:
        x = computed(args, network, scale, images)
        for name, method in heads.METHODS.items():
            make = partial(method, args, x["train"], images.y_train)
            keep = partial(measured, args, f"head, {name}", make, x, images)
            records.kept({"part": "head", "method": name}, settings, keep)
    if "tails" in args.parts and network.name == "efficientnet_lite0":
        trunk, pretrained = tails.cut(network)
        x = computed(args, trunk, scale, images)
        for name, of_tail in tails.METHODS.items():
            make = partial(of_tail, args, pretrained, x["train"], images.y_train)
            keep = partial(measured, args, f"tail, {name}", make, x, images)
            records.kept({"part": "tail", "method": name}, settings, keep)
    pictures.table(args.savedir, records.records())
    answers = {p.stem: read_npz(p, dict) for p in sorted(args.savedir.glob("*,_*.npz"))}
    if not answers:
        print(f"no answers in {args.savedir}, only their scores: figures are left as they are")
        return
    for name, figure in pictures.figures(answers, images).items():
        run_files.write_figure(figure, args.savedir / f"{name}.png")


if __name__ == "__main__":
    commands.run(parser(), run)

"""What the tutorial scripts share: flags, the run's folder, figures, and one-line errors."""

from __future__ import annotations

import os

os.environ["TFBDL_QUIET"] = "1"
import tfbdl  # isort: skip  (before anything that imports TensorFlow)

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import matplotlib

matplotlib.use("Agg")

import keras
import numpy as np
import tensorflow as tf
from matplotlib.figure import Figure, SubFigure

from tfbdl.data import ImageData, load
from tfbdl.whole_file import write_whole


def arguments(description: str, savedir: str, **defaults: Any) -> argparse.ArgumentParser:
    """The flags that all scripts have, under the names of the original code."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument(
        "--data",
        choices=("mnist", "fashion_mnist", "digits"),
        default="mnist",
        help="data set; digits needs no download",
    )
    parser.add_argument("--mnist_path", default=None, help="folder of the data files")
    parser.add_argument(
        "--split",
        choices=("tutorial", "full"),
        default="tutorial",
        help="N training images and the next 100 of each class to test, or the whole data set",
    )
    parser.add_argument("--N", type=int, default=1000, help="training images, N / 10 of each class")
    parser.add_argument("--batch_size", type=int, default=100, help="images a step")
    parser.add_argument("--n_epochs", type=int, default=100, help="passes over the data")
    parser.add_argument(
        "--savedir", type=Path, default=Path("runs") / savedir, help="output folder"
    )
    parser.add_argument("--seed", type=int, default=0, help="of weights, noise and order")
    parser.set_defaults(**defaults)
    return parser


def toy_arguments(description: str, savedir: str, **defaults: Any) -> argparse.ArgumentParser:
    """The flags of scripts whose data are drawn; N and S have no defaults of their own."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--N", type=int, help="training points")
    parser.add_argument("--S", type=int, help="drawn functions a prediction")
    parser.add_argument(
        "--savedir", type=Path, default=Path("runs") / savedir, help="output folder"
    )
    parser.add_argument("--seed", type=int, default=0, help="of data, weights, noise and order")
    parser.set_defaults(**defaults)
    return parser


def images(args: argparse.Namespace) -> ImageData:
    """The chosen split of the chosen data set, as rows of pixels; sets N to what it holds."""
    if args.split == "tutorial" and args.N % 10:
        raise ValueError(f"--N {args.N} must be a multiple of 10: N / 10 images of each class")
    data = load(args.data, args.split, per_class=max(args.N // 10, 1), directory=args.mnist_path)
    args.N = len(data.x_train)
    return data._replace(x_train=flat(data.x_train), x_test=flat(data.x_test))


def flat(images: Any) -> Any:
    """(N, 28, 28) as (N, 784)."""
    return images.reshape(len(images), -1)


def square(rows: Any) -> Any:
    """(N, 784) as (N, 28, 28)."""
    return rows.reshape(len(rows), 28, 28)


def adam(args: argparse.Namespace) -> keras.optimizers.Adam:
    """Adam at 1e-3, and at 1e-4 in the second half of the epochs."""
    steps = args.n_epochs * (args.N // min(args.batch_size, args.N))
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay([steps // 2 - 1], [1e-3, 1e-4])
    return keras.optimizers.Adam(schedule)


def classification(model: keras.Model, optimizer: keras.optimizers.Optimizer) -> keras.Model:
    """Compiles for logits and integer labels, with the slides' names for the metrics."""
    model.compile(
        optimizer,
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=[
            keras.metrics.SparseCategoricalCrossentropy(from_logits=True, name="cent"),
            keras.metrics.SparseCategoricalAccuracy(name="acc"),
        ],
    )
    return model


def save(model: keras.Model, savedir: Path) -> None:
    """Keeps the trained model beside its log, whole or not at all."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.keras"
        model.save(path)
        write_whole(savedir / path.name, lambda file: file.write(path.read_bytes()))


def trained(savedir: Path) -> keras.Model:
    """The model that `--mode train` has saved."""
    path = savedir / "model.keras"
    if not path.exists():
        raise FileNotFoundError(f"{savedir} has no trained model; run --mode train first")
    return keras.models.load_model(path)


def accuracies(args: argparse.Namespace, model: keras.Model, num_samples: int) -> dict[str, float]:
    """Cross-entropy (nats) and accuracy: naive, at the mean weights, and averaged over functions.

    On the tutorial's test images (100 of each class) and on the full test set.
    """
    full = load(args.data, "full", directory=args.mnist_path)
    sets = {"full_test": (flat(full.x_test), full.y_test)}
    if args.split == "tutorial":
        sets = {"test": images(args)[2:]} | sets
    found: dict[str, float] = {}
    for name, (x, y) in sets.items():
        naive = model.evaluate(x, y, batch_size=1000, verbose=0, return_dict=True)
        p = tfbdl.predict(model, x, num_samples, seed=args.seed).mean
        found |= {
            f"{name}_images": len(x),
            f"{name}_cent_naive": naive["cent"],
            f"{name}_acc_naive": naive["acc"],
            f"{name}_cent_mc": float(-np.log(p[np.arange(len(y)), y] + 1e-12).mean()),
            f"{name}_acc_mc": float((p.argmax(-1) == y).mean()),
        }
    return found


def test_classifier(args: argparse.Namespace, model: keras.Model) -> dict[str, float]:
    """Prints and keeps the `accuracies` of a trained model."""
    found = accuracies(args, model, args.S)
    for name, which in (("test", "images beside the training images"), ("full_test", "test set")):
        for kind, label in (("naive", "naive"), ("mc", f"S = {args.S}")):
            if f"{name}_images" in found:
                cent, acc = found[f"{name}_cent_{kind}"], found[f"{name}_acc_{kind}"]
                size = found[f"{name}_images"]
                print(f"test: cent {cent:f}, acc {acc:f} ({label}, {which}: {size})")
    write_metrics(args.savedir, args, **found)
    return found


def read_metrics(savedir: Path) -> dict[str, Any]:
    """What `write_metrics` has kept."""
    return json.loads((savedir / "metrics.json").read_text())


def write_metrics(savedir: Path, args: argparse.Namespace, **metrics: Any) -> None:
    """Adds figures to `metrics.json`, with the configuration that made them."""
    path = savedir / "metrics.json"
    found = read_metrics(savedir) if path.exists() else {}
    versions = {
        "tfbdl": tfbdl.__version__,
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
    }
    found |= {"configuration": configuration(args), "versions": versions, **metrics}
    write_json(path, found)


def configuration(args: argparse.Namespace, *others: str) -> dict[str, Any]:
    """The flags that results depend on: all but where files are, and these others."""
    found = {k: str(v) if isinstance(v, Path) else v for k, v in vars(args).items()}
    for name in ("mode", "mnist_path", "savedir", *others):
        found.pop(name, None)
    return found


def write_json(path: Path, record: Mapping[str, Any]) -> None:
    """Writes a record so that it is whole or not there."""
    text = json.dumps(record, indent=2) + "\n"
    write_whole(path, lambda file: file.write(text.encode()))


def write_text(path: Path, lines: Sequence[str]) -> None:
    """Writes and prints a table."""
    text = "\n".join(lines) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, lambda file: file.write(text.encode()))
    print(f"{text}table: {path}")


def write_figure(figure: Figure | SubFigure, path: Path) -> None:
    """Writes a PNG of modest size and says where."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure = cast(Figure, figure)
    write_whole(path, lambda file: figure.savefig(file, dpi=110, format=path.suffix[1:]))
    matplotlib.pyplot.close(figure)
    print(f"figure: {path}")


def run(parser: argparse.ArgumentParser, main: Callable[[argparse.Namespace], object]) -> None:
    """Runs a script; mistakes of the user's end in one line."""
    args = parser.parse_args()
    try:
        main(args)
    except (ValueError, OSError, tfbdl.TrainingError) as error:
        sys.exit(f"{parser.prog}: error: {error}")
    except KeyboardInterrupt:
        sys.exit(f"{parser.prog}: stopped; the same command goes on from the last epoch")


def run_mode(
    parser: argparse.ArgumentParser, **modes: Callable[[argparse.Namespace], object]
) -> None:
    """Runs a script that has the flag `--mode`."""
    parser.add_argument("--mode", choices=list(modes), default="train", help="what to do")
    run(parser, lambda args: modes[args.mode](args))

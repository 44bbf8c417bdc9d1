"""What runs leave beside their logs: models, numbers, tables and figures."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import keras
import tensorflow as tf
from matplotlib import pyplot
from matplotlib.figure import Figure, SubFigure

import tfbdl
from tfbdl.whole_file import write_whole
from tutorials import commands


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
    return tfbdl.load(path)


def read_metrics(savedir: Path) -> dict[str, Any]:
    """What `write_metrics` has kept."""
    return json.loads((savedir / "metrics.json").read_text())


def write_metrics(args: argparse.Namespace, **metrics: Any) -> None:
    """Adds figures to `metrics.json`, with the configuration that made them."""
    path = args.savedir / "metrics.json"
    kept = read_metrics(args.savedir) if path.exists() else {}
    versions = {
        "tfbdl": tfbdl.__version__,
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
    }
    kept |= {"configuration": commands.configuration(args), "versions": versions, **metrics}
    text = json.dumps(kept, indent=2) + "\n"
    write_whole(path, lambda file: file.write(text.encode()))


def write_table(path: Path, lines: Sequence[str]) -> None:
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
    pyplot.close(figure)
    print(f"figure: {path}")

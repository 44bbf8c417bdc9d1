"""The images that flags choose, as rows of pixels."""

from __future__ import annotations

import argparse
from typing import Any

from tfbdl import data
from tfbdl.data import ImageData


def chosen(args: argparse.Namespace) -> ImageData:
    """The split of the data set; sets N to what it holds."""
    per_class = max(args.N // 10, 1) if args.split == "tutorial" else None
    if per_class and args.N % 10:
        raise ValueError(f"--N {args.N} must be a multiple of 10: N / 10 images of each class")
    images = data.load(args.data, args.split, per_class=per_class, directory=args.mnist_path)
    args.N = len(images.x_train)
    return images._replace(x_train=flat(images.x_train), x_test=flat(images.x_test))


def full_test(args: argparse.Namespace) -> tuple[Any, Any]:
    """Images and labels of the whole test set."""
    images = data.load(args.data, "full", directory=args.mnist_path)
    return flat(images.x_test), images.y_test


def flat(images: Any) -> Any:
    """(N, 28, 28) as (N, 784)."""
    return images.reshape(len(images), -1)


def square(rows: Any) -> Any:
    """(N, 784) as (N, 28, 28)."""
    return rows.reshape(len(rows), 28, 28)

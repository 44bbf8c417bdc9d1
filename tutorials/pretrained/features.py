"""What methods are trained on and asked about: what the body gives for all images, computed once.

A head is given the features of the whole body, a tail those of its trunk.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import keras
import numpy as np

from tfbdl.npz_file import read_npz
from tfbdl.whole_file import write_whole
from tutorials.pretrained import efficientnet_lite0, problem, tails
from tutorials.pretrained.problem import Images, Scale


def body(args: argparse.Namespace) -> tuple[keras.Model, Scale]:
    """The pretrained body, and how pixels are scaled for it."""
    if is_file(args):
        network = efficientnet_lite0.body(args.size)
        efficientnet_lite0.load_weights(network, Path(args.weights))
        return network, efficientnet_lite0.scaled
    build = getattr(keras.applications, args.weights, None)
    if build is None:
        raise ValueError(f"--weights {args.weights} is no file, and none of keras.applications")
    shape = (args.size, args.size, 3)
    return build(include_top=False, pooling="avg", input_shape=shape), np.float32


def is_file(args: argparse.Namespace) -> bool:
    """Whether the weights are those of EfficientNet-Lite0, which has tails."""
    return Path(args.weights).exists()


def keep(args: argparse.Namespace, part: str, images: Images) -> None:
    """Computes the features for a part, unless they are in the folder of the run."""
    path = path_of(args, part)
    if not path.exists():
        network, scale = body(args)
        below = network if part == "head" else tails.cut(network)[0]
        write_npz(path, problem.features(below, images, scale, args.size)._asdict())


def kept(args: argparse.Namespace, part: str) -> Images:
    """The features for a part, in the places of the images."""
    return Images(**read_npz(path_of(args, part), dict))


def path_of(args: argparse.Namespace, part: str) -> Path:
    """Where they are; other images or sizes have other files."""
    return args.savedir / f"features_of_{part}_{args.N}_{args.size}.npz"


def write_npz(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Writes a file that is whole or not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, lambda file: np.savez(file, **arrays))  # type: ignore[arg-type]

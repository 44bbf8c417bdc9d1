"""Command lines of the tutorials: flags, modes, and mistakes that end in one line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import matplotlib

import tfbdl
from tfbdl.data import NAMES

Main = Callable[[argparse.Namespace], object]


def parser(name: str, description: str) -> argparse.ArgumentParser:
    """The flags that all tutorials have.

    Args:
        name: the name of the module, as in `python -m tutorials.name`; its output goes to
            `runs/name`.
        description: for `--help`.
    """
    parser = argparse.ArgumentParser(
        f"python -m tutorials.{name}",
        description=description,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    savedir = Path("runs") / name.replace(".", "_")
    parser.add_argument("--savedir", type=Path, default=savedir, help="output folder")
    parser.add_argument("--seed", type=int, default=0, help="of weights, noise, order, made data")
    return parser


def image_parser(name: str, description: str, **defaults: Any) -> argparse.ArgumentParser:
    """Also the flags of tutorials on images, under the names of the original code."""
    flags = parser(name, description)
    flags.add_argument(
        "--data",
        choices=NAMES,
        default="mnist",
        help="data set; digits needs no download",
    )
    flags.add_argument("--mnist_path", default=None, help="folder of the data files")
    flags.add_argument(
        "--split",
        choices=("tutorial", "full"),
        default="tutorial",
        help="N training images and the next 100 of each class to test, or the whole data set",
    )
    flags.add_argument("--N", type=int, default=1000, help="training images, N / 10 of each class")
    _add_passes(flags, batch_size=100, n_epochs=100)
    flags.set_defaults(**defaults)
    return flags


def photo_parser(
    name: str, description: str, *, N: int, batch_size: int, n_epochs: int
) -> argparse.ArgumentParser:
    """Also the flags of tutorials on photographs."""
    flags = parser(name, description)
    flags.add_argument("--data_path", type=Path, help="folder of the data files")
    flags.add_argument("--N", type=int, default=N, help="training images at most")
    _add_passes(flags, batch_size=batch_size, n_epochs=n_epochs)
    return flags


def _add_passes(flags: argparse.ArgumentParser, *, batch_size: int, n_epochs: int) -> None:
    flags.add_argument("--batch_size", type=int, default=batch_size, help="images a step")
    flags.add_argument("--n_epochs", type=int, default=n_epochs, help="passes over the data")


def toy_parser(name: str, description: str, *, N: int, S: int) -> argparse.ArgumentParser:
    """Also the flags of tutorials whose data are made."""
    flags = parser(name, description)
    flags.add_argument("--N", type=int, default=N, help="training points")
    flags.add_argument("--S", type=int, default=S, help="drawn functions a prediction")
    return flags


def own_defaults(tutorial: ModuleType, args: argparse.Namespace) -> argparse.Namespace:
    """The defaults of another tutorial, with the N and seed of `args`."""
    own: argparse.Namespace = tutorial.parser().parse_args([])
    own.N, own.seed = args.N, args.seed
    return own


def configuration(args: argparse.Namespace, *others: str) -> dict[str, Any]:
    """The flags that results depend on: all but where files are, and these others."""
    flags = {name: str(v) if isinstance(v, Path) else v for name, v in vars(args).items()}
    for name in ("mode", "mnist_path", "savedir", *others):
        flags.pop(name, None)
    return flags


def run(parser: argparse.ArgumentParser, main: Main) -> None:
    """Runs a tutorial; mistakes of the user's end in one line. Figures go to files, not windows."""
    args = parser.parse_args()
    matplotlib.use("Agg")
    try:
        main(args)
    except (ValueError, OSError, tfbdl.TrainingError) as error:
        sys.exit(f"{parser.prog}: error: {error}")
    except KeyboardInterrupt:
        sys.exit(f"{parser.prog}: stopped; the same command goes on from the last epoch")


def run_modes(parser: argparse.ArgumentParser, **modes: Main) -> None:
    """Runs a tutorial that has the flag `--mode`."""
    parser.add_argument("--mode", choices=list(modes), default="train", help="what to do")
    run(parser, lambda args: modes[args.mode](args))

"""The data that a command line names: a published set, its gaps, or a folder of one's own."""

from __future__ import annotations

import argparse
from pathlib import Path

from tfbdl.data import RegressionData, regression, regression_splits, uci, uci_splits
from tfbdl.data.uci import PUBLISHED


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags that name it."""
    parser.add_argument("--set", choices=list(PUBLISHED), default="boston", help="data set")
    parser.add_argument("--splits", nargs="+", type=int, help="some of them")
    parser.add_argument("--uci_path", default=None, help="folder of the data files")
    parser.add_argument("--gap", action="store_true", help="test between the training rows")
    parser.add_argument("--folder", type=Path, help="a set of one's own, in place of --set")
    parser.add_argument("--split_folder", type=Path, help="of its splits; by default --folder")


def splits(args: argparse.Namespace) -> list[int]:
    """The splits asked for, or all of the set."""
    if args.splits:
        return args.splits
    if args.folder is not None:
        return regression_splits(args.split_folder or args.folder)
    return uci_splits(args.set, gap=args.gap)


def data_of(args: argparse.Namespace, split: int) -> RegressionData:
    """The data of a split."""
    if args.folder is not None:
        return regression(args.folder, split, splits=args.split_folder)
    return uci(args.set, split, gap=args.gap, directory=args.uci_path)


def name_of(args: argparse.Namespace) -> str:
    """The name of the set, for files and tables."""
    if args.folder is not None:
        return args.folder.resolve().name
    return f"{args.set}_gap" if args.gap else args.set

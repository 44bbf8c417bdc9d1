"""The lecture's table on its own experiment: how near are methods to HMC on CIFAR-10?

    export TFBDL_DATA=...                                  # holds cifar10/
    python -m tutorials.cifar10 map --member 0             # modes: the members of the ensemble

Every training goes on where it was stopped; one thread each, so that several run side by side.
"""

from __future__ import annotations

import argparse
import os

os.environ["TFBDL_QUIET"] = "1"
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # some processors have it off: twice as fast

from pathlib import Path

import tensorflow as tf

RESULTS = Path("results/cifar10")


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m tutorials.cifar10", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--threads", type=int, default=1, help="of one training")
    parser.add_argument(
        "--savedir", type=Path, default=Path("runs/cifar10"), help="for checkpoints"
    )
    parser.add_argument("--weights", type=Path, default=RESULTS / "weights", help="of what is done")
    commands = parser.add_subparsers(dest="command", required=True)
    modes = commands.add_parser("map", help="train one member of the ensemble")
    modes.add_argument("--member", type=int, required=True, help="its number, and its seed")
    modes.add_argument("--epochs", type=int, default=30, help="passes over the data")
    modes.add_argument("--learning_rate", type=float, default=0.1, help="at its highest")
    return parser


def main() -> None:
    args = parser().parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(args.threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    from tutorials.cifar10 import modes  # noqa: PLC0415

    {"map": modes.train}[args.command](args)


if __name__ == "__main__":
    main()

"""The lecture's table on its own experiment: how near are methods to HMC on CIFAR-10?

    export TFBDL_DATA=...                                  # holds cifar10/
    python -m tutorials.cifar10 map --number 0             # modes: the members of the ensemble
    python -m tutorials.cifar10 sampler --number 0 --sampler SGHMC --name SGHMC
    python -m tutorials.cifar10 report                     # of all runs that there are

Every training goes on where it was stopped; one thread each, so that several run side by side.
"""

from __future__ import annotations

import argparse
import os
import sys

os.environ["TFBDL_QUIET"] = "1"
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # some processors have it off: twice as fast

from pathlib import Path

import tensorflow as tf

RESULTS = Path("results/cifar10")

COMMANDS = {
    "map": ("mode", 20, 0.1),
    "mc_dropout": ("dropout", 20, 0.1),
    "concrete_dropout": ("concrete_dropout", 20, 0.1),
    "mean_field": ("mean_field", 20, 1e-3),
    "swag": ("swag", 10, 0.02),
    "laplace": ("laplace", 1, 0.0),
    "sampler": ("sampler", 60, 0.1),
}
"""Each method's function in `trainings`, epochs, and learning rate at its highest."""


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
    for name, (_, epochs, rate) in COMMANDS.items():
        command = commands.add_parser(name, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
        command.add_argument("--number", type=int, default=0, help="of the run, and its seed")
        command.add_argument("--name", help="of its folder; by default that of the command")
        if name == "laplace":
            command.set_defaults(epochs=epochs)
            command.add_argument("--layers", choices=("last_layer", "all"), default="last_layer")
        else:
            command.add_argument("--epochs", type=int, default=epochs, help="passes over the data")
            command.add_argument("--learning_rate", type=float, default=rate, help="at its highest")
        command.add_argument("--S", type=int, default=20, help="functions drawn in predictions")
        if name == "mc_dropout":
            command.add_argument("--rate", type=float, default=0.1, help="of dropout")
        if name == "sampler":
            command.add_argument("--sampler", default="SGHMC", help="of tfbdl.optimizers")
            command.add_argument(
                "--from_mode", action="store_true", help="start at the mode of this number, scaled"
            )
            command.add_argument("--momentum", type=float, default=0.9)
            command.add_argument("--burn_in", type=int, default=20, help="epochs")
            command.add_argument("--final_rate", type=float, default=0.03, help="behind those")
            command.add_argument("--cycle", type=int, default=0, help="epochs of one; 0 for none")
            command.add_argument("--every", type=int, default=1, help="epochs between two samples")
    made = commands.add_parser("report", formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    made.add_argument("--results", type=Path, default=RESULTS, help="for tables and figures")
    return parser


def main() -> None:
    args = parser().parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(args.threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    from tutorials.cifar10 import answers, report, trainings  # noqa: PLC0415

    try:
        if args.command == "report":
            report.report(args)
        else:
            answers.write_settings(trainings.folder_of(args), args)
            getattr(trainings, COMMANDS[args.command][0])(args)
    except (ValueError, OSError) as error:
        sys.exit(f"python -m tutorials.cifar10: error: {error}")


if __name__ == "__main__":
    main()

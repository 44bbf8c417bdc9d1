"""The lecture's table on its own experiment: how near are methods to HMC on CIFAR-10?

    export TFBDL_DATA=...                                  # holds cifar10/ (see `pixels`)
    python -m tutorials.cifar10 map --number 0             # modes: the members of the ensemble
    python -m tutorials.cifar10 sghmc --number 0           # a chain from that mode
    python -m tutorials.cifar10 report                     # of all runs that there are

Every training goes on where it was stopped; one thread each, so that several run side by side. What
the report and later runs need of one is in `--results`; checkpoints are in `--savedir`.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Collection

os.environ["TFBDL_QUIET"] = "1"
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # some processors have it off: twice as fast

from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from tutorials import commands
from tutorials.cifar10 import chains, problem, report, trainings
from tutorials.cifar10.answers import FROM_MODES, NO_MODE, SAMPLERS

COMMANDS = {
    "map": (trainings.mode, 20, 0.1),
    "mc_dropout": (trainings.dropout, 20, 0.1),
    "concrete_dropout": (trainings.concrete_dropout, 20, 0.1),
    "mean_field": (trainings.mean_field, 40, 3e-3),
    "ivon": (trainings.ivon, 40, 0.1),
    "snapshots": (trainings.snapshots, 60, 0.1),
    "swag": (trainings.swag, 10, 0.02),
    "laplace": (trainings.laplace, 1, None),
    "laplace_all": (trainings.laplace_all, 1, None),
    "sgld": (chains.sampler, 60, 0.1),
    "sghmc": (chains.sampler, 60, 0.1),
    "preconditioned_sgld": (chains.sampler, 60, 1e-3),
    "preconditioned_sghmc": (chains.sampler, 60, 1e-4),
}
"""What trains each method, epochs, and learning rate at its highest."""
FUNCTIONS = {
    **{name: function for name, (function, _, _) in COMMANDS.items()},
    "report": report.report,
}
TRAINED = [name for name, (_, _, rate) in COMMANDS.items() if rate]
OPTIONS: tuple[tuple[Collection[str], str, dict[str, Any]], ...] = (
    (COMMANDS, "--number", {"type": int, "default": 0, "help": "of the run, and its seed"}),
    (COMMANDS, "--name", {"help": "of its folder and row; by default of the command"}),
    (COMMANDS, "--S", {"type": int, "default": 20, "help": "functions drawn in predictions"}),
    (TRAINED, "--epochs", {"type": int, "help": "passes over the data"}),
    (TRAINED, "--learning_rate", {"type": float, "help": "at its highest"}),
    (
        FROM_MODES,
        "--mode",
        {
            "default": "map",
            "help": "the folder where it starts, without its number; mean_field knows "
            f"{NO_MODE}, too",
        },
    ),
    (
        ("map", "mc_dropout", "concrete_dropout", "mean_field"),
        "--kernel_precision",
        {
            "type": float,
            "default": problem.KERNEL_PRECISION,
            "help": "of the prior of convolutions, whose scale changes no function",
        },
    ),
    (
        ("mean_field", "ivon"),
        "--sigma",
        {"type": float, "default": 0.02, "help": "at the beginning, of the prior's"},
    ),
    (
        ("ivon",),
        "--beta_2",
        {"type": float, "default": 0.9999, "help": "how long curvatures remember"},
    ),
    (
        ("mean_field",),
        "--optimizer",
        {
            "choices": ("adam", "sgd"),
            "default": "adam",
            "help": f"sgd: for `--mode {NO_MODE}`",
        },
    ),
    (
        ("mean_field",),
        "--estimator",
        {
            "choices": ("flipout", "reparameterization"),
            "default": "flipout",
            "help": "the second draws weights once a step, in half of the time",
        },
    ),
    (("mc_dropout",), "--rate", {"type": float, "default": 0.1, "help": "of dropout"}),
    (("snapshots",), "--every", {"type": int, "default": 15, "help": "epochs of a cycle"}),
    (
        ("mean_field", *SAMPLERS),
        "--start",
        {"help": "the run that it goes on behind; by default it begins at a mode"},
    ),
    (SAMPLERS, "--burn_in", {"type": int, "default": 10, "help": "epochs without samples"}),
    (SAMPLERS, "--every", {"type": int, "default": 1, "help": "epochs between two samples"}),
    (
        SAMPLERS,
        "--cyclical",
        {"action": "store_true", "help": "whether the rate falls before each sample"},
    ),
    (
        SAMPLERS,
        "--temperature",
        {
            "type": float,
            "default": 1.0,
            "help": "of the noise that is made, beside which mini-batches make some",
        },
    ),
    (
        ("sghmc", "preconditioned_sghmc"),
        "--momentum",
        {"type": float, "default": 0.95, "help": "in [0, 1)"},
    ),
)
"""Which commands have which flag; epochs and learning rates are those of `COMMANDS`."""


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m tutorials.cifar10", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--threads", type=int, default=1, help="of one training")
    parser.add_argument(
        "--bfloat16",
        action="store_true",
        help="convolves in it: less than half of the time where a processor has AMX",
    )
    parser.add_argument(
        "--savedir", type=Path, default=Path("runs/cifar10"), help="for checkpoints"
    )
    parser.add_argument(
        "--results",
        type=Path,
        default=Path("results/cifar10"),
        help="for records, predictions and last weights of runs, tables and figures",
    )
    subparsers = parser.add_subparsers(dest="command", required=True)
    for name, (_, epochs, rate) in COMMANDS.items():
        command = subparsers.add_parser(
            name, formatter_class=argparse.ArgumentDefaultsHelpFormatter
        )
        for commands_of, flag, settings in OPTIONS:
            if name in commands_of:
                command.add_argument(flag, **settings)
        command.set_defaults(epochs=epochs, **({"learning_rate": rate} if rate else {}))
    subparsers.add_parser("report")
    return parser


def start(args: argparse.Namespace) -> None:
    tf.config.threading.set_intra_op_parallelism_threads(args.threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    if args.bfloat16:
        keras.config.set_dtype_policy("mixed_bfloat16")
    FUNCTIONS[args.command](args)


def main() -> None:
    commands.run(parser(), start)


if __name__ == "__main__":
    main()

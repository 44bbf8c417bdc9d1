"""Part IV over settings and seeds: what sampling gains, and how far weights can be dropped.

    python -m tutorials.part4_sweeps --sweep compression --split full   # LeNet-300-100
    python -m tutorials.part4_sweeps --sweep gain                       # 1,000 images

Each run is kept in the sweep's file as it ends, and one that is stopped goes on behind its last
epoch. Tables and figures are made of the runs that are there.
"""

from __future__ import annotations

import tfbdl  # isort: skip  (before anything that imports TensorFlow)

import argparse
import itertools
from pathlib import Path
from typing import Any

import keras
import matplotlib.pyplot as plt
import numpy as np

from tutorials import commands, image_data, part4_variational_dropout, run_files
from tutorials.records import Record, RecordFile

KL_WEIGHTS = (1.0, 1.5, 2.0)
EPOCHS = (200, 400)
GAIN: dict[str, dict[str, Any]] = {
    "Kingma, alpha from 0.05": {"kl": "kingma", "initial_alpha": 0.05},
    "Kingma, alpha from 0.25": {"kl": "kingma", "initial_alpha": 0.25},
    "Kingma, alpha from 1": {"kl": "kingma", "initial_alpha": 1.0},
    "Kingma, alpha from 1, warm-up": {"kl": "kingma", "initial_alpha": 1.0, "warm_up": (0, 50)},
    "Molchanov, warm-up to 50": {"kl": "molchanov", "warm_up": (5, 50)},
    "Molchanov, warm-up to 100": {"kl": "molchanov", "warm_up": (20, 100)},
}
"""How 784-500-500-10 is trained on 1,000 images."""
SLIDES = (88.77, 0.53, 89.60, 0.56)
"""Percent right on the slide: naive and its standard deviation, by samples and its."""
PAPER = (68.0, 1.92)
"""Compression and test error (percent) of LeNet-300-100, Molchanov et al. (2017), table 1."""


def compression(args: argparse.Namespace) -> None:
    """How many weights LeNet-300-100 needs, by the weight of its KL and the epochs it has."""
    image_data.chosen(args)
    record_file = RecordFile(args.savedir / "compression.jsonl", "kl_weight", "epochs", "seed")
    runs = itertools.product(range(args.seeds or 3), args.epochs, args.kl_weights)
    for seed, epochs, weight in runs:
        args.seed, args.n_epochs, args.kl_weight = seed, epochs, weight

        def run() -> Record:
            return compressed(args)

        key = {"kl_weight": weight, "epochs": epochs, "seed": seed}
        record = record_file.kept(key, settings(args), run)
        print(
            f"{key}: {record['compression']:.1f} times fewer, {record['error']:.2f} %", flush=True
        )
    write_compression(args, record_file.records())


def compressed(args: argparse.Namespace) -> Record:
    """One network, trained and pruned: compression and test errors in percent."""
    data = image_data.chosen(args)
    model = part4_variational_dropout.lenet(args)
    tfbdl.set_kl_weight(model, args.kl_weight)
    name = f"part4_weight_{args.kl_weight:g}_epochs_{args.n_epochs}_seed_{args.seed}"
    tfbdl.train(
        model,
        data.x_train,
        data.y_train,
        epochs=args.n_epochs,
        batch_size=args.batch_size,
        savedir=args.checkpoints / name,
        columns=["cent", "kl", "acc"],
        callbacks=[tfbdl.KLAnnealing(start=5, end=20)],
        seed=args.seed,
        verbose=0,
    )
    x, y = image_data.full_test(args)
    mc = tfbdl.predict(model, x, args.S, seed=args.seed).mean
    naive = percent_wrong(model, x, y)
    kept, total = part4_variational_dropout.prune(model)
    return {
        "compression": total / max(kept, 1),
        "error": percent_wrong(model, x, y),
        "error_naive": naive,
        "error_mc": 100.0 * float((mc.argmax(-1) != y).mean()),
    }


def percent_wrong(model: keras.Model, x: np.ndarray, y: np.ndarray) -> float:
    """Test error of the mean weights."""
    scores = model.evaluate(x, y, batch_size=1000, verbose=0, return_dict=True)
    return 100.0 * (1.0 - scores["acc"])


def write_compression(args: argparse.Namespace, records: list[Record]) -> None:
    """The table and the figure: error against compression."""
    lines = [
        "| KL weight | epochs | seeds | times fewer | test error, pruned | before | S = 100 |",
        "|---" * 7 + "|",
    ]
    figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
    markers = dict(zip(EPOCHS, "os", strict=True))
    for epochs, weight in itertools.product(EPOCHS, KL_WEIGHTS):
        of = [r for r in records if (r["epochs"], r["kl_weight"]) == (epochs, weight)]
        if not of:
            continue
        columns = ("compression", "error", "error_naive", "error_mc")
        means = {name: np.array([record[name] for record in of]) for name in columns}
        cells = [
            f"{v.mean():.1f}" if c == "compression" else f"{v.mean():.2f} %"
            for c, v in means.items()
        ]
        lines.append(f"| {weight:g} | {epochs} | {len(of)} | {' | '.join(cells)} |")
        ax.plot(
            means["compression"],
            means["error"],
            markers[epochs],
            color=f"C{KL_WEIGHTS.index(weight)}",
            label=f"KL x {weight:g}, {epochs} epochs",
        )
    ax.plot(*PAPER, "k*", markersize=14, label="Molchanov et al. (2017)")
    ax.set(xlabel="compression: weights there were / weights left", ylabel="test error, percent")
    ax.set_title("LeNet-300-100 on MNIST: a point a training")
    ax.legend(fontsize=8)
    ax.grid(alpha=0.3)
    run_files.write_table(args.savedir / "compression.md", lines)
    run_files.write_figure(figure, args.savedir / "compression.png")


def gain(args: argparse.Namespace) -> None:
    """What the mean over drawn functions gains on the mean network, by how noise starts."""
    record_file = RecordFile(args.savedir / "gain.jsonl", "setting", "seed")
    data = image_data.chosen(args)
    for seed, (name, changed) in itertools.product(range(args.seeds or 10), GAIN.items()):
        own = commands.own_defaults(part4_variational_dropout, args)
        own.seed = seed
        vars(own).update(changed)

        def run(own: argparse.Namespace = own) -> Record:
            model = part4_variational_dropout.tutorial_network(own)
            tfbdl.train(
                model,
                data.x_train,
                data.y_train,
                epochs=args.n_epochs,
                batch_size=args.batch_size,
                callbacks=part4_variational_dropout.warm_up(own),
                seed=own.seed,
                verbose=0,
            )
            p = tfbdl.predict(model, data.x_test, args.S, seed=own.seed).mean
            return {
                "naive": 100.0 - percent_wrong(model, data.x_test, data.y_test),
                "mc": 100.0 * float((p.argmax(-1) == data.y_test).mean()),
            }

        key = {"setting": name, "seed": seed}
        record = record_file.kept(key, settings(args) | {"n_epochs": args.n_epochs}, run)
        print(
            f"{key}: {record['naive']:.2f} (naive), {record['mc']:.2f} (S = {args.S})", flush=True
        )
    write_gain(args, record_file.records())


def write_gain(args: argparse.Namespace, records: list[Record]) -> None:
    """The table and the figure: naive, by samples, and the difference run by run."""
    lines = ["| setting | seeds | naive | S = 100 | gain (standard error) |", "|---" * 5 + "|"]
    lines.append("| slides | | {} ± {} | {} ± {} | +0.83 |".format(*SLIDES))
    figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
    for place, name in enumerate(GAIN):
        of = [record for record in records if record["setting"] == name]
        if len(of) < 2:
            continue
        naive, mc = (np.array([record[kind] for record in of]) for kind in ("naive", "mc"))
        gains = mc - naive
        error = gains.std(ddof=1) / len(gains) ** 0.5
        cells = [f"{v.mean():.2f} ± {v.std(ddof=1):.2f}" for v in (naive, mc)]
        lines.append(
            f"| {name} | {len(of)} | {' | '.join(cells)} | {gains.mean():+.2f} ({error:.2f}) |"
        )
        ax.plot(gains, np.full(len(gains), place), "C0o", markersize=4, alpha=0.5)
        ax.errorbar(gains.mean(), place, xerr=2 * error, color="C3", fmt="|", markersize=12)
    ax.axvline(SLIDES[2] - SLIDES[0], color="black", linestyle="--", label="slides")
    ax.axvline(0, color="0.7", linewidth=1)
    ax.set_yticks(range(len(GAIN)), list(GAIN))
    ax.set(xlabel="gain of S = 100 functions on the mean network (points of accuracy)")
    ax.set_title("a dot a seed; bars: mean and 2 standard errors")
    ax.legend(fontsize=8)
    run_files.write_table(args.savedir / "gain.md", lines)
    run_files.write_figure(figure, args.savedir / "gain.png")


def settings(args: argparse.Namespace) -> dict[str, Any]:
    """Flags that all runs of a sweep share."""
    return commands.configuration(
        args,
        "sweep",
        "seeds",
        "epochs",
        "kl_weights",
        "checkpoints",
        "seed",
        "kl",
        "kl_weight",
        "n_epochs",
        "network",
    )


def parser() -> argparse.ArgumentParser:
    parser = commands.image_parser("part4_sweeps", "Part IV over settings and seeds.")
    parser.add_argument("--sweep", choices=("compression", "gain"), default="compression")
    parser.add_argument("--seeds", type=int, default=0, help="0: 3 and 10 of the sweeps")
    parser.add_argument("--S", type=int, default=100, help="drawn functions a prediction")
    parser.add_argument(
        "--kl_weights",
        type=float,
        nargs="+",
        default=KL_WEIGHTS,
        help="weights of the KL that compression tries, each at each of --epochs",
    )
    parser.add_argument(
        "--epochs",
        type=int,
        nargs="+",
        default=EPOCHS,
        help="lengths of the runs of compression; those of gain have --n_epochs",
    )
    parser.add_argument(
        "--checkpoints", type=Path, default=Path("runs"), help="folder of unfinished trainings"
    )
    parser.set_defaults(network="lenet", kl="molchanov", kl_weight=1.0)
    return parser


def main() -> None:
    sweeps = {"compression": compression, "gain": gain}
    commands.run(parser(), lambda args: sweeps[args.sweep](args))


if __name__ == "__main__":
    main()

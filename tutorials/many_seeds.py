"""Many seeds: the slides' accuracy table, the spread of the training log, learned keep rates.

    python -m tutorials.many_seeds --table accuracy   # base, MC, Concrete, variational dropout
    python -m tutorials.many_seeds --table log        # MC dropout, epochs 1 to 10 of the slides
    python -m tutorials.many_seeds --table keep       # mean keep probability per layer at two N

Each run is kept in the table's file as it ends, so that a second call goes on where the first was
stopped. Tables give mean and standard deviation over seeds.
"""

from __future__ import annotations

import tfbdl  # isort: skip  (before anything that imports TensorFlow)

import argparse
from collections.abc import Callable
from typing import Any

import keras
import matplotlib.pyplot as plt
import numpy as np

from tutorials import (
    classifiers,
    commands,
    image_data,
    part2_mc_dropout,
    part3_concrete_dropout,
    part4_variational_dropout,
    run_files,
)
from tutorials.records import RecordFile

KEEP_SIZES = (1000, 10000)
SLIDES_ACCURACY = {
    "base": ("89.37 ± 0.32", "-"),
    "mc_dropout": ("90.07 ± 0.44", "90.17 ± 0.23"),
    "concrete_dropout": ("90.23 ± 0.21", "90.20 ± 0.32"),
    "variational_dropout": ("88.77 ± 0.53", "89.60 ± 0.56"),
}
SLIDES_LOG = {
    "cent": "1.979612 1.094547 .715212 .523885 .433346 .366523 .276434 .225711 .204144 .164487",
    "wd": ".054315 .051379 .049918 .049172 .048822 .048710 .048749 .048887 .049059 .049250",
    "acc": ".336 .686 .760 .831 .862 .891 .926 .936 .945 .950",
}


def base(args: argparse.Namespace) -> keras.Model:
    """The network of part II without dropout."""
    return part2_mc_dropout.network(1.0, 1e-4, args.seed)


def mc_dropout(args: argparse.Namespace) -> keras.Model:
    """The network of part II."""
    return part2_mc_dropout.network(0.5, 1e-4, args.seed)


def concrete_dropout(args: argparse.Namespace) -> keras.Model:
    """The network of part III with its script's defaults."""
    return part3_concrete_dropout.network(commands.own_defaults(part3_concrete_dropout, args))


def variational_dropout(args: argparse.Namespace) -> keras.Model:
    """The network of part IV with its script's defaults."""
    kl = commands.own_defaults(part4_variational_dropout, args).kl
    return part4_variational_dropout.network((500, 500), kl, args.N, args.seed)


METHODS: dict[str, Callable[[argparse.Namespace], keras.Model]] = {
    "base": base,
    "mc_dropout": mc_dropout,
    "concrete_dropout": concrete_dropout,
    "variational_dropout": variational_dropout,
}


def trained(
    model: keras.Model, args: argparse.Namespace, **train: Any
) -> tuple[keras.Model, dict[str, list[float]]]:
    """The model, trained on the tutorial's split; and its log."""
    data = image_data.chosen(args)
    classifiers.compiled(model, classifiers.adam(args))
    arguments = {"epochs": args.n_epochs, "batch_size": args.batch_size} | train
    history = tfbdl.train(model, data.x_train, data.y_train, seed=args.seed, verbose=0, **arguments)
    return model, history


def settings(args: argparse.Namespace) -> dict[str, Any]:
    """Flags that the runs of a table depend on."""
    return commands.configuration(args, "seeds", "table")


def accuracy(args: argparse.Namespace) -> None:
    record_file = RecordFile(args.savedir / "accuracy.jsonl", "method", "seed")
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in METHODS}
    for seed in range(args.seeds or 10):
        for name, network in METHODS.items():
            args.seed = seed

            def run(network: Callable[..., keras.Model] = network) -> dict[str, Any]:
                return classifiers.accuracies(args, trained(network(args), args)[0], args.S)

            record = record_file.kept({"method": name, "seed": seed}, settings(args), run)
            rows[name].append(record)
            print(
                f"{name}, seed {seed}: acc {record['test_acc_naive']:.4f} (naive), "
                f"{record['test_acc_mc']:.4f} (S = {args.S})",
                flush=True,
            )
    lines = [
        "| | naive, slides | naive | MC, slides | MC | naive, full test set | MC, full test set |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, records in rows.items():
        sets = ("test", "full_test")
        columns = [f"{test}_acc_{kind}" for test in sets for kind in ("naive", "mc")]
        ours = [spread([100.0 * record[column] for record in records]) for column in columns]
        if name == "base":
            ours[1] = ours[3] = "-"
        naive, mc = SLIDES_ACCURACY[name]
        lines.append(f"| {name} | {naive} | {ours[0]} | {mc} | {ours[1]} | {ours[2]} | {ours[3]} |")
    run_files.write_table(args.savedir / "accuracy.md", lines)


def log(args: argparse.Namespace) -> None:
    record_file = RecordFile(args.savedir / "log.jsonl", "seed")
    records = []
    for seed in range(args.seeds or 20):
        args.seed = seed

        def run() -> dict[str, Any]:
            columns = ["cent", "wd", "acc"]
            return trained(mc_dropout(args), args, epochs=10, columns=columns)[1]

        records.append(record_file.kept({"seed": seed}, settings(args), run))
    lines = ["| epoch | column | slides | mean | sd | (slides - mean) / sd |", "|---" * 6 + "|"]
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.5), layout="constrained")
    units = {"cent": "nats per example", "wd": "nats per example", "acc": "fraction"}
    for ax, (column, numbers) in zip(axes, SLIDES_LOG.items(), strict=True):
        slides = [float(number) for number in numbers.split()]
        runs = np.array([record[column] for record in records])
        mean, sd = runs.mean(0), runs.std(0, ddof=1)
        epochs = np.arange(1, 11)
        ax.fill_between(
            epochs, mean - 3 * sd, mean + 3 * sd, alpha=0.3, label=f"3 sd of {len(runs)} seeds"
        )
        ax.plot(epochs, mean, label="mean")
        ax.plot(epochs, slides, "k.", label="slides")
        ax.set(xlabel="epoch", ylabel=f"{column} ({units[column]})", xticks=epochs)
        for i, value in enumerate(slides):
            z = (value - mean[i]) / max(sd[i], 1e-12)
            cells = (i + 1, column, f"{value:.4f}", f"{mean[i]:.4f}", f"{sd[i]:.4f}", f"{z:+.1f}")
            lines.append(f"| {' | '.join(map(str, cells))} |")
    axes[0].legend()
    figure.suptitle("MC dropout, epochs 1 to 10: the log of the slides and that of many seeds")
    run_files.write_table(args.savedir / "log.md", lines)
    run_files.write_figure(figure, args.savedir / "log.png")


def keep(args: argparse.Namespace) -> None:
    record_file = RecordFile(args.savedir / "keep.jsonl", "N", "seed")
    lines = ["| N | layer | mean keep probability | standard error |", "|---|---|---|---|"]
    for size in KEEP_SIZES:
        records = []
        for seed in range(args.seeds or 5):
            args.seed, args.N = seed, size

            def run() -> dict[str, Any]:
                learned = part3_concrete_dropout.learned(trained(concrete_dropout(args), args)[0])
                return {name: float(values.mean()) for name, values in learned.items()}

            key = {"N": size, "seed": seed}
            records.append(record_file.kept(key, settings(args), run))
        for layer in (name for name in records[0] if name.startswith("dropout")):
            values = np.array([record[layer] for record in records])
            error = values.std(ddof=1) / np.sqrt(len(values))
            lines.append(f"| {size} | {layer} | {values.mean():.4f} | {error:.4f} |")
    run_files.write_table(args.savedir / "keep.md", lines)


def spread(values: list[float]) -> str:
    """Mean and standard deviation, as the slides print them."""
    return f"{np.mean(values):.2f} ± {np.std(values, ddof=1):.2f}"


def parser() -> argparse.ArgumentParser:
    parser = commands.image_parser("many_seeds", "Many seeds.")
    parser.add_argument("--table", choices=("accuracy", "log", "keep"), default="accuracy")
    parser.add_argument("--seeds", type=int, default=0, help="0: 10, 20 and 5 of the tables")
    parser.add_argument("--S", type=int, default=100, help="drawn functions a prediction")
    return parser


def main() -> None:
    tables = {"accuracy": accuracy, "log": log, "keep": keep}
    commands.run(parser(), lambda args: tables[args.table](args))


if __name__ == "__main__":
    main()

"""Many seeds: the slides' accuracy table, the spread of the training log, learned keep rates.

    python -m tutorials.many_seeds --table accuracy   # base, MC, Concrete, variational dropout
    python -m tutorials.many_seeds --table log        # MC dropout, epochs 1 to 10 of the slides
    python -m tutorials.many_seeds --table vae        # the VAE, epochs 1 to 6 of the slides
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
    part1_vae,
    part2_mc_dropout,
    part3_concrete_dropout,
    part4_variational_dropout,
    run_files,
    slides_logs,
)
from tutorials.records import RecordFile

KEEP_EPOCHS = {1000: 1000, 10000: 100}
"""Epochs by N: 10,000 steps, after which the rates of N = 1,000 stand still."""


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
        ours = [mean_and_sd([100.0 * record[column] for record in records]) for column in columns]
        if name == "base":
            ours[1] = ours[3] = "-"
        naive, mc = slides_logs.ACCURACY[name]
        lines.append(f"| {name} | {naive} | {ours[0]} | {mc} | {ours[1]} | {ours[2]} | {ours[3]} |")
    run_files.write_table(args.savedir / "accuracy.md", lines)


def log(args: argparse.Namespace) -> None:
    """MC dropout's log."""
    record_file = RecordFile(args.savedir / "log.jsonl", "seed")
    records = []
    for seed in range(args.seeds or 20):
        args.seed = seed

        def run() -> dict[str, Any]:
            columns = ["cent", "wd", "acc"]
            return trained(mc_dropout(args), args, epochs=10, columns=columns)[1]

        records.append(record_file.kept({"seed": seed}, settings(args), run))
    slides_logs.write(args, "log", slides_logs.MC_DROPOUT, records)


def vae(args: argparse.Namespace) -> None:
    """The VAE's log."""
    record_file = RecordFile(args.savedir / "vae.jsonl", "seed")
    records = []
    for seed in range(args.seeds or 8):
        args.seed = seed

        def run() -> dict[str, Any]:
            own = commands.own_defaults(part1_vae, args)
            x = image_data.chosen(args).x_train
            epochs = {"epochs": 6, "batch_size": args.batch_size, "columns": ["elbo"]}
            return tfbdl.train(part1_vae.model(own), x, seed=args.seed, verbose=0, **epochs)

        records.append(record_file.kept({"seed": seed}, settings(args), run))
    slides_logs.write(args, "vae", slides_logs.VAE, records)


def keep(args: argparse.Namespace) -> None:
    """Learned keep probabilities along a long training, and what seeds do to them."""
    record_file = RecordFile(args.savedir / "keep.jsonl", "N", "seed")
    lines = [
        "| N | epochs | seeds | layer | mean keep probability | standard error |",
        "|---" * 6 + "|",
    ]
    figure, axes = plt.subplots(
        1, len(KEEP_EPOCHS), figsize=(11, 4), layout="constrained", squeeze=False
    )
    for ax, (size, epochs) in zip(axes.flat, KEEP_EPOCHS.items(), strict=True):
        records = []
        for seed in range(args.seeds or 5):
            args.seed, args.N = seed, size

            def run(epochs: int = epochs) -> dict[str, Any]:
                means = KeepMeans(every=max(epochs // 50, 1))
                trained(concrete_dropout(args), args, epochs=epochs, callbacks=[means])
                return {"epochs": epochs, "means": means.means}

            key = {"N": size, "seed": seed}
            records.append(record_file.kept(key, settings(args), run))
            print(f"N = {size}, seed {seed}: {records[-1]['means'][-1]}", flush=True)
        for i, layer in enumerate(name for name in records[0]["means"][0] if name != "epoch"):
            at = [of["epoch"] for of in records[0]["means"]]
            values = np.array([[of[layer] for of in record["means"]] for record in records])
            ax.plot(at, values.T, color=f"C{i}", linewidth=0.8)
            ax.plot([], [], color=f"C{i}", label=layer)
            last = values[:, -1]
            error = last.std(ddof=1) / np.sqrt(len(last))
            cells = (size, epochs, len(last), layer, f"{last.mean():.4f}", f"{error:.4f}")
            lines.append(f"| {' | '.join(map(str, cells))} |")
        ax.axvline(epochs // 2, color="0.7", linestyle=":", label="from here at rate 1e-4")
        ax.set(
            title=f"N = {size:,}", xlabel="epoch", ylabel="mean keep probability", ylim=(0.45, 0.7)
        )
        ax.legend(fontsize=8)
    figure.suptitle("learned keep probabilities, a line a seed")
    run_files.write_table(args.savedir / "keep.md", lines)
    run_files.write_figure(figure, args.savedir / "keep.png")


class KeepMeans(keras.callbacks.Callback):
    """The mean keep probability of each layer, after the first epoch and each `every` further."""

    def __init__(self, every: int) -> None:
        super().__init__()
        self.every = every
        self.means: list[dict[str, float]] = []

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if epoch % self.every == 0 or epoch + 1 == self.params.get("epochs"):
            learned = part3_concrete_dropout.learned(self.model)
            means = {name: float(values.mean()) for name, values in learned.items()}
            self.means.append({"epoch": epoch + 1, **means})


def mean_and_sd(values: list[float]) -> str:
    """Mean and standard deviation, as the slides print them."""
    return f"{np.mean(values):.2f} ± {np.std(values, ddof=1):.2f}"


def parser() -> argparse.ArgumentParser:
    parser = commands.image_parser("many_seeds", "Many seeds.")
    parser.add_argument("--table", choices=("accuracy", "log", "vae", "keep"), default="accuracy")
    parser.add_argument("--seeds", type=int, default=0, help="0: 10, 20, 8 and 5 of the tables")
    parser.add_argument("--S", type=int, default=100, help="drawn functions a prediction")
    return parser


def main() -> None:
    tables = {"accuracy": accuracy, "log": log, "vae": vae, "keep": keep}
    commands.run(parser(), lambda args: tables[args.table](args))


if __name__ == "__main__":
    main()

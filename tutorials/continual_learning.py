"""Ten tasks one after another, none seen again: what a network forgets, and what Laplace keeps.

    python -m tutorials.continual_learning

Permuted MNIST, after Ritter, Botev and Barber 2018: each task is MNIST with the pixels in an order
of its own, and all share one network with two hidden layers of 100 units. Under online Laplace the
posterior of the tasks so far is the prior of the next one. The lambda of Ritter et al. is 1 / T
here: above 1 old tasks count for more than they had data.
"""

from __future__ import annotations

import tfbdl  # isort: skip  (before anything that imports TensorFlow)

import argparse
import functools
from contextlib import AbstractContextManager, nullcontext

import keras
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from tfbdl.data import ImageData
from tfbdl.inference import Laplace
from tfbdl.likelihoods import Categorical
from tutorials import commands, image_data, run_files
from tutorials.records import Record, RecordFile

FORGETFUL = "no memory"
STRUCTURES = {"diagonal": "diag", "Kronecker": "kron"}
STYLES = {FORGETFUL: "k--", "diagonal": ":", "Kronecker": "-"}
PUBLISHED = (
    "Published: 90 % after ten tasks by variational continual learning (Nguyen et al. 2018), over "
    "90 % after fifty by Kronecker factors (Ritter et al. 2018)."
)
Run = tuple[str, float]
"""A method, and by how much old tasks count."""


def network(decay: float) -> keras.Model:
    """784-100-100-10, logits."""
    dense = functools.partial(keras.layers.Dense, kernel_regularizer=keras.regularizers.L2(decay))
    return keras.Sequential(
        [keras.Input((784,)), dense(100, "relu"), dense(100, "relu"), dense(10)]
    )


def accuracies(name: str, weight: float, args: argparse.Namespace, data: ImageData) -> Record:
    """Trains on one task after another; test accuracies of all tasks so far after each."""
    keras.utils.set_random_seed(args.seed)
    model = network(args.prior_precision / (2 * len(data.x_train)))
    rng = np.random.default_rng(args.seed)
    orders = [rng.permutation(784) for _ in range(args.tasks)]
    posterior = None
    if name != FORGETFUL:
        posterior = Laplace(
            model,
            Categorical(),
            subset_of_weights="all",
            hessian_structure=STRUCTURES[name],
            prior_precision=args.prior_precision,
            temperature=1.0 / weight,
        )
    rows: list[list[float]] = []
    for task, order in enumerate(orders):
        x = data.x_train[:, order]
        with prior_of(task, posterior, len(x)):
            model.compile(keras.optimizers.Adam(args.learning_rate), Categorical())
            settings = {"epochs": args.n_epochs, "batch_size": args.batch_size, "verbose": 0}
            tfbdl.train(model, x, data.y_train, seed=args.seed + task, **settings)
        if posterior is not None:
            remember = posterior.update if task else posterior.fit
            remember(x, data.y_train)
        rows.append([accuracy(model, data, seen) for seen in orders[: task + 1]])
    return {"accuracies": rows}


def prior_of(task: int, posterior: Laplace | None, num_data: int) -> AbstractContextManager[None]:
    """The first task has the network's own weight decay, the others what is known by then."""
    return posterior.as_prior(num_data) if posterior is not None and task else nullcontext()


def accuracy(model: keras.Model, data: ImageData, order: np.ndarray) -> float:
    """The accuracy of a task's test images, in percent."""
    logits = keras.ops.convert_to_numpy(model(data.x_test[:, order]))
    return 100.0 * float(np.mean(logits.argmax(-1) == data.y_test))


def runs(args: argparse.Namespace) -> list[Run]:
    """What is asked for."""
    return [(FORGETFUL, 0.0), *((name, weight) for name in STRUCTURES for weight in args.weights)]


def by_run(records: list[Record]) -> dict[Run, list[list[list[float]]]]:
    """The accuracies of all seeds, methods in the order of `STYLES`."""
    of: dict[Run, list[list[list[float]]]] = {}
    for record in sorted(records, key=lambda record: [*STYLES].index(record["method"])):
        of.setdefault((record["method"], record["weight"]), []).append(record["accuracies"])
    return of


def words(run: Run) -> str:
    """For a row or a line."""
    name, weight = run
    return f"{name}, λ = {weight:g}" if weight else name


def table(records: list[Record]) -> list[str]:
    """Means over seeds, and their standard deviation."""
    lines = [
        "| | seeds | all tasks, after the last | the first task, after the last "
        "| each task, just learned |",
        "|---|---|---|---|---|",
    ]
    for run, of_seeds in by_run(records).items():
        last = [float(np.mean(rows[-1])) for rows in of_seeds]
        first = [rows[-1][0] for rows in of_seeds]
        learned = [np.mean([row[-1] for row in rows]) for rows in of_seeds]
        cells = [
            f"{np.mean(v):.2f} ± {np.std(v, ddof=1):.2f} %" if len(v) > 1 else f"{v[0]:.2f} %"
            for v in (last, first, learned)
        ]
        lines.append(f"| {words(run)} | {len(of_seeds)} | {' | '.join(cells)} |")
    return [*lines, "", PUBLISHED]


def figure(records: list[Record]) -> Figure:
    """Mean accuracy of the tasks so far, and that of the first one; means over seeds."""
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained", sharey=True)
    for run, of_seeds in by_run(records).items():
        tasks = np.arange(1, len(of_seeds[0]) + 1)
        all_tasks = [[sum(row) / len(row) for row in rows] for rows in of_seeds]
        first = [[row[0] for row in rows] for rows in of_seeds]
        for ax, curves in zip(axes, (all_tasks, first), strict=True):
            means = np.mean(curves, axis=0)
            ax.plot(tasks, means, STYLES[run[0]], marker="o", markersize=3, label=words(run))
    titles = ("all tasks so far", "the first task")
    for ax, title in zip(axes, titles, strict=True):
        ax.set(xlabel="tasks learned", title=title)
        ax.grid(alpha=0.3)
    axes[0].set_ylabel("test accuracy (%), mean over seeds")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def main_table(args: argparse.Namespace) -> None:
    data = image_data.chosen(args)
    file = RecordFile(args.savedir / "continual_learning.jsonl", "method", "weight", "seed")
    settings = commands.configuration(args, "seeds", "seed", "weights")
    for seed in range(args.seed, args.seed + args.seeds):
        own = argparse.Namespace(**{**vars(args), "seed": seed})
        for name, weight in runs(args):
            key = {"method": name, "weight": weight, "seed": seed}
            make = functools.partial(accuracies, name, weight, own, data)
            rows = file.kept(key, settings, make)["accuracies"]
            print(f"{name}, weight {weight:g}, seed {seed}: {np.mean(rows[-1]):.2f} %", flush=True)
    records = file.records()
    after_the_last = {
        words(run): [np.mean(rows[-1]) for rows in of_seeds]
        for run, of_seeds in by_run(records).items()
    }
    run_files.write_metrics(args, accuracy_after_the_last=after_the_last)
    run_files.write_table(args.savedir / "continual_learning.md", table(records))
    run_files.write_figure(figure(records), args.savedir / "continual_learning.png")


def parser() -> argparse.ArgumentParser:
    parser = commands.image_parser(
        "continual_learning",
        "Ten tasks one after another.",
        split="full",
        n_epochs=10,
        batch_size=128,
    )
    add = parser.add_argument
    add("--tasks", type=int, default=10, help="orders of the pixels")
    add("--weights", type=float, nargs="+", default=[1.0, 3.0, 10.0], help="lambda, 1 / T")
    add("--seeds", type=int, default=3, help="runs of each method, from --seed on")
    add("--prior_precision", type=float, default=1.0, help="of the first prior")
    add("--learning_rate", type=float, default=1e-3, help="Adam's, which starts anew each task")
    return parser


def main() -> None:
    commands.run(parser(), main_table)


if __name__ == "__main__":
    main()

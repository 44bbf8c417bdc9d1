"""Active learning on MNIST: which images to have labelled, and how many labels 5 % error takes.

    python -m tutorials.active_learning

After Gal, Islam and Ghahramani 2017, section 5: a convolutional network with dropout starts from 2
labelled images of each class; it is trained anew, asked about images without labels, and the 10
that an acquisition function prefers are labelled, until the test error is 5 % or less, or there are
1,000. BatchBALD (Kirsch, van Amersfoort and Gal 2019) chooses the 10 together. Each acquisition is
kept as it ends; a curve ends where its run does.
"""

from __future__ import annotations

import os

os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # some processors have it off: twice as fast

import tfbdl  # isort: skip  (before anything that imports TensorFlow)

import argparse
import functools
from collections.abc import Callable
from typing import Any

import keras
import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf
from matplotlib.figure import Figure

from tfbdl import acquire
from tfbdl.data import ImageData
from tfbdl.layers import MCDropout
from tfbdl.likelihoods import Categorical
from tutorials import commands, image_data, run_files
from tutorials.records import Record, RecordFile

ACQUIRED = 10
"""Labels between two trainings."""
PUBLISHED = {"random": 835, "entropy": 355, "variation ratios": 295, "BALD": 335}
"""Labels to an error of 5 % in Gal et al. 2017, table 1."""
OF_TEST = 10
"""Drawn functions of the test error."""
GOALS = (10, 5)
"""Percent of error."""
IMAGE = (28, 28, 1)


class Learner:
    """The network of Gal et al., which can be trained from the same start again and again.

    Args:
        args: the flags.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.decay = keras.Variable(0.0, trainable=False)
        keras.utils.set_random_seed(args.seed)
        self.model = keras.Sequential(
            [
                keras.Input(IMAGE),
                keras.layers.Conv2D(32, 4, activation="relu"),
                keras.layers.Conv2D(32, 4, activation="relu"),
                keras.layers.MaxPooling2D(),
                MCDropout(0.25, seed=args.seed),
                keras.layers.Flatten(),
                keras.layers.Dense(128, "relu", kernel_regularizer=self._penalty),
                MCDropout(0.5, seed=args.seed + 1),
                keras.layers.Dense(10),
            ]
        )
        self.model.compile("adam", Categorical(), jit_compile=False)  # XLA convolves more slowly
        self.model.optimizer.build(self.model.trainable_variables)
        self._state = [*self.model.variables, *self.model.optimizer.variables]
        self._start = [keras.ops.copy(variable) for variable in self._state]

    def _penalty(self, kernel: keras.KerasTensor) -> keras.KerasTensor:
        return self.decay * keras.ops.sum(keras.ops.square(kernel))

    def train(self, x: np.ndarray, y: np.ndarray) -> None:
        """Trains from the start, in batches of one size, so that nothing is compiled twice."""
        for variable, value in zip(self._state, self._start, strict=True):
            variable.assign(value)
        self.decay.assign(self.args.decay / len(x))
        size = self.args.batch_size
        examples = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x), self.args.seed)
        steps = self.args.n_epochs * -(-len(x) // size)
        batches = examples.repeat().batch(size, drop_remainder=True)
        self.model.fit(batches, steps_per_epoch=steps, shuffle=False, verbose=0)

    def predict(self, x: np.ndarray) -> tfbdl.Prediction:
        """What functions drawn say of each image, all of which are kept."""
        number = self.args.S
        return tfbdl.predict(self.model, x, number, seed=self.args.seed, return_samples=True)

    def error(self, x: np.ndarray, y: np.ndarray) -> float:
        """The percentage of images whose class is not the likeliest."""
        p = tfbdl.predict(self.model, x, OF_TEST, seed=self.args.seed).mean
        return 100.0 * float((p.argmax(-1) != y).mean())


Acquisition = Callable[[Learner, np.ndarray, int], np.ndarray]


def at_random(learner: Learner, pool: np.ndarray, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).permutation(len(pool))[:ACQUIRED]


def highest(score: Callable[[tfbdl.Prediction], np.ndarray]) -> Acquisition:
    """The images of the highest scores."""
    return lambda learner, pool, seed: acquire.top(score(learner.predict(pool)), ACQUIRED)


def batch_bald(learner: Learner, pool: np.ndarray, seed: int) -> np.ndarray:
    limit = learner.args.configurations
    prediction = learner.predict(pool)
    batch = acquire.batch_bald(prediction, ACQUIRED, num_configurations=limit, seed=seed)
    return batch.indices


METHODS: dict[str, Acquisition] = {
    "random": at_random,
    "entropy": highest(acquire.entropy),
    "variation ratios": highest(acquire.variation_ratios),
    "BALD": highest(acquire.bald),
    "BatchBALD": batch_bald,
}


def settings(args: argparse.Namespace) -> dict[str, Any]:
    """The flags that an acquisition depends on, besides those that name it."""
    return commands.configuration(args, "methods", "seeds", "labels", "seed", "until")


def acquisitions(name: str, args: argparse.Namespace, data: ImageData, file: RecordFile) -> None:
    """Labels images by one method from one start, until they are enough."""
    learner = Learner(args)
    rng = np.random.default_rng(args.seed)
    y = data.y_train
    labelled = [i for c in range(10) for i in rng.permutation(np.flatnonzero(y == c))[:2]]
    for count in range(len(labelled), args.labels + 1, ACQUIRED):
        record = file.kept(
            {"method": name, "seed": args.seed, "labels": count},
            settings(args),
            functools.partial(acquisition, name, learner, data, labelled),
        )
        if record["error"] <= args.until:
            break
        labelled = [*labelled, *record["chosen"]]


def acquisition(name: str, learner: Learner, data: ImageData, labelled: list[int]) -> Record:
    """Test error after training on what is labelled, and what to label next."""
    args, x = learner.args, data.x_train.reshape(-1, *IMAGE)
    learner.train(x[labelled], data.y_train[labelled])
    rng = np.random.default_rng([args.seed, len(labelled)])
    others = np.setdiff1d(np.arange(len(x)), labelled)
    pool = rng.permutation(others)[: args.pool]
    chosen = pool[METHODS[name](learner, x[pool], int(rng.integers(2**31)))]
    return {
        "error": learner.error(data.x_test.reshape(-1, *IMAGE), data.y_test),
        "chosen": chosen.tolist(),
    }


def labels_to(goal: float, records: list[Record]) -> float:
    """The fewest labels of one run whose error is at most `goal` percent; infinite if none is."""
    return min((r["labels"] for r in records if r["error"] <= goal), default=np.inf)


def runs(name: str, records: list[Record]) -> list[list[Record]]:
    """The records of a method, those of each seed in the order of labels."""
    of = [r for r in records if r["method"] == name]
    return [[r for r in of if r["seed"] == seed] for seed in sorted({r["seed"] for r in of})]


def table(records: list[Record]) -> list[str]:
    """Labels to each error: the median over seeds, and the least and most."""
    lines = [
        f"| | seeds | {' | '.join(f'labels to {goal} % error' for goal in GOALS)} "
        "| to 5 % (Gal et al. 2017) |",
        "|---" * (len(GOALS) + 3) + "|",
    ]
    for name in METHODS:
        of_seeds, cells = runs(name, records), []
        if not of_seeds:
            continue
        for goal in GOALS:
            labels = [labels_to(goal, run) for run in of_seeds]
            low, middle, high = np.quantile(labels, (0, 0.5, 1), method="higher")
            cells.append(f"{shown(middle)} ({shown(low)} to {shown(high)})")
        lines.append(
            f"| {name} | {len(of_seeds)} | {' | '.join(cells)} | {PUBLISHED.get(name, '-')} |"
        )
    return lines


def shown(labels: float) -> str:
    """A number of labels, or that there were not enough."""
    return f"{labels:.0f}" if np.isfinite(labels) else "more"


def figure(records: list[Record]) -> Figure:
    """Error against labels, a line a run."""
    figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for number, name in enumerate(METHODS):
        for first, run in enumerate(runs(name, records)):
            labels, errors = [r["labels"] for r in run], [r["error"] for r in run]
            label = None if first else name
            ax.plot(labels, errors, color=f"C{number}", alpha=0.7, linewidth=1, label=label)
    ax.axhline(GOALS[-1], color="black", linewidth=0.5)
    ax.set(xlabel="labelled images", ylabel="test error (%)", yscale="log")
    ax.legend()
    return figure


def main_curves(args: argparse.Namespace) -> None:
    data = image_data.chosen(args)
    file = RecordFile(args.savedir / "active_learning.jsonl", "method", "seed", "labels")
    for seed in range(args.seed, args.seed + args.seeds):
        for name in args.methods:
            own = argparse.Namespace(**{**vars(args), "seed": seed})
            acquisitions(name, own, data, file)
    records = file.records(settings(args))
    run_files.write_metrics(
        args,
        **{
            name: [{str(goal): labels_to(goal, run) for goal in GOALS} for run in of_seeds]
            for name in METHODS
            if (of_seeds := runs(name, records))
        },
    )
    run_files.write_table(args.savedir / "active_learning.md", table(records))
    run_files.write_figure(figure(records), args.savedir / "active_learning.png")


def parser() -> argparse.ArgumentParser:
    parser = commands.image_parser(
        "active_learning",
        "Which images to have labelled.",
        split="full",
        n_epochs=50,
        batch_size=128,
    )
    add = parser.add_argument
    add("--methods", nargs="+", choices=list(METHODS), default=list(METHODS), help="what chooses")
    add("--seeds", type=int, default=5, help="runs of each method, from --seed on")
    add("--until", type=float, default=5.0, help="test error (%%) at which a run ends")
    add("--labels", type=int, default=1000, help="labelled images at which it ends at the latest")
    add("--pool", type=int, default=2000, help="images asked about between two trainings")
    add("--S", type=int, default=100, help="drawn functions a prediction")
    add("--decay", type=float, default=3.5, help="L2 penalty of the dense kernel, times N")
    add("--configurations", type=int, default=2000, help="labellings that BatchBALD sums over")
    return parser


def main() -> None:
    commands.run(parser(), main_curves)


if __name__ == "__main__":
    main()

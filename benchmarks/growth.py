"""How time and memory grow with the data, the batch, the width, the draws and the chains.

    python benchmarks/growth.py                                 # or: make bench
    python benchmarks/growth.py --curves weights chains

Each point runs in a process of its own. Its memory is the most that the process held, less what it
held once everything was imported; its time is the median of rounds after the first, which compiles.
"""

from __future__ import annotations

import os

os.environ.setdefault("TFBDL_QUIET", "1")

import tfbdl  # isort: skip  (before anything that imports TensorFlow)

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import keras
import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf
from compiled_chains import compiled_chains
from compiled_epochs import compiled_epoch
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, NullFormatter, NullLocator, StrMethodFormatter
from predict import images as pixels
from predict import network

from tfbdl.inference import HMC, Laplace, LogPosterior
from tfbdl.inference.initial_points import initial_points
from tfbdl.layers import BayesDense
from tfbdl.likelihoods import Categorical, Normal

ROOT = Path(__file__).parents[1]
STEPS, ROUNDS, SECONDS = 30, 5, 30.0
"""At most so many rounds, and none is begun after so many seconds of them."""
IMAGE, CLASSES = 784, 10


class Round(NamedTuple):
    """What is timed, and how many units of work it is."""

    run: Callable[[], Any]
    units: int


class Curve(NamedTuple):
    """How the cost of a unit of work grows.

    at: makes the round at a size.
    sizes: at which it is measured.
    label: the label of the sizes.
    unit: the unit of work.
    """

    at: Callable[[int], Round]
    sizes: tuple[int, ...]
    label: str
    unit: str


def images(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Noise, which costs what digits cost, and labels."""
    return pixels(n), (np.arange(n) % CLASSES).astype(np.int32)


def classifier(stack: list[keras.layers.Layer]) -> keras.Model:
    """Layers behind images."""
    model = keras.Sequential([keras.Input((IMAGE,)), *stack])
    model.compile(keras.optimizers.Adam(1e-3), Categorical())
    return model


def training(num_data: int, *, width: int, batch: int, estimator: str) -> Round:
    """Steps of a network whose weights are all random, in the loop."""
    layer = partial(BayesDense, num_data=num_data, estimator=estimator)
    model = classifier([layer(width, "relu"), layer(width, "relu"), layer(CLASSES)])
    epoch = compiled_epoch(model, *images(num_data), batch_size=batch)
    return Round(epoch, num_data // batch)


def of_data(num_data: int) -> Round:
    """Steps with N examples on the device."""
    return training(num_data, width=100, batch=100, estimator="local_reparameterization")


def of_batch(batch: int) -> Round:
    """Steps on larger batches."""
    return training(STEPS * batch, width=500, batch=batch, estimator="local_reparameterization")


def of_weights(num: int) -> Round:
    """Steps of about that many weights, w^2 + (784 + 10) w, one sample a batch."""
    inputs = IMAGE + CLASSES
    width = round((-inputs + (inputs**2 + 4 * num) ** 0.5) / 2)
    return training(STEPS * 100, width=width, batch=100, estimator="reparameterization")


def predicting(num: int, draws: int) -> Round:
    """The moments of the class probabilities under MC dropout."""
    model, x = network(), pixels(num)
    return Round(lambda: tfbdl.predict(model, x, draws, seed=0, verbose=0), 1)


def of_draws(draws: int) -> Round:
    """Predictions of 10,000 images by S functions."""
    return predicting(10_000, draws)


def of_predicted(num: int) -> Round:
    """Predictions of N images."""
    return predicting(num, 30)


def of_chains(num_chains: int) -> Round:
    """Samples of HMC from 46 parameters."""
    hidden = [keras.layers.Dense(5, "tanh", use_bias=False) for _ in range(2)]
    model = keras.Sequential([keras.Input((3,)), *hidden, keras.layers.Dense(1, use_bias=False)])
    x = np.random.default_rng(0).normal(size=(100, 3)).astype("float32")
    target = LogPosterior(model, 1.0, x, x[:, :1], likelihood=Normal(0.1))
    kernel = HMC(step_size=0.0005, trajectory_length=0.02, jitter=0.0)
    theta = initial_points(target, "prior", num_chains, jitter=0.0, seed=0)
    return Round(compiled_chains(target, kernel, theta, 100), 100)


def of_full_laplace(num: int) -> Round:
    """Fits of a last layer of about that many weights with all their correlations."""
    hidden = keras.layers.Dense(num // CLASSES - 1, "relu")
    model = classifier([hidden, keras.layers.Dense(CLASSES)])
    posterior = Laplace(model, hessian_structure="full")
    return Round(lambda: posterior.fit(*images(500)).log_marginal_likelihood(), 1)


CURVES = {
    "data": Curve(of_data, (1000, 4000, 16_000, 60_000), "examples on the device, N", "step"),
    "batch": Curve(of_batch, (50, 200, 800, 3200), "examples in a batch", "step"),
    "weights": Curve(of_weights, (100_000, 400_000, 1_600_000, 6_400_000), "weights", "step"),
    "draws": Curve(of_draws, (10, 100, 300, 1000), "draws of a prediction, S", "prediction"),
    "predicted": Curve(
        of_predicted, (1000, 4000, 16_000, 60_000), "examples to predict", "prediction"
    ),
    "chains": Curve(of_chains, (1, 10, 100, 1000), "chains of HMC", "sample of all chains"),
    "laplace": Curve(of_full_laplace, (500, 1000, 2000, 4000), "weights of a full Laplace", "fit"),
}


def resident() -> float:
    """Megabytes that this process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def point(name: str, size: int) -> dict[str, float]:
    """Time and memory at one size; in a process of its own."""
    tf.zeros([1])
    before = resident()
    run, units = CURVES[name].at(size)
    run()
    seconds: list[float] = []
    while len(seconds) < ROUNDS and units * sum(seconds) < SECONDS:
        started = time.perf_counter()
        run()
        seconds.append((time.perf_counter() - started) / units)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    return {"size": size, "seconds": float(np.median(seconds)), "megabytes": peak - before}


def measured(name: str, path: Path) -> list[dict[str, float]]:
    """All points of a curve, from its record where there is one."""
    if not path.exists():
        rows = []
        for size in CURVES[name].sizes:
            command = [sys.executable, __file__, "--point", name, str(size)]
            env = {**os.environ, "PYTHONPATH": str(ROOT)}
            process = subprocess.run(command, capture_output=True, text=True, env=env, check=True)
            rows.append(json.loads(process.stdout.splitlines()[-1]))
            print(f"{name} {size}: {rows[-1]}", flush=True)
        path.write_text(json.dumps(rows, indent=1) + "\n")
    return json.loads(path.read_text())


def exponent(rows: list[dict[str, float]], column: str) -> float:
    """The exponent of the power law through the two largest sizes."""
    (x, y), (x_last, y_last) = ((row["size"], row[column]) for row in rows[-2:])
    return float(np.log(y_last / y) / np.log(x_last / x))


def table(curves: dict[str, list[dict[str, float]]]) -> list[str]:
    """The costs at all sizes, and how they grow in the end."""
    lines = ["| | sizes | ms a unit | MB | time grows as | memory grows as |", "|---" * 6 + "|"]
    for name, rows in curves.items():
        curve = CURVES[name]
        cells = [
            f"{curve.label} (unit: {curve.unit})",
            " / ".join(f"{row['size']:,}" for row in rows),
            " / ".join(f"{1e3 * row['seconds']:.3g}" for row in rows),
            " / ".join(f"{row['megabytes']:.0f}" for row in rows),
            *(f"size^{exponent(rows, c):.2f}" for c in ("seconds", "megabytes")),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def figure(curves: dict[str, list[dict[str, float]]]) -> Figure:
    """Time above memory, a column for each curve; the lines are proportional to the size."""
    figure, axes = plt.subplots(
        2, len(curves), figsize=(2.9 * len(curves), 5.5), layout="constrained", squeeze=False
    )
    for (name, rows), column in zip(curves.items(), axes.T, strict=True):
        sizes = np.array([row["size"] for row in rows])
        for ax, key, scale in zip(column, ("seconds", "megabytes"), (1e3, 1.0), strict=True):
            values = scale * np.array([row[key] for row in rows])
            ax.loglog(sizes, values, "o-", label="measured")
            ax.loglog(sizes, values[-1] * sizes / sizes[-1], "k:", linewidth=1, label="linear")
            ax.grid(alpha=0.3)
            ax.xaxis.set(minor_locator=NullLocator(), major_formatter=EngFormatter(sep=""))
            ax.set_xticks(sizes)
            ax.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
            ax.yaxis.set_minor_formatter(NullFormatter())
        column[0].set_ylabel(f"ms a {CURVES[name].unit}")
        column[1].set(ylabel="MB", xlabel=CURVES[name].label)
    axes[0, 0].legend(fontsize=8)
    return figure


def main() -> None:
    """Measures, and writes records, table and figure; a curve with a record is left as it is."""
    parser = argparse.ArgumentParser(
        description="How time and memory grow.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--curves", nargs="+", choices=list(CURVES), default=list(CURVES))
    parser.add_argument(
        "--savedir", type=Path, default=ROOT / "runs" / "growth", help="output folder"
    )
    parser.add_argument("--point", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.point:
        name, size = args.point
        print(json.dumps(point(name, int(size))))
        return
    args.savedir.mkdir(parents=True, exist_ok=True)
    curves = {name: measured(name, args.savedir / f"{name}.json") for name in args.curves}
    text = "\n".join(table(curves)) + "\n"
    (args.savedir / "growth.md").write_text(text)
    figure(curves).savefig(args.savedir / "growth.png", dpi=110)
    print(text)


if __name__ == "__main__":
    main()

"""What S samples a training step do to the gradient's variance, and to the time of a step.

    python benchmarks/samples_per_step.py

784-128-10 of `BayesDense` on MNIST with one weight sample a batch, and the VAE of the tutorial. A
step of plain descent is done many times from the same weights on the same batch, with other noise:
its variance is that of the gradient. Beside it the same for batches S times as large with one
sample, which cost as much, with batches drawn anew: both kinds of variance count then. Times are of
the processor (`time.process_time`), on one thread, so that other work does not count.
"""

from __future__ import annotations

import os

os.environ.setdefault("TFBDL_QUIET", "1")
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
import tfbdl  # isort: skip  (before anything that imports TensorFlow)

import argparse
import itertools
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import keras
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from tfbdl.data import load
from tfbdl.layers import BayesDense
from tfbdl.models import VAE

SAMPLES = (1, 2, 4, 8, 16)
BATCH = 100
KINDS = {
    "fixed": "S samples, batch of 100 fixed: the noise alone",
    "anew": "S samples, batch of 100 drawn anew",
    "larger": "one sample, batch of 100 S drawn anew",
}


def bayes(seed: int) -> keras.Model:
    """784-128-10 under plain descent."""
    keras.utils.set_random_seed(seed)
    units = ((128, "relu"), (10, None))
    layers = [BayesDense(*of, num_data=60_000, seed=seed + i) for i, of in enumerate(units)]
    model = keras.Sequential([keras.Input((784,)), *layers])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(1e-3), loss)
    return model


def vae(seed: int) -> keras.Model:
    """The VAE of part I under plain descent."""
    keras.utils.set_random_seed(seed)
    model = VAE(20, (500, 500), seed=seed)
    model.compile(keras.optimizers.SGD(1e-6))
    return model


NETWORKS: dict[str, Callable[[int], keras.Model]] = {"Bayes by Backprop": bayes, "VAE": vae}


def measure(name: str, kind: str, size: int, args: argparse.Namespace) -> dict[str, float]:
    """Mean variance of the gradient by the first kernel, and seconds of the processor a step."""
    x, y = load("mnist", "full")[:2]
    model = NETWORKS[name](args.seed)
    tfbdl.set_num_samples(model, 1 if kind == "larger" else size)
    rng = np.random.default_rng(args.seed)
    batch = BATCH * size if kind == "larger" else BATCH

    def draw() -> tuple[np.ndarray, ...]:
        rows = rng.choice(len(x), batch, replace=False)
        images = x[rows].reshape(batch, -1)
        return (images,) if name == "VAE" else (images, y[rows])

    data = draw()
    model.train_on_batch(*data)
    weights = model.trainable_variables
    start = [np.array(v) for v in weights]
    mean, square, seconds = 0.0, 0.0, []
    for _ in range(args.draws):
        if kind != "fixed":
            data = draw()
        for v, value in zip(weights, start, strict=True):
            v.assign(value)
        began = time.process_time()
        model.train_on_batch(*data)
        seconds.append(time.process_time() - began)
        gradient = (np.array(weights[0]) - start[0]) / float(model.optimizer.learning_rate)
        mean, square = mean + gradient / args.draws, square + gradient**2 / args.draws
    variance = float(np.mean(square - mean**2)) * args.draws / (args.draws - 1)
    return {"variance": variance, "seconds": float(np.median(seconds))}


def figure(rows: dict[str, dict], networks: Sequence[str]) -> Figure:
    """Variance against S, and against the time that it takes."""
    size = (11, 3.9 * len(networks))
    drawn, axes = plt.subplots(len(networks), 2, figsize=size, layout="constrained", squeeze=False)
    for row, name in zip(axes, networks, strict=True):
        for i, (kind, label) in enumerate(KINDS.items()):
            of = [rows[f"{name}, {kind}, {size}"] for size in SAMPLES]
            variance = np.array([each["variance"] for each in of])
            ms = 1e3 * np.array([each["seconds"] for each in of])
            row[0].loglog(SAMPLES, variance, f"C{i}o-", label=label)
            row[1].loglog(ms, variance, f"C{i}o-", label=label)
            if kind == "fixed":
                row[0].loglog(SAMPLES, variance[0] / np.array(SAMPLES), "k:", label="1 / S")
        row[0].set(title=name, xlabel="S", ylabel="variance of the gradient (nats$^2$)")
        row[0].set_xticks(SAMPLES, [str(size) for size in SAMPLES])
        row[1].set(title=f"{name}: what it costs", xlabel="a step: ms of one core")
        row[1].set_xticks([5, 10, 20, 50], ["5", "10", "20", "50"])
        for ax in row:
            ax.xaxis.minorticks_off()
            ax.grid(alpha=0.3)
    axes[0, 0].legend(fontsize=8, loc="lower left")
    return drawn


def main() -> None:
    """Measures what is not measured yet, and writes numbers and figure."""
    parser = argparse.ArgumentParser(
        description="Variance and time of S samples a step.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--savedir", type=Path, default=Path("runs/samples_per_step"))
    parser.add_argument("--networks", nargs="+", choices=list(NETWORKS), default=list(NETWORKS))
    parser.add_argument("--draws", type=int, default=100, help="steps of each kind")
    parser.add_argument("--seed", type=int, default=0, help="of weights, noise and batches")
    args = parser.parse_args()
    path = args.savedir / "metrics.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = json.loads(path.read_text())["rows"] if path.exists() else {}
    for name in args.networks:
        for kind, size in itertools.product(KINDS, SAMPLES):
            key = f"{name}, {kind}, {size}"
            if key not in rows:
                rows[key] = measure(name, kind, size, args)
                print(f"{key}: {rows[key]}", flush=True)
            written = {"configuration": {"draws": args.draws, "seed": args.seed}, "rows": rows}
            path.write_text(json.dumps(written, indent=2) + "\n")
    figure(rows, args.networks).savefig(args.savedir / "samples_per_step.png", dpi=100)


if __name__ == "__main__":
    main()

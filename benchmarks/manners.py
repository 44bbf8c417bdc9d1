"""Whether the chains of a network are faster all at once, or each in operations of its own.

    TF_NUM_INTRAOP_THREADS=1 python benchmarks/manners.py

Gradients of the log density of networks, compiled by XLA, in turns; ratios are of one turn. The
bounds in `tfbdl/inference/over_chains.py` come from the table.
"""

from __future__ import annotations

import os

os.environ.setdefault("TFBDL_QUIET", "1")
import tfbdl  # noqa: F401  # isort: skip  (before anything that imports TensorFlow)

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import keras
import numpy as np
import tensorflow as tf

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "peers"))

import bench  # noqa: E402

from tfbdl.inference import LogPosterior, over_chains  # noqa: E402
from tfbdl.likelihoods import Categorical, Normal  # noqa: E402

MANNERS = ("vectorised", "unrolled")
WORK = 1e8
"""Weights times examples times gradients of a chain in a turn, as far as 20 to 5,000 allow."""


class Shape(NamedTuple):
    """Chains of a network, and N examples of their data."""

    sizes: tuple[int, ...]
    activation: str
    num_data: int
    num_chains: int = 4


SHAPES = (
    Shape((1, 15, 1), "tanh", 100),
    Shape((1, 50, 1), "tanh", 100),
    Shape((1, 50, 50, 1), "tanh", 100),
    Shape((8, 50, 1), "relu", 200),
    Shape((8, 50, 1), "tanh", 300),
    Shape((13, 50, 1), "relu", 455),
    Shape((8, 50, 1), "relu", 927),
    Shape((8, 50, 1), "relu", 927, num_chains=1),
    Shape((8, 50, 1), "relu", 927, num_chains=16),
    Shape((8, 50, 1), "tanh", 927),
    Shape((8, 200, 1), "relu", 927),
    Shape((8, 200, 1), "tanh", 927),
    Shape((50, 50, 1), "relu", 927),
    Shape((200, 50, 1), "relu", 927),
    Shape((8, 50, 50, 1), "relu", 927),
    Shape((8, 200, 200, 1), "relu", 927),
    Shape((4, 50, 1), "relu", 9_000),
    Shape((4, 50, 1), "tanh", 9_000),
    Shape((50, 50, 10), "relu", 500),
    Shape((30, 100, 10), "relu", 5_000),
    Shape((784, 50, 10), "relu", 500),
    Shape((784, 50, 10), "tanh", 1_000),
)


def posterior(shape: Shape) -> LogPosterior:
    """The posterior of a regression on noise, or of classes where there are several outputs."""
    *hidden, outputs = (keras.layers.Dense(units) for units in shape.sizes[1:])
    for layer in hidden:
        layer.activation = keras.activations.get(shape.activation)
    network = keras.Sequential([keras.Input(shape.sizes[:1]), *hidden, outputs])
    rng = np.random.default_rng(0)
    x = rng.normal(size=(shape.num_data, shape.sizes[0])).astype("float32")
    if shape.sizes[-1] > 1:
        y = rng.integers(0, shape.sizes[-1], shape.num_data)
        return LogPosterior(network, 1.0, x, y, likelihood=Categorical())
    y = rng.normal(size=(shape.num_data, 1)).astype("float32")
    return LogPosterior(network, 1.0, x, y, likelihood=Normal(0.3))


def timed(target: LogPosterior, num_chains: int, manner: str) -> Callable[[], float]:
    """A function that gives microseconds of a processor by gradient of a chain."""
    shape = (num_chains, target.size)
    count = int(np.clip(WORK / (target.size * target.num_data), 20, 5_000))
    theta = tf.constant(0.3 * np.random.default_rng(1).normal(size=shape), tf.float32)

    def step(i: tf.Tensor, theta: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(theta)
            log_prob = tf.reduce_sum(target(theta))
        return i + 1, theta + 1e-9 * tape.gradient(log_prob, theta)

    @tf.function(jit_compile=True)
    def gradients(theta: tf.Tensor) -> tf.Tensor:
        return tf.while_loop(lambda i, _: i < count, step, (tf.constant(0), theta))[1]

    with mock.patch.object(over_chains, "manner_of", return_value=manner):
        gradients(theta)

    def turn() -> float:
        begun = time.process_time()
        gradients(theta).numpy()
        return 1e6 * (time.process_time() - begun) / (count * num_chains)

    return turn


def measured(shape: Shape, turns: int) -> dict[str, object]:
    """Medians of both manners, and how far unrolled chains take longer."""
    target = posterior(shape)
    runs = {manner: timed(target, shape.num_chains, manner) for manner in MANNERS}
    us = {manner: np.empty(turns) for manner in MANNERS}
    for i in range(turns):
        for manner, run in runs.items():
            us[manner][i] = run()
    ratios = us["unrolled"] / us["vectorised"]
    low, middle, high = np.quantile(ratios, (0.1, 0.5, 0.9)).round(2).tolist()
    chosen = over_chains.manner_of(shape.num_chains, target.size, shape.num_data, has_loops=False)
    return {
        "network": f"{'-'.join(map(str, shape.sizes))}, {shape.activation}",
        "N": shape.num_data,
        "C": shape.num_chains,
        "D": target.size,
        **{manner: round(float(np.median(us[manner])), 1) for manner in MANNERS},
        "ratio": middle,
        "from": low,
        "to": high,
        "chosen": chosen,
    }


def table(records: list[dict[str, object]]) -> str:
    """The records, with what the package chooses."""
    lines = [
        "| network | N | C | D | vectorised (us a gradient) | unrolled | ratio (80 % of turns) "
        "| chosen |",
        "|---" * 8 + "|",
    ]
    for record in records:
        names = ("network", "N", "C", "D", *MANNERS)
        cells = [f"{record[name]:,}" if name == "D" else str(record[name]) for name in names]
        ratio = f"{record['ratio']:.2f} ({record['from']:.2f} to {record['to']:.2f})"
        lines.append(f"| {' | '.join([*cells, ratio, str(record['chosen'])])} |")
    return "\n".join(lines)


def main() -> None:
    """Times, and writes what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=21)
    parser.add_argument("--savedir", type=Path, default=Path("runs/manners"))
    args = parser.parse_args()
    records = [measured(shape, args.turns) for shape in SHAPES]
    machine = bench.machine()
    args.savedir.mkdir(parents=True, exist_ok=True)
    record = {"machine": machine, "turns": args.turns, "shapes": records}
    (args.savedir / "manners.json").write_text(json.dumps(record, indent=1) + "\n")
    text = "\n\n".join([", ".join(f"{k} {v}" for k, v in machine.items()), table(records)])
    (args.savedir / "manners.md").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()

"""Maxima of the posterior by stochastic gradients, each from a start of its own."""

from __future__ import annotations

import argparse

import keras
import numpy as np

import tfbdl
from tfbdl.whole_file import write_whole
from tutorials.cifar10 import problem


def train(args: argparse.Namespace) -> None:
    """Trains member number `args.member`, and keeps its weights as float16."""
    (x, y), _ = problem.data()
    keras.utils.set_random_seed(args.member)
    model = problem.network(problem.PRIOR_PRECISION)
    steps = problem.STEPS * args.epochs
    rate = keras.optimizers.schedules.CosineDecay(
        args.learning_rate / 10,
        steps - problem.STEPS,
        warmup_target=args.learning_rate,
        warmup_steps=problem.STEPS,
    )
    model.compile(
        keras.optimizers.SGD(rate, momentum=0.9, nesterov=True),
        tfbdl.likelihoods.Categorical(),
        metrics=[
            keras.metrics.SparseCategoricalCrossentropy(from_logits=True, name="cent"),
            keras.metrics.SparseCategoricalAccuracy(name="acc"),
        ],
    )
    name = f"map_{args.member}"
    tfbdl.train(
        model,
        x,
        y,
        epochs=args.epochs,
        batch_size=problem.BATCH_SIZE,
        savedir=args.savedir / name,
        columns=["cent", "wd", "acc"],
        seed=args.member,
    )
    arrays = {f"w{i}": w.astype(np.float16) for i, w in enumerate(model.get_weights())}
    args.weights.mkdir(parents=True, exist_ok=True)
    write_whole(args.weights / f"{name}.npz", lambda file: np.savez(file, **arrays))

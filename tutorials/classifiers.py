"""How the tutorials' classifiers of images are trained and tested."""

from __future__ import annotations

import argparse

import keras
import numpy as np

import tfbdl
from tfbdl import kl_term
from tutorials import image_data, run_files

ADAM_EPSILON = 1e-8
"""The epsilon of TensorFlow 1, in which the lectures' logs were made, and of Kingma and Ba (2015).

Keras' own is 1e-7, which holds back weights of small gradients: those of dark pixels, and of a KL
that is divided by N.
"""


def adam(args: argparse.Namespace) -> keras.optimizers.Adam:
    """Adam at 1e-3, and at 1e-4 in the second half of the epochs.

    The header of an epoch tells the rate of its first step. The slides' code compares with `<=`, so
    that one step more is done at 1e-3, and its header of the first epoch at 1e-4 still tells 1e-3.
    """
    steps = num_steps(args)
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay([steps // 2 - 1], [1e-3, 1e-4])
    return keras.optimizers.Adam(schedule, epsilon=ADAM_EPSILON)


def num_steps(args: argparse.Namespace) -> int:
    """Steps of all epochs; what fills no batch is left out."""
    return args.n_epochs * (args.N // min(args.batch_size, args.N))


def compiled(model: keras.Model, optimizer: keras.optimizers.Optimizer) -> keras.Model:
    """The model, compiled for logits and labels, with the slides' names for the metrics."""
    model.compile(
        optimizer,
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=[
            keras.metrics.SparseCategoricalCrossentropy(from_logits=True, name="cent"),
            keras.metrics.SparseCategoricalAccuracy(name="acc"),
        ],
    )
    return model


def accuracies(args: argparse.Namespace, model: keras.Model, num_samples: int) -> dict[str, float]:
    """Cross-entropy (nats) and accuracy: naive, at the mean weights, and averaged over functions.

    On the tutorial's test images (100 of each class) and on the full test set.
    """
    sets = {"full_test": image_data.full_test(args)}
    if args.split == "tutorial":
        sets = {"test": image_data.chosen(args)[2:]} | sets
    scores: dict[str, float] = {}
    for name, (x, y) in sets.items():
        naive = model.evaluate(x, y, batch_size=1000, verbose=0, return_dict=True)
        p = tfbdl.predict(model, x, num_samples, seed=args.seed).mean
        scores |= {
            f"{name}_images": len(x),
            f"{name}_cent_naive": naive["cent"],
            f"{name}_acc_naive": naive["acc"],
            f"{name}_cent_mc": float(-np.log(p[np.arange(len(y)), y] + 1e-12).mean()),
            f"{name}_acc_mc": float((p.argmax(-1) == y).mean()),
        }
    return scores


def terms(model: keras.Model) -> dict[str, float]:
    """The columns of the training log that depend on the weights alone: wd, ent, kl."""
    model(np.zeros((1, 784), "float32"))
    decays = [v.regularizer(v) for v in model.trainable_variables if v.regularizer is not None]
    named = ({"wd": sum(decays)} if decays else {}) | kl_term.terms(model)
    return {name: float(value) for name, value in named.items()}


def test(args: argparse.Namespace, model: keras.Model) -> dict[str, float]:
    """Prints and keeps the `accuracies` of a trained model, and the `terms` of its loss."""
    of_weights = terms(model)
    scores = accuracies(args, model, args.S)
    middle = "".join(f"{name} {value:f}, " for name, value in of_weights.items())
    for name, which in (("test", "images beside the training images"), ("full_test", "test set")):
        for kind, label in (("naive", "naive"), ("mc", f"S = {args.S}")):
            if f"{name}_images" in scores:
                cent, acc = scores[f"{name}_cent_{kind}"], scores[f"{name}_acc_{kind}"]
                size = scores[f"{name}_images"]
                print(f"test: cent {cent:f}, {middle}acc {acc:f} ({label}, {which}: {size})")
    run_files.write_metrics(args, **scores, **of_weights)
    return scores

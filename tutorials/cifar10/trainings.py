"""How each method is trained. All go on where they were stopped.

A run leaves its checkpoint in `--savedir`, and there what it predicts of the test images after
each epoch (`predictions`); modes leave their weights in `--weights`, from which others start.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np

import tfbdl
from tfbdl import inference, layers, optimizers, posteriors
from tfbdl.whole_file import write_whole
from tutorials.cifar10 import problem
from tutorials.cifar10.predictions import (
    KineticTemperatures,
    TestPredictions,
    keep,
    keep_shifted,
    probabilities,
)

SHAPES = (None, 1, 1, None)
"""Masks of whole channels."""


def mode(args: argparse.Namespace) -> None:
    """A member of the ensemble: SGD to the mode, at a rate that rises and falls by a cosine."""
    keras.utils.set_random_seed(args.number)
    model = problem.network(problem.PRIOR_PRECISION)
    problem.compiled(model, sgd(args))
    trained(model, args, every=5)
    save_weights(model, args.weights / f"map_{args.number}.npz")


def dropout(args: argparse.Namespace) -> None:
    """Dropout of channels before the second convolution of each block."""
    keras.utils.set_random_seed(args.number)

    def dropped(convolution: keras.layers.Layer) -> Callable[..., Any]:
        drop = layers.MCDropout(args.rate, SHAPES)
        return lambda x: convolution(drop(x))

    model = problem.network(problem.PRIOR_PRECISION, dropped)
    problem.compiled(model, sgd(args))
    trained(model, args, every=10, num_samples=args.S)


def concrete_dropout(args: argparse.Namespace) -> None:
    """The same, with a rate for each convolution, which is learned."""
    keras.utils.set_random_seed(args.number)
    around = partial(
        layers.ConcreteDropout,
        num_data=problem.NUM_DATA,
        lengthscale=problem.PRIOR_PRECISION**0.5,
        temperature=2 / 3,
    )
    model = problem.network(problem.PRIOR_PRECISION, around)
    problem.compiled(model, sgd(args))
    trained(model, args, every=10, num_samples=args.S)


def mean_field(args: argparse.Namespace) -> None:
    """Mean-field inference by flipout from a mode, as Izmailov et al. have it: sigma from 0.01."""
    sigma = 0.01
    start = keras.initializers.Constant(float(np.log(np.expm1(sigma))))
    model = tfbdl.to_bayesian(
        at_mode(args),
        num_data=problem.NUM_DATA,
        prior=problem.PRIOR_SCALE,
        posterior=posteriors.MeanFieldNormal(rho_initializer=start),
        estimator="flipout",
        initial_sigma=None,
    )
    rate = keras.optimizers.schedules.CosineDecay(
        args.learning_rate, problem.STEPS * args.epochs, alpha=0.01
    )
    problem.compiled(model, keras.optimizers.Adam(rate))
    trained(model, args, every=10, num_samples=args.S)


def swag(args: argparse.Namespace) -> None:
    """SGD goes on from a mode at a constant rate."""
    model = problem.compiled(
        at_mode(args), keras.optimizers.SGD(args.learning_rate, momentum=0.9, nesterov=True)
    )
    (x, y), (x_test, _) = problem.data()
    posterior = inference.SWAG(model, seed=args.number).fit(x, y, **settings(args))
    keep(predictions_of(args), args.epochs, probabilities(posterior, x_test, args.S))
    keep_shifted(folder_of(args), args.epochs, posterior, args.S)


def laplace(args: argparse.Namespace) -> None:
    """Around a mode: `--layers last_layer` with all correlations, or all with Kronecker factors."""
    model = problem.compiled(at_mode(args), keras.optimizers.SGD())
    (x, y), (x_test, _) = problem.data()
    posterior = inference.Laplace(
        model,
        subset_of_weights=args.layers,
        hessian_structure="full" if args.layers == "last_layer" else "kron",
        prior_precision=problem.PRIOR_PRECISION,
    ).fit(x, y)
    keep(predictions_of(args), args.epochs, probabilities(posterior, x_test, args.S))
    keep_shifted(folder_of(args), args.epochs, posterior, args.S)


def sampler(args: argparse.Namespace) -> None:
    """A chain of SGLD, SGHMC, or either preconditioned.

    Most weights of a draw of the posterior are as large as those of the prior, many times larger
    than those of a mode: a chain that begins at a mode takes long to grow to them. It starts at a
    draw of the prior, or, with `--from_mode`, at a mode that is scaled to that size. The rate falls
    by a cosine over the burn-in, or, with `--cycle`, over each cycle anew.
    """
    keras.utils.set_random_seed(args.number)
    model = scaled_to_prior(at_mode(args)) if args.from_mode else draw_of_prior(args)
    kind = getattr(optimizers, args.sampler)
    momentum = {"momentum": args.momentum} if "SGHMC" in args.sampler else {}
    optimizer = kind(rate_of(args), num_data=problem.NUM_DATA, seed=args.number, **momentum)
    problem.compiled(model, optimizer)
    (x, y), (x_test, _) = problem.data()
    chain = inference.SGMCMC(model, start=args.burn_in, every=args.every, seed=args.number)
    each: list[keras.callbacks.Callback] = [TestPredictions(x_test, predictions_of(args))]
    if isinstance(optimizer, optimizers.SGHMC):
        each.append(KineticTemperatures(folder_of(args) / "temperatures.jsonl"))
    chain.fit(x, y, callbacks=each, **settings(args))
    keep_shifted(folder_of(args), args.epochs, chain, args.S)


def draw_of_prior(args: argparse.Namespace) -> keras.Model:
    """The network, all its weights drawn from N(0, 1 / precision)."""
    model = problem.network(problem.PRIOR_PRECISION)
    rng = np.random.default_rng(args.number)
    draws = (rng.normal(0, problem.PRIOR_SCALE, w.shape) for w in model.get_weights())
    model.set_weights([draw.astype("float32") for draw in draws])
    return model


def scaled_to_prior(model: keras.Model) -> keras.Model:
    """Scales convolutions, so that kernels have the prior's mean square, and the function stays.

    The normalisation behind each takes out whatever factor its kernel and bias share.
    """
    for layer in model.layers:
        if isinstance(layer, keras.layers.Conv2D):
            kernel, bias = layer.get_weights()
            factor = problem.PRIOR_SCALE / np.sqrt(np.mean(kernel**2))
            layer.set_weights([factor * kernel, factor * bias])
    return model


def rate_of(args: argparse.Namespace) -> keras.optimizers.schedules.LearningRateSchedule:
    """The learning rate of a chain."""
    if args.cycle:
        return optimizers.CyclicalSchedule(args.learning_rate, args.cycle * problem.STEPS)
    return keras.optimizers.schedules.CosineDecay(
        args.learning_rate,
        max(args.burn_in, 1) * problem.STEPS,
        alpha=args.final_rate / args.learning_rate,
    )


def sgd(args: argparse.Namespace) -> keras.optimizers.Optimizer:
    """SGD with Nesterov momentum; its rate rises for an epoch, and falls to 0."""
    steps = problem.STEPS * args.epochs
    rate = keras.optimizers.schedules.CosineDecay(
        args.learning_rate / 10,
        steps - problem.STEPS,
        warmup_target=args.learning_rate,
        warmup_steps=problem.STEPS,
    )
    return keras.optimizers.SGD(rate, momentum=0.9, nesterov=True)


def at_mode(args: argparse.Namespace) -> keras.Model:
    """The network with the weights of a member, which has to be there."""
    path = args.weights / f"map_{args.number}.npz"
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing; train the mode first")
    model = problem.network(problem.PRIOR_PRECISION)
    load_weights(model, path)
    return model


def trained(
    model: keras.Model, args: argparse.Namespace, *, every: int, num_samples: int = 0
) -> None:
    """Trains by the package's loop, with predictions of the test images on the way."""
    (x, y), (x_test, _) = problem.data()
    each = TestPredictions(x_test, predictions_of(args), every, num_samples)
    tfbdl.train(model, x, y, callbacks=[each], seed=args.number, **settings(args))
    keep_shifted(folder_of(args), args.epochs, model, num_samples)


def settings(args: argparse.Namespace) -> dict[str, Any]:
    """The settings of `tfbdl.train` for a run."""
    return {
        "epochs": args.epochs,
        "batch_size": problem.BATCH_SIZE,
        "savedir": folder_of(args),
    }


def folder_of(args: argparse.Namespace) -> Path:
    """The folder of a run."""
    return args.savedir / f"{args.name or args.command}_{args.number}"


def predictions_of(args: argparse.Namespace) -> Path:
    """The folder of what a run predicts."""
    return folder_of(args) / "predictions"


def save_weights(model: keras.Model, path: Path) -> None:
    """Writes weights as float16."""
    arrays = {f"w{i}": w.astype(np.float16) for i, w in enumerate(model.get_weights())}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, lambda file: np.savez(file, **arrays))


def load_weights(model: keras.Model, path: Path) -> None:
    """Puts the weights of `save_weights` into a network."""
    with np.load(path) as arrays:
        model.set_weights([arrays[f"w{i}"].astype("float32") for i in range(len(model.weights))])

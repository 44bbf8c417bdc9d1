"""How each method but chains is trained. All go on where they were stopped.

A run leaves its checkpoint in `--savedir`, and in `--results` what it predicts of the test images
after some epochs (`predictions`).
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import keras
import numpy as np

import tfbdl
from tfbdl import inference, layers, optimizers
from tutorials.cifar10 import problem
from tutorials.cifar10.answers import (
    LOG,
    NO_MODE,
    begin,
    checkpoints_of,
    folder_of,
    mode_of,
    run_of,
)
from tutorials.cifar10.modes import at_mode, loaded, save_weights, scaled_to_prior
from tutorials.cifar10.predictions import COSTS, Costs, TestPredictions, keep, keep_shifted, note

SHAPES = (None, 1, 1, None)
"""Masks of whole channels."""


def mode(args: argparse.Namespace) -> None:
    """A member of the ensemble: SGD to the mode, at a rate that rises and falls by a cosine.

    A narrow prior of convolutions keeps kernels short, which SGD then turns faster.
    """
    keras.utils.set_random_seed(args.number)
    model = problem.network(problem.PRIOR_PRECISION)
    problem.set_prior_of_kernels(model, args.kernel_precision)
    problem.compiled(model, sgd(args))
    trained(model, args, every=5)
    save_weights(args, model)


def dropout(args: argparse.Namespace) -> None:
    """Dropout of channels before the second convolution of each block."""
    keras.utils.set_random_seed(args.number)
    model = problem.network(problem.PRIOR_PRECISION, dropped(args.rate))
    problem.set_prior_of_kernels(model, args.kernel_precision)
    problem.compiled(model, sgd(args))
    trained(model, args, every=10, num_samples=args.S)
    save_weights(args, model)


def concrete_dropout(args: argparse.Namespace) -> None:
    """The same, with a rate for each convolution, which is learned."""
    keras.utils.set_random_seed(args.number)
    around = partial(
        layers.ConcreteDropout,
        num_data=problem.NUM_DATA,
        lengthscale=args.kernel_precision**0.5,
        temperature=2 / 3,
    )
    model = problem.network(problem.PRIOR_PRECISION, around)
    problem.set_prior_of_kernels(model, args.kernel_precision)
    problem.compiled(model, sgd(args))
    trained(model, args, every=10, num_samples=args.S)


def mean_field(args: argparse.Namespace) -> None:
    """Mean-field inference of kernels and biases.

    From a mode noise as large as it will be at the optimum would undo the mode before the means had
    learned to bear it: sigma begins as a small part of the prior's. From no mode SGD trains means
    under noise of nearly constant size, since it hardly moves sigma; Adam moves it as fast as
    means. The parameters of the normalisation, 1 % of all weights, are points under the same prior.
    With `--start` it goes on where another run of it has ended, as chains do (`sampler`).
    """
    keras.utils.set_random_seed(args.number)
    if args.start or args.mode == NO_MODE:
        model = problem.network(problem.PRIOR_PRECISION)
    else:
        model = scaled_to_prior(at_mode(args), args.kernel_precision)
    convolutions = [layer.name for layer in problem.convolutions(model)]
    random = partial(tfbdl.to_bayesian, num_data=problem.NUM_DATA, estimator=args.estimator)
    model = random(model, prior=args.kernel_precision**-0.5, layers=convolutions)
    model = random(model, prior=problem.PRIOR_SCALE)
    for layer in model.layers:
        for q in getattr(layer, "random_weights", ()):
            sigma = args.sigma * layer.prior.scale
            q.rho.assign(np.full(q.rho.shape, np.log(np.expm1(sigma))))
    if args.start:
        loaded(args, args.start, model)
    adam = args.optimizer == "adam"
    problem.compiled(model, keras.optimizers.Adam(falling(args)) if adam else sgd(args))
    trained(model, args, every=10, num_samples=args.S)
    save_weights(args, model)


def ivon(args: argparse.Namespace) -> None:
    """Mean-field inference of all weights by IVON, from no mode, as its authors train.

    Its curvatures begin where sigma is a small part of the prior's.
    """
    keras.utils.set_random_seed(args.number)
    model = problem.network()
    sigma = args.sigma * problem.PRIOR_SCALE
    optimizer = optimizers.IVON(
        rising_and_falling(args),
        num_data=problem.NUM_DATA,
        prior=problem.PRIOR_SCALE,
        beta_2=args.beta_2,
        initial_hessian=(sigma**-2 - problem.PRIOR_PRECISION) / problem.NUM_DATA,
        seed=args.number,
    )
    problem.compiled(model, optimizer)
    trained(model, args, every=10, num_samples=args.S, posterior=inference.MeanFieldVI.of)
    save_weights(args, model)


def snapshots(args: argparse.Namespace) -> None:
    """SGD goes on from a mode in cycles, and each ends at another (Huang et al. 2017).

    The rate falls by a cosine in each cycle. Prior and dropout are those of the mode.
    """
    if args.epochs % args.every:
        raise ValueError(f"epochs={args.epochs} must be some times every={args.every}")
    rate = optimizers.CyclicalSchedule(args.learning_rate, args.every * problem.STEPS)
    of_mode = run_of(args).origin.settings
    has_dropout = "rate" in of_mode
    around = [dropped(of_mode["rate"])] if has_dropout else []
    model = loaded(args, mode_of(vars(args)), problem.network(problem.PRIOR_PRECISION, *around))
    problem.set_prior_of_kernels(model, of_mode["kernel_precision"])
    problem.compiled(model, keras.optimizers.SGD(rate, momentum=0.9, nesterov=True))
    trained(model, args, every=args.every, num_samples=args.S if has_dropout else 0)
    save_weights(args, model)


def swag(args: argparse.Namespace) -> None:
    """SGD goes on from a mode at a constant rate, with the prior of the mode."""
    optimizer = keras.optimizers.SGD(args.learning_rate, momentum=0.9, nesterov=True)
    precision = run_of(args).origin.settings["kernel_precision"]
    model = problem.set_prior_of_kernels(at_mode(args), precision)
    problem.compiled(model, optimizer)
    posterior = fitted(inference.SWAG(model, seed=args.number).fit, args)
    keep(folder_of(args), args.epochs, posterior, problem.test_inputs(), args.S)
    keep_shifted(folder_of(args), args.epochs, posterior, args.S)


def laplace(args: argparse.Namespace) -> None:
    """The last layer with all correlations, around a mode."""
    posterior = around_mode(args, at_mode(args), "last_layer", "full", "ggn")
    keep_shifted(folder_of(args), args.epochs, posterior, args.S)


def laplace_all(args: argparse.Namespace) -> None:
    """All layers with Kronecker factors, around a mode.

    Each answer takes ten backward passes: none is asked for corrupted images.
    """
    around_mode(args, scaled_to_prior(at_mode(args)), "all", "kron", "mc_fisher")


def around_mode(
    args: argparse.Namespace, model: keras.Model, subset: str, structure: str, curvature: str
) -> inference.Laplace:
    """Laplace's approximation, with what it says of the test images."""
    posterior = inference.Laplace(
        problem.compiled(model, keras.optimizers.SGD()),
        subset_of_weights=subset,
        hessian_structure=structure,
        prior_precision=problem.PRIOR_PRECISION,
        curvature=curvature,
    )
    begin(args)
    begun = time.process_time()
    posterior.fit(*problem.training_data())
    note(folder_of(args) / COSTS, args.epochs, round(time.process_time() - begun, 1))
    keep(folder_of(args), args.epochs, posterior, problem.test_inputs(), args.S)
    return posterior


def dropped(rate: float) -> problem.Dropped:
    """Drops channels that go into a convolution."""

    def around(convolution: keras.layers.Layer) -> Callable[..., Any]:
        drop = layers.MCDropout(rate, SHAPES)
        return lambda x: convolution(drop(x))

    return around


def sgd(args: argparse.Namespace) -> keras.optimizers.Optimizer:
    """SGD with Nesterov momentum."""
    return keras.optimizers.SGD(rising_and_falling(args), momentum=0.9, nesterov=True)


def rising_and_falling(
    args: argparse.Namespace,
) -> keras.optimizers.schedules.LearningRateSchedule:
    """A rate that rises for an epoch, and falls to 0 by a cosine."""
    steps = problem.STEPS * args.epochs
    return keras.optimizers.schedules.CosineDecay(
        args.learning_rate / 10,
        steps - problem.STEPS,
        warmup_target=args.learning_rate,
        warmup_steps=problem.STEPS,
    )


def falling(args: argparse.Namespace) -> keras.optimizers.schedules.LearningRateSchedule:
    """A rate that falls by a cosine to a hundredth."""
    steps = problem.STEPS * args.epochs
    return keras.optimizers.schedules.CosineDecay(args.learning_rate, steps, alpha=0.01)


def trained(
    model: keras.Model,
    args: argparse.Namespace,
    *,
    every: int,
    num_samples: int = 0,
    posterior: Callable[[keras.Model], Any] = lambda model: model,
) -> None:
    """Trains by the package's loop, with predictions of the test images on the way."""
    each = TestPredictions(
        problem.test_inputs(), folder_of(args), every, num_samples=num_samples, posterior=posterior
    )
    fitted(partial(tfbdl.train, model, seed=args.number), args, each)
    keep_shifted(folder_of(args), args.epochs, posterior(model), num_samples)


def fitted(
    fit: Callable[..., Any], args: argparse.Namespace, *callbacks: keras.callbacks.Callback
) -> Any:
    """What `fit` gives, which is that of a method, or `tfbdl.train` of a model."""
    begin(args)
    folder, (x, y) = folder_of(args), problem.training_data()
    result = fit(
        x,
        y,
        epochs=args.epochs,
        batch_size=problem.BATCH_SIZE,
        savedir=checkpoints_of(args),
        callbacks=[Costs(folder), *callbacks],
    )
    shutil.copy(checkpoints_of(args) / LOG, folder / LOG)
    return result

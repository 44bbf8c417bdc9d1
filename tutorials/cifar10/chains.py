"""Chains of samplers by stochastic gradients, from modes or behind others.

They keep the kernels of a mode and shrink their prior: the likelihood knows the directions of
kernels alone (`modes`), and under N(0, s^2 I) of any s all directions have the same density, so
that the posterior over functions is the same; but how fast a step turns a kernel goes with the
inverse square of its length, and at the length to which SGD has brought it the rates that trained
the network suit kernels and other weights alike.
"""

from __future__ import annotations

import argparse

import keras
import numpy as np

from tfbdl import inference, optimizers
from tutorials.cifar10 import problem
from tutorials.cifar10.answers import SAMPLERS, folder_of, mode_of, parts, run_of
from tutorials.cifar10.modes import loaded, save_weights
from tutorials.cifar10.predictions import KineticTemperatures, TestPredictions, keep_shifted
from tutorials.cifar10.trainings import fitted


def sampler(args: argparse.Namespace) -> None:
    """A chain of SGLD, SGHMC, or either preconditioned, from the mode of its number.

    With `--start` it goes on where another chain has ended, under a number of its own, so that a
    long chain is made in parts, of which the weights at their ends are all that is handed on.

    Chains of several numbers start at as many members of the ensemble (`start_of_chain`: with
    priors of their kernels' sizes, at the rates that trained them). They do with mini-batches what
    MCLMC from an ensemble does with all data, each step of which would be an epoch.

    The rate is constant, or with `--cyclical` falls to 0 by a cosine before each sample, with noise
    at every step (SGHMC CLR of Izmailov et al.). It is that of a mean loss: a step on the sum over
    the data, as published, is to be multiplied by their number; the rates of preconditioned
    samplers are the same in both. Preconditioned SGHMC has one mass for each weight tensor here
    (layerwise), where the published one, as SGLD here, has one for each weight.
    """
    samples, rest = divmod(args.epochs - args.burn_in, args.every)
    if samples < 1 or rest:
        raise ValueError(
            f"epochs={args.epochs} must be burn_in={args.burn_in} and some times every={args.every}"
        )
    if args.cyclical and args.burn_in % args.every:
        raise ValueError(f"burn_in={args.burn_in} must be some times every={args.every}")
    keras.utils.set_random_seed(args.number)
    rate, cycle = args.learning_rate, args.every if args.cyclical else None
    if cycle:
        rate = optimizers.CyclicalSchedule(rate, cycle * problem.STEPS, exploration=0.0)
    kind = getattr(optimizers, SAMPLERS[args.command])
    has_momentum = issubclass(kind, optimizers.SGHMC)
    optimizer = kind(
        rate,
        num_data=problem.NUM_DATA,
        temperature=args.temperature,
        seed=args.number,
        **({"momentum": args.momentum} if has_momentum else {}),
    )
    model = problem.compiled(start_of_chain(args), optimizer)
    chain = inference.SGMCMC(model, start=args.burn_in, every=args.every, seed=args.number)
    folder = folder_of(args)
    each: list[keras.callbacks.Callback] = [
        TestPredictions(problem.test_inputs(), folder, args.every, start=args.burn_in)
    ]
    if has_momentum:
        each.append(KineticTemperatures(folder, cycle))
    fitted(chain.fit, args, *each)
    keep_shifted(folder, args.epochs, chain, args.S)
    save_weights(args, model)


def start_of_chain(args: argparse.Namespace) -> keras.Model:
    """The network where a chain starts: at a mode, or where another chain has ended.

    The prior of each convolution has the mean square of that kernel in the mode where the first
    part of the chain began; at a temperature T it is p(w)^(1 / T), whose mean square is T times
    that of p.
    """
    first, *_ = parts(run_of(args))
    at_first = mode_of(first.settings)
    model, mode = (
        loaded(args, run, problem.network(problem.PRIOR_PRECISION))
        for run in (args.start or at_first, at_first)
    )
    both = map(problem.convolutions, (model, mode))
    for layer, of_mode in zip(*both, strict=True):
        mean_square = float(np.mean(np.square(of_mode.kernel)))
        problem.set_prior(layer, args.temperature / mean_square)
    return model

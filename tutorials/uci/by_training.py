"""Methods that are layers: a network is trained with them, and its functions are drawn.

Variational dropout and Bayes by Backprop learn all they need with the weights. Concrete dropout,
IVON and variational last layers have a prior to choose, weight decay another and the noise, MC
dropout a rate and the noise: `held_out`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import keras

import tfbdl
from tfbdl.inference import MeanFieldVI
from tfbdl.layers import (
    BayesDense,
    ConcreteDropout,
    LearnedScale,
    MCDropout,
    VariationalDropout,
    VariationalLastLayer,
)
from tfbdl.likelihoods import Expected, Normal
from tfbdl.predictive import Prediction
from tutorials.uci import held_out
from tutorials.uci.networks import (
    START_SCALE,
    Layers,
    falling,
    one_noise,
    plain,
    sequential,
    trained,
)
from tutorials.uci.split import Split

Outcome = tuple[Prediction, dict[str, Any]]

LENGTHSCALE = 1e-2
"""The lengthscale of the prior of MC dropout (Gal and Ghahramani 2016)."""
RATES = (0.005, 0.01, 0.05, 0.1)
"""Rates at which MC dropout drops units."""
LENGTHSCALES = (0.3, 1.0, 3.0, 10.0)
"""Lengthscales of the prior of Concrete dropout."""
SCALES = (0.3, 1.0, 3.0, 10.0)
"""Scales of the normal prior that weight decay is, in units of the noise."""
IVON_SCALES = (1.0, 3.0, 10.0)
"""Scales of the normal prior of IVON."""
IVON_RATE = 0.03
"""The learning rate of IVON at the start; 0.1 diverges on the first split of energy."""
IVON_BETA_2 = 0.9995
"""The decay of IVON's curvature: 2,000 steps of memory, a fifth of the training."""
VBLL_SCALES = (0.01, 0.03, 0.1, 0.3, 1.0)
"""Scales of the normal prior of the features before a variational last layer."""


def weight_decay(data: Split, args: argparse.Namespace) -> Outcome:
    """The mode under a normal prior, with one noise: no uncertainty about the weights."""

    def layers(scale: float, data: Split) -> Layers:
        stack = plain(args)
        for layer in stack:
            layer.kernel_regularizer = keras.regularizers.L2(0.5 / (len(data.x) * scale**2))
        return stack

    return _with_best_noise("prior_scale", SCALES, layers, data, args)


def mc_dropout(data: Split, args: argparse.Namespace) -> Outcome:
    """Dropout of inputs and hidden units at one rate."""

    def layers(rate: float, data: Split) -> Layers:
        first, second = plain(args)
        decay = 0.5 * LENGTHSCALE**2 * (1.0 - rate) / len(data.x)
        first.kernel_regularizer = second.kernel_regularizer = keras.regularizers.L2(decay)
        dropout = [MCDropout(rate, seed=args.seed + i) for i in range(2)]
        return [dropout[0], first, dropout[1], second]

    return _with_best_noise("rate", RATES, layers, data, args)


def concrete_dropout(data: Split, args: argparse.Namespace) -> Outcome:
    """Dropout of inputs and hidden units at rates that are learned."""
    rates: dict[str, Any] = {}

    def fit(lengthscale: float, data: Split) -> Prediction:
        keras.utils.set_random_seed(args.seed)
        layers = [
            ConcreteDropout(
                layer, num_data=len(data.x), lengthscale=lengthscale, logit_scale=10.0, seed=seed
            )
            for seed, layer in enumerate(plain(args), start=args.seed)
        ]
        prediction = _with_learned_noise(layers, data, args)
        rates.update(rates=[float(1.0 - layer.keep_prob) for layer in layers])
        return prediction

    lengthscale = held_out.best(LENGTHSCALES, fit, data)
    return fit(lengthscale, data), {"lengthscale": lengthscale, **rates}


def variational_dropout(data: Split, args: argparse.Namespace) -> Outcome:
    """A noise for each weight, under a log-uniform prior."""
    layers = [
        VariationalDropout(args.hidden, "relu", num_data=len(data.x), seed=args.seed),
        VariationalDropout(1, num_data=len(data.x), seed=args.seed + 1),
    ]
    prediction = _with_learned_noise(layers, data, args)
    return prediction, {"pruned": [layer.sparsity() for layer in layers]}


def bayes_by_backprop(data: Split, args: argparse.Namespace) -> Outcome:
    """Independent normal weights; the scales of the prior are learned through the bound."""
    layers = [
        BayesDense(
            units,
            activation,
            prior=tfbdl.priors.Normal(scale, trainable=True),
            posterior=tfbdl.posteriors.MeanFieldNormal(keras.initializers.Constant(-5.0)),
            num_data=len(data.x),
            estimator="local_reparameterization",
            seed=seed,
        )
        for units, activation, scale, seed in (
            (args.hidden, "relu", 1.0, args.seed),
            (1, None, args.hidden**-0.5, args.seed + 1),
        )
    ]
    prediction = _with_learned_noise(layers, data, args)
    return prediction, {"prior_scales": [float(layer.prior.scale) for layer in layers]}


def ivon(data: Split, args: argparse.Namespace) -> Outcome:
    """Independent normal weights by an optimizer, under one prior, which is chosen."""

    def fit(scale: float, data: Split) -> Prediction:
        keras.utils.set_random_seed(args.seed)
        model = sequential(one_noise(args), data)
        rate = falling(IVON_RATE, args)
        optimizer = tfbdl.optimizers.IVON(
            rate, num_data=len(data.x), prior=scale, beta_2=IVON_BETA_2, seed=args.seed
        )
        trained(model, Normal("predicted"), data, args, optimizer=optimizer)
        drawn = {"seed": args.seed, "return_samples": True, "verbose": 0}
        return tfbdl.predict(MeanFieldVI.of(model), data.x_test, args.S, **drawn)

    scale = held_out.best(IVON_SCALES, fit, data)
    return fit(scale, data), {"prior_scale": scale}


def vbll(data: Split, args: argparse.Namespace) -> Outcome:
    """A last layer with all correlations, its noise learned; features under weight decay."""

    def fit(scale: float, data: Split) -> Prediction:
        keras.utils.set_random_seed(args.seed)
        features, _ = plain(args)
        features.kernel_regularizer = keras.regularizers.L2(0.5 / (len(data.x) * scale**2))
        last = VariationalLastLayer(
            1,
            num_data=len(data.x),
            prior=tfbdl.priors.Normal(args.hidden**-0.5, trainable=True),
            learned_scale=START_SCALE,
            seed=args.seed,
        )
        model = sequential([features, last], data)
        trained(model, Expected(Normal("predicted")), data, args)
        return _drawn(model, data, args)

    scale = held_out.best(VBLL_SCALES, fit, data)
    return fit(scale, data), {"prior_scale": scale}


def _with_learned_noise(layers: Layers, data: Split, args: argparse.Namespace) -> Prediction:
    model = sequential([*layers, LearnedScale(START_SCALE)], data)
    trained(model, Normal("predicted"), data, args)
    return _drawn(model, data, args)


def _drawn(
    model: keras.Model, data: Split, args: argparse.Namespace, **noise: Normal
) -> Prediction:
    """The prediction of S functions; of one, if all are equal."""
    return tfbdl.predict(
        model,
        data.x_test,
        args.S if tfbdl.predictive.is_random(model) else 0,
        seed=args.seed,
        return_samples=True,
        verbose=0,
        **noise,
    )


def _with_best_noise(
    name: str,
    values: Sequence[float],
    layers: Callable[[float, Split], Layers],
    data: Split,
    args: argparse.Namespace,
) -> Outcome:
    """What the best of the values gives, trained on all of the training part."""

    def fit(value: float, data: Split, sigma: float = 1.0) -> Prediction:
        keras.utils.set_random_seed(args.seed)
        model = trained(sequential(layers(value, data), data), Normal(1.0), data, args)
        return _drawn(model, data, args, likelihood=Normal(sigma))

    value, sigma = held_out.best_with_noise(values, fit, data)
    return fit(value, data, sigma), {name: value, "noise": sigma}

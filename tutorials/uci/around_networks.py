"""Posteriors in closed form around a trained network: Laplace's, and that of the last layer.

Laplace's prior precisions and noise are those of the highest marginal likelihood, found while the
network trains (Immer et al. 2021); it predicts as the network that is linear in its weights. The
last layer's posterior is exact for given features (Snoek et al. 2015), and so is its marginal
likelihood, which knows nothing of how well the features themselves have been learned: the weight
decay under which they are is chosen on held-out data.
"""

from __future__ import annotations

import argparse
from typing import Any

import keras

import tfbdl
from tfbdl.inference import EmpiricalBayes, Laplace, NeuralLinear
from tfbdl.likelihoods import Normal
from tfbdl.predictive import Prediction
from tutorials.uci import held_out
from tutorials.uci.networks import num_epochs, plain, sequential, trained
from tutorials.uci.split import Split, noise_of

Outcome = tuple[Prediction, dict[str, Any]]

SEARCHES = 10
"""Searches for prior and noise, in the second half of the training."""
SCALES = (0.3, 1.0, 3.0, 10.0)
"""Scales of the prior under which features are learned, in units of the noise."""


def laplace(data: Split, args: argparse.Namespace) -> Outcome:
    """All correlations of all weights; a prior precision for each weight tensor."""
    model = sequential(plain(args), data)
    posterior = Laplace(model, Normal(1.0), subset_of_weights="all", hessian_structure="full")
    every = max(num_epochs(data, args) // (2 * SEARCHES), 1)
    start = max(num_epochs(data, args) - every * SEARCHES, 0)
    evidence = EmpiricalBayes(posterior, data.x, data.y, start=start, every=every)
    trained(model, Normal(1.0), data, args, callbacks=[evidence])
    return tfbdl.predict(posterior, data.x_test, verbose=0), {
        "prior_precision": posterior.prior_precision.numpy().tolist(),
        "noise": posterior.sigma_noise,
        "log_marginal_likelihood": float(posterior.log_marginal_likelihood()),
    }


def neural_linear(data: Split, args: argparse.Namespace) -> Outcome:
    """A neural linear model with unknown noise, so that Student's t predicts."""

    def fit(scale: float, data: Split) -> Prediction:
        keras.utils.set_random_seed(args.seed)
        model = sequential(plain(args), data)
        for weight in model.trainable_variables:
            weight.regularizer = keras.regularizers.L2(0.5 / (len(data.x) * scale**2))
        trained(model, Normal(1.0), data, args)
        posterior = NeuralLinear(model, noise_prior=(1.0, 1e-4)).fit(data.x, data.y)
        posterior.optimize_prior_precision(prior_structure="layerwise")
        return tfbdl.predict(posterior, data.x_test, verbose=0)

    scale = held_out.best(SCALES, fit, data)
    prediction = fit(scale, data)
    return prediction, {"prior_scale": scale, "noise": noise_of(prediction)}

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

import held_out
import keras
from networks import num_epochs, plain, sequential, trained
from uci_split import Split, noise_of

from tfbdl.inference import Laplace, MarginalLikelihood, NeuralLinear
from tfbdl.likelihoods import Normal
from tfbdl.predictive import Prediction

Found = tuple[Prediction, dict[str, Any]]

SEARCHES = 10
"""For prior and noise, in the second half of the training."""
SCALES = (0.3, 1.0, 3.0, 10.0)
"""Of the prior under which features are learned, in units of the noise."""


def laplace(data: Split, args: argparse.Namespace) -> Found:
    """All correlations of all weights; a prior precision for each weight tensor."""
    model = sequential(plain(args), data)
    posterior = Laplace(model, "regression", "all", "full")
    every = max(num_epochs(data, args) // (2 * SEARCHES), 1)
    start = max(num_epochs(data, args) - every * SEARCHES, 0)
    evidence = MarginalLikelihood(posterior, data.x, data.y, start=start, every=every)
    trained(model, Normal(1.0), data, args, [evidence])
    return posterior.predict(data.x_test), {
        "prior_precision": posterior.prior_precision.numpy().tolist(),
        "noise": posterior.sigma_noise,
        "log_marginal_likelihood": float(posterior.log_marginal_likelihood()),
    }


def neural_linear(data: Split, args: argparse.Namespace) -> Found:
    """With unknown noise, so that Student's t predicts."""

    def fit(scale: float, data: Split) -> Prediction:
        keras.utils.set_random_seed(args.seed)
        model = sequential(plain(args), data)
        for weight in model.trainable_variables:
            weight.regularizer = keras.regularizers.L2(0.5 / (len(data.x) * scale**2))
        trained(model, Normal(1.0), data, args)
        posterior = NeuralLinear(model, noise_prior=(1.0, 1e-4)).fit(data.x, data.y)
        return posterior.optimize_prior_precision("layerwise").predict(data.x_test)

    scale = held_out.best(SCALES, fit, data)
    found = fit(scale, data)
    return found, {"prior_scale": scale, "noise": noise_of(found)}

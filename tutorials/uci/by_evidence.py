"""Methods that choose by the marginal likelihood of the training data, and hold none of them out.

Laplace: prior precisions and noise are chosen while the network trains (Immer et al. 2021); it
predicts as the network that is linear in its weights. Neural linear: of networks trained under
priors of several scales, the one whose last layer has the highest evidence (Snoek et al. 2015),
which is exact for given features.
"""

from __future__ import annotations

import argparse
from typing import Any

import keras
import numpy as np
from networks import num_epochs, plain, sequential, trained
from uci_split import Split

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
    """The last layer's posterior with unknown noise; Student's t predicts."""

    def posterior(scale: float) -> NeuralLinear:
        keras.utils.set_random_seed(args.seed)
        model = sequential(plain(args), data)
        for weight in model.trainable_variables:
            weight.regularizer = keras.regularizers.L2(0.5 / (len(data.x) * scale**2))
        trained(model, Normal(1.0), data, args)
        found = NeuralLinear(model, noise_prior=(1.0, 1e-4)).fit(data.x, data.y)
        return found.optimize_prior_precision("layerwise")

    found = {scale: posterior(scale) for scale in SCALES}
    evidence = {scale: float(p.log_marginal_likelihood()) for scale, p in found.items()}
    best = max(SCALES, key=evidence.__getitem__)
    prediction = found[best].predict(data.x_test)
    return prediction, {
        "prior_scale": best,
        "noise": float(np.sqrt(prediction.aleatoric_variance.mean())),
        "log_marginal_likelihood": evidence[best],
    }

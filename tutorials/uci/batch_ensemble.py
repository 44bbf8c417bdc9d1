"""BatchEnsemble as for tables: many members in one network, which share its kernels.

Gorishniy et al. (2024, "TabM"): the signs of the first layer's inputs part the members, whose
losses are means over examples of their own. When to stop is chosen on the last 20 % of the training
part, for the ensemble as a whole, as for the deep ensemble.
"""

from __future__ import annotations

import argparse
from typing import Any

import keras
import numpy as np

import tfbdl
from tfbdl.likelihoods import Normal
from tfbdl.models import BatchEnsemble
from tfbdl.predictive import Prediction
from tutorials.uci.networks import num_epochs, predicted_noise, sequential, trained
from tutorials.uci.split import Split

MEMBERS = 32
"""Theirs."""


def batch_ensemble(data: Split, args: argparse.Namespace) -> tuple[Prediction, dict[str, Any]]:
    """Members that predict the noise too."""
    held_out, scores = data.validation, []
    model = built(held_out, args)

    def note(epoch: int, logs: Any) -> None:
        scores.append(predicted(model, held_out).log_prob(held_out.y_test).mean())

    fit(model, held_out, args, callbacks=[keras.callbacks.LambdaCallback(on_epoch_end=note)])
    share = (int(np.argmax(scores)) + 1) / len(scores)
    model = built(data, args)
    fit(model, data, args, epochs=max(round(share * num_epochs(data, args)), 1))
    return predicted(model, data), {"share_of_steps": share}


def built(data: Split, args: argparse.Namespace) -> BatchEnsemble:
    """The ensemble at its start."""
    keras.utils.set_random_seed(args.seed)
    network = sequential(predicted_noise(args), data)
    return tfbdl.to_batch_ensemble(network, MEMBERS, initializer="tabm")


def fit(model: BatchEnsemble, data: Split, args: argparse.Namespace, **more: Any) -> None:
    """Trains it at a constant rate."""
    adam = keras.optimizers.Adam(args.rate)
    trained(model, Normal("predicted"), data, args, optimizer=adam, **more)


def predicted(ensemble: BatchEnsemble, data: Split) -> Prediction:
    """The mixture of all members' normals."""
    return tfbdl.predict(ensemble, data.x_test, MEMBERS, return_samples=True, verbose=0)

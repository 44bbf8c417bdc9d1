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


class _Scores(keras.callbacks.Callback):
    """Notes the mean log density, in nats, of what is not trained on, after each epoch."""

    def __init__(self, data: Split) -> None:
        super().__init__()
        self.data = data
        self.scores: list[float] = []

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        log_probs = predicted(self.model, self.data).log_prob(self.data.y_test)
        self.scores.append(float(np.mean(log_probs)))


def batch_ensemble(data: Split, args: argparse.Namespace) -> tuple[Prediction, dict[str, Any]]:
    """Members that predict the noise too."""
    scores = _Scores(data.validation)
    fitted(scores.data, args, num_epochs(scores.data, args), [scores])
    best = int(np.argmax(scores.scores)) + 1
    share = best / len(scores.scores)
    model = fitted(data, args, max(round(share * num_epochs(data, args)), 1))
    return predicted(model, data), {"share_of_steps": share}


def fitted(
    data: Split,
    args: argparse.Namespace,
    epochs: int,
    callbacks: list[keras.callbacks.Callback] | None = None,
) -> BatchEnsemble:
    """The ensemble after so many epochs, at a constant rate."""
    keras.utils.set_random_seed(args.seed)
    network = sequential(predicted_noise(args), data)
    ensemble = tfbdl.to_batch_ensemble(network, MEMBERS, initializer="tabm")
    optimizer = keras.optimizers.Adam(args.rate)
    return trained(
        ensemble,
        Normal("predicted"),
        data,
        args,
        callbacks=callbacks or (),
        optimizer=optimizer,
        epochs=epochs,
    )


def predicted(ensemble: BatchEnsemble, data: Split) -> Prediction:
    """The mixture of all members' normals."""
    return tfbdl.predict(ensemble, data.x_test, MEMBERS, return_samples=True, verbose=0)

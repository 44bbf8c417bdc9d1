"""Training for as long as it helps, chosen on the last 20 % of the training part.

A network is asked, after each of some 20 epochs, about what it is not trained on; another is then
trained on all, for the best share of the steps.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

import tfbdl
from tfbdl.likelihoods import Likelihood
from tfbdl.predictive import Prediction
from tutorials.uci.networks import num_epochs, trained
from tutorials.uci.split import Split

PATIENCE = 5
"""Looks in a row without gain, after which there are no more."""


def best_of_path(
    build: Callable[[Split], keras.Model],
    likelihood: Likelihood,
    num_samples: int,
    data: Split,
    args: argparse.Namespace,
) -> tuple[Prediction, dict[str, Any]]:
    """The prediction of so many functions of a network, trained at a constant rate."""

    def fit(data: Split, **more: Any) -> keras.Model:
        keras.utils.set_random_seed(args.seed)
        adam = keras.optimizers.Adam(args.rate)
        return trained(build(data), likelihood, data, args, optimizer=adam, **more)

    def predicted(model: keras.Model, data: Split) -> Prediction:
        drawn = {"seed": args.seed, "return_samples": True, "verbose": 0}
        return tfbdl.predict(model, data.x_test, num_samples, **drawn)

    held_out, scores = data.validation, []

    class Looks(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            scores.append(predicted(self.model, held_out).log_prob(held_out.y_test).mean())
            self.model.stop_training = epoch - int(np.argmax(scores)) >= PATIENCE

    fit(held_out, callbacks=[Looks()])
    share = (int(np.argmax(scores)) + 1) / num_epochs(held_out, args)
    model = fit(data, epochs=max(round(share * num_epochs(data, args)), 1))
    return predicted(model, data), {"share_of_steps": share}

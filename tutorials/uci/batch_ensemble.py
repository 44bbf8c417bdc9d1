"""BatchEnsembles: many members in one network, which share its kernels, and predict the noise."""

from __future__ import annotations

import argparse
from typing import Any

import tfbdl
from tfbdl.likelihoods import Normal
from tfbdl.models import BatchEnsemble
from tfbdl.predictive import Prediction
from tutorials.uci.networks import predicted_noise, sequential
from tutorials.uci.split import Split
from tutorials.uci.when_to_stop import best_of_path

Outcome = tuple[Prediction, dict[str, Any]]

MEMBERS = 32
"""The number of TabM."""
COMPONENTS = 4
"""Members whose factors are random: those of the paper."""


def batch_ensemble(data: Split, args: argparse.Namespace) -> Outcome:
    """For tables: the signs of the first layer's inputs part the members (Gorishniy et al. 2024).

    Their losses are means over examples of their own.
    """

    def build(data: Split) -> BatchEnsemble:
        network = sequential(predicted_noise(args), data)
        return tfbdl.to_batch_ensemble(network, MEMBERS, initializer="tabm")

    return best_of_path(build, Normal("predicted"), MEMBERS, data, args)


def rank_1(data: Split, args: argparse.Namespace) -> Outcome:
    """Factors with a posterior, which are drawn: a mixture of members (Dusenberry et al. 2020)."""

    def build(data: Split) -> BatchEnsemble:
        network = sequential(predicted_noise(args), data)
        return tfbdl.to_batch_ensemble(network, COMPONENTS, num_data=len(data.x))

    return best_of_path(build, Normal("predicted"), args.S, data, args)

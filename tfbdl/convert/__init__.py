"""Keras models made Bayesian, and back, and smaller."""

from tfbdl.convert.batch_ensemble import to_batch_ensemble
from tfbdl.convert.bayesian import to_bayesian
from tfbdl.convert.deterministic import to_deterministic
from tfbdl.convert.mc_dropout import to_mc_dropout
from tfbdl.convert.pruning import prune
from tfbdl.convert.sngp import to_sngp

__all__ = [
    "prune",
    "to_batch_ensemble",
    "to_bayesian",
    "to_deterministic",
    "to_mc_dropout",
    "to_sngp",
]

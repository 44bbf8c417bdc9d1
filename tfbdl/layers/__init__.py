"""Keras layers with random weights or activations."""

from tfbdl.layers.bayes_dense import BayesDense
from tfbdl.layers.concrete_dropout import ConcreteDropout
from tfbdl.layers.learned_scale import LearnedScale
from tfbdl.layers.mc_dropout import MCDropout
from tfbdl.layers.mc_gaussian_dropout import MCGaussianDropout
from tfbdl.layers.variational_dropout import VariationalDropout

__all__ = [
    "BayesDense",
    "ConcreteDropout",
    "LearnedScale",
    "MCDropout",
    "MCGaussianDropout",
    "VariationalDropout",
]

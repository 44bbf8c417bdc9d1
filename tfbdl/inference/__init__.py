"""Posterior inference over the weights of any Keras model: one way to fit and to ask."""

from tfbdl.inference.deep_ensemble import DeepEnsemble
from tfbdl.inference.empirical_bayes import EmpiricalBayes
from tfbdl.inference.laplace import Laplace
from tfbdl.inference.log_posterior import LogPosterior
from tfbdl.inference.map import MAP
from tfbdl.inference.mcmc import MCMC, SamplingError, bfmi, ess, rhat
from tfbdl.inference.mcmc.kernels import (
    HMC,
    MALA,
    MAMS,
    MCLMC,
    NUTS,
    ChEES,
    Flip,
    Langevin,
    RandomWalk,
)
from tfbdl.inference.mean_field_vi import MeanFieldVI
from tfbdl.inference.method import Method, NotFittedError
from tfbdl.inference.mixture import Mixture
from tfbdl.inference.neural_linear import NeuralLinear
from tfbdl.inference.sgmcmc import SGMCMC
from tfbdl.inference.swag import SWAG
from tfbdl.inference.weight_snapshots import WeightSnapshots

__all__ = [
    "HMC",
    "MALA",
    "MAMS",
    "MAP",
    "MCLMC",
    "MCMC",
    "NUTS",
    "SGMCMC",
    "SWAG",
    "ChEES",
    "DeepEnsemble",
    "EmpiricalBayes",
    "Flip",
    "Langevin",
    "Laplace",
    "LogPosterior",
    "MeanFieldVI",
    "Method",
    "Mixture",
    "NeuralLinear",
    "NotFittedError",
    "RandomWalk",
    "SamplingError",
    "WeightSnapshots",
    "bfmi",
    "ess",
    "rhat",
]

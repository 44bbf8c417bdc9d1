"""Posterior inference over the weights of any Keras model."""

from tfbdl.inference.mcmc.chains import SamplingError
from tfbdl.inference.deep_ensemble import DeepEnsemble
from tfbdl.inference.mcmc.diagnostics import ess, rhat
from tfbdl.inference.mcmc.kernels import HMC, MALA, NUTS, Flip, Langevin, RandomWalk
from tfbdl.inference.laplace import Laplace
from tfbdl.inference.log_posterior import LogPosterior
from tfbdl.inference.map import MAP
from tfbdl.inference.marginal_likelihood import MarginalLikelihood
from tfbdl.inference.mcmc import MCMC
from tfbdl.inference.neural_linear import NeuralLinear
from tfbdl.inference.weight_snapshots import PosteriorSamples
from tfbdl.inference.swag import SWAG

__all__ = [
    "HMC",
    "MALA",
    "MAP",
    "MCMC",
    "NUTS",
    "SWAG",
    "DeepEnsemble",
    "Flip",
    "Langevin",
    "Laplace",
    "LogPosterior",
    "MarginalLikelihood",
    "NeuralLinear",
    "PosteriorSamples",
    "RandomWalk",
    "SamplingError",
    "ess",
    "rhat",
]

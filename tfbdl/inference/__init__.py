"""Posterior inference over the weights of any Keras model."""

from tfbdl.inference.deep_ensemble import DeepEnsemble
from tfbdl.inference.log_posterior import LogPosterior
from tfbdl.inference.posterior_samples import PosteriorSamples
from tfbdl.inference.swag import SWAG

__all__ = ["SWAG", "DeepEnsemble", "LogPosterior", "PosteriorSamples"]

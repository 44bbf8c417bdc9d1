"""Posterior inference over the weights of any Keras model."""

from tfbdl.inference.log_posterior import LogPosterior
from tfbdl.inference.posterior_samples import PosteriorSamples

__all__ = ["LogPosterior", "PosteriorSamples"]

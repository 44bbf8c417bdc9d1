"""Posterior inference over the weights of any Keras model."""

from tfbdl.inference.log_posterior import LogPosterior

__all__ = ["LogPosterior"]

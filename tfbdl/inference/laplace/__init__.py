"""Laplace approximations of the posterior over the weights of a Keras model."""

from tfbdl.inference.laplace.laplace import Laplace

__all__ = ["Laplace"]

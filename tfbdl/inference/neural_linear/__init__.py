"""The exact posterior of a network's last layer, on the features that the others have learned."""

from tfbdl.inference.neural_linear.neural_linear import NeuralLinear

__all__ = ["NeuralLinear"]

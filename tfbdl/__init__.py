"""Bayesian deep learning for TensorFlow 2 and Keras 3."""

from tfbdl import startup

if startup.quiet():
    startup.import_tensorflow()

from tfbdl import data, layers, models, plots, posteriors, priors, training
from tfbdl.predictive import sample
from tfbdl.training import TrainLogger, read_log, train

__version__ = "0.1.0"

__all__ = [
    "TrainLogger",
    "data",
    "layers",
    "models",
    "plots",
    "posteriors",
    "priors",
    "read_log",
    "sample",
    "train",
    "training",
]

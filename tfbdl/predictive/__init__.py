"""Monte-Carlo prediction: many drawn functions, summed up as they come."""

from tfbdl.predictive.elbo import elbo, log_predictive_density
from tfbdl.predictive.predict import is_random, predict
from tfbdl.predictive.prediction import Prediction

__all__ = ["Prediction", "elbo", "is_random", "log_predictive_density", "predict"]

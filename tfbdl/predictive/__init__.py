"""Monte-Carlo prediction: many drawn functions, summed up as they come."""

from tfbdl.predictive.bound import elbo, log_predictive_density
from tfbdl.predictive.predict import predict
from tfbdl.predictive.prediction import Prediction

__all__ = ["Prediction", "elbo", "log_predictive_density", "predict"]

"""Checks of a model by data that it makes itself, before and after it has seen others."""

from tfbdl.checking.arviz import to_arviz
from tfbdl.checking.check import PredictiveCheck, predictive_check
from tfbdl.checking.prior import prior_predictive
from tfbdl.checking.replicates import replicate

__all__ = ["PredictiveCheck", "predictive_check", "prior_predictive", "replicate", "to_arviz"]

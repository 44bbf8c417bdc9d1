"""Conformal prediction: intervals and sets that cover as often as they say, on any prediction."""

from tfbdl.conformal.base import Conformal, quantile
from tfbdl.conformal.intervals import CQR, Intervals, Split
from tfbdl.conformal.sets import APS, LAC, RAPS

__all__ = ["APS", "CQR", "LAC", "RAPS", "Conformal", "Intervals", "Split", "quantile"]

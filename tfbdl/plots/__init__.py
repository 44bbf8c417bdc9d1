"""Figures of training runs; matplotlib is imported when a figure is drawn."""

from tfbdl.plots.logs import log_curves

__all__ = ["log_curves"]

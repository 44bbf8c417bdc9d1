"""Figures; each takes an `ax` and returns it. matplotlib is imported when one is drawn."""

from tfbdl.plots.calibration import reliability_diagram, risk_coverage
from tfbdl.plots.entropy import uncertainty_histograms
from tfbdl.plots.functions import function_draws, predictive_bands
from tfbdl.plots.images import class_distributions, image_grid, reconstructions
from tfbdl.plots.keep import keep_probabilities
from tfbdl.plots.latent import latent_scatter, manifold
from tfbdl.plots.logs import log_curves
from tfbdl.plots.maps import uncertainty_maps
from tfbdl.plots.pit import pit_histogram, quantile_calibration
from tfbdl.plots.traces import chains
from tfbdl.plots.weights import weight_posteriors

__all__ = [
    "chains",
    "class_distributions",
    "function_draws",
    "image_grid",
    "keep_probabilities",
    "latent_scatter",
    "log_curves",
    "manifold",
    "pit_histogram",
    "predictive_bands",
    "quantile_calibration",
    "reconstructions",
    "reliability_diagram",
    "risk_coverage",
    "uncertainty_histograms",
    "uncertainty_maps",
    "weight_posteriors",
]

"""Data sets for the tutorials and benchmarks: images, pictures of uncertainty, regressions."""

from tfbdl.data.binarize import binarize
from tfbdl.data.cifar10 import CIFAR10, cifar10, cifar10_hmc_probabilities, cifar10_human_counts
from tfbdl.data.co2 import CO2, co2
from tfbdl.data.corruption import corrupt
from tfbdl.data.errors import DataError
from tfbdl.data.images import NAMES, SPLITS, ImageData, load
from tfbdl.data.regression import RegressionData, regression, regression_splits
from tfbdl.data.synthetic import blend, noise, rotate
from tfbdl.data.toy import blundell_curve, gal_linear, gapped_sine
from tfbdl.data.uci import uci, uci_splits

__all__ = [
    "CIFAR10",
    "CO2",
    "NAMES",
    "SPLITS",
    "DataError",
    "ImageData",
    "RegressionData",
    "binarize",
    "blend",
    "blundell_curve",
    "cifar10",
    "cifar10_hmc_probabilities",
    "cifar10_human_counts",
    "co2",
    "corrupt",
    "gal_linear",
    "gapped_sine",
    "load",
    "noise",
    "regression",
    "regression_splits",
    "rotate",
    "uci",
    "uci_splits",
]

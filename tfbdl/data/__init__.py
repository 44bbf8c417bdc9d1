"""Data sets for the tutorials and benchmarks: images, pictures of uncertainty, regressions."""

from tfbdl.data.binarize import binarize
from tfbdl.data.errors import DataError
from tfbdl.data.images import NAMES, SPLITS, ImageData, load
from tfbdl.data.synthetic import blend, noise, rotate
from tfbdl.data.toy import blundell_curve, gal_linear, gapped_sine
from tfbdl.data.uci import UCIData, uci

__all__ = [
    "NAMES",
    "SPLITS",
    "DataError",
    "ImageData",
    "UCIData",
    "binarize",
    "blend",
    "blundell_curve",
    "gal_linear",
    "gapped_sine",
    "load",
    "noise",
    "rotate",
    "uci",
]

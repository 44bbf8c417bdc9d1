"""Scores of what is out of distribution, from the features and logits of a trained classifier."""

from tfbdl.detection.base import Detector
from tfbdl.detection.logits import Energy, MaxLogit, MaxSoftmax
from tfbdl.detection.mahalanobis import Mahalanobis, RelativeMahalanobis
from tfbdl.detection.nearest_neighbors import NearestNeighbors
from tfbdl.detection.vim import ViM

__all__ = [
    "Detector",
    "Energy",
    "Mahalanobis",
    "MaxLogit",
    "MaxSoftmax",
    "NearestNeighbors",
    "RelativeMahalanobis",
    "ViM",
]

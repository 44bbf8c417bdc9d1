"""Distances from the means of classes, in units of the features' covariance."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import keras
import numpy as np
import scipy.linalg
from scipy.spatial.distance import cdist

from tfbdl.arguments import number
from tfbdl.detection.base import Detector
from tfbdl.detection.class_moments import ClassMoments
from tfbdl.detection.features import Features, Part
from tfbdl.sources import NO_TARGETS


class Mahalanobis(Detector):
    """The least squared distance from a class: min_c (f - mu_c)^T Sigma^-1 (f - mu_c).

    Lee et al. (2018): the features f of class c are N(mu_c, Sigma), with one Sigma for all, by
    maximum likelihood. Take it where strangers are far from all classes; on those that are near,
    `RelativeMahalanobis` is better. `fit` adds up moments and keeps no features.

    Directions in which no training feature varies, such as units that are never active, do not
    count, as in scikit-learn, unless there is shrinkage.

    Args:
        model: a trained classifier; None where features are given instead.
        layer: the layer whose outputs are the features, or its name; by default the features are
            the inputs of the last layer with a kernel. Positions of a map are averaged, as in the
            paper.
        shrinkage: s in [0, 1]: (1 - s) Sigma + s tr(Sigma) / D I is in the place of Sigma, which
            helps where there are not many times more examples than features.

    Raises:
        ValueError: if the model or the layer is none, or `shrinkage` is out of range.
    """

    needs_labels = True

    def __init__(
        self,
        model: keras.Model | None = None,
        layer: keras.layers.Layer | str | None = None,
        *,
        shrinkage: float = 0.0,
    ) -> None:
        super().__init__(Features(model, layer))
        self.shrinkage = number("shrinkage", shrinkage, lambda v: 0 <= v <= 1, "in [0, 1]")

    def _learn(self, parts: Iterator[Part]) -> None:
        moments: ClassMoments | None = None
        for part in parts:
            values = part.values
            moments = ClassMoments(values.shape[1]) if moments is None else moments
            if len(moments.within) != values.shape[1]:
                raise ValueError("x has batches of different numbers of features; give as many")
            moments.add(values, _labels(part))
        if moments is None:
            raise ValueError("x has no batches; give at least one example")
        self._keep(moments)
        self._size = len(moments.within)

    def _keep(self, moments: ClassMoments) -> None:
        counts, means = moments.stacked()
        covariance = moments.within / counts.sum()
        self._classes = _Normals.of(means, covariance, self.shrinkage)

    def _score(self, values: np.ndarray) -> np.ndarray:
        return self._classes.distances(values).min(axis=1)


class RelativeMahalanobis(Mahalanobis):
    """`Mahalanobis`, less the distance from the mean of all under their own covariance.

    As in Ren et al. (2021), what features share, whatever the class, is subtracted, so that the
    features count that tell classes apart. Take it where strangers are near to the classes.
    Arguments and errors are those of `Mahalanobis`.
    """

    def _keep(self, moments: ClassMoments) -> None:
        super()._keep(moments)
        mean, between = moments.between()
        total = (moments.within + between) / sum(moments.counts.values())
        self._background = _Normals.of(mean[np.newaxis], total, self.shrinkage)

    def _score(self, values: np.ndarray) -> np.ndarray:
        return super()._score(values) - self._background.distances(values)[:, 0]


class _Normals(NamedTuple):
    """Normal laws with one covariance.

    origin: subtracted from features first, shape (D,).
    whiten: W of rank R with W W^T = Sigma^-1, shape (D, R).
    means: the means of the laws, whitened, shape (C, R).
    """

    origin: np.ndarray
    whiten: np.ndarray
    means: np.ndarray

    @classmethod
    def of(cls, means: np.ndarray, covariance: np.ndarray, shrinkage: float) -> _Normals:
        """The normals of means (C, D) and a covariance (D, D).

        Raises:
            ValueError: if no feature varies.
        """
        size = len(covariance)
        ridge = shrinkage * np.trace(covariance) / size
        variance, axes = scipy.linalg.eigh(
            (1.0 - shrinkage) * covariance + ridge * np.eye(size), overwrite_a=True
        )
        varies = variance > size * np.finfo(np.float64).eps * variance[-1]
        if variance[-1] <= 0:
            raise ValueError("x has features that do not vary within classes; give more examples")
        whiten = axes[:, varies] / np.sqrt(variance[varies])
        origin = means.mean(axis=0)
        return cls(origin, whiten, (means - origin) @ whiten)

    def distances(self, values: np.ndarray) -> np.ndarray:
        """Squared distances of features (B, D) from each mean, shape (B, C)."""
        return cdist((values - self.origin) @ self.whiten, self.means, "sqeuclidean")


def _labels(part: Part) -> np.ndarray:
    y: Any = part.y
    if y is None:
        raise ValueError(NO_TARGETS)
    if not isinstance(y, np.ndarray) or y.reshape(len(y), -1).shape[1] != 1:
        shape = getattr(y, "shape", None)
        raise ValueError(f"y has shape {shape}; give integer labels of shape (N,)")
    y = y.ravel()
    if (y != np.floor(y)).any():
        raise ValueError(f"y has the label {y[y != np.floor(y)][0]:g}; give integers")
    return y.astype(np.int64)

"""Scores of logits alone, which learn nothing beyond what the classifier has."""

from __future__ import annotations

from collections.abc import Iterator

import keras
import numpy as np
import scipy.special

from tfbdl.arguments import positive
from tfbdl.detection.base import Detector
from tfbdl.detection.features import Features, Part


class _OfLogits(Detector):
    """`fit` is there for the sake of those that compare detectors; it does nothing.

    Args:
        model: a trained classifier, whose head gives the logits, whether or not a softmax follows;
            None where logits are given instead.

    Raises:
        ValueError: if the model is none.
    """

    def __init__(self, model: keras.Model | None = None) -> None:
        super().__init__(Features(model, logits=True))

    def _learn(self, parts: Iterator[Part]) -> None:
        """Nothing, and so no part is computed."""

    def _fitted_to(self) -> str:
        return ""

    def _check_fitted(self) -> None:
        """Nothing has to be."""


class MaxSoftmax(_OfLogits):
    """-log max_c p_c, the baseline (Hendrycks and Gimpel 2017).

    It ranks as 1 - max_c p_c does, and goes on to rank where that is rounded to 0.
    """

    def _score(self, values: np.ndarray) -> np.ndarray:
        below = np.sort(values, axis=1)
        return np.log1p(np.exp(below[:, :-1] - below[:, -1:]).sum(axis=1))


class MaxLogit(_OfLogits):
    """-max_c z_c: logits keep the length that softmax divides out (Hendrycks et al. 2022)."""

    def _score(self, values: np.ndarray) -> np.ndarray:
        return -values.max(axis=1)


class Energy(_OfLogits):
    """-T log sum_c exp(z_c / T), the energy of the logits (Liu et al. 2020, equation 4).

    Args:
        model: as in `MaxLogit`.
        temperature: T; as T goes to 0 the score becomes that of `MaxLogit`.

    Raises:
        ValueError: if the model is none, or the temperature not positive.
    """

    def __init__(self, model: keras.Model | None = None, *, temperature: float = 1.0) -> None:
        super().__init__(model)
        self.temperature = positive("temperature", temperature)

    def _score(self, values: np.ndarray) -> np.ndarray:
        T = self.temperature
        return -T * scipy.special.logsumexp(values / T, axis=1)

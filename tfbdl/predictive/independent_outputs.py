"""Predictions at positions whose outputs are independent: normal, or Student's t, jointly."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.special
import tensorflow as tf

from tfbdl.examples import as_array
from tfbdl.likelihoods.targets import match
from tfbdl.predictive.closed_form import ClosedFormPrediction


@dataclass(frozen=True, eq=False, repr=False)
class IndependentOutputs:
    """p(y | x) of N examples at T positions, with F outputs that are independent of each other.

    Over the positions, output f is N(m_f, s_f^2 (I + R R^T)), or under one unknown noise for all of
    them the multivariate t of that location and shape (Murphy 2012, equation 2.71).

    Attributes:
        location: m, shape (N, T, F).
        scale: s, shape (F,).
        root: R, shape (N, T, K).
        df: the degrees of freedom of t; None for normal laws.
    """

    location: np.ndarray
    scale: np.ndarray
    root: np.ndarray
    df: float | None = None

    def rows(self, rows: np.ndarray) -> IndependentOutputs:
        """The law of some of the examples."""
        return replace(self, location=self.location[rows], root=self.root[rows])

    def log_prob(self, y: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        """Log p(y | x) of each example, shape (N,), in nats.

        Args:
            y: shape (N, T, F).
            mask: the positions that count, shape (N, T); None if all do.
        """
        counts = np.ones(y.shape[:2], bool) if mask is None else mask
        log_det, squares = self._log_det_and_squares(y, counts)
        d = counts.sum(axis=1)[:, np.newaxis]
        volume = 0.5 * log_det + d * (np.log(self.scale) + 0.5 * math.log(2.0 * math.pi))
        if self.df is None:
            return np.sum(-volume - 0.5 * squares, axis=1)
        nu = self.df
        gammas = scipy.special.gammaln(0.5 * (nu + d)) - scipy.special.gammaln(0.5 * nu)
        tails = 0.5 * (nu + d) * np.log1p(squares / nu)
        return np.sum(gammas - 0.5 * d * math.log(0.5 * nu) - volume - tails, axis=1)

    def _log_det_and_squares(
        self, y: np.ndarray, counts: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Log det C, shape (N, 1), and e^T C^-1 e, (N, F), for C = I + R R^T and e = (y - m) / s.

        Positions that do not count have rows of 0. Both come from the triangular factor of (R e; I
        0): det C = det(I + R^T R), and e^T C^-1 e = min over z of |e - R z|^2 + |z|^2.
        """
        counted = counts[..., np.newaxis]
        num, positions, k = self.root.shape
        rows = np.zeros((num, positions + k, k + y.shape[2]))
        rows[:, :positions, :k] = np.where(counted, self.root, 0.0)
        rows[:, :positions, k:] = np.where(counted, (y - self.location) / self.scale, 0.0)
        rows[:, positions:, :k] = np.eye(k)
        upper = np.asarray(np.linalg.qr(rows, mode="r"))
        diagonal = np.diagonal(upper[:, :k, :k], axis1=1, axis2=2)
        log_det = 2.0 * np.log(np.abs(diagonal)).sum(axis=1, keepdims=True)
        return log_det, np.sum(upper[:, k:, k:] ** 2, axis=1)


@dataclass(frozen=True, eq=False, repr=False)
class IndependentPrediction(ClosedFormPrediction):
    """A `ClosedFormPrediction` at T positions, with outputs that are independent at each of them.

    Attributes:
        joint: p(y | x) of each example at all its positions; None where it is not kept of so many
            examples.
    """

    joint: IndependentOutputs | None

    @property
    def entropy(self) -> np.ndarray:
        """Entropy of p(y | x) at each position, shape (N, ...), in nats."""
        return self.marginal.entropy().numpy().sum(axis=-1)

    def log_prob(self, y: np.ndarray) -> np.ndarray:
        """Log p(y | x) of each example, shape (N,), in nats.

        Raises:
            ValueError: if y does not fit, or the joint distribution was not kept.
        """
        law = self._known_joint("log_prob")
        y = match(tf.constant(as_array("y", y), tf.float64), tf.TensorShape(self.mean.shape))
        mask = None if self.mask is None else self.mask.reshape(law.location.shape[:2])
        return law.log_prob(np.asarray(y).reshape(law.location.shape), mask)

    def _fewer_help(self) -> bool:
        return True  # a single example is always kept

    def _rows_of(self, name: str, value: Any, rows: np.ndarray) -> Any:
        if isinstance(value, IndependentOutputs):
            return value.rows(rows)
        return super()._rows_of(name, value, rows)

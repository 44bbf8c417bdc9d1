"""The joint law of y at positions whose outputs are independent: normal, or Student's t."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy.special


@dataclass(frozen=True)
class IndependentOutputs:
    """p(y | x) of N examples at T positions, with F outputs that are independent of each other.

    Over the positions, output f is N(m_f, s_f^2 C), or under one unknown noise for all of them the
    multivariate t of that location and shape (Murphy 2012, equation 2.71).

    Attributes:
        location: m, shape (N, T, F).
        scale: s, shape (F,).
        shape_matrix: C, shape (N, T, T); None where it is too large to be kept.
        df: the degrees of freedom of t; None for normal laws.
    """

    location: np.ndarray
    scale: np.ndarray
    shape_matrix: np.ndarray | None
    df: float | None = None

    def rows(self, rows: np.ndarray) -> IndependentOutputs:
        """The law of some of the examples."""
        matrix = None if self.shape_matrix is None else self.shape_matrix[rows]
        return replace(self, location=self.location[rows], shape_matrix=matrix)

    def log_prob(self, y: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        """Log p(y | x) of each example, shape (N,), in nats.

        Args:
            y: shape (N, T, F).
            mask: the positions that count, shape (N, T); None if all do.
        """
        assert self.shape_matrix is not None
        counts = np.ones(y.shape[:2], bool) if mask is None else mask
        both = counts[:, :, np.newaxis] & counts[:, np.newaxis]
        matrix = np.where(both, self.shape_matrix, np.eye(y.shape[1]))
        errors = np.where(counts[..., np.newaxis], (y - self.location) / self.scale, 0.0)
        lower = np.linalg.cholesky(matrix)
        squares = np.sum(np.linalg.solve(lower, errors) ** 2, axis=1)  # (N, F)
        d = counts.sum(axis=1)[:, np.newaxis]
        log_det = 2.0 * np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(axis=1)[:, np.newaxis]
        volume = 0.5 * log_det + d * (np.log(self.scale) + 0.5 * math.log(2.0 * math.pi))
        if self.df is None:
            return np.sum(-volume - 0.5 * squares, axis=1)
        nu = self.df
        gammas = scipy.special.gammaln(0.5 * (nu + d)) - scipy.special.gammaln(0.5 * nu)
        tails = 0.5 * (nu + d) * np.log1p(squares / nu)
        return np.sum(gammas - 0.5 * d * math.log(0.5 * nu) - volume - tails, axis=1)

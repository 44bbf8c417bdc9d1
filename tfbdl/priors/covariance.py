"""Covariance matrices that a user gives, and their Cholesky factors."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfbdl.arguments import positive, shown

# Below it, eigenvalues of correlations drown in the rounding errors of float32.
LEAST_EIGENVALUE = 1e-6


class Covariance:
    """A covariance C = L L^T of n numbers, factorised once, in float64.

    Args:
        name: the argument it was given as, for messages.
        value: n rows of n numbers.

    Attributes:
        matrix: C.
        cholesky: L, lower triangular.
        whitening: L^-1.

    Raises:
        ValueError: if `value` is not a square, symmetric and finite matrix, or if an eigenvalue of
            its correlations is below 1e-6.
    """

    def __init__(self, name: str, value: Any) -> None:
        self.matrix = _symmetric(name, value)
        variances = np.diagonal(self.matrix)
        if not np.all(variances > 0):
            raise ValueError(f"{name} must have a diagonal > 0, not {min(variances)}")
        stddev = np.sqrt(variances)
        for s in (stddev.min(), stddev.max()):
            positive(f"{name}, a standard deviation in it,", float(s))
        correlation = self.matrix / np.outer(stddev, stddev)
        identity = np.eye(len(stddev))
        try:
            np.linalg.cholesky(correlation - LEAST_EIGENVALUE * identity)
        except np.linalg.LinAlgError:
            raise ValueError(
                f"{name} of shape {self.matrix.shape} must be positive definite with eigenvalues "
                f"of its correlations above {LEAST_EIGENVALUE:g}; add variance to its diagonal"
            ) from None
        self.cholesky = stddev[:, np.newaxis] * np.linalg.cholesky(correlation)
        self.whitening = np.linalg.solve(self.cholesky, identity)

    @property
    def size(self) -> int:
        """The number n of rows."""
        return len(self.matrix)

    @property
    def half_log_det(self) -> float:
        """Half the log determinant of C."""
        return float(np.sum(np.log(np.diagonal(self.cholesky))))

    @property
    def precision_diagonal(self) -> np.ndarray:
        """The diagonal of C^-1, shape (n,)."""
        return np.sum(np.square(self.whitening), axis=0)


def _symmetric(name: str, value: Any) -> np.ndarray:
    try:
        matrix = np.array(value, np.float64)
    except Exception:  # whatever cannot be made an array
        raise ValueError(f"{name}={shown(value)} must be a matrix of numbers") from None
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise ValueError(f"{name} of shape {matrix.shape} must be a square matrix")
    if not np.all(np.isfinite(matrix)):
        raise ValueError(f"{name} of shape {matrix.shape} must be finite")
    if not np.allclose(matrix, matrix.T, rtol=1e-5, atol=1e-8 * np.abs(matrix).max()):
        raise ValueError(f"{name} of shape {matrix.shape} must be symmetric")
    return 0.5 * (matrix + matrix.T)

"""Bayesian linear regression in closed form (Bishop 2006, section 3.3), without squared numbers.

All that data say of y = W^T phi + noise is the triangular factor R of (Phi Y) = Q R, to which more
rows are added by another such decomposition (Golub and Van Loan 2013, section 6.5). Its condition
is that of Phi, not of Phi^T Phi: nothing has to be added before it can be inverted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf


class RegressionStatistics(NamedTuple):
    """Statistics of the rows of a regression, which are examples or their positions.

    r: R, shape (at most M + F, M + F), for M features and F targets.
    num_data: N, the sum of the weights of the rows.
    """

    r: np.ndarray
    num_data: float

    def and_more(self, phi: np.ndarray, y: np.ndarray, weights: np.ndarray) -> RegressionStatistics:
        """The statistics with B more rows: features (B, M), targets (B, F), weights (B,)."""
        rows = np.sqrt(weights)[:, np.newaxis] * np.concatenate([phi, y], axis=1)
        r = np.asarray(np.linalg.qr(np.concatenate([self.r, rows]), mode="r"))
        return RegressionStatistics(r, self.num_data + float(weights.sum()))


class Solution(NamedTuple):
    """W ~ N(mean, sigma^2 (U^T U)^-1), each column by itself, under W ~ N(0, sigma^2 / delta).

    mean: shape (M, F).
    upper: U, triangular, with U^T U = Phi^T Phi + diag(delta), shape (M, M).
    residual: |y - Phi w|^2 + |sqrt(delta) w|^2 at the mean, shape (F,).
    log_det_ratio: log det diag(delta) - log det U^T U.
    num_data: N.
    """

    mean: tf.Tensor
    upper: tf.Tensor
    residual: tf.Tensor
    log_det_ratio: tf.Tensor
    num_data: float

    def whitened(self, phi: np.ndarray) -> np.ndarray:
        """V: U^-T phi of each row of `phi`, shape (..., M), so that Cov[f] = sigma^2 V V^T."""
        rows = phi.reshape(-1, phi.shape[-1])
        white = tf.linalg.triangular_solve(self.upper, rows.T, lower=False, adjoint=True)
        return white.numpy().T.reshape(phi.shape)

    def draw(self, rng: np.random.Generator, sigma: np.ndarray) -> np.ndarray:
        """A W for each noise of `sigma`, shape (S, F); they have the shape (S, M, F)."""
        m = self.upper.shape[0]
        white = rng.normal(size=(m, sigma.size))
        deviations = tf.linalg.triangular_solve(self.upper, white, lower=False).numpy()
        deviations = np.moveaxis(deviations.reshape(m, *sigma.shape), 0, 1)
        return self.mean.numpy() + sigma[:, np.newaxis] * deviations


def solve(examples: RegressionStatistics, delta: tf.Tensor) -> Solution:
    """The posterior, differentiable in `delta`, shape (M,), in float64."""
    m = delta.shape[0]
    phi, y = examples.r[:, :m], examples.r[:, m:]
    q, upper = tf.linalg.qr(tf.concat([tf.linalg.diag(tf.sqrt(delta)), phi], axis=0))
    y = tf.concat([tf.zeros([m, y.shape[1]], tf.float64), y], axis=0)
    explained = tf.matmul(q, y, transpose_a=True)
    log_det = 2.0 * tf.reduce_sum(tf.math.log(tf.abs(tf.linalg.diag_part(upper))))
    return Solution(
        mean=tf.linalg.triangular_solve(upper, explained, lower=False),
        upper=upper,
        residual=tf.reduce_sum((y - tf.matmul(q, explained)) ** 2, axis=0),
        log_det_ratio=tf.reduce_sum(tf.math.log(delta)) - log_det,
        num_data=examples.num_data,
    )

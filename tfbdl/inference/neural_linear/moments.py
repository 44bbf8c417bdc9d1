"""What the posterior of a linear regression says of its functions at some examples."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from tfbdl.inference.neural_linear.features import FeatureBatch
from tfbdl.inference.neural_linear.linear_regression import Solution


class Moments(NamedTuple):
    """What is known of f at N examples, of each position by itself.

    mean: E[f], shape (N, ..., F).
    leverage: Var[f] in units of the noise, the same for all outputs, shape (N, ...).
    drawn: values of S drawn functions, shape (S, N, ..., F), or None.
    mask: the positions that count, shape (N, ...), or None.
    """

    mean: np.ndarray
    leverage: np.ndarray
    drawn: Any
    mask: Any


def moments(
    solution: Solution, batches: Iterable[FeatureBatch], drawn: np.ndarray | None = None
) -> Moments:
    """The moments, and the values of functions whose weights were `drawn`, shape (S, M, F)."""
    parts = [_of_batch(solution, batch, drawn) for batch in batches]
    mean, leverage, values, mask = zip(*parts, strict=True)
    return Moments(
        np.concatenate(mean),
        np.concatenate(leverage),
        None if drawn is None else np.concatenate(values, axis=1),
        None if mask[0] is None else np.concatenate(mask),
    )


def joint_moments(
    solution: Solution, batches: Iterable[FeatureBatch], variance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Means of f, shape (N, ..., F), and covariances of all T F of an example, (N, T F, T F).

    Args:
        solution: the posterior.
        batches: the features.
        variance: the mean variance of the noise, shape (F,).
    """
    means, covariances = [], []
    for batch in batches:
        phi = batch.phi.reshape(len(batch.phi), -1, batch.phi.shape[-1])
        size = phi.shape[1] * len(variance)
        means.append(batch.phi @ solution.mean.numpy())
        of_both = np.einsum("nst,fg->nsftg", solution.leverages(phi), np.diag(variance))
        covariances.append(of_both.reshape(-1, size, size))
    return np.concatenate(means), np.concatenate(covariances)


def _of_batch(solution: Solution, batch: FeatureBatch, drawn: np.ndarray | None) -> Moments:
    mean = batch.phi @ solution.mean.numpy()
    values = None
    if drawn is not None:
        values = (batch.rows @ drawn).reshape(-1, *mean.shape)
    leverage = solution.leverage(batch.rows).reshape(mean.shape[:-1])
    return Moments(mean, leverage, values, batch.mask)

"""What the posterior of a linear regression says of its functions at some examples."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from tfbdl.inference.neural_linear.features import FeatureBatch
from tfbdl.inference.neural_linear.linear_regression import Solution
from tfbdl.lengths import check_one_length

_KEPT = 10_000_000
"""Numbers of covariances that are kept: 80 MB."""


class Moments(NamedTuple):
    """What is known of f at N examples.

    mean: E[f], shape (N, ..., F).
    leverage: Var[f] in units of the noise, the same for all outputs, shape (N, ...).
    between: covariances between the T positions in those units, (N, T, T); None of too many.
    drawn: values of S drawn functions, shape (S, N, ..., F), or None.
    mask: the positions that count, shape (N, ...), or None.
    """

    mean: np.ndarray
    leverage: np.ndarray
    between: Any
    drawn: Any
    mask: Any


def moments(
    solution: Solution, batches: Iterable[FeatureBatch], drawn: np.ndarray | None = None
) -> Moments:
    """The moments, and the values of functions whose weights were `drawn`, shape (S, M, F)."""
    parts = []
    for batch in batches:
        parts.append(_of_batch(solution, batch, drawn))
        check_one_length("outputs", parts[0].mean, parts[-1].mean)
    mean, leverage, between, values, mask = zip(*parts, strict=True)
    kept = all(b is not None for b in between) and sum(b.size for b in between) <= _KEPT
    return Moments(
        np.concatenate(mean),
        np.concatenate(leverage),
        np.concatenate(between) if kept else None,
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
        phi = batch.by_example
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
    phi, between = batch.by_example, None
    if phi.shape[0] * phi.shape[1] ** 2 <= _KEPT:
        between = solution.leverages(phi)
        leverage = np.diagonal(between, axis1=1, axis2=2)
    else:
        leverage = solution.leverage(batch.rows)
    return Moments(mean, leverage.reshape(mean.shape[:-1]), between, values, batch.mask)

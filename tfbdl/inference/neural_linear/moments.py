"""What the posterior of a linear regression says of its functions at some examples."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tfbdl.inference.neural_linear.features import FeatureBatch
from tfbdl.inference.neural_linear.linear_regression import Solution
from tfbdl.lengths import check_one_length
from tfbdl.memory import require
from tfbdl.predictive.kept import Kept


class FunctionMoments(NamedTuple):
    """What is known of f at N examples, whose variances are in units of the noise.

    mean: E[f], shape (N, ..., F).
    leverage: Var[f], the same for all outputs, shape (N, ...).
    root: R, shape (N, T, K), for covariances R R^T between T positions; None if it is not kept, or
        outputs are vectors.
    drawn: values of S drawn functions, shape (S, N, ..., F), or None.
    mask: the positions that count, shape (N, ...), or None.
    """

    mean: np.ndarray
    leverage: np.ndarray
    root: Any
    drawn: Any
    mask: Any


def moments(
    solution: Solution, batches: Iterable[FeatureBatch], drawn: np.ndarray | None = None
) -> FunctionMoments:
    """The moments, and the values of functions whose weights were `drawn`, shape (S, M, F)."""
    means: list[np.ndarray] = []
    masks: list[Any] = []
    leverages, values, roots = [], [], Kept(one_at_least=True)
    for batch in batches:
        mean = batch.phi @ solution.mean.numpy()
        means.append(mean)
        check_one_length("outputs", means[0], mean)
        white = solution.whitened(batch.by_example)
        leverages.append(np.sum(white**2, axis=-1).reshape(mean.shape[:-1]))
        masks.append(batch.mask)
        if drawn is not None:
            values.append((batch.rows @ drawn).reshape(-1, *mean.shape))
        if mean.ndim > 2:
            roots.add((*white.shape[:2], min(white.shape[1:])), partial(_root, white))
    return FunctionMoments(
        np.concatenate(means),
        np.concatenate(leverages),
        roots.whole(),
        None if drawn is None else np.concatenate(values, axis=1),
        None if masks[0] is None else np.concatenate(masks),
    )


def joint_moments(
    solution: Solution, batches: Iterable[FeatureBatch], variance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Means of f, shape (N, ..., F), and covariances of all T F of an example, (N, T F, T F).

    Args:
        solution: the posterior.
        batches: the features.
        variance: the mean variance of the noise, shape (F,).

    Raises:
        ValueError: if the outputs are of several lengths, or the covariances do not fit into
            memory.
    """
    means: list[np.ndarray] = []
    covariances, num = [], 0
    for batch in batches:
        means.append(batch.phi @ solution.mean.numpy())
        check_one_length("outputs", means[0], means[-1])
        white = solution.whitened(batch.by_example)
        size, num = white.shape[1] * len(variance), num + len(white)
        require(
            8 * (len(white) + num) * size**2,  # the covariances of this batch, and all in one array
            f"the covariance of {size:,} outputs at {num:,} examples",
            "ask for fewer at once, or predict, which keeps the variances alone",
        )
        between = white @ np.swapaxes(white, 1, 2)
        of_both = np.einsum("nst,fg->nsftg", between, np.diag(variance))
        covariances.append(of_both.reshape(-1, size, size))
    return np.concatenate(means), np.concatenate(covariances)


def _root(white: np.ndarray) -> np.ndarray:
    """R with R R^T = V V^T for V of shape (B, T, M), of min(T, M) columns."""
    positions, features = white.shape[1:]
    if positions >= features:
        return white
    return np.swapaxes(np.linalg.qr(np.swapaxes(white, 1, 2), mode="r"), 1, 2)

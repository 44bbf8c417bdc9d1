"""Starting points of chains and searches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tfbdl import random
from tfbdl.arguments import shown
from tfbdl.examples import check_finite, examples
from tfbdl.inference.log_posterior import LogPosterior
from tfbdl.inference.method import Method, NotFittedError
from tfbdl.memory import require


def initial_points(
    target: LogPosterior | Callable[[tf.Tensor], tf.Tensor],
    initial: Any,
    num_chains: int,
    jitter: float,
    seed: int,
) -> np.ndarray:
    """The first theta of each chain, shape (C, D), in the type that all is computed in.

    Args:
        target: the log density.
        initial: "prior" for draws from it, "model" for the model's weights, or points of shape
            (D,) or (C, D).
        num_chains: C.
        jitter: standard deviation of normal noise that is added.
        seed: the seed of all noise.

    Raises:
        ValueError: if they cannot be had so.
    """
    if isinstance(target, LogPosterior):
        require(8 * num_chains * target.size, f"num_chains={num_chains}", "take fewer")
    key = random.key_of(seed, "starts")
    if isinstance(initial, str):
        theta = _by_name(target, initial, num_chains, key)
    else:
        theta = examples("initial", initial)
        theta = theta if theta.dtype == np.float32 else theta.astype(np.float64)
        if theta.ndim not in (1, 2) or theta.shape[:-1] not in ((), (num_chains,)):
            raise ValueError(
                f"initial has shape {theta.shape}; give (D,) or ({num_chains}, D), of each chain"
            )
    if isinstance(target, LogPosterior):
        if theta.shape[-1] != target.size:
            raise ValueError(f"initial has {theta.shape[-1]} weights; the target has {target.size}")
        check_finite("initial", theta, target.dtype.name)
        theta = theta.astype(target.dtype.as_numpy_dtype)
    require(8 * num_chains * theta.shape[-1], f"num_chains={num_chains}", "take fewer")
    theta = np.broadcast_to(theta, (num_chains, theta.shape[-1])).copy()
    if jitter:
        noise = random.normal(random.fold_in(key, -1), theta.shape, theta.dtype)
        theta += jitter * noise.numpy()
    return theta


def checked_initial(initial: Any) -> Any:
    """What starts chains, as it is given; NotFittedError for a posterior that is not fitted."""
    if isinstance(initial, Method) and not initial.is_fitted:
        raise NotFittedError(f"initial={initial!r}; call its fit first")
    return initial


def points_of(initial: Any, num_chains: int, seed: int) -> Any:
    """Draws of a fitted posterior, shape (C, D), in its place; anything else as it is.

    Where chains are more than draws, as the members of an ensemble, they are taken again from the
    first on.
    """
    if not isinstance(initial, Method):
        return initial
    draws = initial.sample(num_chains, seed=seed)
    return draws[np.arange(num_chains) % len(draws)]


def _by_name(target: Any, initial: str, num_chains: int, key: tf.Tensor) -> np.ndarray:
    if not isinstance(target, LogPosterior):
        raise ValueError(
            f"initial={shown(initial)}: the target is a function; give points of shape "
            f"({num_chains}, D)"
        )
    if initial == "model":
        return target.theta.numpy()
    if initial != "prior":
        raise ValueError(
            f"initial={shown(initial)} is unknown; choose 'prior' or 'model', or points"
        )
    if target.priors is None:
        raise ValueError("initial='prior': a joint prior cannot be drawn from; take 'model'")

    def draw(key: tf.Tensor) -> np.ndarray:
        parts = zip(target.priors or (), target.flat.shapes.values(), strict=True)
        weights = [p.sample(random.fold_in(key, i), s) for i, (p, s) in enumerate(parts)]
        return np.concatenate([np.ravel(w) for w in weights])

    draws = [draw(random.fold_in(key, chain)) for chain in range(num_chains)]
    return np.stack(draws).astype(target.dtype.as_numpy_dtype)

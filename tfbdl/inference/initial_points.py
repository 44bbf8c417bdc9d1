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


class PosteriorStarts:
    """Starts of chains that are draws of another posterior.

    What holds them is saved without the posterior, since Keras sees none.

    Args:
        posterior: a fitted method.

    Raises:
        NotFittedError: if it is not fitted.
    """

    def __init__(self, posterior: Method) -> None:
        if not posterior.is_fitted:
            raise NotFittedError(f"initial={posterior!r}; call its fit first")
        self.posterior = posterior

    def points(self, num_chains: int, seed: int) -> np.ndarray:
        """Draws of the posterior as it is now, shape (C, D).

        Where chains are more than draws, as the members of an ensemble, they are taken again from
        the first on.
        """
        draws = self.posterior.sample(num_chains, seed=seed)
        return draws[np.arange(num_chains) % len(draws)]

    def __repr__(self) -> str:
        return repr(self.posterior)


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
            raise ValueError(f"initial has shape {theta.shape}; give {_shapes(num_chains)}")
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


def points_of(initial: Any, num_chains: int, seed: int) -> Any:
    """Points drawn where the starts are in a posterior, shape (C, D); anything else as it is."""
    return initial.points(num_chains, seed) if isinstance(initial, PosteriorStarts) else initial


def _shapes(num_chains: int) -> str:
    return "(D,)" if num_chains == 1 else f"(D,), or ({num_chains}, D) for each chain"


def _by_name(target: Any, initial: str, num_chains: int, key: tf.Tensor) -> np.ndarray:
    if not isinstance(target, LogPosterior):
        raise ValueError(
            f"initial={shown(initial)}: the target is a function; give points of shape "
            f"{_shapes(num_chains)}"
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

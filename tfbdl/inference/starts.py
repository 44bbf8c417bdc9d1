"""Where chains start, and what the prior says of how they move."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf

from tfbdl import random
from tfbdl.inference.kernels import HMC, Adaptive, Flip, Kernel
from tfbdl.inference.kernels.hmc import QUARTER_PERIOD
from tfbdl.inference.log_posterior import LogPosterior
from tfbdl.priors import Bernoulli, Normal, Prior


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
        seed: of all noise.

    Raises:
        ValueError: if they cannot be had so.
    """
    key = random.key_of(seed, "starts")
    if isinstance(initial, str):
        theta = _by_name(target, initial, num_chains, key)
    else:
        theta = np.asarray(initial)
        theta = theta if theta.dtype == np.float32 else theta.astype(np.float64)
        if theta.ndim not in (1, 2) or theta.shape[:-1] not in ((), (num_chains,)):
            raise ValueError(
                f"initial has shape {theta.shape}; give (D,) or ({num_chains}, D), of each chain"
            )
    if isinstance(target, LogPosterior):
        if theta.shape[-1] != target.size:
            raise ValueError(f"initial has {theta.shape[-1]} weights; the target has {target.size}")
        theta = theta.astype(target.dtype.as_numpy_dtype)
    theta = np.broadcast_to(theta, (num_chains, theta.shape[-1])).copy()
    if jitter:
        noise = random.normal(random.fold_in(key, -1), theta.shape, theta.dtype)
        theta += jitter * noise.numpy()
    return theta


def _by_name(target: Any, initial: str, num_chains: int, key: tf.Tensor) -> np.ndarray:
    if not isinstance(target, LogPosterior):
        raise ValueError(
            f"initial={initial!r}: the target is a function; give points of shape ({num_chains}, D)"
        )
    if initial == "model":
        return target.theta.numpy()
    if initial != "prior":
        raise ValueError(f"initial={initial!r} is unknown; choose 'prior' or 'model', or points")
    if target.priors is None:
        raise ValueError("initial='prior': a joint prior cannot be drawn from; take 'model'")

    def draw(key: tf.Tensor) -> np.ndarray:
        parts = zip(target.priors or (), target.flat.shapes.values(), strict=True)
        weights = [p.sample(random.fold_in(key, i), s) for i, (p, s) in enumerate(parts)]
        return np.concatenate([np.ravel(w) for w in weights])

    draws = [draw(random.fold_in(key, chain)) for chain in range(num_chains)]
    return np.stack(draws).astype(target.dtype.as_numpy_dtype)


def fit_to_target(
    kernel: Kernel, target: LogPosterior | Callable[[tf.Tensor], tf.Tensor]
) -> Kernel:
    """The kernel with what the prior says of it: values to flip, the length of trajectories.

    Raises:
        ValueError: if the kernel cannot move weights of this prior.
    """
    priors = (target.priors or []) if isinstance(target, LogPosterior) else []
    if isinstance(kernel, Flip):
        return replace(kernel, values=kernel.values or _binary_values(target, priors))
    discrete = [p for p in priors if p.discrete]
    if discrete:
        raise ValueError(
            f"kernel={type(kernel).__name__} moves continuous weights, and the prior "
            f"{type(discrete[0]).__name__} is discrete; take kernel='flip'"
        )
    if isinstance(kernel, HMC) and kernel.trajectory_length is None:
        return replace(kernel, trajectory_length=QUARTER_PERIOD * _length_scale(kernel, priors))
    return kernel


def _length_scale(kernel: Adaptive, priors: list[Prior]) -> float:
    """The standard deviation of the normal prior, where all normal priors are one, else 1."""
    if kernel.mass_matrix == "diagonal":
        return 1.0
    scales = {math.nan if p.by_fan_in else float(p.scale) for p in priors if isinstance(p, Normal)}
    scale = scales.pop() if len(scales) == 1 else math.nan
    return 1.0 if math.isnan(scale) else scale


def _binary_values(target: Any, priors: list[Prior]) -> tuple[float, float]:
    if not isinstance(target, LogPosterior):
        raise ValueError("kernel='flip': the target is a function; take kernel=Flip(values=...)")
    others = {type(p).__name__ for p in priors if not isinstance(p, Bernoulli)}
    if others or not priors:
        found = ", ".join(sorted(others)) or "a joint prior"
        raise ValueError(f"kernel='flip' needs the prior Bernoulli for all weights, not {found}")
    values = {p.values for p in priors if isinstance(p, Bernoulli)}
    if len(values) > 1:
        raise ValueError(f"kernel='flip' needs the same values for all weights, not {values}")
    return values.pop()

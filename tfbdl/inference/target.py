"""What chains and searches work on: a network with its prior and data, or any log density."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import keras

from tfbdl import priors
from tfbdl.inference.log_posterior import Density, LogPosterior, PriorLike
from tfbdl.likelihoods import Likelihood, required_likelihood

Target: TypeAlias = keras.Model | LogPosterior | Density


def check(
    target: Target, prior: PriorLike | Mapping[str, PriorLike] | Density | None, **of_network: Any
) -> None:
    """Raises ValueError unless `target` can be worked on, with a prior where it is a network.

    Args:
        target: a network, or a log density.
        prior: of its weights; None beside a density, which has it in it.
        **of_network: arguments that are for networks alone, with their defaults None.
    """
    if isinstance(target, keras.Model):
        if prior is None:
            raise ValueError("prior=None: a network's weights need one; give a scale, such as 1.0")
        if not callable(prior) and not isinstance(prior, Mapping):
            priors.density(prior)
        return
    if not callable(target):
        raise ValueError(
            f"model={target!r} must be a keras.Model, or a function of theta to its log density"
        )
    for name, value in {"prior": prior, **of_network}.items():
        if value is not None:
            raise ValueError(f"{name}={value!r} is for a keras.Model; the log density has it in it")


def density(
    target: Target,
    prior: PriorLike | Mapping[str, PriorLike] | Density | None,
    likelihood: Likelihood | None,
    x: Any,
    y: Any,
    *,
    batch_size: int | None,
    dtype: str,
) -> LogPosterior | Density:
    """The log density to work on: of the network and its data, or the one that was given.

    Raises:
        ValueError: if data are missing, or given beside a density.
    """
    if not isinstance(target, keras.Model):
        if x is not None or y is not None or batch_size is not None:
            raise ValueError("x and y are for a keras.Model; a log density has its data in it")
        return target
    if x is None:
        raise ValueError("x=None: give inputs and targets, or a data set of batches (x, y)")
    assert prior is not None
    likelihood = required_likelihood(target, likelihood)
    return LogPosterior(
        target, prior, x, y, likelihood=likelihood, batch_size=batch_size, dtype=dtype
    )

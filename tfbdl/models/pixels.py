"""Which pixels a VAE takes, and under which likelihoods."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tfbdl.arguments import option
from tfbdl.likelihoods import Bernoulli, ContinuousBernoulli, Likelihood

_NAMES: dict[str, Callable[[], Likelihood]] = {
    "bernoulli": Bernoulli,
    "continuous_bernoulli": ContinuousBernoulli,
}


def likelihood_of(name: str) -> Likelihood:
    """The likelihood of that name.

    Raises:
        ValueError: if the name is unknown.
    """
    return _NAMES[option("likelihood", name, _NAMES)]()


def check(x: np.ndarray, likelihood: str) -> None:
    """Raises ValueError unless all values of x are in [0, 1], where the likelihoods hold."""
    if not np.isfinite(x).all():
        raise ValueError("x is not finite; remove or fill in NaN and Inf")
    if x.min() < 0 or x.max() > 1:
        raise ValueError(
            f"x has values from {x.min():g} to {x.max():g}; likelihood={likelihood!r} needs "
            "pixels in [0, 1] (divide by 255)"
        )

"""Samples of chains for ArviZ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tfbdl.inference.mcmc.stepping import Draws


def to_arviz(draws: Draws, weights: Mapping[str, np.ndarray]) -> Any:
    """An `arviz.InferenceData` with the groups `posterior` and `sample_stats`.

    Args:
        draws: the draws of chains, (S, C, ...).
        weights: samples of each quantity by its name, (S, C, ...).

    Raises:
        ImportError: if ArviZ is missing.
    """
    try:
        import arviz  # noqa: PLC0415
    except ImportError:
        raise ImportError("to_arviz needs ArviZ; pip install 'tfbdl[arviz]'") from None

    def chains_first(values: np.ndarray) -> np.ndarray:
        return np.swapaxes(np.asarray(values), 0, 1)

    return arviz.from_dict(
        posterior={name: chains_first(values) for name, values in weights.items()},
        sample_stats={
            "lp": chains_first(draws.log_prob),
            "acceptance_rate": chains_first(draws.accept_prob),
            "diverging": chains_first(draws.diverging),
            "n_steps": chains_first(draws.num_gradients),
        },
    )

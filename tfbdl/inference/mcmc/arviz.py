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

    statistics = {
        "lp": draws.log_prob,
        "acceptance_rate": draws.accept_prob,
        "diverging": draws.diverging,
        "n_steps": draws.num_gradients,
    }
    if np.isfinite(draws.energy).all():
        statistics["energy"] = draws.energy
    return arviz.from_dict(
        posterior={name: chains_first(values) for name, values in weights.items()},
        sample_stats={name: chains_first(values) for name, values in statistics.items()},
    )

"""Samples of weights for ArviZ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def to_arviz(weights: Mapping[str, np.ndarray], **statistics: np.ndarray) -> Any:
    """An `arviz.InferenceData` with the group `posterior`, and `sample_stats` if there are some.

    Args:
        weights: samples of each quantity by its name, (S, C, ...), of C chains.
        **statistics: what comes with each sample, (S, C), by ArviZ's names.

    Raises:
        ImportError: if ArviZ is missing.
    """
    try:
        import arviz  # noqa: PLC0415
    except ImportError:
        raise ImportError("to_arviz needs ArviZ; pip install 'tfbdl[arviz]'") from None

    def chains_first(given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {name: np.swapaxes(np.asarray(values), 0, 1) for name, values in given.items()}

    return arviz.from_dict(
        posterior=chains_first(weights), sample_stats=chains_first(statistics) or None
    )

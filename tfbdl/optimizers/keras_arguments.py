"""Arguments of Keras' optimizers: those that leave no sample of the posterior are refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tfbdl.arguments import integer, optional, positive, shown

_CLIPPED = (
    "changes the gradients, and so the posterior that is sampled; take a smaller learning_rate"
)
_AVERAGED = (
    "averages weights, which is no sample; keep samples by tfbdl.inference.WeightSnapshots, and "
    "average their predictions"
)
_REASONS = {
    "clipnorm": _CLIPPED,
    "global_clipnorm": _CLIPPED,
    "clipvalue": _CLIPPED,
    "use_ema": _AVERAGED,
    "ema_momentum": _AVERAGED,
    "ema_overwrite_frequency": _AVERAGED,
}
_OFF = {"use_ema": False, "ema_momentum": 0.99}
"""The values of Keras' own configs, where they are not None."""


def check(given: Mapping[str, Any], num_data: int) -> None:
    """Raises ValueError where an argument would change the sampled law, or is out of its range."""
    decay = optional(positive, "weight_decay", given.get("weight_decay"))
    if decay is not None:
        raise ValueError(
            f"weight_decay={decay} is no prior in every sampler; give "
            f"prior={(num_data * decay) ** -0.5:.3g}, which is 1 / sqrt(num_data * weight_decay)"
        )
    for name, reason in _REASONS.items():
        value = given.get(name)
        if value is not None and not (
            isinstance(value, (bool, np.bool_, float)) and value == _OFF.get(name)
        ):
            raise ValueError(f"{name}={shown(value)} {reason}")
    optional(positive, "loss_scale_factor", given.get("loss_scale_factor"))
    steps = given.get("gradient_accumulation_steps")
    if steps is not None:
        integer("gradient_accumulation_steps", steps, least=2)

"""Arguments of Keras' layers that mean nothing where weights are random."""

from __future__ import annotations

from typing import Any

import keras

from tfbdl.arguments import shown
from tfbdl.identifiers import of_keras

_REASONS = {
    "_regularizer": "does not go with random weights, whose regularizer is the prior; use prior=",
    "_constraint": "does not go with random weights; bound them by prior= and posterior=",
    "lora_rank": "does not go with random weights; use posterior='low_rank' for correlated ones",
    "lora_alpha": "does not go with random weights; leave it out",
    "quantization_config": "does not go with random weights; tfbdl.to_deterministic comes first",
    "use_cudnn": "does not go with random weights, which XLA compiles; leave it out",
}
_OFF = {"use_cudnn": ("auto", False)}


def without_replaced(arguments: dict[str, Any]) -> dict[str, Any]:
    """`arguments` without those, which may be given as Keras has them by default.

    Raises:
        ValueError: if one of them asks for something.
    """
    kept = {}
    for name, value in arguments.items():
        ending = next((end for end in _REASONS if name.endswith(end)), None)
        if name == "activity_regularizer":
            kept[name] = of_keras(name, value, keras.regularizers.get)
        elif ending is None:
            kept[name] = value
        elif value is not None and not any(value is off for off in _OFF.get(name, ())):
            raise ValueError(f"{name}={shown(value)} {_REASONS[ending]}")
    return kept

"""Layers that Keras has quantized."""

from __future__ import annotations

from typing import Any

from tfbdl.keras_private import own_variables


def is_quantized(layer: Any) -> bool:
    """Whether its own weights are quantized, in whatever type."""
    return bool(getattr(layer, "quantization_mode", None))


def has_integers(layer: Any) -> bool:
    """Whether it is quantized to numbers that do not train."""
    return is_quantized(layer) and any(
        v.dtype.startswith(("int", "uint")) for v in own_variables(layer)
    )


def scales_of(layer: Any) -> list[Any]:
    """The variables of a quantized layer that each step of a training sets, as those of float8."""
    own = own_variables(layer) if is_quantized(layer) else []
    return [v for v in own if v.overwrite_with_gradient]

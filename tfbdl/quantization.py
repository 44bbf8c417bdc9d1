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


def has_scales_to_train(layer: Any) -> bool:
    """Whether it is quantized to numbers whose scales each step sets, as those of float8."""
    return is_quantized(layer) and any(v.overwrite_with_gradient for v in own_variables(layer))

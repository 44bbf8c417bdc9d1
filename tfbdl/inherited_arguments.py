"""Arguments that classes take from Keras' own, behind `**kwargs`, with their types and defaults."""

from __future__ import annotations

import sys
from typing import TypedDict

import keras

if sys.version_info >= (3, 11):
    from typing import Unpack
else:
    from typing_extensions import Unpack

__all__ = [
    "LayerArguments",
    "LossArguments",
    "NameAndType",
    "OptimizerArguments",
    "Unpack",
]


class NameAndType(TypedDict, total=False):
    """Arguments of `keras.layers.Layer` in a class that says itself what is trained."""

    name: str | None
    """Name of the object; by default that of its class, with a number."""
    dtype: str | keras.dtype_policies.DTypePolicy | None
    """Type or policy of variables and outputs; by default `keras.config.dtype_policy()`."""


class LayerArguments(NameAndType, total=False):
    """Arguments of `keras.layers.Layer`, and so of `keras.Model`."""

    trainable: bool
    """Whether its variables are trained; True by default."""


class LossArguments(TypedDict, total=False):
    """Arguments of `keras.losses.Loss`, but for its name."""

    reduction: str | None
    """`"sum_over_batch_size"` by default, or another that Keras knows, such as `"sum"` or None."""
    dtype: str | keras.dtype_policies.DTypePolicy | None
    """Type of the computation; by default `keras.config.floatx()`."""


class OptimizerArguments(TypedDict, total=False):
    """Arguments of `keras.optimizers.Optimizer` that keep what is sampled or approximated."""

    name: str | None
    """Name of the optimizer; by default that of its class."""
    gradient_accumulation_steps: int | None
    """Batches that make one step, and one draw of noise; one by default."""
    loss_scale_factor: float | None
    """Factor of the loss, taken out of the gradients again; none by default."""

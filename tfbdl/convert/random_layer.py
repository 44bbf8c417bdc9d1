"""The random layer for one of Keras: its own Bayesian form, or a wrapper around it."""

from __future__ import annotations

import warnings
from typing import Any

import keras
import numpy as np

from tfbdl import layers as bayes
from tfbdl import posteriors
from tfbdl.convert.parts import arguments_of, pairs_of_weights, swapped
from tfbdl.convert.selection import Layer
from tfbdl.copying import copy_layer, copy_state, describe
from tfbdl.keras_private import named_variables
from tfbdl.lora import has_lora, lora_of, set_lora
from tfbdl.quantization import is_quantized

# Keras' layers, and the Bayesian ones whose arguments have the same names.
COUNTERPARTS: dict[type[Layer], type[Layer]] = {
    keras.layers.Dense: bayes.BayesDense,
    keras.layers.EinsumDense: bayes.BayesEinsumDense,
    keras.layers.Conv1D: bayes.BayesConv1D,
    keras.layers.Conv2D: bayes.BayesConv2D,
    keras.layers.Conv3D: bayes.BayesConv3D,
    keras.layers.Conv1DTranspose: bayes.BayesConv1DTranspose,
    keras.layers.Conv2DTranspose: bayes.BayesConv2DTranspose,
    keras.layers.Conv3DTranspose: bayes.BayesConv3DTranspose,
    keras.layers.LSTM: bayes.BayesLSTM,
    keras.layers.GRU: bayes.BayesGRU,
    keras.layers.Embedding: bayes.BayesEmbedding,
}

WRAPPED: tuple[type[Layer], ...] = (
    keras.layers.DepthwiseConv1D,
    keras.layers.DepthwiseConv2D,
    keras.layers.ReversibleEmbedding,
    keras.layers.SeparableConv1D,
    keras.layers.SeparableConv2D,
)
"""Layers of Keras that are wrapped, as are those of LoRA and of subclasses."""

_WEIGHT_FORMATS = {"lora_rank", "lora_alpha", "quantization_config"}
_LEAST_SIGMA = 1e-6


def is_adapted(layer: Layer) -> bool:
    """Whether it is quantized or has LoRA."""
    return is_quantized(layer) or has_lora(layer)


def is_point(q: posteriors.Posterior) -> bool:
    """Whether q has no spread."""
    return isinstance(q, posteriors.PointMass)


def make(old: Any, arguments: dict[str, Any]) -> Layer:
    """A random layer with the arguments of `old` that are not about its weights' values."""
    kind = COUNTERPARTS.get(type(old))
    try:
        if kind is None or has_lora(old):
            return _wrapped(old, arguments)
        return kind(**_arguments_of(old, arguments))
    except ValueError as error:
        begins = str(error).startswith(describe(old))
        raise error if begins else ValueError(f"{describe(old)}: {error}") from None


def _arguments_of(old: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a layer's counterpart: those it has, and those of its distributions."""
    if is_adapted(old):
        raise ValueError(f"{describe(old)} is quantized; convert it without that")
    kept = arguments_of(old)
    for name in kept.keys() & _WEIGHT_FORMATS:
        del kept[name]
    for name in [name for name in kept if name.endswith("_constraint")]:
        if kept.pop(name) is not None:
            raise ValueError(f"{describe(old)} has a {name}, which random weights cannot keep")
    for name in [name for name in kept if name.endswith("_regularizer")]:
        if name != "activity_regularizer" and kept.pop(name) is not None:
            warnings.warn(
                f"{describe(old)} loses its {name}: the prior takes its place", stacklevel=2
            )
    kept.pop("seed", None)  # for dropout; layers that shared it would share their weights' noise
    if not kept.get("use_bias", kept.get("bias_axes")):
        arguments = {name: arguments[name] for name in arguments if not name.startswith("bias_")}
    return {**kept, **arguments}


def _wrapped(old: Any, arguments: dict[str, Any]) -> Layer:
    """A copy of `old`, whose trained weights, or factors of LoRA, are random."""
    variables = named_variables(old)
    names = [name for name, v in variables.items() if v.trainable]
    if has_lora(old):
        names = [name for name in names if name.startswith("lora_")]
    elif is_adapted(old):
        raise ValueError(f"{describe(old)} is quantized; convert it without that")
    for name in names:
        if variables[name].constraint is not None:
            raise ValueError(f"{name} has a constraint, which random weights cannot keep")
        if variables[name].regularizer is not None:
            warnings.warn(
                f"{describe(old)} loses the regularizer of its {name}: the prior takes its place",
                stacklevel=2,
            )
    copy = copy_layer(old)
    set_lora(copy, *lora_of(old))
    if "bias" not in names:
        arguments = {name: arguments[name] for name in arguments if not name.startswith("bias_")}
    return bayes.BayesWrapper(copy, names, **arguments)


def fill(old: Any, new: Any, initial_sigma: float | None) -> None:
    """Has the means of `new` start at the weights of `old`."""
    if isinstance(new, bayes.BayesWrapper):
        copy_state(old, new.layer)
    for w, q in pairs_of_weights(old, new):
        if not hasattr(q, "mu"):
            raise ValueError(
                f"posterior={type(q).__name__} has no means to start at the weights of "
                f"{describe(old)}; choose another"
            )
        q.mu.assign(swapped(new, q, w))
        q.trainable = w.trainable
        if initial_sigma is not None:
            _spread(q, initial_sigma)
    if isinstance(new, bayes.BayesWrapper):
        new.hold()


def _spread(q: posteriors.Posterior, fraction: float) -> None:
    """Sets the standard deviations of q to `fraction * |mean|`, and at least a millionth."""
    if isinstance(q, posteriors.MeanFieldNormal):
        mean = keras.ops.convert_to_numpy(q.mu).astype("float64")
        sigma = np.maximum(fraction * np.abs(mean), _LEAST_SIGMA)
        q.rho.assign(sigma + np.log(-np.expm1(-sigma)))
    elif isinstance(q, posteriors.MultiplicativeNormal):
        q.raw_log_alpha.assign(np.full(q.mu.shape, 2.0 * np.log(fraction)))
    elif not isinstance(q, posteriors.PointMass):
        raise ValueError(f"posterior={type(q).__name__} sets its own scale; use initial_sigma=None")

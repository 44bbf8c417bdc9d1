"""Dropout networks whose dropout can be drawn."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import keras

from tfbdl.convert.exchange import exchange
from tfbdl.convert.inside import Rule
from tfbdl.convert.selection import Layer, Selection
from tfbdl.copying import describe
from tfbdl.keras_private import walk
from tfbdl.layers import MCDropout, MCGaussianDropout


def to_mc_dropout(
    model: keras.Model, *, layers: Selection = None, skip: Selection = None
) -> keras.Model:
    """A copy of a trained model whose dropout layers can be drawn (Gal and Ghahramani 2016).

    Dropout and SpatialDropout1D, 2D, 3D become `MCDropout`, GaussianDropout becomes
    `MCGaussianDropout`, with their names, rates and seeds, also inside attention, wrappers and
    layers of a user's own (see `tfbdl.layers.Exchanged`). All other layers are copied with their
    weights and statistics. Layers that drop or add noise in other ways (`dropout` of recurrent
    layers, GaussianNoise, AlphaDropout) do so in training only, as before; unless `layers` are
    chosen, a warning names them.

    Args:
        model: a functional or a built Sequential model, with models of these kinds in it.
        layers: the dropout layers, by default all: names, regular expressions for paths (names of
            the layers around it and its own, as in `"encoder_.*/dropout"`), or a function of a
            layer.
        skip: the layers that are left as they are, chosen in the same way.

    Returns:
        The converted model, compiled as `model`, with its inputs and outputs.

    Raises:
        ValueError: if there is nothing to convert, or a layer that cannot be: one of a subclass,
            with a rate of 1, or inside a layer that a config does not give back.
    """
    converted = exchange(model, RULES, layers, skip)
    if layers is None:
        for layer in walk(converted):
            if any(getattr(layer, name, 0.0) for name in _NOISE.get(type(layer), ())):
                warnings.warn(
                    f"{describe(layer)} keeps its noise for training: it is not drawn", stacklevel=2
                )
    return converted


def _to(kind: type[MCDropout]) -> Callable[[Any], Layer]:
    def make(old: Any) -> Layer:
        if old.rate >= 1:
            raise ValueError(f"{describe(old)} has rate={old.rate}, which drops all; take it out")
        return kind(
            old.rate,
            noise_shape=_noise_shape(old),
            seed=old.seed,
            name=old.name,
            dtype=old.dtype_policy,
        )

    return make


def _noise_shape(old: Any) -> tuple[int | None, ...] | None:
    """The shape of the mask; spatial dropout layers fix the rank and drop whole channels."""
    if old.input_spec is None:
        return getattr(old, "noise_shape", None)
    space = (1,) * (old.input_spec.ndim - 2)
    channels_first = getattr(old, "data_format", None) == "channels_first"
    return (None, None, *space) if channels_first else (None, *space, None)


_RECURRENT = ("dropout", "recurrent_dropout")
_NOISE: dict[type[Layer], tuple[str, ...]] = {
    keras.layers.AlphaDropout: ("rate",),
    keras.layers.GaussianNoise: ("stddev",),
    keras.layers.GRU: _RECURRENT,
    keras.layers.LSTM: _RECURRENT,
    keras.layers.SimpleRNN: _RECURRENT,
    keras.layers.ConvLSTM1D: _RECURRENT,
    keras.layers.ConvLSTM2D: _RECURRENT,
    keras.layers.ConvLSTM3D: _RECURRENT,
}

RULES: dict[type[Layer], Rule] = {
    keras.layers.Dropout: Rule(_to(MCDropout)),
    keras.layers.SpatialDropout1D: Rule(_to(MCDropout)),
    keras.layers.SpatialDropout2D: Rule(_to(MCDropout)),
    keras.layers.SpatialDropout3D: Rule(_to(MCDropout)),
    keras.layers.GaussianDropout: Rule(_to(MCGaussianDropout)),
}

"""The layers of a model that a user chooses: by name, by a pattern of paths, or by a function."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import keras

from tfbdl.arguments import shown, words
from tfbdl.keras_private_layers import layer_paths

Layer: TypeAlias = keras.layers.Layer
Selection: TypeAlias = str | Sequence[str] | Callable[[Layer], bool] | None
_WANTED = "names of layers, patterns of their paths, or a function of a layer"


def choose(
    model: keras.Model,
    kinds: tuple[type[Layer], ...],
    layers: Selection = None,
    skip: Selection = None,
) -> set[int]:
    """The ids of the layers of these kinds that are chosen, wherever they are in the model.

    A layer is chosen by its name; by a regular expression for the whole of its path, which are the
    names of the layers it is in and its own, as in `"encoder_.*/query"`; or by a function of it.

    Args:
        model: the model.
        kinds: types of layers; subclasses are of these kinds, too.
        layers: the choice, by default all.
        skip: the layers that are left out, chosen in the same way.

    Raises:
        ValueError: if there are none, or a name chooses none.
    """
    known = [
        (path, layer)
        for path, layer in layer_paths(model)
        if isinstance(layer, kinds) and not _drops_nothing(path, layer)
    ]
    if not known:
        wanted = ", ".join(kind.__name__ for kind in kinds)
        raise ValueError(f"model={model.name!r} holds nothing to convert, which is: {wanted}")
    chosen = {id(layer) for _, layer in known}
    if layers is not None:
        chosen = _chosen("layers", layers, known)
    if skip is not None:
        chosen -= _chosen("skip", skip, known)
        if not chosen:
            raise ValueError(f"skip={shown(skip)} leaves nothing to convert; skip fewer layers")
    return chosen


def _drops_nothing(path: str, layer: Layer) -> bool:
    """Whether it is a dropout of rate 0 inside a layer, as attention holds if it has none."""
    return "/" in path and getattr(layer, "rate", None) == 0


def _chosen(name: str, given: Selection, known: Iterable[tuple[str, Layer]]) -> set[int]:
    names = ", ".join(sorted({path for path, _ in known}))
    if callable(given) and not isinstance(given, type):
        chosen = {id(layer) for _, layer in known if given(layer)}
    else:
        asked = [given] if isinstance(given, str) else words(name, given, _WANTED)
        matches = {a: {id(x) for path, x in known if _is_asked(a, path, x)} for a in asked}
        unknown = sorted(a for a in asked if not matches[a])
        if unknown:
            raise ValueError(f"{name}={unknown} are unknown; what can be converted is: {names}")
        chosen = set().union(*matches.values())
    if not chosen:
        raise ValueError(f"{name}={shown(given)} chooses none; what can be converted is: {names}")
    return chosen


def _is_asked(asked: str, path: str, layer: Layer) -> bool:
    if asked == layer.name:
        return True
    try:
        return re.fullmatch(asked, path) is not None
    except re.error:
        return False

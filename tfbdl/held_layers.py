"""Layers inside layers, by the attributes, lists and dictionaries that hold them.

A path such as `"blocks/0/_query_dense"` names attributes, places in lists and keys, but not the
names of layers, which Keras counts up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import keras

from tfbdl.keras_private import own_attributes
from tfbdl.keras_private_layers import replace_tracked


def held_layers(layer: keras.layers.Layer) -> Iterator[tuple[str, keras.layers.Layer]]:
    """Path and layer of all that `layer` itself holds; one held twice has two paths."""
    for name, value in own_attributes(layer).items():
        yield from _layers_in(value, name)


def _layers_in(value: Any, path: str) -> Iterator[tuple[str, keras.layers.Layer]]:
    if isinstance(value, keras.layers.Layer):
        yield path, value
    elif isinstance(value, (list, tuple)):
        for place, member in enumerate(value):
            yield from _layers_in(member, f"{path}/{place}")
    elif isinstance(value, dict):
        for key, member in value.items():
            if isinstance(key, str) and "/" not in key:
                yield from _layers_in(member, f"{path}/{key}")


def layer_at(layer: keras.layers.Layer, path: str) -> Any:
    """What `layer` holds under a path.

    Raises:
        KeyError: if it holds nothing there.
    """
    part: Any = layer
    for step in path.split("/"):
        try:
            part = _members(part)[_key(part, step)]
        except (IndexError, TypeError, ValueError):
            raise KeyError(path) from None
    return part


def put_layer(layer: keras.layers.Layer, path: str, new: keras.layers.Layer) -> None:
    """Puts `new` in the place of the layer under a path, and in Keras' records of what is held.

    The layer that was there can be called no more: who still calls it, by a function or an object
    that Keras does not know, would have the answers of the old one.
    """
    old, owner = layer_at(layer, path), layer
    steps = path.split("/")
    for end in range(1, len(steps)):
        part = layer_at(layer, "/".join(steps[:end]))
        owner = part if isinstance(part, keras.layers.Layer) else owner
    _put(layer, steps, new)
    replace_tracked(owner, old, new)
    if old is not new:
        old.call = _refusal(f"layer={old.name!r} in {layer.name!r}", path)


def _refusal(layer: str, path: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        raise ValueError(
            f"{layer} is called otherwise than by {path!r}, so that a new one cannot take its "
            "place; call it by that, or `skip` it"
        )

    return call


def _put(holder: Any, steps: list[str], new: Any) -> Any:
    """`holder` with `new` in it; tuples, which do not change, are made again."""
    if not steps:
        return new
    key = _key(holder, steps[0])
    value = _put(_members(holder)[key], steps[1:], new)
    if isinstance(holder, tuple):
        return (*holder[:key], value, *holder[key + 1 :])
    members = _members(holder)
    plain = list if isinstance(members, list) else dict
    plain.__setitem__(members, key, value)  # Keras' own collections would count `new` twice
    return holder


def _members(holder: Any) -> Any:
    return vars(holder) if isinstance(holder, keras.layers.Layer) else holder


def _key(holder: Any, step: str) -> Any:
    return int(step) if isinstance(holder, (list, tuple)) else step

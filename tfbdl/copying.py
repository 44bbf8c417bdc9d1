"""Copies of single layers with all that they hold, and how messages name them."""

from __future__ import annotations

import tempfile
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import keras

from tfbdl.configs import config_of, config_of_arguments, has_same_arguments, keep_config
from tfbdl.keras_private import (
    copy_lambda,
    is_built_by_calls,
    leave_building_to_calls,
    named_variables,
    pair_layers,
    walk,
)
from tfbdl.keras_private_layers import layer_paths
from tfbdl.lora import lora_of, set_lora
from tfbdl.quantization import has_integers

_paths: ContextVar[Mapping[int, str]] = ContextVar("paths", default={})  # noqa: B039 (never changed)


@contextmanager
def by_paths(model: keras.Model) -> Iterator[None]:
    """Messages name the layers of the model by their paths inside the context."""
    token = _paths.set({id(layer): path for path, layer in layer_paths(model)})
    try:
        yield
    finally:
        _paths.reset(token)


def describe(layer: Any) -> str:
    """A layer as messages name it."""
    name = _paths.get().get(id(layer), layer.name)
    return f"layer={name!r} ({type(layer).__name__})"


def reason(error: BaseException) -> str:
    """The first line of what an error says, as messages give it."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200].rstrip(". ")


def copy_layer(layer: Any, dtype: str | None = None) -> Any:
    """A new layer (or operation) like `layer`, from its config, without its state.

    Functions, such as an activation of one's own, are used themselves, so that they need not be
    registered with Keras.

    Args:
        layer: a layer of any class that has a config.
        dtype: the floating type that the copy computes in, by default that of `layer`.

    Raises:
        ValueError: if the config does not give the layer back.
    """
    if type(layer) is keras.layers.Lambda:
        return copy_lambda(layer, dtype)
    try:
        return _made_of(_in_type(config_of(layer), dtype), layer)
    except Exception as error:  # a layer of any class may raise anything
        copy = _made_of_arguments(layer, dtype)
        if copy is None:
            raise _not_again(layer, error) from error
        return copy


def _made_of_arguments(layer: Any, dtype: str | None) -> Any:
    """A copy where the config of a class is mistaken, with one that is not; else None."""
    config = config_of_arguments(layer)
    if config is None:
        return None
    config = _in_type(config, dtype)
    try:
        copy = _made_of(config, layer)
    except Exception:  # the error of its own config says more
        return None
    if not has_same_arguments(layer, copy):
        return None
    keep_config(copy, config)
    return copy


def _made_of(config: dict[str, Any], layer: Any) -> Any:
    """A layer of a config, built as `layer` is."""
    attributes = {name: getattr(layer, name, None) for name in config}
    functions = {n: a for n, a in attributes.items() if isinstance(a, types.FunctionType)}
    copy = type(layer).from_config({**config, **functions})
    built_on = layer.get_build_config() if getattr(layer, "built", False) else None
    if built_on and not copy.built and not is_built_by_calls(copy):
        copy.build_from_config(built_on)  # a layer that cannot be built is named here
    return copy


def copy_state(
    layer: keras.layers.Layer,
    copy: keras.layers.Layer,
    dtype: str | None = None,
    *,
    without: Sequence[keras.layers.Layer] = (),
) -> None:
    """Gives a built copy the state of a layer: what a file would hold, and what it would lose.

    Files merge the factors of LoRA into the kernel, and know of no single variable that is frozen.

    Args:
        layer: the layer that `copy_layer` was given.
        copy: its copy, built.
        dtype: the floating type that the copy has been given.
        without: layers inside `layer` whose state is left out.

    Raises:
        ValueError: if the copy differs inside.
    """
    copied = {id(v) for inner in without for v in inner.variables}
    try:
        for old, new in pair_layers(layer, copy, {id(inner) for inner in without}):
            new.trainable = old.trainable
            leave_building_to_calls(new)
            store: dict[str, Any] = {}
            old.save_own_variables(store)
            new.load_own_variables(store)
            if hasattr(old, "save_assets"):
                with tempfile.TemporaryDirectory() as folder:
                    old.save_assets(folder)
                    new.load_assets(folder)
            set_lora(new, *lora_of(old))
            copied |= _copy_variables(old, new, dtype)
        lost = [v.path for v in layer.variables if id(v) not in copied]
        if lost:
            raise ValueError(f"nothing takes up {lost[0]}")
    except Exception as error:
        raise _not_again(layer, error) from error


def _copy_variables(old: Any, new: Any, dtype: str | None) -> set[int]:
    """Copies values and settings one by one; gives the ids of the old variables."""
    variables, copies = named_variables(old), named_variables(new)
    for (name, v), (other, w) in zip(
        sorted(variables.items()), sorted(copies.items()), strict=True
    ):
        recast = dtype is not None and "float" in v.dtype and "float" in w.dtype
        if (name, _kind(v, recast)) != (other, _kind(w, recast)):
            raise ValueError(
                f"{v.path} would change from {(name, *_kind(v))} to {(other, *_kind(w))}"
            )
        w.assign(v)
        w.trainable, w.regularizer, w.constraint = v.trainable, v.regularizer, v.constraint
    return {id(v) for v in variables.values()}


def _kind(v: keras.Variable, recast: bool = False) -> tuple[tuple[int, ...], str]:
    return tuple(v.shape), "float" if recast else v.dtype


def _in_type(config: Any, dtype: str | None) -> Any:
    """The config of a layer, and of those in it, with another floating type; None: with its own."""
    if dtype is None:
        return config
    if isinstance(config, dict):
        return {
            name: _policy(value, dtype) if name == "dtype" else _in_type(value, dtype)
            for name, value in config.items()
        }
    return [_in_type(c, dtype) for c in config] if isinstance(config, list) else config


def _policy(value: Any, dtype: str) -> Any:
    """The config of a policy of types with another floating type, quantized as before."""
    config = value.get("config", {}) if isinstance(value, dict) else {}
    if "policy_map" in config:
        policies = {path: _policy(policy, dtype) for path, policy in config["policy_map"].items()}
        default = _policy(config["default_policy"], dtype)
        return {**value, "config": {"default_policy": default, "policy_map": policies}}
    if "source_name" in config:
        return {**value, "config": {**config, "source_name": dtype}}
    if isinstance(value, str) and "_from_" in value:
        return value.partition("_from_")[0] + "_from_" + dtype
    return dtype if "float" in str(value) else value


def _not_again(layer: Any, error: Exception) -> ValueError:
    adapted = [part for part in walk(layer) if has_integers(part) and part is not layer]
    if adapted:
        return ValueError(
            f"{describe(layer)} cannot be made again from its config, which does not say that "
            f"{describe(adapted[0])} in it is quantized; quantize afterwards"
        )
    return ValueError(
        f"{describe(layer)} cannot be made again from its config ({reason(error)}); see to its "
        "get_config, and register what it holds with Keras"
    )

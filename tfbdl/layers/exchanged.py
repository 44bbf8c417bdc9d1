"""A layer of any class with other layers in the places of some that it holds."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import keras

from tfbdl.arguments import instance, shown
from tfbdl.configs import config_of, keep_config
from tfbdl.held_layers import layer_at, put_layer
from tfbdl.inherited_arguments import LayerArguments, Unpack
from tfbdl.keras_private import is_built_by_calls
from tfbdl.keras_private_layers import adopt_signature


@keras.saving.register_keras_serializable(package="tfbdl")
class Exchanged(keras.layers.Layer):
    """A layer that is called as `layer` is, with others in the places of some that it holds.

    A `keras.layers.MultiHeadAttention` makes its dropout and projections itself, so its config
    cannot say that one of them is Bayesian. The config of an `Exchanged` does say so, and files
    hold the layer whole. `tfbdl.to_bayesian` and `tfbdl.to_mc_dropout` make it where they reach
    into a layer; name, call arguments, masks and outputs are those of `layer`.

    Args:
        layer: the layer; it is used itself, and changed.
        inner: the new layers by their places in `layer`: its attributes, then places in lists and
            keys, as in `{"_query_dense": ..., "blocks/0/dropout": ...}`.
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`; by default those of
            `layer`.

    Raises:
        ValueError: if `layer` holds no layer at one of these places, or there is something else in
            the place of a layer.
    """

    def __init__(
        self,
        layer: keras.layers.Layer,
        inner: Mapping[str, keras.layers.Layer],
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        instance("layer", layer, keras.layers.Layer, "a Keras layer")
        if not isinstance(inner, Mapping) or not all(isinstance(path, str) for path in inner):
            raise ValueError(f"inner={shown(inner)} must be a dictionary of layers by their places")
        super().__init__(**{"name": layer.name, "dtype": layer.dtype_policy, **kwargs})
        # Its own may ask what it holds for settings, which others in the place need not have.
        keep_config(layer, config_of(layer))
        for path, new in inner.items():
            instance(f"inner[{path!r}]", new, keras.layers.Layer, "a Keras layer")
            if not isinstance(_held(layer, path), keras.layers.Layer):
                raise ValueError(
                    f"inner has a place {path!r}, where layer={layer.name!r} "
                    f"({type(layer).__name__}) holds no layer; name its attributes, as in 'dropout'"
                )
            put_layer(layer, path, new)
        self.layer = layer
        self.places = tuple(inner)
        self.autocast = False  # `layer` does so itself, and as it sees fit
        self.supports_masking = layer.supports_masking
        adopt_signature(self, layer)

    @property
    def inner(self) -> dict[str, keras.layers.Layer]:
        """The exchanged layers by their places."""
        return {path: layer_at(self.layer, path) for path in self.places}

    def call(self, *args: Any, **kwargs: Any) -> Any:
        return self.layer(*args, **kwargs)

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        if not self.layer.built:  # a call builds it
            return super().compute_output_spec(*args, **kwargs)
        return self.layer.compute_output_spec(*args, **kwargs)

    def compute_mask(self, inputs: Any, previous_mask: Any) -> Any:
        return self.layer.compute_mask(inputs, previous_mask)

    def get_build_config(self) -> dict[str, Any] | None:
        return None if is_built_by_calls(self.layer) else super().get_build_config()

    def get_config(self) -> dict[str, Any]:
        serialize = keras.saving.serialize_keras_object
        return {
            **super().get_config(),
            "layer": serialize(self.layer),
            "inner": {path: serialize(layer) for path, layer in self.inner.items()},
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Exchanged:
        make = keras.saving.deserialize_keras_object
        inner = {path: make(layer) for path, layer in config["inner"].items()}
        layer = make(copy.deepcopy(config["layer"]))  # `make` takes entries out of it
        keep_config(layer, config["layer"]["config"])
        return cls(**{**config, "layer": layer, "inner": inner})


def _held(layer: keras.layers.Layer, path: str) -> Any:
    try:
        return layer_at(layer, path)
    except KeyError:
        return None

"""One network, called with other weights than its own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl.draws import accept_draws
from tfbdl.examples import as_array, check_finite
from tfbdl.flat_model import FlatModel, flatten
from tfbdl.inherited_arguments import LayerArguments, Unpack
from tfbdl.keras_private import name_of, walk
from tfbdl.keras_private_graphs import check_files_hold
from tfbdl.keras_private_training import compiled_with
from tfbdl.lora import lora_of, set_lora
from tfbdl.models.of_network import OfNetwork
from tfbdl.npz_file import FORMAT, check_format


class Reweighted(OfNetwork):
    """f(theta, x) of one network at weights theta that are held here; the base of models of them.

    A subclass says by `call` which theta it takes. Beside theta a function has a state: the
    floating variables that are not trained, such as the statistics of BatchNormalization.

    Args:
        model: the network, built; its weights are not used.

    Raises:
        ValueError: if `model` is not built or random.
    """

    def __init__(self, model: keras.Model, **kwargs: Unpack[LayerArguments]) -> None:
        super().__init__(autocast=False, **kwargs)  # the network casts what it is given itself
        self._flat = FlatModel(model)
        self._integers = [self._add(v.name, v.dtype, np.asarray(v)) for v in integers(model)]
        accept_draws(self)
        self.built = True

    def _hold(self, name: str, values: Any, width: int, *, several: bool = False) -> keras.Variable:
        """Makes a variable of an array of shape (width,), or of `several`, (K, width).

        Raises:
            ValueError: if the shape of the argument `name` is another, or a number is not finite.
        """
        values = as_array(name, values)
        check_finite(name, values, self._flat.dtype.name)
        if values.ndim != 1 + several or values.shape[-1] != width or len(values) < several:
            expected = f"(K, {width})" if several else f"({width},)"
            raise ValueError(f"{name} has shape {values.shape}; give {expected}")
        return self._add(name, self._flat.dtype.name, values)

    def _add(self, name: str, dtype: str, values: np.ndarray) -> keras.Variable:
        return self.add_weight(
            shape=values.shape,
            dtype=dtype,
            initializer=lambda shape, dtype: tf.constant(values, dtype),
            trainable=False,
            autocast=False,
            name=name,
        )

    @property
    def _own_state(self) -> np.ndarray:
        """The state of the network itself, shape (E,)."""
        return floats(self._flat.state).numpy()

    @property
    def network(self) -> keras.Model:
        """The network. Its weights are not used; the state of adapted layers is."""
        return self._flat.model

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the network's weights, by their path, in the order of the members' columns."""
        return self._flat.shapes

    def take_loss(self, model: keras.Model) -> None:
        """Compiles with the loss of a compiled model, which says what the functions describe."""
        self.compile(loss=model.loss, loss_weights=compiled_with(model).get("loss_weights"))

    def _function(self, theta: tf.Tensor, state: tf.Tensor, x: Any) -> Any:
        """The outputs for x at weights (D,) and state (E,)."""
        shapes = [v.shape for v in floating(self.network)]
        return self._flat(theta, x, self._restore(parts_of(state, shapes)))

    def _restore(self, floats: Iterator[tf.Tensor]) -> list[tf.Tensor]:
        """All variables that are not trained, the floating ones from these."""
        kept = dict(zip(map(id, integers(self.network)), self._integers, strict=True))
        state = []
        for source, variable in zip(
            self.network.non_trainable_variables, self._flat.state, strict=True
        ):
            if id(source) in kept:
                state.append(tf.convert_to_tensor(kept[id(source)].value))
            elif variable.dtype.is_floating:
                state.append(tf.cast(next(floats), variable.dtype))
            else:
                state.append(variable)
        return state

    def get_config(self) -> dict[str, Any]:
        check_files_hold("model", self.network)
        return {
            "format": FORMAT,
            "name": self.name,
            "model": keras.saving.serialize_keras_object(self._flat.model),
            "weights": [[name_of(v), v.trainable] for v in self.network.weights],
            "lora": [lora_of(layer) for layer in walk(self.network)],
        }


def network_of(config: dict[str, Any]) -> keras.Model:
    """The network that a config of `Reweighted` describes.

    Raises:
        ValueError: if the weights it is made with are others, or a newer version wrote it.
    """
    check_format(config.get("format", FORMAT))
    model = keras.saving.deserialize_keras_object(config["model"])
    for layer, lora in zip(walk(model), config["lora"], strict=True):
        set_lora(layer, *lora)
    if [name_of(v) for v in model.weights] != [name for name, _ in config["weights"]]:
        raise ValueError(
            f"the network {model.name!r} has other weights, or in another order, than that of "
            "the members; save ensembles of networks that are not quantized"
        )
    for v, (_, trainable) in zip(model.weights, config["weights"], strict=True):
        v.trainable = trainable  # the config of a layer is silent of its single weights
    return model


def integers(model: keras.Model) -> list[keras.Variable]:
    """The weights that are in no theta and no state, such as those of quantized layers."""
    return [v for v in model.weights if "float" not in v.dtype]


def floating(model: keras.Model) -> list[keras.Variable]:
    """The variables of a state: the floating ones that are not trained."""
    return [v for v in model.non_trainable_variables if "float" in v.dtype]


def parts_of(row: tf.Tensor, shapes: Sequence[Sequence[int]]) -> Iterator[tf.Tensor]:
    """The numbers of a row, one tensor after the other."""
    start = 0
    for shape in shapes:
        stop = start + math.prod(shape)
        yield tf.reshape(row[start:stop], shape)
        start = stop


def floats(state: Sequence[tf.Tensor]) -> tf.Tensor:
    """The floating variables among these as one vector, in float32 at least."""
    parts = [tf.cast(v, tf.float32) for v in state if v.dtype.is_floating]
    return flatten(parts) if parts else tf.zeros([0])

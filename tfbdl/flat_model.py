"""A Keras model as a pure function of one vector, all its trainable weights."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl.arguments import option
from tfbdl.copying import copy_layer, copy_state
from tfbdl.keras_private import (
    is_graph,
    takes_call_argument,
    takes_training,
    walk,
    weight_paths,
)
from tfbdl.keras_private_graphs import rebuild
from tfbdl.model_arguments import keras_model, output_on
from tfbdl.quantization import scales_of
from tfbdl.recording import Call, recorded


class FlatModel:
    """f(theta, x) for the D trainable weights theta of a built model, in inference mode.

    Weights lie in theta in the order of `model.trainable_variables`, each row-major. The model
    itself is not changed by calls.

    Args:
        model: built, and deterministic in inference mode.

    Attributes:
        shapes: the shapes of the weights, by the names of the layers inside the model that they are
            in and their own, as "dense/kernel"; a name that is taken gets a number.
        size: D.
        inference: the arguments of a call in inference mode.
        training: the arguments of a call in training.

    Raises:
        ValueError: if the model is not built, has nothing to train, or holds a layer that draws
            its weights or activations.
    """

    def __init__(self, model: keras.Model) -> None:
        keras_model("model", model)
        if not model.built or not model.variables:
            raise ValueError(f"model={model.name!r} is not built; call it on a batch first")
        for layer in walk(model):
            if layer is not model and takes_call_argument(layer, "draw"):
                raise ValueError(
                    f"model={model.name!r} has the random layer {layer.name!r} "
                    f"({type(layer).__name__}); inference over weights needs a deterministic "
                    "model, such as tfbdl.to_deterministic gives"
                )
        if not model.trainable_variables:
            raise ValueError(f"model={model.name!r} has no trainable weights")
        self.model = model
        self.shapes = _by_path(model)
        self.sizes = [math.prod(shape) for shape in self.shapes.values()]
        self.size = sum(self.sizes)
        takes = takes_training(model)
        self.inference, self.training = ({"training": t} if takes else {} for t in (False, True))
        self.dtype = tf.as_dtype(model.trainable_variables[0].dtype)

    @property
    def theta(self) -> tf.Tensor:
        """The model's weights as they are now, shape (D,)."""
        return flatten([tf.convert_to_tensor(v) for v in self.model.trainable_variables])

    def named(self, name: str) -> list[str]:
        """The paths of the weights that a name means: a layer's, a weight's, or the model's."""
        return [path for path in self.shapes if f"/{name}/" in f"/{self.model.name}/{path}/"]

    @property
    def state(self) -> list[tf.Tensor]:
        """The variables that are not trained, such as the statistics of BatchNormalization."""
        return [tf.convert_to_tensor(v) for v in self.model.non_trainable_variables]

    def unflatten(self, theta: tf.Tensor) -> list[tf.Tensor]:
        """The weights of theta, shape (D,), each in its own shape."""
        parts = tf.split(theta, self.sizes)
        return [tf.reshape(w, s) for w, s in zip(parts, self.shapes.values(), strict=True)]

    def by_weight(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Rows (..., D) as those of each weight in its own shape, (..., *shape), by its path."""
        parts = np.split(theta, np.cumsum(self.sizes)[:-1], axis=-1)
        return {
            path: part.reshape(*theta.shape[:-1], *shape)
            for part, (path, shape) in zip(parts, self.shapes.items(), strict=True)
        }

    def __call__(self, theta: tf.Tensor, x: Any, state: Sequence[tf.Tensor] | None = None) -> Any:
        """The outputs for x with the weights theta, shape (D,), and the `state`, now or given."""
        state = self.state if state is None else state
        return self.model.stateless_call(self.unflatten(theta), state, x, **self.inference)[0]

    def assign(self, theta: tf.Tensor) -> None:
        """Puts theta into the model."""
        for variable, w in zip(self.model.trainable_variables, self.unflatten(theta), strict=True):
            variable.assign(w)

    def check_no_scales(self, index: Iterable[int] | None = None) -> None:
        """Raises ValueError where scales of float8 are among the weights, which have no posterior.

        Args:
            index: places of weights in `model.trainable_variables`; by default all.
        """
        weights = self.model.trainable_variables
        chosen = {id(v) for v in (weights if index is None else [weights[i] for i in index])}
        for layer in walk(self.model):
            if any(id(v) in chosen for v in scales_of(layer)):
                raise ValueError(
                    f"model={self.model.name!r} has the layer {layer.name!r} quantized to "
                    f"{layer.quantization_mode}, whose scales are no weights; quantize to 'int8', "
                    "or not at all"
                )

    def check_inputs(self, x: Any) -> None:
        """Raises ValueError where the model does not take inputs like the first of these."""
        output_on(self.model, keras.tree.map_structure(lambda leaf: leaf[:1], x))

    @contextmanager
    def blaming(self, x: Any) -> Iterator[None]:
        """Has a ValueError say that the model does not take x, where that is the reason."""
        try:
            yield
        except ValueError:
            self.check_inputs(x)
            raise

    def check_deterministic(self, x: Any) -> None:
        """Raises ValueError where the same weights and inputs give two different outputs."""
        self.check_inputs(x)
        first, second = (self._calls(x) for _ in range(2))
        if _equal(first[-1].z, second[-1].z):
            return
        layer = next(a.layer for a, b in zip(first, second, strict=False) if not _equal(a.z, b.z))
        named = "" if layer is self.model else f" in the layer {layer.name!r}"
        raise ValueError(
            f"model={self.model.name!r} is random in inference mode{named}; "
            "call it with training=False throughout"
        )

    def _calls(self, x: Any) -> list[Call]:
        """Calls of all layers for x, inner ones before those that they are in."""
        with recorded(walk(self.model)) as calls:
            self.model(x, **self.inference)
        return calls


def _by_path(model: keras.Model) -> dict[str, tuple[int, ...]]:
    """Shapes of the weights, by paths that say where layers are; Keras' say where they were built.

    Layers of one name in a model of a class of its own share theirs.
    """
    paths = weight_paths(model)
    seen: Counter[str] = Counter()
    shapes = {}
    for v in model.trainable_variables:
        path = paths[id(v)]
        shapes[f"{path}_{seen[path]}" if path in seen else path] = tuple(v.shape)
        seen[path] += 1
    return shapes


def _equal(a: Any, b: Any) -> bool:
    """Whether two structures hold the same numbers, as far as they are known."""
    pairs = zip(keras.tree.flatten(a), keras.tree.flatten(b), strict=True)
    known = [(p, q) for p, q in pairs if hasattr(p, "numpy")]
    return all(np.array_equal(p, q, equal_nan=True) for p, q in known)


def flatten(weights: Sequence[tf.Tensor]) -> tf.Tensor:
    """The weights one behind the other, shape (D,)."""
    return tf.concat([tf.reshape(w, [-1]) for w in weights], axis=0)


def in_precision(model: keras.Model, dtype: str) -> keras.Model:
    """`model`, or a copy of it that computes in another floating type.

    Args:
        model: a functional or Sequential model; one of a class of its own only in its own type.
        dtype: "float32" or "float64".

    Raises:
        ValueError: if there is no such type, a model of a class of its own would have to change
            its own, or a weight keeps its type.
    """
    option("dtype", dtype, ("float32", "float64"))
    keras_model("model", model)
    used = {layer.compute_dtype for layer in walk(model)}
    used |= {v.dtype for v in model.trainable_variables}
    if {name for name in used if "float" in name} <= {dtype}:
        return model

    if not is_graph(model):
        raise ValueError(
            f"dtype={dtype!r}: model={model.name!r} ({type(model).__name__}) has a class of its "
            f"own and computes in {', '.join(sorted(used))}; make it under "
            f"keras.config.set_dtype_policy({dtype!r})"
        )
    made: dict[int, tuple[Any, Any]] = {}

    def recast(layer: Any) -> Any:
        if id(layer) not in made:
            graph = is_graph(layer)
            copy = rebuild(layer, recast, dtype) if graph else copy_layer(layer, dtype)
            made[id(layer)] = layer, copy
        return made[id(layer)][1]

    with _policy(dtype):  # for layers that a layer makes for itself
        copy = recast(model)
    for old, new in reversed(made.values()):  # models before the layers in them
        if isinstance(old, keras.layers.Layer):
            new.trainable = old.trainable
            if not is_graph(old):
                copy_state(old, new, dtype)
    for v in copy.trainable_variables:
        if v.dtype != dtype:
            raise ValueError(
                f"dtype={dtype!r}: the weight {v.path!r} stays in {v.dtype}; take "
                f"dtype={v.dtype!r}, or make the model in {dtype} throughout"
            )
    return copy


@contextmanager
def _policy(dtype: str) -> Iterator[None]:
    """New layers are of `dtype` where nothing else is said, and take no seeds from later ones."""
    before, seeds = keras.config.dtype_policy(), random.getstate()
    keras.config.set_dtype_policy(dtype)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
        random.setstate(seeds)

"""The Jacobian of a network's outputs by its weights, example by example, in the form it has.

Where a layer is linear in its kernel, an example's gradient is the product of the layer's input and
the gradient of its output, so that one forward pass and K backward passes give all of them, and
none is ever written out. All other weights get theirs from one pass for each example and direction.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import keras
import numpy as np
import tensorflow as tf

from tfbdl.flat_model import FlatModel, flatten
from tfbdl.graphs import has_loops
from tfbdl.inference.laplace.forms import Forms
from tfbdl.inference.laplace.heads import Head, find_heads
from tfbdl.inference.laplace.layer_rules import (
    Values,
    bias_of,
    columns,
    has_rule,
    inputs_of,
    kernel_and_bias,
    outputs_of,
    part_of,
)
from tfbdl.inference.laplace.output_fisher import Link
from tfbdl.inference.laplace.output_parts import OutputPart
from tfbdl.inference.laplace.parts import Factored, Part, Whole
from tfbdl.inference.weight_subset import WeightSubset
from tfbdl.recording import Call, recorded

Cotangents: TypeAlias = Callable[[tf.Tensor], tf.Tensor]
State: TypeAlias = Sequence[tf.Tensor]

AGREES = 0.05
"""Relative difference up to which a rule is what automatic differentiation gives; wrong rules are
off by about 1, and half precision by 0.01."""


class Jacobian:
    """J of a network, by the weights of a subset.

    Args:
        flat: the network.
        subset: the weights.
        link: the function from the network's outputs to those that J is of.
        forms: the forms of their gradients, as `find_forms` has them.

    Attributes:
        subset: the weights.
        positions: as in `Forms`.
        biases: as in `Forms`.
        heads: as in `Forms`.
    """

    def __init__(
        self, flat: FlatModel, subset: WeightSubset, link: Link, forms: Forms | None = None
    ) -> None:
        self._flat, self.subset, self._link = flat, subset, link
        self._weights = [flat.model.trainable_variables[i] for i in subset.index]
        self._layers = [subset.owners[i] for i in subset.index]
        pairs = zip(self._layers, self._weights, strict=True)
        self._ruled = [place for place, pair in enumerate(pairs) if has_rule(*pair)]
        if forms is not None:
            self._take(forms)

    def find_forms(
        self, theta: tf.Tensor, state: State, x: Any, parts: Sequence[OutputPart]
    ) -> Forms:
        """The forms, which this object then goes by.

        What is known of layers is held against automatic differentiation; weights that are used
        otherwise lose their form.

        Args:
            theta: weights, shape (D,).
            state: the variables that are not trained.
            x: a few examples.
            parts: the outputs, one by one.
        """
        check = tf.function(self._check, autograph=False).get_concrete_function(theta, state, x)
        errors, of_heads = check(*tf.nest.flatten([theta, state, x]))
        agreeing = [place for place, (error, _) in errors.items() if error < AGREES]
        biases = [p for p in agreeing if self._weights[p] is bias_of(self._layers[p])]
        positions = {p: int(errors[p][1]) for p in agreeing if p not in biases}
        heads: list[Head] = []
        if len(agreeing) == len(self._weights) and not self._has_factors():
            of_layers = self._layers_as_heads(biases)
            outputs, direction, of_layers_z = keras.tree.map_structure(np.asarray, of_heads)
            heads = find_heads(of_layers, outputs, direction, of_layers_z, parts)
        forms = Forms(positions, biases, has_loops(check.graph), heads)
        self._take(forms)
        return forms

    def _take(self, forms: Forms) -> None:
        self.positions, self.biases, self._has_loops, self.heads = forms
        self._ruled = sorted([*self.positions, *self.biases])

    def outputs(self, theta: tf.Tensor, state: State, x: Any) -> tf.Tensor:
        """F(theta, x), shape (B, ...)."""
        outputs = self._link(self._flat(theta, x, state))
        _set_number(outputs, keras.tree.flatten(x)[0].shape[0])
        return outputs

    def __call__(
        self, theta: tf.Tensor, state: State, x: Any, cotangents: Cotangents
    ) -> tuple[tf.Tensor, list[Part]]:
        """The outputs, and J in the directions of `cotangents`, one part for each weight.

        Args:
            theta: weights, shape (D,).
            state: the variables that are not trained.
            x: inputs of B examples.
            cotangents: the function from the outputs to K directions, shape (K, B, F).
        """
        outputs, calls = self._forward(theta, state, x)
        directions = tf.stop_gradient(cotangents(outputs))

        def back(direction: tf.Tensor) -> list[tf.Tensor]:
            with tf.GradientTape() as tape:
                tape.watch(theta)
                again, calls = self._forward(theta, state, x)
                along = tf.reduce_sum(rows(again) * direction)
            return tape.gradient(along, [c.z for c in calls], unconnected_gradients="zero")

        gradients = self.map(back, directions, [c.z.dtype for c in calls]) if calls else []
        values = self._values(theta, state)
        parts: dict[int, Part] = {**self._by_rule(calls, gradients, values)}
        others = [place for place in range(len(self._weights)) if place not in parts]
        if others:
            parts |= self._whole(others, theta, state, x, directions)
        return outputs, [parts[place] for place in range(len(self._weights))]

    def columns(self, place: int) -> int:
        """O of a weight in `positions`, seen as a matrix (I, O)."""
        return columns(self._layers[place], self._weights[place])

    def at_heads(
        self, theta: tf.Tensor, state: State, x: Any
    ) -> tuple[tf.Tensor, list[dict[int, tf.Tensor]]]:
        """The outputs, and of each head the inputs of its weights, by place, (B T, I)."""
        outputs, calls = self._forward(theta, state, x)
        of_layer = {id(call.layer): call for call in calls}
        values = self._values(theta, state)
        inputs = []
        for head in self.heads:
            call = of_layer[id(self._layers[head.places[0]])]
            a = inputs_of(call, values)
            a = tf.reshape(a, [-1, a.shape[2]])
            of_weights = {head.kernel: a, head.bias: tf.ones_like(a[:, :1])}
            inputs.append({place: a for place, a in of_weights.items() if place >= 0})
        return outputs, inputs

    def map(self, function: Callable[[Any], Any], over: Any, dtypes: Any) -> Any:
        """`function` of each slice of `over`, all at once unless the network has loops."""
        if self._has_loops:
            return tf.map_fn(function, over, fn_output_signature=dtypes)
        return tf.vectorized_map(function, over)

    def numbers(self, k: int, written_out: bool) -> int:
        """About how many numbers J of one example takes in K directions.

        Args:
            k: K.
            written_out: whether J is for all weights, and not only where it has no better form.
        """
        total = 4 * k * self.subset.size if written_out else 0
        for place, size in enumerate(self.subset.sizes):
            if place in self.positions:
                positions, outputs = self.positions[place], self.columns(place)
                total += positions * (size // outputs + k * outputs)
                total += k * size if positions > 1 or written_out else 0
            else:
                total += (1 if place in self.biases else 2) * k * size
        return total

    def _forward(self, theta: tf.Tensor, state: State, x: Any) -> tuple[tf.Tensor, list[Call]]:
        """The outputs, and the calls of layers with a rule, by example and outside of loops."""
        layers = [self._layers[place] for place in self._ruled]
        with recorded(layers, before_activation=True) as calls:
            outputs = self.outputs(theta, state, x)
        own = [c for c in calls if c.z.graph is outputs.graph]
        for c in own:
            _set_number(c.x, outputs.shape[0])
            _set_number(c.z, outputs.shape[0])
        return outputs, [c for c in own if c.z.shape[0] == outputs.shape[0]]

    def _values(self, theta: tf.Tensor, state: State) -> Values:
        """All variables of the network, by their identities."""
        trained, model = self._flat.unflatten(theta), self._flat.model
        pairs = [*zip(model.trainable_variables, trained, strict=True)]
        pairs += zip(model.non_trainable_variables, state, strict=True)
        return {id(v): value for v, value in pairs}

    def _by_rule(
        self, calls: list[Call], gradients: list[tf.Tensor], values: Values
    ) -> dict[int, Factored]:
        parts: dict[int, Factored] = {}
        for place in self._ruled:
            pairs = zip(calls, gradients, strict=True)
            own = [pair for pair in pairs if pair[0].layer is self._layers[place]]
            if own:
                parts[place] = part_of(self._weights[place], own, values)
        return parts

    def _whole(
        self, places: list[int], theta: tf.Tensor, state: State, x: Any, directions: tf.Tensor
    ) -> dict[int, Part]:
        """The parts of any weights, from a pass for each example and direction."""
        k, b, _ = directions.shape
        weights = self._flat.unflatten(theta)
        chosen = [weights[self.subset.index[place]] for place in places]

        def row(pair: tuple[Any, tf.Tensor]) -> list[tf.Tensor]:
            example, direction = pair
            one = keras.tree.map_structure(lambda leaf: leaf[tf.newaxis], example)
            with tf.GradientTape() as tape:
                tape.watch(chosen)
                output = self.outputs(flatten(weights), state, one)
                along = tf.reduce_sum(rows(output)[0] * direction)
            return tape.gradient(along, chosen, unconnected_gradients="zero")

        pairs = (
            keras.tree.map_structure(lambda leaf: tf.repeat(leaf, k, axis=0), x),
            tf.reshape(tf.transpose(directions, [1, 0, 2]), [b * k, -1]),
        )
        parts = self.map(row, pairs, [w.dtype for w in chosen])
        return {p: Whole(tf.reshape(j, [b, k, -1])) for p, j in zip(places, parts, strict=True)}

    @property
    def widths_of_heads(self) -> list[int]:
        """I, the inputs of the kernel of each head."""
        return [
            self.subset.sizes[h.kernel] // h.outputs if h.kernel >= 0 else 1 for h in self.heads
        ]

    def _has_factors(self) -> bool:
        """Whether weights of the subset are neither kernels nor biases."""
        pairs = zip(self._layers, self._weights, strict=True)
        return not all(any(w is own for own in kernel_and_bias(layer)) for layer, w in pairs)

    def _layers_as_heads(self, biases: list[int]) -> dict[int, Head]:
        """Each layer as if it were a head, by the place of its first weight."""
        heads: dict[int, Head] = {}
        for place, layer in enumerate(self._layers):
            places = [p for p, other in enumerate(self._layers) if other is layer]
            kernel = next((p for p in places if p not in biases), -1)
            bias = next((p for p in places if p in biases), -1)
            if place == places[0]:
                heads[place] = Head(kernel, bias, 0, 0, outputs_of(layer) or 0, False)
        return heads

    def _check(self, theta: tf.Tensor, state: State, x: Any) -> tuple[Any, Any]:
        """The error of each rule, summed over x, and its positions; arguments of `find_heads`.

        These arguments are the outputs, a direction in their space, and the gradient along it in
        the z of each layer that is called once, by the place of the layer's first weight.
        """
        with tf.GradientTape() as tape:
            weights = self._flat.unflatten(theta)
            tape.watch(weights)
            outputs, calls = self._forward(flatten(weights), state, x)
            values = tf.reshape(outputs, [-1])
            some_direction = 0.5 + tf.cos(tf.range(values.shape[0], dtype=values.dtype))
            along = tf.reduce_sum(values * some_direction)
        sources = [c.z for c in calls], weights
        of_calls, of_weights = tape.gradient(along, sources, unconnected_gradients="zero")
        errors = {}
        values = self._values(theta, state)
        of_rules = self._by_rule(calls, [g[tf.newaxis] for g in of_calls], values)
        for place, part in of_rules.items():
            truth = tf.reshape(of_weights[self.subset.index[place]], [-1])
            error = tf.norm(tf.reduce_sum(part.dense(), axis=[0, 1]) - truth)
            error = tf.math.divide_no_nan(error, tf.norm(truth))
            errors[place] = error, part.a.shape[1]
        first = {id(layer): place for place, layer in reversed(list(enumerate(self._layers)))}
        number = Counter(id(call.layer) for call in calls)
        pairs = zip(calls, of_calls, strict=True)
        once = {first[id(c.layer)]: rows(g) for c, g in pairs if number[id(c.layer)] == 1}
        return errors, (rows(outputs), tf.reshape(some_direction, rows(outputs).shape), once)


def _set_number(tensor: tf.Tensor, num: int) -> None:
    """Sets the static number of examples, which operations on strings lose."""
    if tensor.shape.rank and tensor.shape[0] is None:
        tensor.set_shape([num, *tensor.shape[1:]])


def rows(outputs: tf.Tensor) -> tf.Tensor:
    """Outputs, shape (B, F)."""
    return tf.reshape(outputs, [outputs.shape[0], math.prod(outputs.shape[1:])])

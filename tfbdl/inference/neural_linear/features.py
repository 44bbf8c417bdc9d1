"""The inputs of a network's last layer: the features that it has learned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfbdl.batches import batches
from tfbdl.flat_model import FlatModel, in_precision
from tfbdl.inference.weight_subset import WeightSubset
from tfbdl.layers import LearnedScale
from tfbdl.lora import has_lora
from tfbdl.model_arguments import one_output
from tfbdl.models import WeightEnsemble
from tfbdl.models.reweighted import floats
from tfbdl.quantization import is_quantized
from tfbdl.recording import owners, recorded
from tfbdl.sources import Source


class Held(NamedTuple):
    """A network as it was once.

    theta: its weights, shape (D,).
    state: its other variables.
    example: one of its inputs, as soon as one is known.
    """

    theta: tf.Tensor
    state: list[tf.Tensor]
    example: Any = None


class Features:
    """phi(x): the inputs of a network's last Dense layer, and 1 where that has a bias.

    Args:
        model: the network, whose outputs are those of that layer.
        dtype: the type in which it is computed.

    Attributes:
        paths: names of the kernel and of the bias.
        sizes: numbers that these have for each output, M in all.
        shapes: the shapes of both, by name.
        num_outputs: F.
        held: the network as it was at `hold`.

    Raises:
        ValueError: if the model is not built or random, has several outputs, or ends in another
            layer.
    """

    def __init__(self, model: keras.Model, dtype: str) -> None:
        one_output("model", model)
        self._model = model
        self._flat = FlatModel(in_precision(model, dtype))
        self._last = owners(self._flat.model)[-1]
        self._check_last(model)
        self._subset = WeightSubset(self._flat, "last_layer")
        self.paths = self._subset.paths
        self.shapes = dict(zip(self.paths, self._subset.shapes, strict=True))
        self.held: Held | None = None
        self.num_outputs = self._last.units
        self.sizes = [size // self.num_outputs for size in self._subset.sizes]

    def _check_last(self, model: keras.Model) -> None:
        last, kind = self._last, type(self._last).__name__
        adapted = has_lora(last) or is_quantized(last)
        kind += ", quantized or with LoRA" if adapted else ""
        is_dense = type(last) is keras.layers.Dense and not adapted
        if not is_dense or last.activation is not keras.activations.linear:
            raise ValueError(
                f"model={model.name!r} ends in the layer {last.name!r} ({kind}); let the last one "
                "be a Dense without activation"
            )

    def hold(self) -> None:
        """Keeps to the network as it is now."""
        if self._flat.model is not self._model:  # it is a copy, in another precision
            self._flat.model.set_weights(self._model.get_weights())
        state = [tf.constant(v.numpy()) for v in self._flat.state]
        self.held = Held(tf.constant(self._flat.theta.numpy()), state)

    def arrays(self) -> dict[str, np.ndarray]:
        """The network as it is held, by name, for a file."""
        theta, state, example = self._known
        example = keras.tree.flatten(example)
        return {
            "theta": theta.numpy(),
            **{f"state/{i}": v.numpy() for i, v in enumerate(state)},
            **{f"example/{i}": v.numpy() for i, v in enumerate(example)},
        }

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Restores the state from `arrays`."""
        state = [tf.constant(arrays[f"state/{i}"]) for i in range(len(self._flat.state))]
        number = sum(name.startswith("example/") for name in arrays)
        leaves = [tf.constant(arrays[f"example/{i}"]) for i in range(number)]
        inputs = getattr(self._flat.model, "input", None)
        example = leaves[0] if number == 1 else keras.tree.pack_sequence_as(inputs, leaves)
        self.held = Held(tf.constant(arrays["theta"]), state, example)

    def of_batches(
        self, data: Source, batch_size: int
    ) -> Iterator[tuple[np.ndarray, np.ndarray | None, np.ndarray]]:
        """Features in float64, shape (B, M), targets, and weights, (B,), of batches of the data.

        Raises:
            ValueError: if the data do not fit each other or the network.
        """
        parts = batches(
            data, batch_size, tf.float64, computed_in=self._flat.dtype, one_shape=True
        ).parts
        for number, batch in enumerate(parts):
            inputs = keras.tree.map_structure(self._in_precision, batch.x)
            if number == 0:
                self._check(inputs)
            phi = self._phi_and_outputs(inputs)[0][: batch.size]
            y = None if batch.y is None else batch.y.numpy()[: batch.size]
            yield phi, y, batch.weights.numpy()[: batch.size]

    def ensemble(self, weights: np.ndarray, raw_scales: np.ndarray | None = None) -> WeightEnsemble:
        """The network with each of S last layers.

        Args:
            weights: the weights of the layer, shape (S, M, F).
            raw_scales: the raw scales that a `LearnedScale` appends, shape (S, F), if there is one.
        """
        network, theta = self._flat.model, self._known.theta.numpy()
        members = weights.reshape(len(weights), -1)
        own = self._subset.index
        if raw_scales is not None:
            inputs = keras.tree.map_structure(
                lambda a: keras.Input(a.shape[1:], dtype=a.dtype.name), self._known.example
            )
            network = keras.Model(inputs, LearnedScale(dtype=network.dtype)(network(inputs)))
            members = np.concatenate([members, raw_scales], axis=1)
            own, theta = [*own, len(self._flat.shapes)], np.append(theta, raw_scales[0])
        paths = list(FlatModel(network).shapes)
        return WeightEnsemble(
            network,
            members,
            floats(self._known.state).numpy()[np.newaxis],
            own_weights=[paths[i] for i in own],
            theta=theta,
        )

    @property
    def _known(self) -> Held:
        assert self.held is not None
        return self.held

    def _phi_and_outputs(self, x: Any) -> tuple[np.ndarray, np.ndarray]:
        with recorded([self._last]) as calls:
            outputs = self._flat(self._known.theta, x, self._known.state)
        phi = tf.cast(calls[-1].x, tf.float64).numpy()
        if phi.ndim != 2:
            raise ValueError(
                f"layer={self._last.name!r} has inputs of shape {phi.shape}; give a network with "
                "one vector of features for each example"
            )
        if not np.isfinite(phi).all():
            raise ValueError(
                f"model={self._model.name!r} has features that are not finite; its training has "
                "diverged"
            )
        ones = np.ones((len(phi), len(self.sizes) - 1))
        return np.concatenate([phi, ones], axis=1), outputs.numpy()

    def _check(self, x: Any) -> None:
        self._flat.check_deterministic(x)
        phi, outputs = self._phi_and_outputs(x)
        weights = self._subset.take(self._known.theta.numpy()).reshape(-1, self.num_outputs)
        linear = phi @ weights
        if linear.shape != outputs.shape or not np.allclose(linear, outputs, 1e-2, 1e-3):
            raise ValueError(
                f"model={self._model.name!r} does something behind the product of its last layer "
                f"{self._last.name!r}; let it end there"
            )
        self.held = self._known._replace(example=keras.tree.map_structure(lambda a: a[:1], x))

    def _in_precision(self, x: tf.Tensor) -> tf.Tensor:
        return tf.cast(x, self._flat.dtype) if x.dtype.is_floating else x

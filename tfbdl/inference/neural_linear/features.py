"""The inputs of a network's last layer: the features that it has learned."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfbdl.batches import PaddedBatch, batches
from tfbdl.flat_model import FlatModel, in_precision
from tfbdl.inference.weight_subset import WeightSubset
from tfbdl.layers import LearnedScale
from tfbdl.lengths import shapes_of
from tfbdl.likelihoods.positions import mask_at_positions
from tfbdl.lora import has_lora
from tfbdl.model_arguments import one_output, output_on
from tfbdl.models import WeightEnsemble
from tfbdl.models.reweighted import floats
from tfbdl.quantization import is_quantized
from tfbdl.recording import owners, recorded
from tfbdl.sources import Source

_LARGEST = 1000
"""Examples at once, at most."""
_NUMBERS = 4_000_000
"""Features at once, at all positions: 32 MB. A single example may have more."""


class Held(NamedTuple):
    """A network as it was once.

    theta: its weights, shape (D,).
    state: its other variables.
    example: one of its inputs, as soon as one is known.
    """

    theta: tf.Tensor
    state: list[tf.Tensor]
    example: Any = None


class FeatureBatch(NamedTuple):
    """Features of B examples at positions of any number of axes, as pixels or tokens; or of one.

    phi: in float64, shape (B, ..., M).
    y: the targets; None where there are none.
    weights: how much each example counts, shape (B,).
    mask: the positions that count, shape (B, ...); None if all do.
    """

    phi: np.ndarray
    y: np.ndarray | None
    weights: np.ndarray
    mask: np.ndarray | None

    @property
    def rows(self) -> np.ndarray:
        """The features of all positions, shape (R, M)."""
        return self.phi.reshape(-1, self.phi.shape[-1])

    @property
    def by_example(self) -> np.ndarray:
        """The features of the positions of each example, shape (B, T, M)."""
        return self.phi.reshape(len(self.phi), -1, self.phi.shape[-1])

    @property
    def weights_of_rows(self) -> np.ndarray:
        """How much each position counts, shape (R,)."""
        shape = self.phi.shape[:-1]
        weights = self.weights.reshape(-1, *[1] * (len(shape) - 1))
        counts = np.ones(shape) if self.mask is None else self.mask
        return (weights * counts).ravel()


class LastLayerFeatures:
    """phi(x): the inputs of a network's last linear layer, and 1 where that has a bias.

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
        self.num_outputs = self._subset.shapes[0][-1]
        self.sizes = [size // self.num_outputs for size in self._subset.sizes]

    def _check_last(self, model: keras.Model) -> None:
        last, kind = self._last, type(self._last).__name__
        adapted = has_lora(last) or is_quantized(last)
        kind += ", quantized or with LoRA" if adapted else ""
        is_product = type(last) is keras.layers.Dense or _is_of_single_pixels(last)
        if not is_product or adapted or last.activation is not keras.activations.linear:
            raise ValueError(
                f"model={model.name!r} ends in the layer {last.name!r} ({kind}); let the last one "
                "be a Dense, or a convolution of single pixels, without activation"
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

    def of_batches(self, data: Source, batch_size: int | None) -> Iterator[FeatureBatch]:
        """The features and targets of the data, a batch after the other.

        Args:
            data: the examples.
            batch_size: examples at once; None for up to 1,000, as their positions leave room.

        Raises:
            ValueError: if the data do not fit each other or the network, or a mask has axes that
                the positions have not.
        """
        for number, batch in enumerate(self._batches(data, batch_size)):
            if number == 0:
                self._check(batch.x)
            phi, outputs = self._phi_and_outputs(batch.x)
            mask = mask_at_positions(outputs)
            yield FeatureBatch(
                phi[: batch.size],
                None if batch.y is None else batch.y.numpy()[: batch.size],
                batch.weights.numpy()[: batch.size],
                None if mask is None else mask.numpy()[: batch.size],
            )

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

    def _batches(self, data: Source, batch_size: int | None) -> Iterator[PaddedBatch]:
        shapes, most = None, batch_size
        for batch in batches(
            data, batch_size, tf.float64, computed_in=self._flat.dtype, one_shape=True
        ).parts:
            x = keras.tree.map_structure(self._in_precision, batch.x)
            if batch_size is None and shapes_of(x) != shapes:
                shapes, most = shapes_of(x), self._at_once(x)
            assert most is not None
            for start in range(0, batch.size, most):
                part = slice(start, start + most)
                yield keras.tree.map_structure(
                    lambda leaf, part=part: leaf[part], batch._replace(x=x), none_is_leaf=False
                )

    def _at_once(self, x: Any) -> int:
        """The number of examples like the first of these whose features leave room."""
        outputs = output_on(self._flat.model, keras.tree.map_structure(lambda leaf: leaf[:1], x))
        numbers = math.prod(outputs.shape[:-1]) * sum(self.sizes)
        return int(np.clip(_NUMBERS // numbers, 1, _LARGEST))

    def _phi_and_outputs(self, x: Any) -> tuple[np.ndarray, tf.Tensor]:
        with recorded([self._last]) as calls:
            outputs = self._flat(self._known.theta, x, self._known.state)
        phi = tf.cast(calls[-1].x, tf.float64).numpy()
        if not np.isfinite(phi).all():
            raise ValueError(
                f"model={self._model.name!r} has features that are not finite; its training has "
                "diverged"
            )
        ones = np.ones((*phi.shape[:-1], len(self.sizes) - 1))
        return np.concatenate([phi, ones], axis=-1), outputs

    def _check(self, x: Any) -> None:
        self._flat.check_deterministic(x)
        phi, outputs = self._phi_and_outputs(x)
        weights = self._subset.take(self._known.theta.numpy()).reshape(-1, self.num_outputs)
        linear = phi @ weights
        if linear.shape != tuple(outputs.shape) or not np.allclose(linear, outputs, 1e-2, 1e-3):
            raise ValueError(
                f"model={self._model.name!r} does something behind the product of its last layer "
                f"{self._last.name!r}; let it end there"
            )
        self.held = self._known._replace(example=keras.tree.map_structure(lambda a: a[:1], x))

    def _in_precision(self, x: tf.Tensor) -> tf.Tensor:
        return tf.cast(x, self._flat.dtype) if x.dtype.is_floating else x


def _is_of_single_pixels(layer: keras.layers.Layer) -> bool:
    """Whether it is a convolution that multiplies the channels of each pixel alone."""
    return (
        type(layer) in (keras.layers.Conv1D, keras.layers.Conv2D, keras.layers.Conv3D)
        and {*layer.kernel_size, *layer.strides, layer.groups} == {1}
        and layer.data_format == "channels_last"
    )

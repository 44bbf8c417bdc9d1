"""Some of the weights of a model, while the others stay as they are."""

from __future__ import annotations

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from tfbdl.arguments import words
from tfbdl.flat_model import FlatModel
from tfbdl.keras_private_layers import last_layers
from tfbdl.lora import factors_of, has_lora
from tfbdl.quantization import has_integers
from tfbdl.recording import owners


class WeightSubset:
    """The weights of a model that have a posterior, P numbers in a row.

    Args:
        flat: the model.
        chosen: "all", "last_layer", "lora" for the factors of LoRA, or names of layers, or of
            weights as "dense/kernel".

    Attributes:
        index: the places of the weights in `model.trainable_variables`.
        paths: the paths of the weights.
        sizes: the number of elements of each.
        size: P.
        last_layer: the layer that "last_layer" means where the model has one output, else None; of
            several outputs it means the last layer of each.

    Raises:
        ValueError: if a name has no weight, a layer is quantized and has no LoRA, or scales of
            float8 are among the weights.
    """

    def __init__(self, flat: FlatModel, chosen: str | Sequence[str]) -> None:
        self.owners = owners(flat.model)
        word = chosen if isinstance(chosen, str) else None
        several = word == "last_layer" and len(getattr(flat.model, "outputs", ())) > 1
        heads = last_layers(flat.model) if several else []
        self.last_layer = None if heads or word != "last_layer" else self.owners[-1]
        paths = list(flat.shapes)
        if word == "all":
            self.index = list(range(len(paths)))
        elif word == "lora":
            self.index = self._factors(flat)
        elif word == "last_layer":
            last = {id(layer) for layer in heads or [self.last_layer]}
            self.index = [i for i, o in enumerate(self.owners) if id(o) in last]
            for layer in heads or [self.last_layer]:
                check_kernel(layer, layer.name)
        else:
            self.index = self._named(chosen, flat)
        flat.check_no_scales(self.index)
        self.paths = [paths[i] for i in self.index]
        self.shapes = [flat.shapes[path] for path in self.paths]
        self.sizes = [flat.sizes[i] for i in self.index]
        self.size = sum(self.sizes)
        starts = np.cumsum([0, *flat.sizes])
        self._places = np.concatenate([np.arange(starts[i], starts[i + 1]) for i in self.index])

    def _factors(self, flat: FlatModel) -> list[int]:
        factors = [
            i
            for i, v in enumerate(flat.model.trainable_variables)
            if any(v is factor for factor in factors_of(self.owners[i]))
        ]
        if not factors:
            raise ValueError(
                "subset_of_weights='lora': no layer of the model trains factors of LoRA; call its "
                "enable_lora first"
            )
        return factors

    def _named(self, names: Sequence[str], flat: FlatModel) -> list[int]:
        wanted = "'all', 'last_layer', 'lora', or a list of names of layers or weights"
        names = words("subset_of_weights", names, wanted)
        if not names:
            raise ValueError(f"subset_of_weights=[] must be {wanted}")
        meant = {name: flat.named(name) for name in names}
        unused = [name for name in names if not meant[name]]
        if unused:
            raise ValueError(
                f"subset_of_weights names {unused[0]!r}; the weights are {', '.join(flat.shapes)}"
            )
        places = {path: i for i, path in enumerate(flat.shapes)}
        for name, paths in meant.items():
            for path in paths if name not in places else ():
                check_kernel(self.owners[places[path]], path.rpartition("/")[0])
        return sorted({places[path] for paths in meant.values() for path in paths})

    def take(self, theta: np.ndarray) -> np.ndarray:
        """The weights of theta, shape (D,), that are in the subset, shape (P,)."""
        return theta[self._places]

    def gather(self, theta: tf.Tensor) -> tf.Tensor:
        """Like `take`, for tensors."""
        return tf.gather(theta, self._places)

    def scatter(self, values: tf.Tensor, theta: tf.Tensor) -> tf.Tensor:
        """Theta, shape (D,), with `values`, shape (P,), in their place."""
        return tf.tensor_scatter_nd_update(theta, self._places[:, np.newaxis], values)

    def known(self, values: np.ndarray, size: int) -> np.ndarray:
        """`values`, shape (P,), in a row of `size` numbers, which are NaN outside of the subset."""
        row = np.full(size, np.nan)
        row[self._places] = values
        return row

    def check_others(self, before: tf.Tensor, now: tf.Tensor) -> None:
        """Raises ValueError if weights outside of the subset are not what they were."""
        if not np.array_equal(self.scatter(self.gather(before), now), before):
            raise ValueError(
                "model has changed in weights that have no posterior; take "
                "subset_of_weights='all', or freeze them before making the Laplace"
            )

    def split(self, values: tf.Tensor) -> list[tf.Tensor]:
        """`values`, shape (P,), by weight."""
        return tf.split(values, self.sizes)


def check_kernel(layer: keras.layers.Layer, name: str) -> None:
    """Raises ValueError if a layer meant as a whole has weights that are integers."""
    if has_integers(layer) and not has_lora(layer):
        raise ValueError(
            f"subset_of_weights means the layer {name!r}, whose kernel is quantized and has no "
            "derivative; quantize the others alone, by filters=, or give it LoRA by enable_lora"
        )

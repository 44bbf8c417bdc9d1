"""Several outputs of one network, each with a likelihood of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl.arguments import number, shown
from tfbdl.likelihoods.base import Likelihood


@keras.saving.register_keras_serializable(package="tfbdl.likelihoods")
class Joint(Likelihood):
    """log p(y | outputs) = sum over k of w_k log p_k(y_k | outputs_k): independent given f.

    It is for networks with a dictionary, list or tuple of outputs. `tfbdl.predict` gives a
    `Prediction` for each output, in the same structure.

    Args:
        likelihoods: the likelihoods in the structure of the outputs; None for an output whose noise
            is not known, which has no log probability.
        weights: w_k in the same structure, as the `loss_weights` of Keras' `compile`; 1 by default.
            Weights other than 1 temper the likelihoods, as in the loss that the network is trained
            by.
        name: the name, as of any loss of Keras.

    Raises:
        ValueError: if it is no structure of likelihoods, or a weight is negative.
    """

    def __init__(self, likelihoods: Any, weights: Any = None, name: str = "joint") -> None:
        super().__init__(name=name)
        parts = keras.tree.flatten(likelihoods)
        if not keras.tree.is_nested(likelihoods) or not all(
            part is None or isinstance(part, Likelihood) for part in parts
        ):
            raise ValueError(
                f"likelihoods={shown(likelihoods)} must be a dictionary, list or tuple of objects "
                "of tfbdl.likelihoods"
            )
        if weights is None:
            weights = keras.tree.map_structure(lambda _: 1.0, likelihoods)
        self.likelihoods = likelihoods
        self.match(weights, "weights")
        self.weights = keras.tree.map_structure(
            lambda w: number("weights", w, lambda v: v >= 0, "not negative"), weights
        )

    @property
    def parts(self) -> list[Likelihood | None]:
        """The likelihoods, in the order of `keras.tree.flatten`."""
        return keras.tree.flatten(self.likelihoods)

    @property
    def names(self) -> list[str]:
        """The outputs as messages and exported models name them: keys, places in lists."""
        return names_of(self.likelihoods)

    def log_prob(self, y: Any, outputs: Any) -> tf.Tensor:
        weights = keras.tree.flatten(self.weights)
        logs = [
            tf.cast(w, log.dtype) * log
            for w, log in zip(weights, self._of_each("log_prob", y=y, outputs=outputs), strict=True)
        ]
        widest = max((log.dtype for log in logs), key=lambda dtype: dtype.size)
        return tf.add_n([tf.cast(log, widest) for log in logs])

    def mean(self, outputs: Any) -> Any:
        """E[y | outputs] of each output, in their structure."""
        return self._packed(self._of_each("mean", outputs=outputs))

    def variance(self, outputs: Any) -> Any:
        """Var[y | outputs] of each output, in their structure."""
        return self._packed(self._of_each("variance", outputs=outputs))

    def check(self, outputs: Any) -> None:
        for name, part, own in self._each(outputs=outputs):
            if part is not None:
                named(name, part.check, own)

    def check_targets(self, y: Any, outputs: Any) -> None:
        for name, part, targets, own in self._each(y=y, outputs=outputs):
            if part is not None:
                named(name, part.check_targets, np.asarray(targets), own)

    def match(self, structure: Any, name: str) -> None:
        """Raises ValueError unless a structure, which messages call `name`, is the outputs'."""
        try:
            keras.tree.assert_same_structure(self.likelihoods, structure)
        except (ValueError, TypeError):
            raise ValueError(
                f"{name} is {kind_of(structure)}, and the likelihoods are "
                f"{kind_of(self.likelihoods)}; give one for each output, in the same structure"
            ) from None

    def _of_each(self, method: str, **structures: Any) -> list[Any]:
        """What a method of each likelihood gives for its part of each structure."""
        results = []
        for name, part, *own in self._each(**structures):
            if part is None:
                raise ValueError(f"likelihood of the output {name!r} is not known; give one")
            results.append(named(name, getattr(part, method), *own))
        return results

    def _packed(self, results: list[Any]) -> Any:
        return keras.tree.pack_sequence_as(self.likelihoods, results)

    def _each(self, **structures: Any) -> Iterator[tuple[Any, ...]]:
        """Name and likelihood of each output, and its part of each structure."""
        for name, structure in structures.items():
            self.match(structure, name)
        columns = map(keras.tree.flatten, structures.values())
        return zip(self.names, self.parts, *columns, strict=True)

    def get_config(self) -> dict[str, Any]:
        serialize = keras.saving.serialize_keras_object
        likelihoods = keras.tree.map_structure(serialize, self.likelihoods)
        return {"name": self.name, "likelihoods": likelihoods, "weights": self.weights}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Joint:
        likelihoods = _deserialized(config["likelihoods"])
        return cls(**{**config, "likelihoods": likelihoods})


def _deserialized(structure: Any) -> Any:
    if isinstance(structure, dict) and "class_name" not in structure:
        return {key: _deserialized(part) for key, part in structure.items()}
    if isinstance(structure, (list, tuple)):
        return type(structure)(_deserialized(part) for part in structure)
    if structure is None or isinstance(structure, Likelihood):
        return structure
    return keras.saving.deserialize_keras_object(structure)


def names_of(outputs: Any) -> list[str]:
    """Names of the parts of a structure, in its order: keys, and places in lists.

    One that is taken ends in an underscore.
    """
    names: list[str] = []
    for path, _ in keras.tree.flatten_with_path(outputs):
        name = "_".join(map(str, path))
        while name in names:
            name += "_"
        names.append(name)
    return names


def named(name: str, function: Callable[..., Any], *args: Any) -> Any:
    """What a function gives for an output; its errors name that."""
    try:
        return function(*args)
    except ValueError as error:
        raise ValueError(f"output {name!r}: {error}") from None


def kind_of(structure: Any) -> str:
    """A structure in a few words."""
    if isinstance(structure, dict):
        return f"a dictionary of {', '.join(map(repr, structure))}"
    if isinstance(structure, (list, tuple)):
        return f"a {type(structure).__name__} of {len(structure)}"
    return "one array"

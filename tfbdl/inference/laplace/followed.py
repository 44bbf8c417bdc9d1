"""The network of a posterior, whose weights and layers a user may change between fits."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tfbdl.flat_model import FlatModel, flatten, in_precision
from tfbdl.keras_private import settings_of, walk


class Followed:
    """A user's model beside the one that is computed with, which may be a copy of it.

    Args:
        model: the user's.
        dtype: "float32" or "float64", in which it is computed.

    Attributes:
        flat: the one that is computed with.
    """

    def __init__(self, model: keras.Model, dtype: str) -> None:
        self._model, self.flat = model, FlatModel(in_precision(model, dtype))
        self._trains = self._trained()
        self._settings: list[tuple[keras.layers.Layer, Any]] | None = None

    @property
    def theta(self) -> tf.Tensor:
        """The user's weights as they are now, shape (D,), as numbers of the computation."""
        self.check()
        weights = self._model.trainable_variables
        return tf.constant(flatten([tf.cast(v, self.flat.dtype) for v in weights]).numpy())

    def check(self) -> None:
        """Raises ValueError if the model trains others of its weights than it did."""
        if self._trained() != self._trains:
            raise ValueError(
                f"model={self._model.name!r} has other trainable weights than it had; freeze them "
                "before making the Laplace"
            )

    def take_up(self) -> bool:
        """Takes up the weights as they are now; says whether settings have made programs stale.

        Raises:
            ValueError: if they have and the network is a copy.
        """
        settings, before = self._settings_now(), self.note_settings()
        changed = settings != before
        if self.flat.model is not self._model:  # it is in another precision
            if changed:
                raise ValueError(
                    f"model={self._model.name!r} has layers whose settings have changed; make a "
                    "new Laplace"
                )
            self.flat.model.set_weights(self._model.get_weights())
        self._settings = settings
        return changed

    def note_settings(self) -> list[tuple[keras.layers.Layer, Any]]:
        """The settings that programs are made under, from the first use on.

        They are not read earlier, since layers that are being loaded do not have all settings yet.
        """
        if self._settings is None:
            self._settings = self._settings_now()
        return self._settings

    def _settings_now(self) -> list[tuple[keras.layers.Layer, Any]]:
        return [(layer, settings_of(layer)) for layer in walk(self._model)]

    def _trained(self) -> list[int]:
        """The weights that train now, as objects."""
        return [id(variable) for variable in self._model.trainable_variables]

"""The network of a posterior, whose weights and layers a user may change between fits."""

from __future__ import annotations

from typing import Any

import keras

from tfbdl.flat_model import FlatModel
from tfbdl.keras_private import settings_of, walk


class Followed:
    """A user's model beside the one that is computed with, which may be a copy of it.

    Args:
        model: the user's.
        flat: the one that is computed with.
    """

    def __init__(self, model: keras.Model, flat: FlatModel) -> None:
        self._model, self._flat = model, flat
        self._settings: list[tuple[keras.layers.Layer, Any]] | None = None

    def take_up(self) -> bool:
        """Takes up the weights as they are now; says whether settings have made programs stale.

        Raises:
            ValueError: if they have and the network is a copy.
        """
        settings, before = self._settings_now(), self.note_settings()
        changed = settings != before
        if self._flat.model is not self._model:  # it is in another precision
            if changed:
                raise ValueError(
                    f"model={self._model.name} has layers whose settings have changed; make a new "
                    "Laplace"
                )
            self._flat.model.set_weights(self._model.get_weights())
        self._settings = settings
        return changed

    def note_settings(self) -> list[tuple[keras.layers.Layer, Any]]:
        """The settings that programs are made under, from the first use on.

        Not before, since layers that are being loaded do not have all of theirs.
        """
        if self._settings is None:
            self._settings = self._settings_now()
        return self._settings

    def _settings_now(self) -> list[tuple[keras.layers.Layer, Any]]:
        return [(layer, settings_of(layer)) for layer in walk(self._model)]

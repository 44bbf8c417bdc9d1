"""The base of models around one network, whose inputs and outputs they have."""

from __future__ import annotations

from typing import Any

import keras

from tfbdl.model_arguments import symbolic_inputs


class OfNetwork(keras.Model):
    """A model that is called as its `network` is, which a subclass holds.

    Attributes:
        network: the network.
        is_called_as_network: True; what is known of the network's inputs holds for the model's.
    """

    network: keras.Model
    is_called_as_network = True

    @property
    def inputs(self) -> list[keras.KerasTensor] | None:
        """The symbolic inputs of the network, as a list; None where it has none."""
        return getattr(self.network, "inputs", None)

    @property
    def input(self) -> Any:
        """The symbolic inputs of the network, in their structure."""
        return symbolic_inputs(self.network)

    @property
    def output(self) -> Any:
        """The symbolic outputs of the network, in their structure; None where it has none."""
        return getattr(self.network, "output", None)

    @property
    def output_names(self) -> list[str] | None:
        """The names of the network's outputs, as Keras counts them."""
        return getattr(self.network, "output_names", None)

    def get_build_config(self) -> dict[str, Any] | None:
        """The build config of the network, with the shape of its input."""
        return self.network.get_build_config()

    def build_from_config(self, config: dict[str, Any]) -> None:
        """Nothing: the network is built by its own config."""

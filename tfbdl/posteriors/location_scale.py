"""The base of families that spread about a mean mu by scales sigma = softplus(rho)."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl.elementary import log_of_softplus, softplus
from tfbdl.identifiers import initializer
from tfbdl.inherited_arguments import LayerArguments, Unpack
from tfbdl.posteriors.base import Posterior


class LocationScale(Posterior):
    """q(w) with mean mu; a family makes its scales in `build`, each softplus of a variable.

    Args:
        rho_initializer: the start of the variables of the scales. The default, uniform in [-3, -2]
            as in the slides, is a sigma between 0.05 and 0.13.
    """

    def __init__(
        self,
        rho_initializer: str | keras.initializers.Initializer | None = None,
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        super().__init__(**kwargs)
        if rho_initializer is None:
            rho_initializer = keras.initializers.RandomUniform(-3.0, -2.0)
        self.rho_initializer = initializer("rho_initializer", rho_initializer, for_configs=True)

    def build(self, shape: tuple[int, ...]) -> None:
        self.mu = self.add_parameter("mu", shape, self.initializer)
        self.built = True

    @property
    def mean(self) -> tf.Tensor:
        return tf.convert_to_tensor(self.mu)

    def get_config(self) -> dict[str, Any]:
        rho_initializer = keras.initializers.serialize(self.rho_initializer)
        return {**super().get_config(), "rho_initializer": rho_initializer}


class IndependentScales(LocationScale):
    """A sigma = softplus(rho) for each weight on its own."""

    def build(self, shape: tuple[int, ...]) -> None:
        super().build(shape)
        self.rho = self.add_parameter("rho", shape, self.rho_initializer)

    @property
    def stddev(self) -> tf.Tensor:
        return softplus(tf.convert_to_tensor(self.rho))

    @property
    def log_stddev(self) -> tf.Tensor:
        """Log sigma, finite where sigma underflows."""
        return log_of_softplus(tf.convert_to_tensor(self.rho), self.stddev)

    def remove(self, where: np.ndarray) -> None:
        self.mu.assign(np.where(where, 0.0, self.mu))
        self.rho.assign(np.where(where, _NO_NOISE, self.rho))


_NO_NOISE = -22.0
"""The rho of a sigma of 3e-10, whose logarithm is finite."""

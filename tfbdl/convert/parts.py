"""Arguments and weights that a layer and its counterpart have in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from tfbdl.configs import config_of
from tfbdl.keras_private import named_variables
from tfbdl.layers.base import BayesLayer
from tfbdl.layers.bayes_conv_transpose import BayesConvTranspose
from tfbdl.posteriors import Posterior


def arguments_of(layer: keras.layers.Layer) -> dict[str, Any]:
    """The constructor's arguments as objects, so that functions need not be registered with Keras.

    Recurrent layers have them in their cells.
    """
    cell = getattr(layer, "cell", None)
    config = config_of(layer)
    arguments = {name: getattr(layer, name, getattr(cell, name, config[name])) for name in config}
    return {**arguments, "dtype": layer.dtype_policy}


def pairs_of_weights(
    plain: keras.layers.Layer, bayesian: BayesLayer
) -> Iterator[tuple[keras.Variable, Posterior]]:
    """Each weight of Keras' layer, with the posterior over it."""
    owner = getattr(plain, "cell", plain)
    own = named_variables(owner)
    for q in bayesian.random_weights:
        yield own[q.name], q


def swapped(bayesian: BayesLayer, q: Posterior, w: Any) -> np.ndarray:
    """`w` in the axes of the other: Keras' transposed kernels have filters before channels."""
    w = keras.ops.convert_to_numpy(w)
    transposed = isinstance(bayesian, BayesConvTranspose) and q.name == "kernel"
    return np.swapaxes(w, -1, -2) if transposed else w

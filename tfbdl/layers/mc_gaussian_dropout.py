"""Dropout with Gaussian noise (Srivastava et al. 2014, section 10) that can be drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence

import keras
import tensorflow as tf

from tfbdl import random
from tfbdl.inherited_arguments import LayerArguments, Unpack
from tfbdl.layers.mc_dropout import MCDropout


@keras.saving.register_keras_serializable(package="tfbdl")
class MCGaussianDropout(MCDropout):
    """`keras.layers.GaussianDropout` that stays on in drawn functions.

    Inputs are multiplied by N(1, rate / (1 - rate)), the mean and variance of dropout's mask;
    `MCDropout` says when, and which inputs share their noise. On the input of a dense layer this is
    variational dropout with a fixed alpha = rate / (1 - rate) (Kingma et al. 2015, section 3.1).

    Args:
        rate: the drop probability of the dropout with this variance, in [0, 1).
        noise_shape: shape of the noise that is broadcast to the input; None entries follow it.
        per_example: whether draws, too, use noise per example.
        seed: as in Keras.
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.

    Raises:
        ValueError: as `MCDropout`.
    """

    def __init__(
        self,
        rate: float,
        *,
        noise_shape: Sequence[int | None] | None = None,
        per_example: bool = False,
        seed: int | None = None,
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        super().__init__(rate, noise_shape, per_example=per_example, seed=seed, **kwargs)

    def noise(self, key: tf.Tensor, shape: random.Shape, dtype: tf.DType) -> tf.Tensor:
        """The factor of the inputs, N(1, rate / (1 - rate))."""
        stddev = math.sqrt(self.rate / (1.0 - self.rate))
        return 1.0 + stddev * random.normal(key, shape, dtype)

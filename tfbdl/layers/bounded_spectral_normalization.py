"""Kernels whose spectral norm has a bound (Miyato et al. 2018; Liu et al. 2020)."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tfbdl.arguments import instance, positive, positive_integer
from tfbdl.inherited_arguments import LayerArguments, Unpack


@keras.saving.register_keras_serializable(package="tfbdl")
class BoundedSpectralNormalization(keras.layers.SpectralNormalization):
    """`keras.layers.SpectralNormalization` of kernels whose norm is above a bound c, to c.

    Keras brings every kernel to the norm 1, smaller ones too. Here W becomes c W / sigma where its
    estimated spectral norm sigma is above c, and stays as it is otherwise (Liu et al. 2020,
    equation 10): a layer x + g(x) with g of a norm below 1 keeps distances, up to factors. This
    happens in each training step, by power iteration that goes on from step to step.

    The kernel of a convolution counts as the matrix of its patches and filters, as in Keras; the
    norm of the convolution itself is at most the root of the kernel's number of positions times
    that, which is why papers choose c between 0.95 and 6 for these.

    Args:
        layer: a layer with a `kernel` or `embeddings`, as in Keras.
        norm_bound: c, > 0.
        power_iterations: the number of power iterations in a training step.
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`; by default those of
            `layer`.

    Raises:
        ValueError: if an argument is out of its range, or the layer has no kernel.
    """

    def __init__(
        self,
        layer: keras.layers.Layer,
        norm_bound: float = 0.95,
        power_iterations: int = 1,
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        instance("layer", layer, keras.layers.Layer, "a Keras layer")
        positive_integer("power_iterations", power_iterations)
        given = {"name": layer.name, "dtype": layer.dtype_policy, **kwargs}
        super().__init__(layer, power_iterations, **given)
        self.norm_bound = positive("norm_bound", norm_bound)
        self.supports_masking = layer.supports_masking

    def normalized_weights(self) -> tuple[tf.Tensor, tf.Tensor]:
        """The vector of the power iteration, and the kernel, of a norm of at most c."""
        vector, of_norm_1 = super().normalized_weights()
        kernel = tf.convert_to_tensor(self.kernel)
        sigma = tf.norm(kernel) / tf.norm(of_norm_1)
        return vector, kernel * tf.minimum(1.0, tf.cast(self.norm_bound, sigma.dtype) / sigma)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "norm_bound": self.norm_bound}

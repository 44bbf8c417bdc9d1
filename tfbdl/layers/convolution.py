"""The base of all convolutions: their arguments, and where channels are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl.arguments import LARGEST, first_line, option, positive_integer, shown
from tfbdl.layers import estimators
from tfbdl.layers.linear import BayesLinear

_FORMATS = ("channels_first", "channels_last")


class Convolution(BayesLinear):
    """A linear layer whose positions share the kernel W, of shape (*kernel_size, in, out).

    A subclass says what `convolve` is, for channels last; channels that come first are moved there
    and back, which gives the same numbers, also where TensorFlow has no such convolution. The
    arguments are described where users meet them, in `BayesConv2D`.
    """

    size_arguments = ("filters", "kernel_size")
    rank: int
    paddings: tuple[str, ...] = ("same", "valid")

    def __init__(
        self,
        filters: int,
        kernel_size: int | Sequence[int],
        activation: str | Callable[[Any], Any] | None,
        *,
        strides: int | Sequence[int],
        padding: str,
        data_format: str | None,
        dilation_rate: int | Sequence[int],
        **of_all_linear: Any,
    ) -> None:
        super().__init__(activation, **of_all_linear)
        if isinstance(self.estimator, estimators.LocalReparameterization):
            raise ValueError(
                "estimator='local_reparameterization' draws outputs one by one, but those of a "
                "convolution share weights over positions; use 'flipout'"
            )
        self.filters = positive_integer("filters", filters)
        self.kernel_size = integers("kernel_size", kernel_size, self.rank)
        self.strides = integers("strides", strides, self.rank)
        self.dilation_rate = integers("dilation_rate", dilation_rate, self.rank)
        if max(self.strides) > 1 and max(self.dilation_rate) > 1:
            raise ValueError(
                f"strides={self.strides} and dilation_rate={self.dilation_rate} do not go "
                "together; set one of them to 1"
            )
        padding = padding.lower() if isinstance(padding, str) else padding
        self.padding = option("padding", padding, self.paddings)
        if data_format is None:
            data_format = keras.config.image_data_format()
        self.data_format = option("data_format", data_format, _FORMATS)
        self.supports_masking = False  # a mask over the inputs' positions is not the outputs'
        self.input_spec = keras.layers.InputSpec(ndim=self.rank + 2)

    def convolve(self, x: Any, w: Any) -> Any:
        """Outputs without the bias, from tensors or from Keras' symbolic ones."""
        raise NotImplementedError

    def convolve_by_products(self, x: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
        """`convolve` in operations that can be vectorised over kernels."""
        raise NotImplementedError

    def linear(self, x: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
        if isinstance(self.estimator, estimators.PerExample):
            return self.convolve_by_products(x, w)
        return self.convolve(x, w)

    def pre_activation(self, x: tf.Tensor, training: bool, draw: tf.Tensor | None) -> tf.Tensor:
        if self.data_format == "channels_last":
            return super().pre_activation(x, training, draw)
        y = super().pre_activation(keras.ops.moveaxis(x, 1, -1), training, draw)
        return keras.ops.moveaxis(y, -1, 1)

    def channels_of(self, input_shape: tuple[int | None, ...]) -> int:
        """The number of channels of inputs, fixed from then on.

        Raises:
            ValueError: if they are unknown.
        """
        axis = 1 if self.data_format == "channels_first" else len(input_shape) - 1
        channels = input_shape[axis]
        if channels is None:
            raise ValueError(f"input_shape={input_shape} must have known channels, on axis {axis}")
        self.input_spec = keras.layers.InputSpec(ndim=self.rank + 2, axes={axis: channels})
        return channels

    def kernel_shape(self, channels: int) -> tuple[int, ...]:
        """(*kernel_size, in, out)."""
        return (*self.kernel_size, channels, self.filters)

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        channels = self.channels_of(input_shape)
        self.compute_output_shape(input_shape)  # raises where inputs are too small
        self.create_weights(self.kernel_shape(channels), (self.filters,))
        self.built = True

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        batch, *axes = input_shape
        first = self.data_format == "channels_first"
        *lengths, channels = (*axes[1:], axes[0]) if first else axes
        kernel_shape = self.kernel_shape(channels or 1)
        x = keras.KerasTensor((batch, *lengths, kernel_shape[-2]))  # one group's channels
        try:
            _, *lengths, filters = self.convolve(x, keras.KerasTensor(kernel_shape)).shape
            if any(length is not None and length < 1 for length in lengths):
                raise ValueError("the output's size would be zero or negative")  # not in Keras 3.12
        except ValueError as error:
            raise ValueError(
                f"kernel_size={self.kernel_size}, strides={self.strides} and dilation_rate="
                f"{self.dilation_rate} do not fit inputs of shape {tuple(input_shape)}: "
                f"{first_line(error)}"
            ) from None
        return (batch, filters, *lengths) if first else (batch, *lengths, filters)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "filters": self.filters,
            "kernel_size": self.kernel_size,
            "strides": self.strides,
            "padding": self.padding,
            "data_format": self.data_format,
            "dilation_rate": self.dilation_rate,
        }


def integers(name: str, value: Any, num: int, least: int = 1) -> tuple[int, ...]:
    """`value` for each of `num` axes: one integer for all, or one for each.

    Raises:
        ValueError: if it is neither, or one is below `least`.
    """
    is_list = isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim)
    sizes = tuple(value) if is_list else (value,) * num
    if len(sizes) != num or not all(_is_size(size, least) for size in sizes):
        raise ValueError(
            f"{name}={shown(value)} must be an integer, or {num} of them, of at least {least}"
        )
    return tuple(int(size) for size in sizes)


def _is_size(value: Any, least: int) -> bool:
    is_integer = isinstance(value, Integral) and not isinstance(value, bool)
    return is_integer and least <= value <= LARGEST

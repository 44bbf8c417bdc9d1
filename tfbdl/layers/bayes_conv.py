"""Convolutions with a distribution over their kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from tfbdl import posteriors, priors
from tfbdl.arguments import positive_integer
from tfbdl.inherited_arguments import LayerArguments, Unpack
from tfbdl.layers import estimators, products
from tfbdl.layers.convolution import Convolution


class BayesConv(Convolution):
    """A convolution over `rank` axes."""

    def __init__(  # noqa: PLR0917 (Keras' order)
        self,
        filters: int,
        kernel_size: int | Sequence[int],
        strides: int | Sequence[int] = 1,
        padding: str = "valid",
        data_format: str | None = None,
        dilation_rate: int | Sequence[int] = 1,
        groups: int = 1,
        activation: str | Callable[[Any], Any] | None = None,
        *,
        num_data: int,
        prior: float | str | dict[str, Any] | priors.Prior = 1.0,
        posterior: str | dict[str, Any] | posteriors.Posterior = "mean_field",
        estimator: str | dict[str, Any] | estimators.Estimator = "reparameterization",
        use_bias: bool = True,
        bias_prior: float | str | dict[str, Any] | priors.Prior | None = None,
        bias_posterior: str | dict[str, Any] | posteriors.Posterior | None = None,
        kl: str = "auto",
        kernel_initializer: str | keras.initializers.Initializer = "glorot_uniform",
        bias_initializer: str | keras.initializers.Initializer = "zeros",
        activity_regularizer: Any = None,
        seed: int | None = None,
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        super().__init__(
            filters,
            kernel_size,
            activation,
            strides=strides,
            padding=padding,
            data_format=data_format,
            dilation_rate=dilation_rate,
            num_data=num_data,
            prior=prior,
            posterior=posterior,
            estimator=estimator,
            use_bias=use_bias,
            bias_prior=bias_prior,
            bias_posterior=bias_posterior,
            kl=kl,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            activity_regularizer=activity_regularizer,
            seed=seed,
            **kwargs,
        )
        self.groups = positive_integer("groups", groups)
        if self.filters % self.groups:
            raise ValueError(f"groups={groups} must divide filters={filters}")

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        channels = self.channels_of(input_shape)
        if channels % self.groups:
            raise ValueError(f"groups={self.groups} must divide the {channels} channels of inputs")
        super().build(input_shape)

    def kernel_shape(self, channels: int) -> tuple[int, ...]:
        return super().kernel_shape(channels // self.groups)

    def convolve(self, x: Any, w: Any) -> Any:
        return keras.ops.conv(x, w, self.strides, self.padding, "channels_last", self.dilation_rate)

    def convolve_by_products(self, x: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
        return products.convolution(
            x,
            w,
            strides=self.strides,
            padding=self.padding,
            dilation_rate=self.dilation_rate,
            groups=self.groups,
        )

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "groups": self.groups}


@keras.saving.register_keras_serializable(package="tfbdl")
class BayesConv1D(BayesConv):
    """`BayesConv2D` for sequences, (batch, steps, channels); `padding` may also be "causal".

    Under "causal" the output at a step depends on the inputs up to that step only.
    """

    rank = 1
    paddings = ("causal", "same", "valid")

    def convolve(self, x: Any, w: Any) -> Any:
        if self.padding != "causal":
            return super().convolve(x, w)
        return keras.ops.conv(
            self._after_zeros(x), w, self.strides, "valid", "channels_last", self.dilation_rate
        )

    def convolve_by_products(self, x: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
        if self.padding != "causal":
            return super().convolve_by_products(x, w)
        return products.convolution(
            self._after_zeros(x),
            w,
            strides=self.strides,
            padding="valid",
            dilation_rate=self.dilation_rate,
            groups=self.groups,
        )

    def _after_zeros(self, x: Any) -> Any:
        before = self.dilation_rate[0] * (self.kernel_size[0] - 1)
        return keras.ops.pad(x, [[0, 0], [before, 0], [0, 0]])


@keras.saving.register_keras_serializable(package="tfbdl")
class BayesConv2D(BayesConv):
    """A convolution of images with (W, b) ~ q, and KL(q || p) / num_data in the model's losses.

    `training=True` samples the weights, `training=False` uses their means, and a draw
    (`tfbdl.draws`) names one weight sample. At their means it is `keras.layers.Conv2D`. Input
    (batch, rows, columns, channels), kernel (*kernel_size, channels / groups, filters).

    Args:
        filters: output channels.
        kernel_size: one size, or one for each axis.
        strides: one stride, or one for each axis.
        padding: `"valid"` or `"same"`.
        data_format: `"channels_last"` or `"channels_first"`, by default Keras' own setting.
            Channels that come first are computed last.
        dilation_rate: one rate, or one for each axis; not together with strides.
        groups: into how many the channels are divided, each with filters of its own.
        activation: as in `keras.layers.Conv2D`.
        num_data: N, the number of training examples (images, not positions); required, since the
            KL enters as KL / N.
        prior: p(w), as in `BayesDense`; an output unit is a filter.
        posterior: the family of q(w), as in `BayesDense`.
        estimator: the way outputs are sampled in training: `"reparameterization"`, `"flipout"` or
            `"per_example"`, all with the same weights at all positions of an example.
            `"local_reparameterization"` is refused: it would draw them anew at each position.
        use_bias: whether there is a bias.
        bias_prior: p(b), as in `BayesDense`.
        bias_posterior: q(b), as in `BayesDense`.
        kl: as in `BayesDense`.
        kernel_initializer: the start of the kernel's means.
        bias_initializer: the start of the bias' means.
        activity_regularizer: as in `keras.layers.Layer`.
        seed: as in `BayesDense`.
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.

    Raises:
        ValueError: if an argument is out of its range, or the estimator does not hold for the
            posterior.
    """

    rank = 2


@keras.saving.register_keras_serializable(package="tfbdl")
class BayesConv3D(BayesConv):
    """`BayesConv2D` for volumes, (batch, depth, rows, columns, channels)."""

    rank = 3

"""Transposed convolutions with a distribution over their kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from tfbdl import posteriors, priors
from tfbdl.inherited_arguments import LayerArguments, Unpack
from tfbdl.layers import estimators, products
from tfbdl.layers.convolution import Convolution, integers


class BayesConvTranspose(Convolution):
    """A transposed convolution over `rank` axes.

    The random kernel has the axes (*kernel_size, in, out) of all layers, so that priors and
    posteriors by unit, and initial values by fan-in, mean the same; Keras has (…, out, in).
    """

    def __init__(
        self,
        filters: int,
        kernel_size: int | Sequence[int],
        strides: int | Sequence[int] = 1,
        padding: str = "valid",
        *,
        output_padding: int | Sequence[int] | None = None,
        data_format: str | None = None,
        dilation_rate: int | Sequence[int] = 1,
        activation: str | Callable[[Any], Any] | None = None,
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
        self.output_padding = None
        if output_padding is not None:
            self.output_padding = integers("output_padding", output_padding, self.rank, least=0)
            if any(p >= s for p, s in zip(self.output_padding, self.strides, strict=True)):
                raise ValueError(
                    f"output_padding={output_padding} must be below strides={self.strides}"
                )
            extents = [
                (k - 1) * d + 1 for k, d in zip(self.kernel_size, self.dilation_rate, strict=True)
            ]
            if self.padding == "same" and any(
                e % 2 == 0 and p == 0 for e, p in zip(extents, self.output_padding, strict=True)
            ):
                raise ValueError(
                    f"output_padding={output_padding} of 0 and padding='same' need an odd "
                    f"kernel_size, not {self.kernel_size}; leave output_padding None"
                )

    def convolve(self, x: Any, w: Any) -> Any:
        return keras.ops.conv_transpose(
            x,
            keras.ops.swapaxes(w, -1, -2),
            self.strides,
            self.padding,
            self.output_padding,
            "channels_last",
            self.dilation_rate,
        )

    def convolve_by_products(self, x: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
        return products.transposed_convolution(
            x,
            w,
            strides=self.strides,
            padding=self.padding,
            output_padding=self.output_padding,
            dilation_rate=self.dilation_rate,
        )

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "output_padding": self.output_padding}


@keras.saving.register_keras_serializable(package="tfbdl")
class BayesConv1DTranspose(BayesConvTranspose):
    """`BayesConv2DTranspose` for sequences, (batch, steps, channels)."""

    rank = 1


@keras.saving.register_keras_serializable(package="tfbdl")
class BayesConv2DTranspose(BayesConvTranspose):
    """A transposed convolution of images with (W, b) ~ q, and KL / num_data in the losses.

    Arguments and behaviour are those of `BayesConv2D`; at the means it is
    `keras.layers.Conv2DTranspose`. The kernel has the axes (*kernel_size, channels, filters), as in
    `BayesConv2D`, where Keras' own has filters before channels: so priors by unit and initial
    values by fan-in mean the same in all layers. `to_bayesian` and `to_deterministic` swap them.

    Args:
        filters: output channels.
        kernel_size: one size, or one for each axis.
        strides: one stride, or one for each axis.
        padding: `"valid"` or `"same"`.
        output_padding: the addition to the output's size, below the stride: one for all, or one
            for each axis; None infers the size.
        data_format: as in `BayesConv2D`.
        dilation_rate: one rate, or one for each axis; not together with strides.
        activation: as in `keras.layers.Conv2DTranspose`.
        num_data: N, the number of training examples; required, since the KL enters as KL / N.
        estimator: as in `BayesDense`, but `"local_reparameterization"`.
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
class BayesConv3DTranspose(BayesConvTranspose):
    """`BayesConv2DTranspose` for volumes, (batch, depth, rows, columns, channels)."""

    rank = 3

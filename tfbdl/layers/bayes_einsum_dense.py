"""The dense layer over any axes, with a distribution over its weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from tfbdl import posteriors, priors
from tfbdl.arguments import optional, positive_integer, text
from tfbdl.inherited_arguments import LayerArguments, Unpack
from tfbdl.keras_private_layers import EinsumAxes, einsum_axes
from tfbdl.layers import estimators
from tfbdl.layers.linear import BayesLinear

_HOLDING = (estimators.Reparameterization, estimators.PerExample)


@keras.saving.register_keras_serializable(package="tfbdl")
class BayesEinsumDense(BayesLinear):
    """activation(einsum(equation, x, W) + b) with (W, b) ~ q, and KL(q || p) / num_data in losses.

    At the means it is `keras.layers.EinsumDense`, of which attention layers are made. Input and
    output have the axes that `equation` names.

    Args:
        equation: the axes of input, weights and output, as in `"abc,cde->abde"`, with the examples
            first; `...` stands for any further ones.
        output_shape: the lengths of the output's axes but the first; None where the input has them.
        activation: as in `keras.layers.EinsumDense`.
        bias_axes: the axes of the output that b has, as in `"de"`; None for no b.
        num_data: N, the number of training examples; required, since the KL enters as KL / N.
        prior: p(w), as in `BayesDense`.
        posterior: the family of q(w), as in `BayesDense`.
        estimator: how outputs are sampled in training: `"reparameterization"` or `"per_example"`;
            the others hold where inputs meet a matrix.
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
            posterior or for this layer.
    """

    def __init__(
        self,
        equation: str,
        output_shape: int | Sequence[int | None],
        activation: str | Callable[[Any], Any] | None = None,
        bias_axes: str | None = None,
        *,
        num_data: int,
        prior: float | str | dict[str, Any] | priors.Prior = 1.0,
        posterior: str | dict[str, Any] | posteriors.Posterior = "mean_field",
        estimator: str | dict[str, Any] | estimators.Estimator = "reparameterization",
        bias_prior: float | str | dict[str, Any] | priors.Prior | None = None,
        bias_posterior: str | dict[str, Any] | posteriors.Posterior | None = None,
        kl: str = "auto",
        kernel_initializer: str | keras.initializers.Initializer = "glorot_uniform",
        bias_initializer: str | keras.initializers.Initializer = "zeros",
        activity_regularizer: Any = None,
        seed: int | None = None,
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        if bias_axes is None and (bias_prior, bias_posterior) != (None, None):
            raise ValueError("bias_prior and bias_posterior must be None: bias_axes=None")
        super().__init__(
            activation,
            num_data=num_data,
            prior=prior,
            posterior=posterior,
            estimator=estimator,
            use_bias=bias_axes is not None,
            bias_prior=bias_prior,
            bias_posterior=bias_posterior,
            kl=kl,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            activity_regularizer=activity_regularizer,
            seed=seed,
            **kwargs,
        )
        if not isinstance(self.estimator, _HOLDING):
            raise ValueError(
                f"estimator={type(self.estimator).__name__} does not hold for an EinsumDense; use "
                "'reparameterization' or 'per_example'"
            )
        self.equation = text("equation", equation)
        if not isinstance(output_shape, (list, tuple)):
            output_shape = [positive_integer("output_shape", output_shape, ", or a tuple of them")]
        self.partial_output_shape = tuple(
            optional(positive_integer, "output_shape", length) for length in output_shape
        )
        self.bias_axes = bias_axes

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        axes = self._axes(input_shape)
        given = self.kernel_initializer
        self.kernel_initializer = axes.fitted(given)
        self.create_weights(axes.kernel_shape, axes.bias_shape or ())
        self.kernel_initializer = given
        self.input_spec = keras.layers.InputSpec(ndim=len(input_shape))
        self.built = True

    def linear(self, x: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
        return keras.ops.einsum(self.equation, x, w)

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        return tuple(self._axes(input_shape).output_shape)

    def _axes(self, input_shape: tuple[int | None, ...]) -> EinsumAxes:
        shape = self.partial_output_shape
        try:
            return einsum_axes(self.equation, self.bias_axes, input_shape, shape)
        except ValueError as error:
            raise ValueError(
                f"equation={self.equation!r} with bias_axes={self.bias_axes!r} and output_shape="
                f"{shape} does not fit inputs of shape {tuple(input_shape)}: {error}"
            ) from None

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["use_bias"]
        return {
            **config,
            "equation": self.equation,
            "output_shape": self.partial_output_shape,
            "bias_axes": self.bias_axes,
        }

"""The dense layer with a distribution over its weights (the slides' `bayes_dense`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tfbdl import posteriors, priors
from tfbdl.arguments import positive_integer
from tfbdl.inherited_arguments import LayerArguments, Unpack
from tfbdl.layers import estimators
from tfbdl.layers.linear import BayesLinear


@keras.saving.register_keras_serializable(package="tfbdl")
class BayesDense(BayesLinear):
    """activation(x W + b) with (W, b) ~ q, and KL(q || p) / num_data in the model's losses.

    `training=True` samples the weights, `training=False` uses their means, and a draw
    (`tfbdl.draws`) names one weight sample. Input (..., d_in), output (..., units).

    Args:
        units: output dimension.
        activation: as in `keras.layers.Dense`.
        num_data: N, the number of training examples; required, since the KL enters as KL / N.
        prior: p(w): a `tfbdl.priors.Prior`, its name, or the scale of a normal.
        posterior: the family of q(w): a `tfbdl.posteriors.Posterior` or its name. The default
            `"mean_field"` has sigma = softplus(rho), rho starting uniform in [-3, -2].
        estimator: how outputs are sampled in training: `"reparameterization"`,
            `"local_reparameterization"` (inputs of two axes), `"flipout"` or `"per_example"`.
        use_bias: whether there is a b.
        bias_prior: p(b), by default that of the kernel; where that is over rows or columns of a
            matrix, N(0, 1).
        bias_posterior: q(b), by default the family of the kernel.
        kl: `"auto"` takes the closed form of the KL where there is one; `"sample"` always
            log q(w) - log p(w) at the weights drawn, as Blundell et al. (2015, equation 2).
        kernel_initializer: the start of the kernel's means.
        bias_initializer: the start of the bias' means.
        activity_regularizer: as in `keras.layers.Layer`.
        seed: as in Keras: an integer for noise that is the same in every run.
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.

    Raises:
        ValueError: if an argument is out of its range, or the estimator does not hold for the
            posterior.
    """

    size_arguments = ("units",)

    def __init__(
        self,
        units: int,
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
            activation,
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
        self.units = positive_integer("units", units)
        self.input_spec = keras.layers.InputSpec(min_ndim=2)

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        d_in = input_shape[-1]
        if d_in is None:
            raise ValueError(f"input_shape={input_shape} must have a known last dimension")
        if len(input_shape) > 2 and isinstance(self.estimator, estimators.LocalReparameterization):
            raise ValueError(
                f"estimator='local_reparameterization' draws outputs one by one, but those of "
                f"input_shape={input_shape} share weights over positions; use 'flipout'"
            )
        self.create_weights((d_in, self.units), (self.units,))
        self.input_spec = keras.layers.InputSpec(min_ndim=2, axes={-1: d_in})
        self.built = True

    def linear(self, x: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
        return keras.ops.matmul(x, w)

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        return (*input_shape[:-1], self.units)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "units": self.units}

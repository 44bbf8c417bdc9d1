"""The base of all layers linear in their random weights, y = activation(x W + b)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tfbdl.arguments import boolean
from tfbdl.draws import handed_down
from tfbdl.identifiers import initializer, of_keras
from tfbdl.layers import estimators
from tfbdl.layers.base import BayesLayer


class BayesLinear(BayesLayer):
    """activation(linear(x, W) + b) with (W, b) ~ q, and KL(q || p) / num_data in the losses.

    A subclass says what `linear` is and calls `create_weights` in its `build`. The arguments are
    described where users meet them, in `BayesDense`.
    """

    def __init__(
        self,
        activation: str | Callable[[Any], Any] | None,
        use_bias: bool,
        *,
        estimator: str | dict[str, Any] | estimators.Estimator = "reparameterization",
        kernel_initializer: str | keras.initializers.Initializer = "glorot_uniform",
        bias_initializer: str | keras.initializers.Initializer = "zeros",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.activation = of_keras("activation", activation, keras.activations.get)
        self.use_bias = boolean("use_bias", use_bias)
        if not use_bias and self._given_bias != (None, None):
            raise ValueError("bias_prior and bias_posterior must be None: use_bias=False")
        self.estimator = estimators.get(estimator)
        for q in (self.posterior, self.bias_posterior):
            self.estimator.check(q)
        self.kernel_initializer = initializer("kernel_initializer", kernel_initializer)
        self.bias_initializer = initializer("bias_initializer", bias_initializer)
        self.supports_masking = True

    def create_weights(self, kernel_shape: tuple[int, ...], bias_shape: tuple[int, ...]) -> None:
        """Makes `self.kernel` and `self.bias`, the posteriors over the weights."""
        self.bias = None
        self.add_random_weight(
            "kernel", kernel_shape, self.kernel_initializer, self.prior, self.posterior
        )
        if self.use_bias:
            self.add_random_weight(
                "bias", bias_shape, self.bias_initializer, self.bias_prior, self.bias_posterior
            )

    def linear(self, x: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
        """The layer's linear map, without the bias; channels are the last axis of both."""
        raise NotImplementedError

    def call(
        self, inputs: tf.Tensor, training: bool = False, draw: tf.Tensor | None = None
    ) -> tf.Tensor:
        draw = handed_down(draw)
        return self.activation(self.pre_activation(inputs, training, draw))

    def pre_activation(self, x: tf.Tensor, training: bool, draw: tf.Tensor | None) -> tf.Tensor:
        """linear(x, W) + b with W and b sampled, drawn, or at their means."""
        if training and draw is None:
            self._check_may_be_called()
            y, kl = self.estimator(x, self.linear, self.kernel, self.bias, self.seed.of_pass())
        else:
            (w, *b), kl = self.weights_at(draw)
            y = self.linear(x, w) + b[0] if b else self.linear(x, w)
        self.add_kl(kl, training)
        return y

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "activation": keras.activations.serialize(self.activation),
            "estimator": keras.saving.serialize_keras_object(self.estimator),
            "use_bias": self.use_bias,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
        }

    def _check_may_be_called(self) -> None:
        if self.estimator.draws_outputs and self.seed.is_in_use():
            raise ValueError(
                f"estimator='local_reparameterization' draws outputs, and layer={self.name!r} is "
                "called twice in a forward pass, whose outputs share weights; use 'flipout'"
            )

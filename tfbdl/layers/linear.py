"""What all layers share that are linear in their random weights, y = activation(x W + b)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tfbdl import posteriors, priors, random
from tfbdl.complexity import Complexity
from tfbdl.layers import estimators
from tfbdl.sampling import accept_draws, make_draw


class BayesLinear(keras.layers.Layer):
    """activation(linear(x, W) + b) with (W, b) ~ q, and KL(q || p) / num_data in the losses.

    A subclass says what `linear` is and calls `create_weights` in its `build`. The arguments are
    described where users meet them, in `BayesDense`.
    """

    def __init__(
        self,
        activation: str | Callable[[Any], Any] | None = None,
        *,
        num_data: int,
        prior: float | str | dict | priors.Prior = 1.0,
        posterior: str | dict | posteriors.Posterior = "mean_field",
        estimator: str | dict | estimators.Estimator = "reparameterization",
        use_bias: bool = True,
        bias_prior: float | str | dict | priors.Prior | None = None,
        bias_posterior: str | dict | posteriors.Posterior | None = None,
        kernel_initializer: str | keras.initializers.Initializer = "glorot_uniform",
        bias_initializer: str | keras.initializers.Initializer = "zeros",
        seed: int | None = None,
        **kwargs: object,
    ) -> None:
        super().__init__(**kwargs)
        self.activation = keras.activations.get(activation)
        self.use_bias = use_bias
        self.prior = priors.get(prior)
        self.posterior = posteriors.get(posterior)
        self.bias_prior = self.prior if bias_prior is None else priors.get(bias_prior, "bias_prior")
        self.bias_posterior = (
            self.posterior
            if bias_posterior is None
            else posteriors.get(bias_posterior, "bias_posterior")
        )
        self.estimator = estimators.get(estimator)
        for q, p in ((self.posterior, self.prior), (self.bias_posterior, self.bias_prior)):
            self.estimator.check(q)
            q.check_prior(p)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.complexity = Complexity(num_data)
        self.seed = random.Seed(seed)
        self.supports_masking = True
        accept_draws(self)

    @property
    def num_data(self) -> int:
        """N, the number of training examples."""
        return self.complexity.num_data

    def create_weights(self, kernel_shape: tuple[int, ...], bias_shape: tuple[int, ...]) -> None:
        """Makes `self.kernel` and `self.bias`, the posteriors over the weights."""
        self.kernel = self.posterior.create(
            self, "kernel", kernel_shape, self.kernel_initializer, self.prior
        )
        self.bias = None
        if self.use_bias:
            self.bias = self.bias_posterior.create(
                self, "bias", bias_shape, self.bias_initializer, self.bias_prior
            )

    def linear(self, x: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
        """The layer's linear map, without the bias."""
        raise NotImplementedError

    def call(
        self, x: tf.Tensor, training: bool = False, draw: tf.Tensor | None = None
    ) -> tf.Tensor:
        if training and draw is None:
            y, kl = self.estimator(x, self.linear, self.kernel, self.bias, self.seed.next())
        else:
            y, kl = self._function(x, draw)
        self.complexity.add(kl, training, kl=kl)
        return self.activation(y)

    def _function(self, x: tf.Tensor, draw: tf.Tensor | None) -> tuple[tf.Tensor, tf.Tensor]:
        """The outputs of one drawn weight sample, or of the mean weights, and the KL."""
        key = self.seed.at(make_draw(0, 0) if draw is None else draw)

        def weight(q: posteriors.Posterior, stream: int) -> tuple[tf.Tensor, tf.Tensor]:
            stream_key = random.fold_in(key, stream)
            w = q.mean if draw is None else q.sample(stream_key)
            return tf.cast(w, self.compute_dtype), q.kl(stream_key)

        w, kl = weight(self.kernel, 0)
        y = self.linear(x, w)
        if self.bias is not None:
            b, bias_kl = weight(self.bias, 1)
            y, kl = y + b, kl + bias_kl
        return y, kl

    def get_config(self) -> dict:
        serialize = keras.saving.serialize_keras_object
        return {
            **super().get_config(),
            "activation": keras.activations.serialize(self.activation),
            "num_data": self.num_data,
            "prior": serialize(self.prior),
            "posterior": serialize(self.posterior),
            "estimator": serialize(self.estimator),
            "use_bias": self.use_bias,
            "bias_prior": serialize(self.bias_prior),
            "bias_posterior": serialize(self.bias_posterior),
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
            "seed": self.seed.seed,
        }

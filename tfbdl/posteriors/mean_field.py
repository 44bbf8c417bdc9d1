"""The mean-field normal posterior of Bayes by Backprop (Blundell et al. 2015, section 3.2)."""

from __future__ import annotations

import keras
import tensorflow as tf

from tfbdl import random
from tfbdl.elementary import log_of_softplus, softplus
from tfbdl.kl import normal_log_prob
from tfbdl.posteriors.location_scale import IndependentScales


@keras.saving.register_keras_serializable(package="tfbdl.posteriors")
class MeanFieldNormal(IndependentScales):
    """q(w) = N(mu, sigma^2) for each weight on its own, with sigma = softplus(rho).

    Args:
        rho_initializer: the start of rho. The default, uniform in [-3, -2] as in the slides, is a
            sigma between 0.05 and 0.13.
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.
    """

    independent_normal = True
    symmetric = True

    def build(self, shape: tuple[int, ...]) -> None:
        super().build(shape)
        self._compiled = tf.function(self._sample_and_kl, jit_compile=True)

    def sample(self, key: tf.Tensor) -> tf.Tensor:
        return self.mean + self.stddev * random.normal(key, self.mu.shape, self.mu.dtype)

    def log_prob(self, w: tf.Tensor) -> tf.Tensor:
        return normal_log_prob((w - self.mean) / self.stddev, self.log_stddev)

    def exact_kl(self) -> tf.Tensor | None:
        return self.prior.kl_from_normal(self.mean, self.stddev, self.log_stddev)

    def sample_and_log_prob(self, key: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        z = random.normal(key, self.mu.shape, self.mu.dtype)
        return self.mean + self.stddev * z, normal_log_prob(z, self.log_stddev)

    def sample_and_kl(self, key: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return self._sample_and_kl(self.mean, tf.convert_to_tensor(self.rho), key)

    def fused_sample_and_kl(self, key: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """A sample and its KL in one pass over the weights, which makes plain `fit` fast."""
        if not tf.inside_function() or self.prior.variables:
            return self.sample_and_kl(key)
        return self._compiled(self.mean, tf.convert_to_tensor(self.rho), key)

    def _sample_and_kl(
        self, mu: tf.Tensor, rho: tf.Tensor, key: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        sigma = softplus(rho)
        log_sigma = log_of_softplus(rho, sigma)
        z = random.normal(key, mu.shape, mu.dtype)
        w = mu + sigma * z
        return w, self.kl_at(
            lambda: self.prior.kl_from_normal(mu, sigma, log_sigma),
            lambda: (w, normal_log_prob(z, log_sigma)),
        )

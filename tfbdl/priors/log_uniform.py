"""The log-uniform prior of variational dropout, p(|w|) proportional to 1 / |w|.

The KL from N(mu, sigma^2) depends on alpha = sigma^2 / mu^2 alone and has no closed form; two
published approximations are here, each up to the improper prior's additive constant.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tfbdl.arguments import option
from tfbdl.inherited_arguments import LayerArguments, Unpack
from tfbdl.priors.base import Prior


def log_alpha(mu: tf.Tensor, sigma: tf.Tensor) -> tf.Tensor:
    """log(sigma^2 / mu^2) per weight, clipped to [-8, 8] as by Molchanov et al.; finite at 0."""
    tiny = tf.constant(1e-12, mu.dtype)
    ratio = 2.0 * tf.math.log(sigma + tiny) - tf.math.log(tf.square(mu) + tf.square(tiny))
    return tf.clip_by_value(ratio, -8.0, 8.0)


def kingma(log_alpha: tf.Tensor) -> tf.Tensor:
    """-KL ~ 0.5 log a + 1.16145124 a - 1.50204118 a^2 + 0.58629921 a^3, for alpha <= 1.

    Kingma, Salimans, Welling 2015, "Variational dropout and the local reparameterization trick",
    appendix C. Beyond alpha = 1 the fit does not hold, so alpha is clipped there as in the paper.
    """
    a = tf.exp(tf.minimum(log_alpha, 0.0))
    polynomial = 1.16145124 * a - 1.50204118 * a**2 + 0.58629921 * a**3
    return -(0.5 * tf.minimum(log_alpha, 0.0) + polynomial)


def molchanov(log_alpha: tf.Tensor) -> tf.Tensor:
    """-KL ~ k1 sigmoid(k2 + k3 log a) - 0.5 log(1 + 1/a) - k1, for every alpha.

    Molchanov, Ashukha, Vetrov 2017, "Variational dropout sparsifies deep neural networks",
    equation 14. It tends to 0 as alpha grows, which is what prunes.
    """
    k1, k2, k3 = 0.63576, 1.87320, 1.48695
    return k1 * tf.sigmoid(-(k2 + k3 * log_alpha)) + 0.5 * tf.math.softplus(-log_alpha)


_APPROXIMATIONS = {"kingma": kingma, "molchanov": molchanov}


@keras.saving.register_keras_serializable(package="tfbdl.priors")
class LogUniform(Prior):
    """p(|w|) proportional to 1 / |w|, improper.

    Args:
        approximation: `"molchanov"` (any alpha; prunes) or `"kingma"` (alpha <= 1).
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.

    Raises:
        ValueError: if `approximation` is neither.
    """

    def __init__(self, approximation: str = "molchanov", **kwargs: Unpack[LayerArguments]) -> None:
        super().__init__(**kwargs)
        self.approximation = option("approximation", approximation, _APPROXIMATIONS)
        self.built = True

    def log_prob(self, w: tf.Tensor) -> tf.Tensor:
        return -tf.math.log(tf.abs(w))

    def sample(self, key: tf.Tensor, shape: tuple[int, ...]) -> tf.Tensor:
        raise ValueError("prior=LogUniform() is improper: nothing can be drawn from it")

    def kl_from_normal(
        self, mu: tf.Tensor, sigma: tf.Tensor, log_sigma: tf.Tensor | None = None
    ) -> tf.Tensor:
        return self.kl_from_log_alpha(log_alpha(mu, sigma))

    def kl_from_log_alpha(self, log_alpha: tf.Tensor) -> tf.Tensor:
        """The same KL from log(sigma^2 / mu^2)."""
        return tf.reduce_sum(_APPROXIMATIONS[self.approximation](log_alpha))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "approximation": self.approximation}

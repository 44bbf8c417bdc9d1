"""What a prior over one weight tensor answers, and how a user names one."""

from __future__ import annotations

import keras
import tensorflow as tf


class Prior(keras.layers.Layer):
    """p(w) over a weight tensor.

    A prior is a Keras layer so that its hyper-parameters are variables of the model: saved, and
    learned where they are trainable. A new family defines `log_prob` and `sample`; it may define
    `kl_from_normal` where a closed form exists.
    """

    def log_prob(self, w: tf.Tensor) -> tf.Tensor:
        """Log density of each element, in nats, of the shape of `w`."""
        raise NotImplementedError

    def sample(self, key: tf.Tensor, shape: tuple[int, ...]) -> tf.Tensor:
        """One weight tensor of `shape`, from the noise of `key` (see `tfbdl.random`)."""
        raise NotImplementedError

    def kl_from_normal(self, mu: tf.Tensor, sigma: tf.Tensor) -> tf.Tensor | None:
        """KL(N(mu, sigma^2) || p) summed over the tensor, in nats; None where none is known."""
        return None

"""Monte-Carlo bounds on log p(x) of a variational autoencoder."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import keras
import numpy as np
import tensorflow as tf

from tfbdl import random
from tfbdl.batches import padded_size
from tfbdl.models.latent import Latent, kl_to_standard_normal

BATCH = 1000
"""Examples at a time."""


class ELBOTerms(NamedTuple):
    """The two parts of the ELBO at one z per example, each of shape (B,), in nats."""

    log_likelihood: tf.Tensor
    kl: tf.Tensor


class Decodes(Protocol):
    """The parts of a VAE that its bounds are made of."""

    def target(self, x: tf.Tensor, key: tf.Tensor) -> tf.Tensor:
        """What the decoder is to give, from x, shape (B, ...)."""
        ...

    def encode(self, x: tf.Tensor) -> Latent:
        """q(z | x)."""
        ...

    def log_prob(self, x: tf.Tensor, z: tf.Tensor) -> tf.Tensor:
        """Log p(x | z), shape (B,), of a target x."""
        ...


def of_batch(
    vae: Decodes, x: tf.Tensor, key: tf.Tensor, num_samples: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """ELBO and importance-weighted bound of each example of a batch, each of shape (B,).

    Sums over many samples are held in float64.
    """
    x = vae.target(x, random.fold_in(key, 0))
    q = vae.encode(x)
    sum_ll = tf.zeros(tf.shape(x)[:1], tf.float64)
    log_sum = sum_ll - np.inf
    s = tf.constant(0)
    while s < num_samples:  # a tf.range would be compiled anew for each num_samples
        eps = random.normal(random.fold_in(key, s + 1), tf.shape(q.mu))
        z = q.mu + q.sigma * eps
        ll = vae.log_prob(x, z)
        log_ratio = tf.reduce_sum(
            tf.math.log(q.sigma) + 0.5 * (tf.square(eps) - tf.square(z)), axis=-1
        )
        sum_ll += tf.cast(ll, tf.float64)
        log_sum = keras.ops.logaddexp(log_sum, tf.cast(ll + log_ratio, tf.float64))
        s += 1
    count = tf.cast(num_samples, tf.float64)
    elbo = sum_ll / count - tf.cast(kl_to_standard_normal(q), tf.float64)
    bound = log_sum - tf.math.log(count)
    return tf.cast(elbo, tf.float32), tf.cast(bound, tf.float32)


def in_batches(
    bounds: Callable[..., tuple[tf.Tensor, ...]], x: np.ndarray, key: tf.Tensor, num_samples: int
) -> tuple[np.ndarray, ...]:
    """What a compiled `of_batch` says of all examples, in batches of few sizes."""
    number = tf.constant(num_samples)
    parts = []
    for i in range(0, len(x), BATCH):
        some = x[i : i + BATCH]
        full = np.resize(some, (min(padded_size(len(some)), BATCH), *some.shape[1:]))
        of_some = bounds(tf.constant(full, tf.float32), random.fold_in(key, i), number)
        parts.append([bound[: len(some)] for bound in of_some])
    return tuple(np.concatenate(of_bound) for of_bound in zip(*parts, strict=True))

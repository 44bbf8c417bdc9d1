"""KL(q || p) of a weight tensor: exact where the prior knows it, else a one-sample estimate."""

from __future__ import annotations

import math
from collections.abc import Callable

import tensorflow as tf

from tfbdl.priors import Prior

HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


def kl_from_normal(
    mu: tf.Tensor,
    sigma: tf.Tensor,
    prior: Prior,
    sample: Callable[[], tf.Tensor],
) -> tf.Tensor:
    """KL(N(mu, sigma^2) || prior), summed over the tensor, in nats.

    Args:
        mu: means.
        sigma: standard deviations, of the shape of `mu`.
        prior: p(w).
        sample: gives the w at which log q(w) - log p(w) is taken where no closed form is known
            (Blundell et al. 2015, equation 2).
    """
    exact = prior.kl_from_normal(mu, sigma)
    if exact is not None:
        return exact
    w = sample()
    log_q = -0.5 * tf.square((w - mu) / sigma) - tf.math.log(sigma) - HALF_LOG_2PI
    return tf.reduce_sum(log_q - prior.log_prob(w))

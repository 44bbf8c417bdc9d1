"""KL(q || p) of a weight tensor where no closed form is known or wanted: estimated at a sample."""

from __future__ import annotations

import tensorflow as tf

from tfbdl.priors import Prior
from tfbdl.priors.base import HALF_LOG_2PI


def sampled_kl(w: tf.Tensor, log_q: tf.Tensor, prior: Prior) -> tf.Tensor:
    """Log q(w) - log p(w) at a w ~ q, summed over the tensor, in nats.

    Blundell et al. 2015, equation 2.

    Args:
        w: the sample.
        log_q: log q(w), of each element or of all together.
        prior: p(w).
    """
    return tf.reduce_sum(log_q) - tf.reduce_sum(prior.log_prob(w))


def normal_log_prob(z: tf.Tensor, log_sigma: tf.Tensor) -> tf.Tensor:
    """Log density of N(mu, sigma^2) at mu + sigma z, elementwise, in nats."""
    return -0.5 * tf.square(z) - log_sigma - HALF_LOG_2PI

"""KL(q || p) of a weight tensor: exact where it is known, else a one-sample estimate."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from tfbdl.elementary import log
from tfbdl.priors import Prior
from tfbdl.priors.base import HALF_LOG_2PI


def kl_divergence(
    exact: tf.Tensor | None,
    log_q: Callable[[tf.Tensor], tf.Tensor],
    prior: Prior,
    sample: Callable[[], tf.Tensor],
) -> tf.Tensor:
    """KL(q || prior), summed over the tensor, in nats.

    Args:
        exact: the closed form, or None where none is known or wanted.
        log_q: log q(w), of each element or of all together.
        prior: p(w).
        sample: gives the w ~ q at which log q(w) - log p(w) is taken without a closed form
            (Blundell et al. 2015, equation 2).
    """
    if exact is not None:
        return exact
    w = sample()
    return tf.reduce_sum(log_q(w)) - tf.reduce_sum(prior.log_prob(w))


def normal_log_prob(w: tf.Tensor, mu: tf.Tensor, sigma: tf.Tensor) -> tf.Tensor:
    """Log density of N(mu, sigma^2) at each element, in nats."""
    return -0.5 * tf.square((w - mu) / sigma) - log(sigma) - HALF_LOG_2PI

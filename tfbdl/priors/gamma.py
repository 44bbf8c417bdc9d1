"""Gamma distributed noise, from normal and uniform noise alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

import tensorflow as tf

from tfbdl import random

_PROPOSALS = 8


def log_gamma(key: tf.Tensor, concentration: float, shape: Sequence[int]) -> tf.Tensor:
    """Log of Gamma(concentration, 1) noise: logarithms of small concentrations do not underflow.

    Marsaglia and Tsang 2000, "A simple method for generating gamma variables", for Gamma(a + 1),
    from which section 6 makes Gamma(a). Each of the proposals is accepted with probability 0.95 or
    more, so that one is but for 1 sample in 10^10. Rounding decides about one in 10^5, which
    may then differ with and without XLA.
    """
    d = concentration + 2.0 / 3.0
    proposals = (_PROPOSALS, *shape)
    x = random.normal(random.fold_in(key, 0), proposals)
    u = random.uniform(random.fold_in(key, 1), proposals)
    root = 1.0 + x / math.sqrt(9.0 * d)
    log_v = 3.0 * tf.math.log(tf.maximum(root, 1e-6))
    bound = 0.5 * tf.square(x) + d * (log_v - tf.math.expm1(log_v))
    accepted = (root > 0.0) & (tf.math.log(u) < bound)
    chosen = log_v[-1]
    for i in reversed(range(_PROPOSALS - 1)):
        chosen = tf.where(accepted[i], log_v[i], chosen)
    boost = tf.math.log(random.uniform(random.fold_in(key, 2), shape)) / concentration
    return math.log(d) + chosen + boost

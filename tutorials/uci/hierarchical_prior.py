"""Normal weights whose scales are unknown, with the scales integrated out, for Markov chains.

    w | s ~ N(0, s^2 I_n),   s^2 ~ InverseGamma(a, b)      (Neal 1996, section 1.2.3)

    log p(w) = log Gamma(a + n/2) - log Gamma(a) - n/2 log(2 pi b) - (a + n/2) log(1 + |w|^2 / 2b),

a multivariate t. Chains move in w alone, where there is no funnel, and each group of weights has
the scale that the data ask for: nothing is left to choose on a grid.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import keras
import tensorflow as tf

from tfbdl.flat_model import FlatModel
from tfbdl.layers import LearnedScale
from tfbdl.priors import GammaScale

SHAPE = 1.0
"""a; the scale of a group is within a factor of ten of sqrt(b) with probability 0.99."""


def log_prob(w: tf.Tensor, shape: float, rate: float) -> tf.Tensor:
    """Log p(w) in nats of groups of weights, shape (..., n): shape (...).

    Args:
        w: the weights; those along the last axis share a scale.
        shape: a.
        rate: b.
    """
    n = w.shape[-1]
    constant = (
        math.lgamma(shape + 0.5 * n) - math.lgamma(shape) - 0.5 * n * math.log(2 * math.pi * rate)
    )
    squares = tf.reduce_sum(w**2, axis=-1)
    return constant - (shape + 0.5 * n) * tf.math.log1p(squares / (2.0 * rate))


def prior_of(
    model: keras.Model, *, scale_of_input: bool = True
) -> Callable[[tf.Tensor], tf.Tensor]:
    """Log p(theta), shape (D,) to (), of dense layers and perhaps a `LearnedScale`, in nats.

    The weights of an input share a scale: automatic relevance determination (MacKay 1994). So do
    the biases of a layer, and the weights of the output, and b is 1 / fan-in. Without
    `scale_of_input` the weights of all inputs of a layer share one.
    """
    flat = FlatModel(model)
    scales = {id(part.raw_scale) for part in model.layers if isinstance(part, LearnedScale)}
    is_scale = [id(variable) in scales for variable in model.trainable_variables]
    noise = GammaScale()
    last = max(i for i, shape in enumerate(flat.shapes.values()) if len(shape) == 2)

    def log_prior(theta: tf.Tensor) -> tf.Tensor:
        terms = []
        for i, w in enumerate(flat.unflatten(theta)):
            if is_scale[i]:
                terms.append(noise.log_prob(w))
            elif w.shape.rank == 2:
                one_group = i == last or not scale_of_input
                groups = tf.reshape(w, (1, -1)) if one_group else w
                terms.append(log_prob(groups, SHAPE, 1.0 / w.shape[0]))
            else:
                terms.append(log_prob(w, SHAPE, 1.0))
        return tf.add_n([tf.reduce_sum(term) for term in terms])

    return log_prior

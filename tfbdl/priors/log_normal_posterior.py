"""The posterior of scales, q(log s) = N(m, v^2)."""

from __future__ import annotations

import math

import keras
import tensorflow as tf

from tfbdl.elementary import log_of_softplus, softplus
from tfbdl.priors.base import HALF_LOG_2PI, Prior
from tfbdl.priors.groups import Groups
from tfbdl.priors.hyperpriors import Hyperprior


class LogNormalPosterior(keras.layers.Layer):
    """q(log s) = N(m, v^2), v = softplus(rho), for the scale s of each group of one weight.

    m starts at the mode of p(log s), or at log 1 where that is higher: under a narrow prior weights
    are pulled to zero before they have seen the data, and the scales follow them. v starts near
    where it ends: a group of n weights adds 2 n to the curvature of log p(log s), whatever they
    are.

    Args:
        prior: the prior that has these scales.
        name: the name of the scale, for the layer.
        groups: the groups of weights that share one s.
        weight_shape: the shape of the weight.
        hyperprior: p(s).
    """

    def __init__(
        self,
        prior: Prior,
        name: str,
        groups: Groups,
        weight_shape: tuple[int, ...],
        hyperprior: Hyperprior,
    ) -> None:
        super().__init__(name=name, trainable=prior.trainable, dtype=prior.dtype_policy)
        v = (2.0 * groups.size(weight_shape) + hyperprior.curvature) ** -0.5
        self.hyperprior = hyperprior
        self.m, self.rho = (
            self.add_weight(
                shape=groups.shape(weight_shape),
                initializer=keras.initializers.Constant(start),
                autocast=False,
                name=parameter,
            )
            for parameter, start in (
                ("m", max(hyperprior.mode, 0.0)),
                ("rho", math.log(math.expm1(v))),
            )
        )
        self.built = True

    @property
    def mean(self) -> tf.Tensor:
        """E[log s] of each group."""
        return tf.convert_to_tensor(self.m)

    @property
    def stddev(self) -> tf.Tensor:
        """Standard deviation of log s of each group."""
        return softplus(tf.convert_to_tensor(self.rho))

    def kl(self) -> tf.Tensor:
        """KL(q(s) || p(s)) summed over the groups, in nats."""
        m, v = self.mean, self.stddev
        entropy = log_of_softplus(tf.convert_to_tensor(self.rho), v) + (0.5 + HALF_LOG_2PI)
        return -tf.reduce_sum(entropy + self.hyperprior.expected_log_prob(m, v))

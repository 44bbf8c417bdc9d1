"""The posterior over binary weights, relaxed while it trains."""

from __future__ import annotations

import math
from typing import Any

import keras
import tensorflow as tf

from tfbdl import random
from tfbdl.arguments import positive
from tfbdl.inherited_arguments import LayerArguments, Unpack
from tfbdl.posteriors.base import Posterior
from tfbdl.priors import Bernoulli, Prior
from tfbdl.priors.bernoulli import log_prob_at


@keras.saving.register_keras_serializable(package="tfbdl.posteriors")
class RelaxedBernoulli(Posterior):
    """q(w = high) = sigmoid(logit), for each weight on its own, over the values of the prior.

    Mean, standard deviation, drawn functions, density and KL are those of this discrete law. It has
    no gradient through its samples, so in training w = low + (high - low) r with the relaxed
    r = sigmoid((logit + logistic noise) / temperature) of Maddison et al. 2017, "The Concrete
    distribution", and Jang et al. 2017, "Categorical reparameterization with Gumbel-softmax". The
    expected likelihood is then that of the relaxed weights, and the loss is then no bound on the
    evidence. Rounding r gives the discrete w of the same noise.

    `kernel_initializer` of the layer says where the means start.

    Args:
        temperature: the temperature of the relaxation, > 0. Small ones are near the discrete law,
            and their gradients vary more. The default is that of Maddison et al. for binary
            variables; Jang et al. lower it to 0.5 while they train. Up to 1 the density has no mode
            between the values (Maddison et al., proposition 1d).
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.

    Raises:
        ValueError: if `temperature` is not positive, the prior is not `Bernoulli`, or the KL is to
            be sampled, which gives no gradient.
    """

    sampled_kl = False

    def __init__(self, temperature: float = 2.0 / 3.0, **kwargs: Unpack[LayerArguments]) -> None:
        super().__init__(**kwargs)
        self.temperature = positive("temperature", temperature, "> 0")

    def check_prior(self, prior: Prior) -> None:
        if not isinstance(prior, Bernoulli):
            raise ValueError(
                f"prior={type(prior).__name__} is over all reals and posterior="
                f"{type(self).__name__} over two values; use prior='bernoulli'"
            )

    def build(self, shape: tuple[int, ...]) -> None:
        self.low, self.high = self.prior.values
        self.raw_logit = self.add_parameter("logit", shape, self._logit_of_mean)
        self.built = True

    def _logit_of_mean(self, shape: tuple[int, ...], dtype: str) -> tf.Tensor:
        """The logits of the owner's means, kept 1 % of the range away from its ends."""
        fraction = (self.initializer(shape, dtype) - self.low) / (self.high - self.low)
        fraction = tf.clip_by_value(fraction, 0.01, 0.99)
        return tf.math.log(fraction) - tf.math.log1p(-fraction)

    @property
    def logit(self) -> tf.Tensor:
        """Log odds of the high value."""
        return tf.convert_to_tensor(self.raw_logit)

    @property
    def prob(self) -> tf.Tensor:
        """q(w = high)."""
        return tf.sigmoid(self.logit)

    @property
    def mean(self) -> tf.Tensor:
        return self.low + (self.high - self.low) * self.prob

    @property
    def stddev(self) -> tf.Tensor:
        return (self.high - self.low) * tf.sqrt(self.prob * tf.sigmoid(-self.logit))

    def sample(self, key: tf.Tensor) -> tf.Tensor:
        """One w of the two values, without a gradient."""
        noise = random.logistic(key, self.logit.shape, self.logit.dtype)
        high, low = (tf.constant(value, self.logit.dtype) for value in (self.high, self.low))
        return tf.where(self.logit + noise > 0, high, low)

    def log_prob(self, w: tf.Tensor) -> tf.Tensor:
        log_probs = tf.math.log_sigmoid(-self.logit), tf.math.log_sigmoid(self.logit)
        return log_prob_at(w, (self.low, self.high), log_probs)

    def exact_kl(self) -> tf.Tensor:
        logit, prob = self.logit, self.prior.prob
        high = self.prob * (tf.math.log_sigmoid(logit) - math.log(prob))
        low = tf.sigmoid(-logit) * (tf.math.log_sigmoid(-logit) - math.log1p(-prob))
        return tf.reduce_sum(high + low)

    def sample_and_kl(self, key: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The relaxed w, differentiable in the logit, and the KL of the discrete law."""
        r = random.relaxed_bernoulli(key, self.logit, self.temperature, self.logit.shape)
        return self.low + (self.high - self.low) * r, self.exact_kl()

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "temperature": self.temperature}

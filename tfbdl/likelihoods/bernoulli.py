"""Yes or no: p(y | outputs) over {0, 1}, elementwise."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tfbdl.arguments import boolean
from tfbdl.likelihoods.base import (
    Likelihood,
    check_probabilities,
    check_range,
    match,
    refuse_activation,
    sum_over_example,
    wide,
)
from tfbdl.probability import tfp


@keras.saving.register_keras_serializable(package="tfbdl.likelihoods")
class Bernoulli(Likelihood):
    """P(y = 1) = sigmoid(outputs), for each element of outputs of shape (B, ...).

    Grey values between 0 and 1 are taken, as the slides do, but y log p + (1 - y) log(1 - p) is no
    log density then (it does not integrate to 1): only a score in which equal models compare.
    `ContinuousBernoulli` is the density.

    Args:
        from_logits: whether the outputs are logits (the default) or probabilities.

    Raises:
        ValueError: if `from_logits` is no truth value.
    """

    is_discrete = True

    def __init__(self, from_logits: bool = True, name: str = "bernoulli", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self.from_logits = boolean("from_logits", from_logits)

    def distribution(self, outputs: tf.Tensor) -> tfp.distributions.Distribution:
        outputs = wide(outputs)
        if self.from_logits:
            refuse_activation(outputs, "Sigmoid")
            return tfp.distributions.Bernoulli(logits=outputs, dtype=outputs.dtype)
        return tfp.distributions.Bernoulli(probs=outputs, dtype=outputs.dtype)

    def log_prob_of_elements(self, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        if not self.from_logits:
            return super().log_prob_of_elements(y, outputs)
        refuse_activation(outputs, "Sigmoid")
        return -tf.nn.sigmoid_cross_entropy_with_logits(match(y, outputs.shape), outputs)

    def check(self, outputs: tf.Tensor) -> None:
        if not self.from_logits:
            check_probabilities(wide(outputs))

    def check_targets(self, y: Any, outputs: tf.Tensor) -> None:
        super().check_targets(y, outputs)
        check_range(y, 0, 1)

    def entropy_of_mean(self, mean: tf.Tensor) -> tf.Tensor:
        other = 1.0 - mean
        return sum_over_example(-tf.math.xlogy(mean, mean) - tf.math.xlogy(other, other))

    def get_config(self) -> dict:
        return {**super().get_config(), "from_logits": self.from_logits}

"""Yes or no: p(y | outputs) over {0, 1}, elementwise."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from tensorflow_probability import distributions as tfd

from tfbdl.likelihoods.base import Likelihood, check_probabilities, sum_over_example, wide


@keras.saving.register_keras_serializable(package="tfbdl.likelihoods")
class Bernoulli(Likelihood):
    """P(y = 1) = sigmoid(outputs), for each element of outputs of shape (B, ...).

    Args:
        from_logits: whether the outputs are logits (the default) or probabilities.
    """

    is_discrete = True

    def __init__(self, from_logits: bool = True, name: str = "bernoulli", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self.from_logits = from_logits

    def distribution(self, outputs: tf.Tensor) -> tfd.Distribution:
        outputs = wide(outputs)
        if self.from_logits:
            return tfd.Bernoulli(logits=outputs, dtype=outputs.dtype)
        return tfd.Bernoulli(probs=outputs, dtype=outputs.dtype)

    def check(self, outputs: tf.Tensor) -> None:
        if not self.from_logits:
            check_probabilities(wide(outputs), sums_to_one=False)

    def entropy_of_mean(self, mean: tf.Tensor) -> tf.Tensor:
        other = 1.0 - mean
        return sum_over_example(-tf.math.xlogy(mean, mean) - tf.math.xlogy(other, other))

    def get_config(self) -> dict:
        return {**super().get_config(), "from_logits": self.from_logits}

"""Yes or no: p(y | outputs) over {0, 1}, elementwise."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tfbdl.arguments import boolean
from tfbdl.inherited_arguments import LossArguments, Unpack
from tfbdl.likelihoods.base import Likelihood, expected_in_natural_form
from tfbdl.likelihoods.positions import sum_over_position
from tfbdl.likelihoods.probabilities import (
    check_probabilities,
    log_of,
    log_of_rest,
    logits_behind,
    refuse_activation,
)
from tfbdl.likelihoods.targets import check_range, match, wide
from tfbdl.probability import tfp


@keras.saving.register_keras_serializable(package="tfbdl.likelihoods")
class Bernoulli(Likelihood):
    """P(y = 1) = sigmoid(outputs), for each element of outputs of shape (B, ...).

    Grey values between 0 and 1 are taken, as the slides do, but y log p + (1 - y) log(1 - p) is no
    log density then, as it does not integrate to 1: it is a score that compares models under this
    same loss only. `ContinuousBernoulli` is a density.

    Where a graph, such as that of `fit`, takes probabilities from a sigmoid, the logits of that
    sigmoid are used, as in Keras' own loss: the gradient y - p is right where p has been rounded to
    0 or 1. Elsewhere what happens at probability 0 costs 87 nats in float32 (708 in float64), with
    a finite gradient towards it. Outside [0, 1] the log probability is NaN.

    Args:
        from_logits: whether the outputs are logits (the default) or probabilities.
        **kwargs: `reduction` and `dtype`; like `name` as in `keras.losses.Loss`.

    Raises:
        ValueError: if `from_logits` is no truth value.
    """

    is_discrete = True

    def __init__(
        self, from_logits: bool = True, name: str = "bernoulli", **kwargs: Unpack[LossArguments]
    ) -> None:
        super().__init__(name=name, **kwargs)
        self.from_logits = boolean("from_logits", from_logits)

    def distribution(self, outputs: tf.Tensor) -> tfp.distributions.Distribution:
        outputs = wide(outputs)
        if self.from_logits:
            refuse_activation(outputs, "Sigmoid")
            return tfp.distributions.Bernoulli(logits=outputs, dtype=outputs.dtype)
        return tfp.distributions.Bernoulli(probs=outputs, dtype=outputs.dtype)

    def log_prob_of_elements(self, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        y, logits = match(y, outputs.shape), outputs
        if self.from_logits:
            refuse_activation(outputs, "Sigmoid")
        else:
            logits = logits_behind(outputs, "Sigmoid")
        if logits is None:
            return y * log_of(outputs) + (1.0 - y) * log_of_rest(outputs)
        return -tf.nn.sigmoid_cross_entropy_with_logits(y, tf.cast(logits, y.dtype))

    @property
    def has_expectation(self) -> bool:
        return self.from_logits

    def expected_log_prob(self, y: tf.Tensor, outputs: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
        return expected_in_natural_form(self, y, outputs, variance)

    def mean(self, outputs: tf.Tensor) -> tf.Tensor:
        return self._both(outputs)[1]

    def variance(self, outputs: tf.Tensor) -> tf.Tensor:
        q, p = self._both(outputs)
        return p * q

    def entropy(self, outputs: tf.Tensor) -> tf.Tensor:
        if not self.from_logits:
            return self.entropy_of_mean(outputs)
        logits, (q, p) = wide(outputs), self._both(outputs)
        return sum_over_position(q * tf.math.softplus(logits) + p * tf.math.softplus(-logits))

    def cdf(self, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        q, _ = self._both(outputs)
        y = tf.cast(y, q.dtype)
        return tf.where(y < 0, tf.zeros_like(q), tf.where(y < 1, q, tf.ones_like(q)))

    def _both(self, outputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The probabilities of 0 and of 1."""
        outputs = wide(outputs)
        if self.from_logits:
            refuse_activation(outputs, "Sigmoid")
            return tf.sigmoid(-outputs), tf.sigmoid(outputs)
        return 1.0 - outputs, outputs

    def check(self, outputs: tf.Tensor) -> None:
        if not self.from_logits:
            check_probabilities(wide(outputs))

    def check_targets(self, y: Any, outputs: tf.Tensor) -> None:
        super().check_targets(y, outputs)
        check_range(y, 0, 1)

    def entropy_of_mean(self, mean: tf.Tensor) -> tf.Tensor:
        p = tf.clip_by_value(wide(mean), 0.0, 1.0)
        return sum_over_position(-p * log_of(p) - (1.0 - p) * log_of_rest(p))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "from_logits": self.from_logits}

"""The expectation of a log likelihood over functions that are normal at each x."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tfbdl.arguments import shown
from tfbdl.inherited_arguments import LossArguments, Unpack
from tfbdl.keras_private import keras_mask
from tfbdl.likelihoods.base import Likelihood
from tfbdl.likelihoods.choice import LikelihoodLike, get
from tfbdl.likelihoods.positions import with_mask
from tfbdl.likelihoods.targets import wide
from tfbdl.probability import tfp


@keras.saving.register_keras_serializable(package="tfbdl.likelihoods")
class Expected(Likelihood):
    """The loss -E[log p(y | f)] over f ~ N(mean, variance): under outputs (means, variances).

    The first columns are what `likelihood` takes, with E[f] for f, and the last ones are Var[f], as
    `tfbdl.layers.VariationalLastLayer` gives them. The expectation is exact for `Normal`,
    `LogNormal` and `Poisson`; for `Categorical` and `Bernoulli` it is the lower bound that has
    log sum_c exp(mean_c + variance_c / 2) in the place of E[log sum_c exp(f_c)] (Jensen; Harrison
    et al. 2024, section 3.2). Where the variance is 0, as in drawn functions, it is log p(y | f).

    Args:
        likelihood: p(y | f), as `get` takes it: `Normal`, `LogNormal` or `Poisson`, or
            `Categorical` or `Bernoulli` of logits.
        **kwargs: `reduction` and `dtype`; like `name` as in `keras.losses.Loss`.

    Raises:
        ValueError: if `likelihood` is another.
    """

    def __init__(
        self, likelihood: LikelihoodLike, name: str = "expected", **kwargs: Unpack[LossArguments]
    ) -> None:
        super().__init__(name=name, **kwargs)
        self.likelihood = get(likelihood)
        if not self.likelihood.has_expectation:
            raise ValueError(
                f"likelihood={shown(likelihood)} must be Normal(), LogNormal(), Poisson(), or "
                "Categorical() or Bernoulli() of logits, whose expectation is known"
            )
        self.is_discrete = self.likelihood.is_discrete

    @property
    def has_entropy(self) -> bool:
        return self.likelihood.has_entropy

    @property
    def outputs_hold(self) -> str | None:
        return "means and variances"

    def log_prob(self, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """E[log p(y | f)] of each example or its lower bound, shape (B,), in nats."""
        mean, variance = self._parts(outputs)
        return self.likelihood.expected_log_prob(y, mean, variance)

    def distribution(self, outputs: tf.Tensor) -> tfp.distributions.Distribution:
        return self.likelihood.distribution(self._parts(outputs)[0])

    def mean(self, outputs: tf.Tensor) -> tf.Tensor:
        return self.likelihood.mean(self._parts(outputs)[0])

    def variance(self, outputs: tf.Tensor) -> tf.Tensor:
        return self.likelihood.variance(self._parts(outputs)[0])

    def entropy(self, outputs: tf.Tensor) -> tf.Tensor:
        return self.likelihood.entropy(self._parts(outputs)[0])

    def cdf(self, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        return self.likelihood.cdf(y, self._parts(outputs)[0])

    def check(self, outputs: tf.Tensor) -> None:
        self.likelihood.check(self._parts(outputs)[0])

    def check_targets(self, y: Any, outputs: tf.Tensor) -> None:
        self.likelihood.check_targets(y, self._parts(outputs)[0])

    def entropy_of_mean(self, mean: tf.Tensor) -> tf.Tensor | None:
        return self.likelihood.entropy_of_mean(mean)

    def _parts(self, outputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """What the likelihood takes, and the variances.

        Raises:
            ValueError: if the columns are not as many of each.
        """
        outputs = wide(outputs)
        kinds = 1 + self.likelihood.outputs_per_function
        if outputs.shape[-1] is None or outputs.shape[-1] % kinds:
            raise ValueError(
                f"outputs has shape {tuple(outputs.shape)}; {type(self).__name__} needs means and "
                f"as many variances, {kinds} columns for each f; end the network in "
                "VariationalLastLayer"
            )
        variances = outputs.shape[-1] // kinds
        mean = with_mask(outputs[..., :-variances], keras_mask(outputs))
        return mean, outputs[..., -variances:]

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "likelihood": keras.saving.serialize_keras_object(self.likelihood),
        }

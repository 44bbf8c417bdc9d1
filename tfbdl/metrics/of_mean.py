"""Any metric, of the mean that a likelihood predicts."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tfbdl import likelihoods
from tfbdl.keras_private import keras_mask
from tfbdl.likelihoods import LikelihoodLike
from tfbdl.likelihoods.positions import with_mask
from tfbdl.likelihoods.targets import aligned
from tfbdl.metrics.of_metric import OfMetric


@keras.saving.register_keras_serializable(package="tfbdl")
class OfMean(OfMetric):
    """A metric that compares y with the mean that `likelihood` makes of the model's outputs.

    What a network gives need not be what it predicts: under `Normal("predicted")` half of the
    columns are raw scales, under `Poisson` the outputs are log rates, under `Categorical()` logits.
    This metric passes on the means of y, which are E[y], rates, and class probabilities:

        likelihood = tfbdl.likelihoods.Normal("predicted")
        rmse = tfbdl.metrics.OfMean(keras.metrics.RootMeanSquaredError(), likelihood)
        model.compile("adam", likelihood, metrics=[rmse])

    y of shape (N,) stands for (N, 1). Sample weights count where the metric counts them.

    Args:
        metric: a metric of y and its mean, such as `keras.metrics.RootMeanSquaredError()`; where
            there are classes, one of probabilities.
        likelihood: p(y | f(x)), as `tfbdl.likelihoods.get` takes it.
        name: the name in logs; by default that of `metric`.

    Raises:
        ValueError: if `metric` is no metric, or one of logits, or `likelihood` none.
    """

    def __init__(
        self, metric: keras.metrics.Metric, likelihood: LikelihoodLike, name: str | None = None
    ) -> None:
        super().__init__(metric, name, "keras.metrics.RootMeanSquaredError()")
        if metric.get_config().get("from_logits"):
            raise ValueError(
                f"metric={type(metric).__name__}(from_logits=True) takes logits, and the mean of "
                "classes is their probabilities; leave from_logits out"
            )
        self.likelihood = likelihoods.get(likelihood)
        if isinstance(self.likelihood, likelihoods.Joint):
            raise ValueError(
                f"likelihood={self.likelihood} is of several outputs; give that of the one output "
                "whose metric this is"
            )

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Adds a batch.

        Args:
            y_true: targets, as the likelihood takes them.
            y_pred: the model's outputs, shape (B, ...).
            sample_weight: a weight an example, or None.
        """
        y = tf.convert_to_tensor(y_true)
        mean = with_mask(self.likelihood.mean(y_pred), keras_mask(y_pred))
        if mean.shape[-1] == 1 or y.shape.rank == mean.shape.rank + 1:
            y = aligned(y, mean.shape)
        self.metric.update_state(y, mean, sample_weight)

    def get_config(self) -> dict[str, Any]:
        likelihood = keras.saving.serialize_keras_object(self.likelihood)
        return {**super().get_config(), "likelihood": likelihood}

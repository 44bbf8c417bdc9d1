"""The base of layers whose outputs are sampled in one way only."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfbdl.layers import estimators
from tfbdl.layers.base import BayesLayer


class SharedSample(BayesLayer):
    """One sample of the weights serves the whole batch, at each use of a weight in it.

    Args:
        estimator: as other layers have it; here `"reparameterization"` and nothing else.
    """

    def __init__(
        self,
        *args: Any,
        estimator: str | dict[str, Any] | estimators.Estimator = "reparameterization",
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        if not isinstance(estimators.get(estimator), estimators.Reparameterization):
            raise ValueError(
                f"estimator={estimator!r} does not hold for {type(self).__name__}, which uses a "
                "weight many times in an example; use 'reparameterization'"
            )

    def weights_now(self, training: bool, draw: tf.Tensor | None) -> list[tf.Tensor]:
        """Sampled, drawn, or mean weights, in the order made; the KL goes to the losses."""
        sampled = training and draw is None
        weights, kl = self.sampled_weights() if sampled else self.weights_at(draw)
        self.add_kl(kl, training)
        return weights

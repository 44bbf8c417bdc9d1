"""More of the KL in the first batches of an epoch (Blundell et al. 2015, section 3.4)."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from tfbdl.training.kl_schedule import KLSchedule


class MinibatchKL(KLSchedule):
    """Blundell et al.'s weights: the first batches of an epoch bear most of the KL.

    Batch i of M has the factor M pi_i with pi_i = 2^(M-i) / (2^M - 1) (2015, section 3.4). Losses
    here are means over a batch, so that the M batches of an epoch add M KL / N whatever the
    factors; with equal ones each adds KL / N.

    Raises:
        ValueError: in `fit`, if the number of batches is not known or several steps are made in one
            execution.
    """

    def factor(
        self, epoch: int | tf.Tensor, batch: int | tf.Tensor, num_batches: int | None
    ) -> tf.Tensor:
        """M pi_i; finite for any number of batches."""
        if not num_batches:
            raise ValueError(
                "steps_per_epoch=None: the number of batches is not known; give it to fit"
            )
        share = tf.exp(-math.log(2.0) * (tf.cast(batch, tf.float32) + 1.0))
        return num_batches / (1.0 - 2.0**-num_batches) * share

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        if getattr(self.model, "steps_per_execution", 1) != 1:
            raise ValueError(
                f"steps_per_execution={self.model.steps_per_execution} lets no callback weigh the "
                "batches one by one; compile with 1, or use tfbdl.train"
            )
        super().on_train_begin(logs)

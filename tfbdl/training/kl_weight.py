"""Callbacks that weigh the KL against the likelihood, for `model.fit` and `tfbdl.train`."""

from __future__ import annotations

import math

import keras
import tensorflow as tf

from tfbdl import complexity
from tfbdl.arguments import integer, positive, positive_integer


class KLAnnealing(keras.callbacks.Callback):
    """Warms the KL up: weight 0 until epoch `start`, then linearly to its full at epoch `end`.

    Args:
        start: last epoch (counted from 1) with weight 0; 0 to begin at once.
        end: first epoch with the full weight.
        period: epochs after which it begins anew, at least `end`; None for one warm-up (Sonderby
            et al. 2016), a number for the cyclical schedule of Fu et al. (2019), who rise in the
            first half of each period.
        temperature: the full weight, > 0: 1 for the posterior, less for a cold one.

    Raises:
        ValueError: unless 0 <= start < end <= period and temperature > 0.
    """

    def __init__(
        self, start: int, end: int, *, period: int | None = None, temperature: float = 1.0
    ) -> None:
        super().__init__()
        if not 0 <= integer("start", start) < integer("end", end):
            raise ValueError(f"start={start!r}, end={end!r}: need 0 <= start < end")
        if period is not None and positive_integer("period", period) < end:
            raise ValueError(f"period={period!r} must be at least end={end!r}")
        self.start = start
        self.end = end
        self.period = period
        self.temperature = _temperature(temperature)

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        epoch = epoch + 1 if self.period is None else epoch % self.period + 1
        risen = min(max((epoch - self.start) / (self.end - self.start), 0.0), 1.0)
        complexity.set_weight(self.model, self.temperature * risen)


class MinibatchKL(keras.callbacks.Callback):
    """Blundell et al.'s weights: the first batches of an epoch bear most of the KL.

    Batch i of M has weight M pi_i with pi_i = 2^(M-i) / (2^M - 1) (2015, section 3.4). Losses here
    are means over a batch, so that the M batches of an epoch add M KL / N whatever the weights;
    with equal weights each adds KL / N.

    Args:
        temperature: the mean weight, > 0: 1 for the posterior, less for a cold one.

    Raises:
        ValueError: unless temperature > 0; in `fit`, if the number of batches is not known or
            several steps are made in one execution.
    """

    def __init__(self, *, temperature: float = 1.0) -> None:
        super().__init__()
        self.temperature = _temperature(temperature)

    def weight(self, batch: int | tf.Tensor, batches: int) -> tf.Tensor:
        """The weight of batch number `batch`, counted from 0; finite for any number of batches."""
        share = tf.exp(-math.log(2.0) * (tf.cast(batch, tf.float32) + 1.0))
        return self.temperature * batches / (1.0 - 2.0**-batches) * share

    def on_train_begin(self, logs: dict | None = None) -> None:
        if getattr(self.model, "steps_per_execution", 1) != 1:
            raise ValueError(
                f"steps_per_execution={self.model.steps_per_execution} lets no callback weigh the "
                "batches one by one; compile with 1, or use tfbdl.train"
            )

    def on_train_batch_begin(self, batch: int, logs: dict | None = None) -> None:
        batches = (self.params or {}).get("steps")
        if not batches:
            raise ValueError(
                "steps_per_epoch=None: the number of batches is not known; give it to fit"
            )
        complexity.set_weight(self.model, self.weight(batch, batches))


def _temperature(value: float) -> float:
    return positive("temperature", value, "positive; 1 is the posterior")

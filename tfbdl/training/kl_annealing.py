"""Warming the KL up, once or in cycles."""

from __future__ import annotations

import tensorflow as tf

from tfbdl.arguments import integer, optional
from tfbdl.training.kl_schedule import KLSchedule


class KLAnnealing(KLSchedule):
    """Warms the KL up: factor 0 until epoch `start`, then linearly to 1 at epoch `end`.

    Args:
        start: last epoch (counted from 1) with factor 0; 0 to begin at once.
        end: first epoch with factor 1.
        period: epochs after which it begins anew, at least `end`; None for one warm-up (Sonderby
            et al. 2016), a number for the cyclical schedule of Fu et al. (2019), who rise in the
            first half of each period.

    Raises:
        ValueError: unless 0 <= start < end <= period.
    """

    def __init__(self, start: int, end: int, *, period: int | None = None) -> None:
        super().__init__()
        self.start = integer("start", start, least=0)
        self.end = integer("end", end)
        self.period = optional(integer, "period", period)
        if self.start >= self.end:
            raise ValueError(f"start={start}, end={end}: need start < end")
        if self.period is not None and self.period < self.end:
            raise ValueError(f"period={period} must be at least end={end}")

    def factor(
        self, epoch: int | tf.Tensor, batch: int | tf.Tensor, num_batches: int | None
    ) -> tf.Tensor:
        number = 1.0 + tf.cast(epoch if self.period is None else epoch % self.period, tf.float32)
        return tf.clip_by_value((number - self.start) / (self.end - self.start), 0.0, 1.0)

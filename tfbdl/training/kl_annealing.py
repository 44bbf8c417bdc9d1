"""Warming the KL up, once or in cycles."""

from __future__ import annotations

import tensorflow as tf

from tfbdl.arguments import integer, positive_integer
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
        if not 0 <= integer("start", start) < integer("end", end):
            raise ValueError(f"start={start!r}, end={end!r}: need 0 <= start < end")
        if period is not None and positive_integer("period", period) < end:
            raise ValueError(f"period={period!r} must be at least end={end!r}")
        self.start = start
        self.end = end
        self.period = period

    def factor(
        self, epoch: int | tf.Tensor, batch: int | tf.Tensor, num_batches: int | None
    ) -> tf.Tensor:
        number = 1.0 + tf.cast(epoch if self.period is None else epoch % self.period, tf.float32)
        return tf.clip_by_value((number - self.start) / (self.end - self.start), 0.0, 1.0)

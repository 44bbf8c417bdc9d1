"""The cyclical learning rate of cSGLD and cSGHMC (Zhang et al. 2020)."""

from __future__ import annotations

import math
from typing import Any

import keras
import tensorflow as tf

from tfbdl.arguments import number, positive, positive_integer


@keras.saving.register_keras_serializable(package="tfbdl")
class CyclicalSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """initial_rate / 2 (1 + cos(pi r)) at the part r in [0, 1) of a cycle that has passed.

    Each cycle begins with large steps that look for another mode, and ends with small ones that
    sample it (Zhang, Li, Zhang, Chen, Wilson 2020, equation 1). The samplers of this package make
    no noise in the first part, as in the paper's algorithm 1.

    Args:
        initial_rate: the rate at the start of every cycle, > 0.
        steps_per_cycle: steps of a cycle.
        exploration: the part of a cycle without noise, in [0, 1). With 0 every step makes noise,
            and `start` and `every` of `SGMCMC` say which epochs are samples: the last of each cycle
            in Izmailov et al. (2021, "What are Bayesian neural network posteriors really like?").

    Raises:
        ValueError: if an argument is out of its range.
    """

    def __init__(self, initial_rate: float, steps_per_cycle: int, exploration: float = 0.8) -> None:
        self.initial_rate = positive("initial_rate", initial_rate)
        self.steps_per_cycle = positive_integer("steps_per_cycle", steps_per_cycle)
        self.exploration = number("exploration", exploration, lambda e: 0 <= e < 1, "in [0, 1)")

    def passed(self, step: Any) -> tf.Tensor:
        """The part of its cycle that is over before step number `step`, in [0, 1)."""
        in_cycle = tf.cast(tf.convert_to_tensor(step), tf.int32) % self.steps_per_cycle
        return tf.cast(in_cycle, tf.float32) / self.steps_per_cycle

    def samples(self, step: Any) -> tf.Tensor:
        """Whether step number `step` samples, and does not explore."""
        return self.passed(step) >= self.exploration

    def __call__(self, step: Any) -> tf.Tensor:
        return 0.5 * self.initial_rate * (1.0 + tf.cos(math.pi * self.passed(step)))

    def get_config(self) -> dict[str, Any]:
        return {
            "initial_rate": self.initial_rate,
            "steps_per_cycle": self.steps_per_cycle,
            "exploration": self.exploration,
        }

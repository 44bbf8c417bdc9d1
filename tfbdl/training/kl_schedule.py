"""Schedules of the KL's weight, and what keeps them from outliving the training."""

from __future__ import annotations

from types import GeneratorType
from typing import Any

import keras
import tensorflow as tf

from tfbdl import complexity


class KLSchedule(keras.callbacks.Callback):
    """Multiplies the KL's weight in the training steps of `fit` or `tfbdl.train`, and only there.

    A subclass defines `factor`. The weight itself, that of `tfbdl.set_kl_weight`, stays as the user
    has set it: validation, `evaluate`, `model.losses` outside of training and saved files know
    nothing of a schedule, and whatever trains the model next begins without it, also where the
    training before has ended by an exception, an early stop or Ctrl-C. Several schedules multiply.
    """

    def factor(
        self, epoch: int | tf.Tensor, batch: int | tf.Tensor, num_batches: int | None
    ) -> float | tf.Tensor:
        """What the weight is multiplied by, a scalar.

        Args:
            epoch: its number, counted from 0; a tensor in `tfbdl.train`, so that conditions on it
                are to be written in TensorFlow.
            batch: its number in the epoch, counted from 0; a tensor in `tfbdl.train`.
            num_batches: M, in an epoch; None where `fit` does not know it.
        """
        raise NotImplementedError

    def on_train_begin(self, logs: dict | None = None) -> None:
        model = self.model
        if not complexity.is_scheduled(model):
            complexity.schedule(model)
            model.make_train_function(force=True)
        self._steps = _ScheduledSteps(model, model.train_function)
        model.train_function = self._steps

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        self._epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: dict | None = None) -> None:
        num_batches = (self.params or {}).get("steps")
        self._steps.factor_of_next = self.factor(self._epoch, batch, num_batches)

    def on_train_end(self, logs: dict | None = None) -> None:
        if self.model.train_function is self._steps:
            self.model.train_function = self._steps.inner


class _ScheduledSteps:
    """The train function of one call of `fit`, under a schedule.

    The model's factor differs from 1 only while the train function runs, and only where the
    callback has been asked just before, in the same call of `fit`. So nothing is left behind by a
    call that ends where no callback is told of it.
    """

    def __init__(self, model: keras.Model, inner: Any) -> None:
        self.inner = inner
        self.factor_of_next: float | tf.Tensor | None = None
        self._model = model
        self._fit = _this_fit(model)

    def __call__(self, iterator: Any) -> Any:
        factor, self.factor_of_next = self.factor_of_next, None
        of_this_fit = _this_fit(self._model) is self._fit and not _is_single_batch(iterator)
        if factor is None or not of_this_fit:
            return self.inner(iterator)
        with complexity.scheduled(self._model, factor):
            return self.inner(iterator)


def _this_fit(model: keras.Model) -> Any:
    """What Keras makes anew in each call of `fit`."""
    return getattr(model, "history", None)


def _is_single_batch(iterator: Any) -> bool:
    """Whether it is what `train_on_batch` trains on."""
    return isinstance(iterator, GeneratorType)

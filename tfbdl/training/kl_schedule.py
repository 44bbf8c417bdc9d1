"""Schedules of the KL's weight, which end with the training."""

from __future__ import annotations

import abc
from contextlib import AbstractContextManager, nullcontext
from types import GeneratorType
from typing import Any

import keras
import tensorflow as tf

from tfbdl import kl_term
from tfbdl.training.steps_of_fit import StepsOfFit


class KLSchedule(keras.callbacks.Callback, abc.ABC):
    """Multiplies the KL's weight in the training steps of `fit` or `tfbdl.train`, and only there.

    A subclass defines `factor`. The weight itself, that of `tfbdl.set_kl_weight`, stays as the user
    has set it: validation, `evaluate`, `model.losses` outside of training and saved files know
    nothing of a schedule, and whatever trains the model next begins without it, also where the
    training before has ended by an exception, an early stop or Ctrl-C. Several schedules multiply.

    Raises:
        ValueError: when training begins, if the model has no KL.
    """

    @abc.abstractmethod
    def factor(
        self, epoch: int | tf.Tensor, batch: int | tf.Tensor, num_batches: int | None
    ) -> float | tf.Tensor:
        """The factor of the weight, a scalar.

        Args:
            epoch: its number, counted from 0; a tensor in `tfbdl.train`, so that conditions on it
                are to be written in TensorFlow.
            batch: its number in the epoch, counted from 0; a tensor in `tfbdl.train`.
            num_batches: M, in an epoch; None where `fit` does not know it.
        """

    def set_model(self, model: keras.Model) -> None:
        super().set_model(model)
        if not kl_term.loss_terms(model):
            raise ValueError(
                f"callbacks has {type(self).__name__}, but model={model.name!r} has no "
                "layer with a KL; leave it out"
            )
        if not kl_term.is_scheduled(model):
            kl_term.schedule(model)
            model.train_function = None

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        self._factor_of_next: float | tf.Tensor | None = None
        self._steps = StepsOfFit(self.model, self._scheduled)

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        num_batches = (self.params or {}).get("steps")
        self._factor_of_next = self.factor(self._epoch, batch, num_batches)

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        if self.model.train_function is self._steps:
            self.model.train_function = self._steps.inner

    def _scheduled(self, iterator: Any) -> AbstractContextManager[None]:
        """Has the step use the factor, if this callback was just asked for one."""
        factor, self._factor_of_next = self._factor_of_next, None
        if factor is None or _is_single_batch(iterator):
            return nullcontext()
        return kl_term.scheduled(self.model, factor)


def _is_single_batch(iterator: Any) -> bool:
    """Whether `train_on_batch` trains on it."""
    return isinstance(iterator, GeneratorType)

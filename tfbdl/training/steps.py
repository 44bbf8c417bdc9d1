"""Training steps as one graph, which XLA compiles: all of it, or the step where data are read."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl import kl_term
from tfbdl.calls import apart
from tfbdl.graphs import Compiled
from tfbdl.keras_private_training import inner_optimizer
from tfbdl.lookups import tables
from tfbdl.training import measures
from tfbdl.training.feed import Feed
from tfbdl.training.kl_schedule import KLSchedule

STEPS_PER_CALL = 100
"""Steps between two looks of the Python side: Ctrl-C and the progress bar wait so long at most."""


class Steps:
    """Runs a model's own `train_step` over whole epochs.

    Args:
        model: compiled and built.
        feed: the source of the batches.
        jit_compile: whether XLA compiles the steps, as in `Compiled`; several replicas it cannot.
        schedules: the schedules of the KL's weight, whose factors multiply.
        columns: the columns of the log that are asked for by name.

    Attributes:
        number: the number of steps in an epoch.
        finite: whether the loss has been so in every step of this epoch.
    """

    def __init__(
        self,
        model: keras.Model,
        feed: Feed,
        jit_compile: bool | None,
        schedules: Sequence[KLSchedule] = (),
        columns: Sequence[str] = (),
    ) -> None:
        self.model = model
        self.feed = feed
        self.number = feed.number
        self.schedules = schedules
        for schedule in schedules:
            schedule.set_model(model)
        self.strategy = model.distribute_strategy
        self.replicas = self.strategy.num_replicas_in_sync
        self.finite = True
        self._columns = columns
        measured = measures.names(model, columns)
        self._names = list(dict.fromkeys([*kl_term.term_names(model), *measured]))
        self._sums: tf.Tensor | float = 0.0
        if self.replicas > 1:
            jit_compile = False
        if jit_compile is None and not feed.on_device and tables(model):
            jit_compile = False  # TensorFlow refuses rows that there are not, XLA takes others
        each = jit_compile is not False and not feed.on_device
        self._step: Callable[..., Any] = (
            Compiled(self._train_step, jit_compile, autograph=True) if each else self._train_step
        )
        scalar = tf.TensorSpec([], tf.int32)
        weights = [v for v in model.weights if "float" in v.dtype]
        self._watched = [v for v in weights if _is_finite(v)]  # not a mask of infinities, say
        self._finite = tf.function(self._weights_are_finite).get_concrete_function()
        run = Compiled(self._run_steps, False if each else jit_compile, autograph=True)
        self._run = run.graph(feed.like, scalar, scalar, scalar)

    @property
    def names(self) -> list[str]:
        """The names of `means`."""
        return [*self._metrics(), *self._names]

    def columns(self, chosen: Sequence[str] | None, *, with_validation: bool) -> list[str]:
        """The columns of the log: the chosen ones, or all that there are.

        Raises:
            ValueError: for the name of a column that there is none of.
        """
        known = self.names
        if with_validation:
            known = [*known, *(f"val_{name}" for name in self._metrics())]
        for name in chosen or ():
            if name not in known:
                raise ValueError(f"columns has {name!r}; this model has {', '.join(known)}")
        return list(chosen or known)

    def epoch(self, number: int) -> Iterator[int]:
        """Trains on the batches of an epoch, yielding the number of steps done now and then.

        Stops at the first step whose loss is not finite; `finite` is False then, and also if the
        last step left weights or statistics that are not.
        """
        batches = self.feed.epoch(number)
        self.model.reset_metrics()
        self.finite, self._sums = True, 0.0
        done = 0
        while done < self.number and self.finite:
            stop = min(done + STEPS_PER_CALL, self.number)
            numbers = (tf.constant(n) for n in (number - 1, done, stop))
            try:
                done, finite, sums = self._run(batches, *numbers)
            finally:
                if self.schedules:
                    kl_term.set_factor(self.model, 1.0)
            done, self.finite = int(done), bool(finite)
            self._sums += sums
            if done == self.number:
                self.finite = self.finite and bool(self._finite())
            yield done

    def means(self) -> dict[str, float]:
        """Means over the epoch's batches: loss, the model's metrics, and the layers' terms."""
        values = {name: float(v) for name, v in self._metrics().items()}
        sums = np.asarray(self._sums)
        return values | {
            name: float(s) / self.number for name, s in zip(self._names, sums, strict=True)
        }

    def _metrics(self) -> dict[str, tf.Tensor]:
        """The model's metrics by the names that Keras logs, where one metric may have several."""
        values: dict[str, tf.Tensor] = {}
        for name, value in self.model.get_metrics_result().items():
            values |= value if isinstance(value, dict) else {name: value}
        return values

    def _weights_are_finite(self) -> tf.Tensor:
        return tf.reduce_all(tf.stack([True, *map(_is_finite, self._watched)]))

    def _run_steps(
        self, batches: Any, epoch: tf.Tensor, start: tf.Tensor, stop: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        sums = tf.zeros([len(self._names)])
        finite = True
        step = start
        while step < stop and finite:
            if self.schedules:
                factors = [s.factor(epoch, step, self.number) for s in self.schedules]
                kl_term.set_factor(self.model, math.prod(factors))
            loss, terms = self._mean(self.feed.on_replicas(self._step, batches, step))
            finite = tf.math.is_finite(loss)
            sums += terms
            step += 1
        return step, finite, sums

    def _mean(self, of_replicas: Any) -> Any:
        if self.replicas == 1:
            return of_replicas
        mean = tf.distribute.ReduceOp.MEAN
        return tuple(self.strategy.reduce(mean, values, None) for values in of_replicas)

    def _train_step(self, *batch: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        drawn = getattr(inner_optimizer(self.model.optimizer), "train_step", None)
        measuring = measures.measured(self.model, self._columns)
        with apart(costs=True), measuring as measured:  # from the layers' calls in other replicas
            if drawn is None:
                loss = self.model.train_step(batch)["loss"]
            else:
                step = partial(type(self.model).train_step, self.model, batch)
                loss = drawn(self.model, step)["loss"]
            terms = kl_term.terms(self.model)
        terms = measured | terms
        return loss, tf.stack([terms[name] for name in self._names] or tf.zeros([0]))


def _is_finite(v: keras.Variable) -> tf.Tensor:
    return tf.math.is_finite(tf.reduce_sum(0.0 * tf.convert_to_tensor(v)))

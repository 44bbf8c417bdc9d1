"""The KL of the package's layers while `model.fit` trains, measured in the training step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf

from tfbdl import kl_term, likelihoods
from tfbdl.tensorflow_private import custom_gradients, let_gradients_die
from tfbdl.training import measures
from tfbdl.training.checks import check_told_of_training
from tfbdl.training.steps_of_fit import StepsOfFit


class Observer(keras.callbacks.Callback):
    """Base of the callbacks that report the layers' terms.

    Raises:
        ValueError: if the model is subclassed and its `call` takes no `training`, or a metric of
            Keras' own compares y with outputs that are no predictions.
    """

    columns: Sequence[str] | None = None
    """The columns that are asked for by name."""

    def set_model(self, model: keras.Model) -> None:
        check_told_of_training(model)
        likelihoods.check_metrics(model)
        super().set_model(model)
        with model.distribute_strategy.scope():
            self._means = [(term, _Means(term)) for term in kl_term.loss_terms(model)]
            measured = measures.names(model, self.columns or ())
            self._measured = {name: keras.metrics.Mean(name=name) for name in measured}
        model.train_function = None
        own = vars(model).get("train_step")
        other = getattr(own, "__self__", None)
        self._step, self._own_step = model.train_step, own
        if isinstance(other, Observer):
            self._own_step = other._own_step
        if self._measured:
            model.train_step = self._measured_step  # Keras takes it up before training begins
        self._gradients = custom_gradients()

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        if "train_step" in vars(self.model):
            del self.model.train_step
        if self._own_step is not None:
            self.model.train_step = self._own_step
        StepsOfFit(self.model, self._observing)

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        self.model.train_function = None
        let_gradients_die(self._gradients)

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        for _, means in self._means:
            means.reset()
        for mean in self._measured.values():
            mean.reset_state()

    def terms(self) -> dict[str, float]:
        """Means over the epoch's batches of kl, wd, ent: nats per data set, over all layers.

        The columns of `measures` are there too: where no layer has a wd, it is what Keras' own
        regularisers add to the loss.
        """
        total: dict[str, float] = {}
        for term, means in self._means:
            for name in term.names:
                total[name] = total.get(name, 0.0) + means.result(name)
        return {name: float(mean.result()) for name, mean in self._measured.items()} | total

    def per_example(self, name: str) -> float:
        """Means of "cost", KL / N, or "loss", the weighted KL / N, over all layers, in nats."""
        return sum(means.result(name) for _, means in self._means)

    @contextmanager
    def _observing(self, iterator: Any) -> Iterator[None]:
        """Collects the values of the terms; earlier listeners still hear them."""
        for term, means in self._means:
            means.inner, term.observe = term.observe, means.update
        try:
            yield
        finally:
            for term, means in self._means:
                term.observe, means.inner = means.inner, None

    def _measured_step(self, data: Any) -> Any:
        with measures.measured(self.model, self.columns or ()) as measured:
            logs = self._step(data)
        for name, value in measured.items():
            self._measured[name].update_state(value)
        return logs


class ELBOLogger(Observer):
    """Adds the parts of the evidence lower bound to what `fit` reports after each epoch.

    They are in nats per example, as means over the epoch's batches: `nll`, the loss without the
    layers' terms; `kl_per_example`, KL / N, whatever weight `KLAnnealing` gives it; and
    `elbo` = -(nll + kl_per_example). `nll` is a negative log likelihood where the model's loss is
    one (Keras' own regularisers count with it).
    """

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if logs is not None:
            cost = self.per_example("cost")
            logs["nll"] = logs["loss"] - self.per_example("loss")
            logs["kl_per_example"] = cost
            logs["elbo"] = -(logs["nll"] + cost)


class _Means:
    """Running means of one layer's terms, in the graph of the training step."""

    def __init__(self, term: kl_term.LossTerm) -> None:
        names = (*term.names, "cost", "loss")
        self.inner: Callable[[dict[str, tf.Tensor]], None] | None = None
        self._means = {name: keras.metrics.Mean(name=name) for name in names}

    def update(self, terms: dict[str, tf.Tensor]) -> None:
        for name, value in terms.items():
            self._means[name].update_state(value)
        if self.inner is not None:
            self.inner(terms)

    def result(self, name: str) -> float:
        return float(self._means[name].result())

    def reset(self) -> None:
        for mean in self._means.values():
            mean.reset_state()

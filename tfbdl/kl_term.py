"""The one place where a layer's KL enters the loss, scaled by 1/N, and is named for the logs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf

from tfbdl.arguments import not_negative, positive_integer
from tfbdl.calls import OfCall
from tfbdl.inherited_arguments import LayerArguments, Unpack
from tfbdl.keras_private import set_loss, walk
from tfbdl.model_arguments import keras_model


@keras.saving.register_keras_serializable(package="tfbdl")
class LossTerm(keras.layers.Layer):
    """A cost in nats per data set; what is spread over the examples goes to the model's losses.

    It holds no variables. Each model that reaches it counts it once in a forward pass, however many
    layers add it.

    Args:
        names: the names of the cost's parts in logs.

    Attributes:
        per_example: the cost at the last call, unweighted, in nats per example.
        terms: the named parts of the cost at the last call, unscaled, in nats per data set. Like
            `model.losses` they are to be read straight after the forward pass.
        factor: the factor by which training steps multiply the weight; it is 1 unless a schedule
            runs, and None where none ever did. It is not saved.
        observe: a function, where set, called in training steps with `terms`, and with the cost and
            its weighted part of the loss in nats per example, as "cost" and "loss".
    """

    per_example = OfCall(float)
    terms = OfCall(dict)
    _losses = OfCall(list)

    def __init__(self, names: Sequence[str] = ("kl",), **kwargs: Unpack[LayerArguments]) -> None:
        super().__init__(**kwargs)
        self.names = tuple(names)
        self.factor: tf.Variable | None = None
        self.observe: Callable[[dict[str, tf.Tensor]], None] | None = None
        self.built = True

    @property
    def counted(self) -> bool:
        """Whether the last forward pass of the model reached it."""
        return bool(self.losses)

    def enter_loss(
        self,
        cost: tf.Tensor,
        terms: dict[str, tf.Tensor],
        *,
        num_data: int,
        weight: keras.Variable,
        training: bool,
        observed: bool = True,
    ) -> None:
        """Puts `weight * cost / num_data` into the losses, and names the cost's parts for logs."""
        self.per_example = cost / num_data
        self.terms = terms
        loss = weight * self.per_example
        if training and self.factor is not None:
            loss *= tf.cast(self.factor, loss.dtype)
        set_loss(self, loss)
        if training and observed and self.observe is not None:
            self.observe({**terms, "cost": self.per_example, "loss": loss})

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "names": self.names}


@keras.saving.register_keras_serializable(package="tfbdl")
class KLTerm(LossTerm):
    """Adds `weight * cost / num_data` to the model's losses.

    Keras' mean loss is the negative log likelihood per example, so with KL / N beside it the total
    is the negative ELBO per example (Blundell et al. 2015, equation 1, divided by N), whatever the
    batch size.

    Args:
        num_data: N, the number of training examples (not the batch size). It has no default,
            because a wrong one silently rescales the prior.
        names: the names of the cost's parts in logs.

    Attributes:
        weight: a scalar variable, 1 by default. Smaller values warm the KL up or give a cold
            posterior; it is saved with the model.

    Raises:
        ValueError: if `num_data` is not a positive integer.
    """

    def __init__(
        self, num_data: int, names: Sequence[str] = ("kl",), **kwargs: Unpack[LayerArguments]
    ) -> None:
        super().__init__(names, **kwargs)
        self.num_data = positive_integer(
            "num_data", num_data, ": the number of training examples", most=2**63
        )
        self.weight = self.add_weight(
            shape=(), initializer="ones", trainable=False, autocast=False, name="weight"
        )

    def add(
        self, cost: tf.Tensor, training: bool, *, observed: bool = True, **terms: tf.Tensor
    ) -> None:
        """Adds `cost` (nats per data set) to the losses, and names its parts for the logs.

        A layer that a model calls several times has one set of weights and costs once: the last
        cost takes the place of those before. One that is not the last is not to be `observed`.
        """
        self.enter_loss(
            cost,
            terms,
            num_data=self.num_data,
            weight=self.weight,
            training=training,
            observed=observed,
        )

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "num_data": self.num_data}


def set_weight(model: keras.Model, weight: float | tf.Tensor) -> None:
    """Sets the weight of the KL in all layers of `model`; saved with it.

    1 is the posterior; less is a cold posterior whose temperature is the weight (Wenzel et al.
    2020; for a variational posterior the likelihood counts 1 / weight times).

    Raises:
        ValueError: if `weight` is no number of at least 0, or no layer of `model` has a KL.
    """
    variables = weights(keras_model("model", model))
    if not variables:
        raise ValueError(f"model={model.name} has no layer with a KL, whose weight could be set")
    if not (isinstance(weight, tf.Tensor) and weight.dtype.is_floating):
        weight = not_negative("weight", weight)
    for variable in variables:
        variable.assign(weight)


def weights(model: keras.Model) -> list[keras.Variable]:
    """The weights of the KL that `set_weight` sets, one a layer with a KL."""
    return [cost.weight for cost in loss_terms(model) if isinstance(cost, KLTerm)]


def is_scheduled(model: keras.Model) -> bool:
    """Whether the model's training steps read the factor of a schedule."""
    return all(cost.factor is not None for cost in loss_terms(model))


def schedule(model: keras.Model) -> None:
    """Lets the training steps of `model` read one factor, 1, from the next tracing on."""
    factors = [cost.factor for cost in loss_terms(model) if cost.factor is not None]
    with model.distribute_strategy.scope():
        factor = factors[0] if factors else tf.Variable(1.0, trainable=False)
    for cost in loss_terms(model):
        cost.factor = factor


def set_factor(model: keras.Model, factor: float | tf.Tensor) -> None:
    """Sets the factor of a model that `is_scheduled`, in a graph or eagerly."""
    for cost in loss_terms(model)[:1]:
        assert cost.factor is not None
        cost.factor.assign(tf.cast(factor, tf.float32))


@contextmanager
def scheduled(model: keras.Model, factor: float | tf.Tensor) -> Iterator[None]:
    """Multiplies the factor of a model that `is_scheduled` while the context lasts."""
    before = [tf.convert_to_tensor(cost.factor) for cost in loss_terms(model)[:1]]
    set_factor(model, factor * before[0] if before else 1.0)
    try:
        yield
    finally:
        set_factor(model, before[0] if before else 1.0)


def terms(model: keras.Model) -> dict[str, tf.Tensor | float]:
    """The named terms of all layers of `model`, summed by name (nats per data set).

    To be read straight after the forward pass. Names are `kl` for random weights, `wd` and `ent`
    for learned dropout.
    """
    total: dict[str, tf.Tensor | float] = dict.fromkeys(term_names(model), 0.0)
    for cost in loss_terms(model):
        for name, value in cost.terms.items() if cost.counted else ():
            if name in total:
                total[name] += value
    return total


def per_example(model: keras.Model, *, without: LossTerm | None = None) -> list[tf.Tensor]:
    """The costs of all layers of `model`, unweighted, in nats per example; but for one of them.

    To be read straight after the forward pass.
    """
    costs = (cost for cost in loss_terms(model) if cost is not without)
    return [cost.per_example for cost in costs if cost.counted]


def term_names(model: keras.Model) -> list[str]:
    """The names that `terms` has: none that a metric of the model has, which may count more."""
    metrics = {metric.name for metric in model.metrics}
    names = dict.fromkeys(name for cost in loss_terms(model) for name in cost.names)
    return [name for name in names if name not in metrics]


def loss_terms(model: keras.Model) -> list[LossTerm]:
    """The costs of all layers of `model`."""
    return [layer for layer in walk(model) if isinstance(layer, LossTerm)]

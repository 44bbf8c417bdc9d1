"""The drawn functions of a model, compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl import complexity, likelihoods
from tfbdl.arguments import output_on
from tfbdl.keras_private import walk
from tfbdl.likelihoods import Likelihood
from tfbdl.predictive.moments import Moments, of_many, of_one
from tfbdl.sampling import Sampler, make_draw

DRAWS_PER_CALL = 100
"""Draws between two looks of the Python side: Ctrl-C waits so long at most."""

_CACHE = "_tfbdl_functions"


def known_likelihood(model: keras.Model, given: Likelihood | None) -> Likelihood | None:
    """`given`, or that of the loss the model was compiled with; None where neither says.

    Raises:
        ValueError: if `given` is no likelihood.
    """
    if given is None:
        return likelihoods.of_loss(getattr(model, "loss", None))
    if not isinstance(given, Likelihood):
        raise ValueError(
            f"likelihood={given!r} must be an object of tfbdl.likelihoods, such as Categorical()"
        )
    return given


def check_outputs(model: keras.Model, batch: Any, likelihood: Likelihood | None) -> tf.Tensor:
    """The outputs at the mean weights.

    Raises:
        ValueError: unless the model takes the batch and its outputs are as expected.
    """
    output = output_on(model, batch)
    if not tf.is_tensor(output):
        raise ValueError(
            f"model={model.name} has several outputs; make a keras.Model of one of them"
        )
    if likelihood is not None:
        likelihood.check(output)
    return output


class Functions:
    """What `predict` computes of a model, in a loop over draws that XLA compiles.

    XLA moves out of the loop what is the same in all draws. Kept with the model, so that a second
    prediction compiles nothing.
    """

    def __init__(self, model: keras.Model, likelihood: Likelihood | None) -> None:
        self.model = model
        self.likelihood = likelihood
        self._sampler = Sampler(model)
        self._compiled: dict[tuple[Any, ...], Callable[..., Any]] = {}
        self._compiled_for: list[tuple[Any, Any]] = []

    @classmethod
    def of(cls, model: keras.Model, likelihood: Likelihood | None) -> Functions:
        """Those of this model and likelihood, compiled once."""
        cache = model.__dict__.setdefault(_CACHE, {})
        key = None if likelihood is None else repr(likelihood.get_config()), type(likelihood)
        if key not in cache:
            cache[key] = cls(model, likelihood)
        return cache[key]

    def check(self, batch: Any) -> tf.Tensor:
        """The outputs at the mean weights for the first examples of a batch.

        What was compiled is forgotten if the model has other layers, or other dropout rates, since.

        Raises:
            ValueError: as `check_outputs`, and if the outputs are NaN.
        """
        first = keras.tree.map_structure(lambda a: a[:2], batch)
        output = check_outputs(self.model, first, self.likelihood)
        if output.dtype.is_floating and tf.reduce_any(tf.math.is_nan(output)):
            raise ValueError(
                f"model={self.model.name} has outputs that are NaN; its training has diverged"
            )
        layers = [(layer, getattr(layer, "rate", None)) for layer in walk(self.model)]
        if layers != self._compiled_for:
            self._compiled.clear()
            self._compiled_for = layers
        return output

    @staticmethod
    def calls(num_samples: int) -> int:
        """How many parts `moments` comes in."""
        return max(-(-num_samples // DRAWS_PER_CALL), 1)

    def moments(self, batch: Any, seed: int, num_samples: int) -> Iterator[Moments]:
        """The moments of the draws of `seed`, in parts; those of the mean weights for no draws."""
        if num_samples == 0:
            yield self._run(self._naive_moments, (batch,))
        for start in range(0, num_samples, DRAWS_PER_CALL):
            stop = min(start + DRAWS_PER_CALL, num_samples)
            yield self._run(self._draw_many, (batch, *_scalars(seed, start, stop)))

    def outputs(self, batch: Any, seed: int, num_samples: int) -> np.ndarray:
        """The network's outputs for each draw, shape (S, B, ...); S = 1 for no draws."""
        if num_samples == 0:
            return tf.cast(output_on(self.model, batch), tf.float32).numpy()[None]
        parts = []
        for start in range(0, num_samples, DRAWS_PER_CALL):
            count = min(DRAWS_PER_CALL, num_samples - start)
            part = self._run(self._draw_stacked, (batch, *_scalars(seed, start)), count)
            parts.append(part.numpy())
        return np.concatenate(parts)

    def log_probs(
        self, x: Any, y: tf.Tensor, seed: int, num_samples: int
    ) -> tuple[np.ndarray, float]:
        """Log p(y | f) of each draw and example, (S, B) in nats, and the mean of KL / N."""
        logs, kl = [], 0.0
        for start in range(0, num_samples, DRAWS_PER_CALL):
            count = min(DRAWS_PER_CALL, num_samples - start)
            arguments = (x, y, *_scalars(seed, start))
            part, costs = self._run(self._draw_log_probs, arguments, count)
            logs.append(part.numpy())
            kl += float(tf.reduce_sum(costs)) / num_samples
        return np.concatenate(logs), kl

    def _run(self, function: Callable[..., Any], tensors: tuple[Any, ...], *static: int) -> Any:
        """`function(*tensors, *static)`, compiled once for the shapes of `tensors`."""
        specs = tf.nest.map_structure(tf.TensorSpec.from_tensor, tensors)
        key = (function.__name__, *static, *tf.nest.flatten(specs))
        if key not in self._compiled:
            one_device = self.model.distribute_strategy.num_replicas_in_sync == 1
            compiled = tf.function(
                lambda *t: function(*t, *static), autograph=False, jit_compile=one_device
            )
            self._compiled[key] = compiled.get_concrete_function(*specs)
        return self._compiled[key](*tf.nest.flatten(tensors))

    def _naive_moments(self, batch: Any) -> Moments:
        return of_one(self.model(batch, training=False), self.likelihood)

    def _draw_many(self, batch: Any, seed: tf.Tensor, start: tf.Tensor, stop: tf.Tensor) -> Moments:
        return of_many(
            lambda s: self._sampler(batch, draw=make_draw(seed, s)),
            start,
            stop,
            self.likelihood,
            like=self.model(batch, training=False),
        )

    def _draw_log_probs(
        self, x: Any, y: tf.Tensor, seed: tf.Tensor, start: tf.Tensor, count: int
    ) -> tuple[tf.Tensor, tf.Tensor]:
        assert self.likelihood is not None
        likelihood = self.likelihood

        def draw(s: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            outputs = self._sampler(x, draw=make_draw(seed, start + s))
            costs = [tf.cast(cost, tf.float64) for cost in complexity.per_example(self.model)]
            total = sum(costs, tf.zeros([], tf.float64))
            return tf.cast(likelihood.log_prob(y, outputs), tf.float64), total

        return tf.map_fn(draw, tf.range(count), fn_output_signature=(tf.float64, tf.float64))

    def _draw_stacked(self, batch: Any, seed: tf.Tensor, start: tf.Tensor, count: int) -> tf.Tensor:
        def draw(s: tf.Tensor) -> tf.Tensor:
            outputs = self._sampler(batch, draw=make_draw(seed, start + s))
            return tf.cast(outputs, tf.float32)

        return tf.map_fn(draw, tf.range(count), fn_output_signature=tf.float32)


def _scalars(*values: int) -> tuple[tf.Tensor, ...]:
    return tuple(tf.constant(value) for value in values)

"""The drawn functions of a model, compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl import kl_term, likelihoods
from tfbdl.calls import apart
from tfbdl.draws import DrawnModel, make_draw
from tfbdl.graphs import Compiled
from tfbdl.likelihoods import Joint, Likelihood, LikelihoodLike
from tfbdl.likelihoods.positions import masks_of
from tfbdl.model_arguments import output_on
from tfbdl.predictive.moments import Moments, merged, of_many, of_one, stacked
from tfbdl.programs import Programs
from tfbdl.random import word
from tfbdl.replicas import Replicas

DRAWS_PER_CALL = 100
"""The number of draws of a replica between two looks of the Python side, for which Ctrl-C waits."""

_CACHE = "_tfbdl_functions"
_output_on = apart()(output_on)


def known_likelihood(model: keras.Model, given: LikelihoodLike | None) -> Likelihood | None:
    """The likelihood given, or that of the compiled loss; None if neither says.

    Raises:
        ValueError: if `given` is no likelihood, or a metric of Keras' own compares y with outputs
            that are no predictions.
    """
    likelihoods.check_metrics(model)
    return likelihoods.of_model(model, given)


def check_outputs(model: keras.Model, batch: Any, likelihood: Likelihood | None) -> Any:
    """The outputs at the mean weights.

    Raises:
        ValueError: unless the model takes the batch and its outputs are as expected.
    """
    output = _output_on(model, batch)
    if (
        likelihood is not None
        and keras.tree.is_nested(output)
        and not isinstance(likelihood, Joint)
    ):
        raise ValueError(
            f"likelihood={likelihood} is one for {len(keras.tree.flatten(output))} outputs of "
            f"model={model.name}; give one for each, in the same structure"
        )
    if likelihood is not None:
        likelihood.check(output)
    return output


class Functions:
    """The compiled part of `predict` for a model: a loop over draws.

    What comes before the first random layer stands before the loop, and is compiled as its
    operations ask for: on a CPU, convolutions by TensorFlow. XLA moves out of the loop what else
    is the same in all draws. Replicas, if the model has several, take a share of the draws each.
    Kept with the model, so that a second prediction compiles nothing.
    """

    def __init__(
        self, model: keras.Model, likelihood: Likelihood | None, jit_compile: bool | None = None
    ) -> None:
        self.model = model
        self.likelihood = likelihood
        self._sampler = DrawnModel(model)
        self._replicas = Replicas(model.distribute_strategy, jit_compile)
        self._draws_per_call = DRAWS_PER_CALL * self._replicas.num_replicas
        self.programs = Programs(model)

    @classmethod
    def of(
        cls, model: keras.Model, likelihood: Likelihood | None, jit_compile: bool | None = None
    ) -> Functions:
        """The functions of this model and likelihood, compiled once."""
        cache = model.__dict__.setdefault(_CACHE, {})
        config = None if likelihood is None else repr(likelihood.get_config())
        key = config, type(likelihood), jit_compile
        if key not in cache:
            cache[key] = cls(model, likelihood, jit_compile)
        return cache[key]

    def check(self, batch: Any) -> Any:
        """The outputs at the mean weights for the first examples of a batch.

        Raises:
            ValueError: as `check_outputs`, and if the outputs are NaN.
        """
        first = keras.tree.map_structure(lambda a: a[:2], batch)
        outputs = check_outputs(self.model, first, self.likelihood)
        for output in keras.tree.flatten(outputs):
            if output.dtype.is_floating and tf.reduce_any(tf.math.is_nan(output)):
                raise ValueError(
                    f"model={self.model.name} has outputs that are NaN; its training has diverged"
                )
        return outputs

    def masks(self, batch: Any) -> list[np.ndarray | None]:
        """The positions that count of each output, shape (B, ...); None where all do."""

        def make() -> Callable[..., Any]:
            masks = apart()(lambda x: masks_of(self.model(x, training=False)))
            return tf.function(masks, autograph=False)

        masks = self.programs.of(("masks",), make)(batch)
        return [None if mask is None else mask.numpy() for mask in masks]

    def calls(self, num_samples: int) -> int:
        """The number of parts that `moments` comes in."""
        return max(-(-num_samples // self._draws_per_call), 1)

    def moments(self, batch: Any, seed: int, num_samples: int) -> Iterator[Moments]:
        """The moments of the draws of `seed`, in parts; those of the mean weights for no draws."""
        if num_samples == 0:
            yield merged(self._run(self._naive_moments, (batch,), seed, range(1)))
        for draws in self._parts(num_samples):
            yield merged(self._run(self._moments, (batch,), seed, draws))

    def moments_and_outputs(
        self, batch: Any, seed: int, num_samples: int
    ) -> Iterator[tuple[Moments, list[np.ndarray]]]:
        """`moments`, each with the outputs of its draws, shapes (S, B, ...); S = 1 for no draws."""
        if num_samples == 0:
            (moments,) = self.moments(batch, seed, 0)
            outputs = keras.tree.flatten(_output_on(self.model, batch))
            yield moments, [tf.cast(output, tf.float32).numpy()[None] for output in outputs]
        for draws in self._parts(num_samples):
            moments, outputs = self._run(
                self._moments_and_outputs, (batch,), seed, draws, self._room(draws)
            )
            yield merged(moments), [self._first_of_each(output, draws) for output in outputs]

    def log_probs(
        self, x: Any, y: tf.Tensor, seed: int, num_samples: int
    ) -> tuple[np.ndarray, float]:
        """Log p(y | f) of each draw and example, (S, B) in nats, and the mean of KL / N."""
        logs, costs = [], []
        for draws in self._parts(num_samples):
            results = self._run(self._log_probs, (x, y), seed, draws, self._room(draws), costs=True)
            logs.append(self._first_of_each(results[0], draws))
            costs.append(self._first_of_each(results[1], draws))
        return np.concatenate(logs), float(np.mean(np.concatenate(costs)))

    def _parts(self, num_samples: int) -> list[range]:
        """The numbers of the draws of each compiled call."""
        draws = range(num_samples)
        return [draws[i : i + self._draws_per_call] for i in draws[:: self._draws_per_call]]

    def _share(self, draws: range) -> int:
        """The number of draws of the first replica; the last may have fewer, or none."""
        return -(-len(draws) // self._replicas.num_replicas)

    def _room(self, draws: range) -> int:
        """The number of draws of a replica, rounded up so that few programs serve all."""
        share = self._share(draws)
        step = 1 << max(share.bit_length() - 3, 0)
        return min(-(-share // step) * step, DRAWS_PER_CALL)

    def _first_of_each(self, values: np.ndarray, draws: range) -> np.ndarray:
        """The results in the rooms of all replicas, one after the other."""
        of_replicas = np.split(values, self._replicas.num_replicas)
        return np.concatenate([rows[: self._share(draws)] for rows in of_replicas])[: len(draws)]

    def _run(
        self,
        function: Callable[..., Any],
        tensors: tuple[Any, ...],
        seed: int,
        draws: range,
        *static: int,
        costs: bool = False,
    ) -> Any:
        """`function(*tensors, seed, own, *static)` on each replica, as arrays of NumPy.

        A replica's `own` draws are numbers own[0, 0] to own[0, 1] - 1. What the replicas give is
        put together along the first axis. Compiled once for the shapes of `tensors`. Layers compute
        what they add to the loss for `costs` alone.
        """
        ends = draws.start + self._share(draws) * np.arange(self._replicas.num_replicas + 1)
        ends = np.minimum(ends, draws.stop).astype(np.int32)

        def make() -> Callable[..., Any]:
            alone = apart(costs=costs)(function)
            return self._replicas.compile(lambda *args: alone(*args, *static))

        program = self.programs.of((function.__name__, *static), make)
        own = self._replicas.scatter(np.stack([ends[:-1], ends[1:]], axis=1))
        return self._replicas.gather(program(*tensors, tf.constant(word(seed), tf.int64), own))

    def _naive_moments(self, batch: Any, *_: tf.Tensor) -> Moments:
        return stacked(of_one(self.model(batch, training=False), self.likelihood))

    def _moments(self, batch: Any, seed: tf.Tensor, own: tf.Tensor) -> Moments:
        start, stop = tf.unstack(own[0])
        function, like = self._drawn(batch, seed, start)

        def loop() -> Moments:
            return stacked(of_many(function, start, stop, self.likelihood, like))

        return self._compiled(loop)

    def _log_probs(
        self, x: Any, y: tf.Tensor, seed: tf.Tensor, own: tf.Tensor, count: int
    ) -> tuple[tf.Tensor, tf.Tensor]:
        assert self.likelihood is not None
        likelihood = self.likelihood
        function, _ = self._drawn(x, seed, own[0, 0])

        def one(s: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            outputs = function(s)
            costs = [tf.cast(cost, tf.float64) for cost in kl_term.per_example(self.model)]
            total = sum(costs, tf.zeros([], tf.float64))
            return tf.cast(likelihood.log_prob(y, outputs), tf.float64), total

        def loop() -> tuple[tf.Tensor, tf.Tensor]:
            types = tf.float64, tf.float64
            return tf.map_fn(one, _numbers(own, count), fn_output_signature=types)

        return self._compiled(loop)

    def _moments_and_outputs(
        self, batch: Any, seed: tf.Tensor, own: tf.Tensor, count: int
    ) -> tuple[Moments, list[tf.Tensor]]:
        start, stop = tf.unstack(own[0])
        function, like = self._drawn(batch, seed, start)
        types = tf.nest.map_structure(lambda output: output.dtype, like)

        def loop() -> tuple[Moments, list[tf.Tensor]]:
            outputs = tf.map_fn(function, _numbers(own, count), fn_output_signature=types)

            def kept(s: tf.Tensor) -> Any:
                return tf.nest.map_structure(lambda output: tf.gather(output, s - start), outputs)

            moments = of_many(kept, start, stop, self.likelihood, like)
            return stacked(moments), [tf.cast(o, tf.float32) for o in keras.tree.flatten(outputs)]

        return self._compiled(loop)

    def _drawn(self, x: Any, seed: tf.Tensor, first: tf.Tensor) -> tuple[Callable[..., Any], Any]:
        """The outputs of draws at x, by their number, and those of the first, in this graph."""

        def function(s: tf.Tensor) -> Any:
            return self._sampler(x, draw=make_draw(seed, s))

        return function, function(first)

    def _compiled(self, loop: Callable[[], Any]) -> Any:
        """What a loop over draws gives, compiled apart from the graph around it."""
        return Compiled(loop, self._replicas.jit_compile, convolutions=True)()


def _numbers(own: tf.Tensor, count: int) -> tf.Tensor:
    """The numbers of a replica's own draws, and the last of them again until they are `count`."""
    start, stop = tf.unstack(own[0])
    return tf.minimum(start + tf.range(count), stop - 1)

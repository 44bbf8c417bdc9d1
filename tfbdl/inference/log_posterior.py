"""Log p(y, w | x) of a Keras model, as a pure function of its weights."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

import keras
import tensorflow as tf

from tfbdl.arguments import optional, positive_integer
from tfbdl.examples import as_array, examples
from tfbdl.flat_model import FlatModel, in_precision
from tfbdl.graphs import has_loops
from tfbdl.inference import structure
from tfbdl.inference.density import Density
from tfbdl.inference.over_chains import over_chains
from tfbdl.inference.weight_priors import (
    PriorLike,
    check_density,
    independent,
    is_joint,
    prior_of_each,
)
from tfbdl.likelihoods import LikelihoodLike, required_likelihood
from tfbdl.priors import Prior
from tfbdl.programs import Programs, as_graph
from tfbdl.sources import Source
from tfbdl.tensorflow_private import custom_gradient


def _of_theta(
    method: Callable[[LogPosterior, tf.Tensor], tf.Tensor],
) -> Callable[[LogPosterior, Any], tf.Tensor]:
    """A method of a `LogPosterior` whose theta is checked, and whose eager calls run as graphs."""
    graph = as_graph(method)

    @wraps(method)
    def call(self: LogPosterior, theta: Any) -> tf.Tensor:
        return graph(self, self.checked(theta))

    return call


class LogPosterior:
    """Log p(y | x, theta) + log p(theta), in nats, for the flat weights theta of a model.

    It is the log posterior up to log p(y | x), which does not depend on theta. An unknown scale of
    the noise is a weight like the others: let the model end in `tfbdl.layers.LearnedScale`, take
    the likelihood `Normal("predicted")`, and give that layer the prior `GammaScale`.

    Args:
        model: any built Keras model that is deterministic in inference mode. BatchNormalization
            keeps its statistics.
        prior: p(w): one for all weights (a `tfbdl.priors.Prior`, its name, or the scale of a
            normal); or a mapping from names of layers, or of weights as `"dense/kernel"`, to such,
            with `"*"` for all others; or a function of theta, shape (D,), to its log density, for
            a joint prior over all layers such as `MultivariateNormal(covariance).log_prob`.
        x: inputs, shape (N, ...), in the structure in which the model takes them; or batches (x, y)
            or (x, y, weights), read into memory: a `tf.data.Dataset`, a `keras.utils.PyDataset`, a
            generator.
        y: targets, shape (N, ...); None if x has them.
        sample_weight: the weights w_n of the examples, shape (N,): the likelihood is the product of
            p(y_n | f(x_n))^w_n.
        class_weight: weights by class in their place, as in Keras' `fit`.
        steps: the number of batches to take of a data set; None for all.
        likelihood: p(y | f(x)), as `tfbdl.likelihoods.get` takes it; by default that of the
            loss the model was compiled with.
        batch_size: examples at a time, to bound the memory; None takes all at once. Gradients
            then are of first order only.
        dtype: "float32" or "float64", of theta and of all that is computed.

    Attributes:
        flat: the model as a function of theta.
        size: D, the number of weights.
        priors: the prior of each weight; None for a joint prior.
        weights: the weights of the examples, shape (N,); None where each counts once.

    Raises:
        ValueError: if the model is not built or random, a weight has no prior or a name in `prior`
            no weight, a prior is no density of the weights alone (its scales are learned by a
            bound, or it is infinite at 0), or x and y do not fit each other, the model or the
            likelihood.
    """

    def __init__(
        self,
        model: keras.Model,
        prior: PriorLike | Mapping[str, PriorLike] | Density,
        x: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        class_weight: Mapping[int, float] | None = None,
        steps: int | None = None,
        likelihood: LikelihoodLike | None = None,
        batch_size: int | None = None,
        dtype: str = "float32",
    ) -> None:
        FlatModel(model).check_no_scales()
        self.flat = FlatModel(in_precision(model, dtype))
        self.programs = Programs(self.flat.model)
        self.size = self.flat.size
        self.likelihood = required_likelihood(model, likelihood)
        self.dtype = tf.as_dtype(dtype)
        data = Source(
            x, y, sample_weight=sample_weight, class_weight=class_weight, steps=steps, model=model
        ).whole(self.dtype)
        y, weights = data.y, data.weights
        self.x, self.y = in_type(data.x, self.dtype), in_type(y, self.dtype)
        self.weights = None if weights is None else tf.constant(weights, self.dtype)
        self._state: Any = None
        self.num_data = data.size
        self.batch_size = optional(positive_integer, "batch_size", batch_size)
        self.priors: list[Prior] | None = None
        if is_joint(prior):
            self._log_prior_of_one = prior
            check_density(prior, self.flat.theta)
        else:
            self.priors = prior_of_each(prior, self.flat)
            self._log_prior_of_one = independent(self.priors, self.flat)
        few = tf.nest.map_structure(lambda a: a[:2], self.x)
        self.flat.check_deterministic(few)
        outputs = self.flat(self.flat.theta, few)
        self.likelihood.check(outputs)
        self.likelihood.check_targets(y, outputs)
        network = tf.function(lambda theta: self.flat(theta, few))
        self._has_loops = has_loops(network.get_concrete_function(self.theta).graph)

    def __repr__(self) -> str:
        return f"<LogPosterior of model={self.flat.model.name!r}, {self.size} weights>"

    @property
    def theta(self) -> tf.Tensor:
        """The model's weights as they are now, shape (D,)."""
        return self.flat.theta

    @property
    def data(self) -> tuple[Any, ...]:
        """Inputs, targets, weights of examples, and variables that are not trained."""
        return self.x, self.y, self.weights, self.flat.state

    def on(self, data: tuple[Any, ...]) -> LogPosterior:
        """The same density of other `data` of such shapes, which may be tensors of a graph."""
        other = copy.copy(self)
        other.x, other.y, other.weights, other._state = data
        return other

    @property
    def structure(self) -> tuple[Any, ...] | None:
        """All that it is but for `data`, to be compared; None where that may be more than is known.

        Equal ones compute the same, whatever objects they were made of.
        """
        parts = (
            None if self.priors is None else structure.of_objects([self.likelihood, *self.priors])
        )
        network = structure.of_model(self.flat.model)
        if parts is None or network is None:
            return None
        return network, parts, self.dtype.name, self.num_data, self.batch_size, self._has_loops

    @_of_theta
    def __call__(self, theta: tf.Tensor) -> tf.Tensor:
        """Log p(y, theta | x) in nats, shape () for theta (D,), and (C,) for C chains (C, D).

        It is NaN or infinite where theta is not finite.

        Raises:
            ValueError: if theta is something else.
        """
        return self.log_likelihood(theta) + self.log_prior(theta)

    @_of_theta
    def log_likelihood(self, theta: tf.Tensor) -> tf.Tensor:
        """Log p(y | x, theta) in nats, of the shape that `__call__` has."""
        if self.batch_size is None or self.batch_size >= self.num_data:
            return self._log_likelihood_of(theta, self.x, self.y, self.weights)
        return self._in_chunks(theta)

    @_of_theta
    def log_prior(self, theta: tf.Tensor) -> tf.Tensor:
        """Log p(theta) in nats, of the shape that `__call__` has."""
        return over_chains(self._log_prior_of_one, theta)

    def checked(self, theta: Any) -> tf.Tensor:
        """Theta as a tensor, in the type that all is computed in.

        Raises:
            ValueError: if it is not of shape (D,) or (C, D).
        """
        if not isinstance(theta, tf.Tensor):
            theta = tf.constant(as_array("theta", theta))
        is_number = theta.dtype.is_floating or theta.dtype.is_integer
        if not is_number or theta.shape.rank not in (1, 2) or theta.shape[-1] != self.size:
            raise ValueError(
                f"theta has shape {tuple(theta.shape)} and type {theta.dtype.name}; give numbers "
                f"of shape ({self.size},) or (C, {self.size})"
            )
        return tf.cast(theta, self.dtype)

    def _log_likelihood_of(
        self, theta: tf.Tensor, x: Any, y: Any, weights: tf.Tensor | None
    ) -> tf.Tensor:
        def of_one(theta: tf.Tensor) -> tf.Tensor:
            log_prob = self.likelihood.log_prob(y, self.flat(theta, x, self._state))
            return tf.reduce_sum(log_prob if weights is None else weights * log_prob)

        num_data = min(self.batch_size or self.num_data, self.num_data)
        return over_chains(of_one, theta, num_data=num_data, has_loops=self._has_loops)

    def _in_chunks(self, theta: tf.Tensor) -> tf.Tensor:
        """The sum over chunks of the data, whose gradient is summed on the way."""
        size = self.batch_size or self.num_data
        count, rest = divmod(self.num_data, size)

        @custom_gradient
        def total(theta: tf.Tensor) -> tuple[tf.Tensor, Density]:
            def add(data: tuple[Any, ...], *sums: tf.Tensor) -> tuple[tf.Tensor, ...]:
                with tf.GradientTape() as tape:
                    tape.watch(theta)
                    part = self._log_likelihood_of(theta, *data)
                return sums[0] + part, sums[1] + tape.gradient(part, theta)

            _, *sums = tf.while_loop(
                lambda i, *_: i < count,
                lambda i, *sums: (
                    i + 1,
                    *add(self._part(i * size, size), *sums),
                ),
                (tf.constant(0), tf.zeros(theta.shape[:-1], self.dtype), tf.zeros_like(theta)),
            )
            value, gradient = add(self._part(self.num_data - rest, rest), *sums) if rest else sums
            return value, lambda upstream: upstream[..., tf.newaxis] * gradient

        return total(theta)

    def _part(self, start: tf.Tensor | int, count: int) -> tuple[Any, ...]:
        """`count` examples from `start` on: x, y and weights."""
        return keras.tree.map_structure(
            lambda a: tf.slice(a, [start] + [0] * (a.ndim - 1), [count, *a.shape[1:]]),
            (self.x, self.y, self.weights),
            none_is_leaf=False,
        )


def in_type(arrays: Any, dtype: tf.DType) -> Any:
    """Arrays on the device, in `dtype` if they are of floating numbers."""

    def of_one(array: Any) -> tf.Tensor:
        array = examples("x", array, dtype.name, text=True)
        return tf.constant(array, dtype if array.dtype.kind == "f" else None)

    return tf.nest.map_structure(of_one, arrays)

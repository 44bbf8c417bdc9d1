"""Statistics of the data about the weights of a network around their present values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl import random
from tfbdl.batches import Batch, batches
from tfbdl.flat_model import FlatModel
from tfbdl.graphs import Compiled
from tfbdl.inference.laplace.blocks.base import Tensors
from tfbdl.inference.laplace.curvature import cotangents, hessian
from tfbdl.inference.laplace.jacobian import Forms, Jacobian, check_last, rows
from tfbdl.inference.laplace.precision import JOINT, Precision, precision_of
from tfbdl.inference.laplace.scaled_likelihood import ScaledLikelihood
from tfbdl.inference.weight_subset import WeightSubset
from tfbdl.keras_private import settings_of, walk
from tfbdl.memory import require
from tfbdl.models.reweighted import floats
from tfbdl.sources import NO_TARGETS, Source

_FEW = 3
_NUMBERS = 50_000_000
"""Numbers that a batch may take in the making: 200 MB in float32."""
_LARGEST = 2000


class GatheredCurvature:
    """The curvature of -log p(y | theta, x) and its value, gathered in one pass over data.

    What it does with a batch is compiled once, however often it gathers.

    Args:
        model: the network, as its user has it.
        flat: the same, or a copy in another precision.
        subset: the weights.
        likelihood: p(y | f(x)).
        structure: a Hessian structure.
        kind: a curvature.
        rank: the rank of "lowrank".
        jit_compile: whether XLA compiles what is done with a batch, as in `Compiled`.

    Attributes:
        theta: the weights, shape (D,).
        states: the floating variables that are not trained, shape (1, E).
        mean: the weights of the subset, shape (P,), in float64.
        num_data: N, the sum of the weights of the examples.
        precision: H, in its structure.
    """

    _jacobian: Jacobian
    _forms: Forms | None
    _step: Compiled
    _moments: Compiled

    def __init__(
        self,
        model: keras.Model,
        flat: FlatModel,
        subset: WeightSubset,
        likelihood: ScaledLikelihood,
        *,
        structure: str,
        kind: str,
        rank: int,
        jit_compile: bool | None,
    ) -> None:
        self._model, self._flat = model, flat
        self._subset, self._likelihood = subset, likelihood
        self._structure, self._kind, self._rank = structure, kind, rank
        self._jit_compile = jit_compile
        self._settings: list[tuple[keras.layers.Layer, Any]] | None = None
        self._compile()

    def gather(self, data: Source, batch_size: int | None) -> None:
        """Goes through the data, at the network's weights and state as they are.

        Args:
            data: inputs, targets and weights.
            batch_size: the most examples at once; None for as many as memory is good for.

        Raises:
            ValueError: if the data do not fit the network or its likelihood, or it not into memory.
        """
        self._follow_model()
        theta = tf.constant(self._flat.theta.numpy())
        state = [tf.constant(v.numpy()) for v in self._flat.state]
        few = self._first(theta, state, data)
        if self._forms is None:
            self._forms = self._jacobian.found_forms(theta, state, few)
        precision = precision_of(self._structure, self._subset, self._jacobian, self._rank)
        self._form = precision
        k = self._outputs if self._kind == "ggn" else 1
        size = self._batch_size(k, self._kind == "hessian")
        total, sums = None, np.zeros(3)
        for number, batch in enumerate(self._batches(data, min(size, batch_size or size))):
            y_now = keras.tree.map_structure(lambda a: a.numpy(), batch.y)
            self._likelihood.unit.check_targets(y_now, self._example_outputs)
            key = random.fold_in(random.key_of(0, "labels"), number)
            statistics, batch_sums = self._step(theta, state, batch, key)
            total = precision.add(total, statistics)
            sums += batch_sums.numpy()
        assert total is not None
        if not sums[2]:
            raise ValueError("x has weights of 0 for all examples; give one that counts")
        precision.finish(total)
        self._take(theta, state, precision, sums)

    def sample(self, key: tf.Tensor, num_samples: int, factors: list[Tensors]) -> np.ndarray:
        """Draws of the weights of the subset under these factors, (num_samples, P), in float64."""
        noise = random.normal(key, (num_samples, self._subset.size), "float64")
        return self.mean + self.precision.sample(noise, factors).numpy()

    def arrays(self) -> dict[str, np.ndarray]:
        """The statistics, by name, for a file."""
        assert self._forms is not None
        return {
            "theta": self.theta.numpy(),
            "forms": self._forms.as_array(),
            "sums": np.array([self._log_prob, self._count, self.num_data]),
            "outputs": np.array(self._outputs),
            **{f"state/{i}": v.numpy() for i, v in enumerate(self._state)},
            **{f"precision/{name}": array for name, array in self.precision.arrays().items()},
        }

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Restores the state from `arrays`."""
        self._forms = Forms.of_array(arrays["forms"])
        self._jacobian = Jacobian(self._flat, self._subset, self._likelihood.link, self._forms)
        self._outputs = int(arrays["outputs"])
        precision = precision_of(self._structure, self._subset, self._jacobian, self._rank)
        start = len("precision/")
        of_precision = {k[start:]: v for k, v in arrays.items() if k.startswith("precision/")}
        precision.restore(of_precision)
        self._form = precision
        state = [tf.constant(arrays[f"state/{i}"]) for i in range(len(self._flat.state))]
        self._take(tf.constant(arrays["theta"]), state, precision, arrays["sums"])

    def _follow_model(self) -> None:
        """Takes up weights and settings of layers that have changed since."""
        settings, before = _settings_of_layers(self._model), self._note_settings()
        if self._flat.model is not self._model:  # it is a copy, in another precision
            if settings != before:
                raise ValueError(
                    f"model={self._model.name} has layers whose settings have changed; make a new "
                    "Laplace"
                )
            self._flat.model.set_weights(self._model.get_weights())
        elif settings != before:
            self._settings = settings
            self._compile()

    def _note_settings(self) -> list[tuple[keras.layers.Layer, Any]]:
        """The settings that programs are made under, from the first use on.

        Not before, since layers that are being loaded do not have all of theirs.
        """
        if self._settings is None:
            self._settings = _settings_of_layers(self._model)
        return self._settings

    def _compile(self) -> None:
        self._jacobian = Jacobian(self._flat, self._subset, self._likelihood.link)
        self._forms = None
        step = self._hessian if self._kind == "hessian" else self._statistics
        self._step = Compiled(step, self._jit_compile)
        self._moments = Compiled(self._function_moments, self._jit_compile)

    def _take(
        self, theta: tf.Tensor, state: list[tf.Tensor], precision: Precision, sums: np.ndarray
    ) -> None:
        self.theta, self._state, self.precision = theta, state, precision
        self.states = floats(state).numpy()[np.newaxis]
        self.mean = self._subset.take(theta.numpy().astype(np.float64))
        self._log_prob, self._count, self.num_data = (float(value) for value in sums)

    def log_marginal_likelihood(
        self, delta: tf.Tensor, sigma: tf.Tensor, temperature: float
    ) -> tf.Tensor:
        """Log p(y | x) in nats, for all data: that of theta, and the volume of the posterior."""
        log_likelihood = self._likelihood.log_likelihood(self._log_prob, self._count, sigma)
        c = self._scale(sigma, temperature)
        log_det_ratio = self.precision.log_det(delta, c) - tf.reduce_sum(tf.math.log(delta))
        scatter = tf.reduce_sum(delta * self.mean**2)
        return log_likelihood / temperature - 0.5 * (scatter + log_det_ratio)

    def factors(self, delta: tf.Tensor, sigma: tf.Tensor, temperature: float) -> list[Tensors]:
        """The posterior, as `precision` needs it."""
        return self.precision.factors(delta, self._scale(sigma, temperature))

    def function_moments(
        self, x: Source, factors: list[Tensors], batch_size: int | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean, shape (N, ...), and covariance at each x, (N, F, F), of the linearised outputs."""
        self._note_settings()
        size = self._batch_size(self._outputs, False)
        means, covariances = [], []
        for batch in self._batches(x, min(size, batch_size or size)):
            mean, covariance = self._moments(self.theta, self._state, batch.x, factors)
            means.append(mean[: batch.size].numpy().astype(np.float64))
            covariances.append(covariance[: batch.size].numpy())
        return np.concatenate(means), np.concatenate(covariances)

    def _first(self, theta: tf.Tensor, state: Any, data: Source) -> Any:
        """A few inputs, after checks of the first batch."""
        inputs, targets, _ = data.first(self._flat.dtype)
        if targets is None:
            raise ValueError(NO_TARGETS)
        few = next(self._batches(Source(*_head(inputs, targets)), _FEW))
        self._flat.check_deterministic(few.x)
        outputs = self._flat(theta, few.x, state)
        self._likelihood.of_network(1.0).check(outputs)
        self._example_outputs = self._likelihood.link(outputs)
        if self._subset.last_layer is not None:
            check_last(self._flat, self._subset.last_layer, self._subset.owners, few.x)
        self._outputs = rows(self._example_outputs).shape[1]
        return few.x

    def _batch_size(self, k: int, is_hessian: bool) -> int:
        """Examples that J in K directions leaves memory for."""
        numbers = self._jacobian.numbers(k, self._structure in JOINT and not is_hessian)
        numbers *= self._subset.size if is_hessian else 1
        require(
            self._form.bytes + 4 * numbers,
            f"the posterior of {self._subset.size:,} weights",
            "use hessian_structure='diag' or fewer weights",
        )
        return int(np.clip(_NUMBERS // max(numbers, 1), 1, _LARGEST))

    def _batches(self, data: Source, size: int) -> Iterator[Batch]:
        return batches(data, size, self._flat.dtype, one_shape=True).parts

    def _scale(self, sigma: tf.Tensor, temperature: float) -> tf.Tensor:
        return self._likelihood.curvature(self._kind, sigma) / temperature

    def _statistics(
        self, theta: tf.Tensor, state: Any, batch: Batch, key: tf.Tensor
    ) -> tuple[list[Tensors], tf.Tensor]:
        along = cotangents(self._kind, self._likelihood.unit, batch.y, key)
        outputs, parts = self._jacobian(theta, state, batch.x, along)
        return self._form.statistics(parts, batch.weights), self._sums(outputs, batch)

    def _hessian(
        self, theta: tf.Tensor, state: Any, batch: Batch, key: tf.Tensor
    ) -> tuple[list[Tensors], tf.Tensor]:
        def loss(values: tf.Tensor) -> tf.Tensor:
            everywhere = self._subset.scatter(values, theta)
            outputs = self._jacobian.outputs(everywhere, state, batch.x)
            log_prob = self._likelihood.unit.log_prob(batch.y, outputs)
            return -tf.reduce_sum(batch.weights * log_prob)

        h = hessian(loss, self._subset.gather(theta), self._jacobian.map)
        outputs = self._jacobian.outputs(theta, state, batch.x)
        return [(0.5 * (h + tf.transpose(h)),)], self._sums(outputs, batch)

    def _sums(self, outputs: tf.Tensor, batch: Batch) -> tf.Tensor:
        """Sums over the examples by their weights: log p(y | f) in nats, numbers in y, and 1."""
        log_prob = self._likelihood.unit.log_prob(batch.y, outputs)
        log_prob, num = tf.reduce_sum(batch.weights * log_prob), tf.reduce_sum(batch.weights)
        return tf.stack([tf.cast(v, tf.float64) for v in (log_prob, num * self._outputs, num)])

    def _function_moments(
        self, theta: tf.Tensor, state: Any, x: Any, factors: list[Tensors]
    ) -> tuple[tf.Tensor, tf.Tensor]:
        def each_output(outputs: tf.Tensor) -> tf.Tensor:
            b, f = rows(outputs).shape
            return tf.tile(tf.eye(f, dtype=outputs.dtype)[:, tf.newaxis], [1, b, 1])

        outputs, parts = self._jacobian(theta, state, x, each_output)
        return outputs, self._form.variance(parts, factors)


def _head(x: Any, y: Any) -> tuple[Any, Any]:
    return keras.tree.map_structure(lambda a: a[:_FEW], (x, y))


def _settings_of_layers(model: keras.Model) -> list[tuple[keras.layers.Layer, Any]]:
    return [(layer, settings_of(layer)) for layer in walk(model)]

"""SWAG: a normal posterior from the path of stochastic gradient descent (Maddox et al. 2019)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfbdl import arguments
from tfbdl.arguments import boolean, generator, integer, optional, positive, positive_integer
from tfbdl.flat_model import FlatModel
from tfbdl.inference.path_moments import Path, PathMoments
from tfbdl.inference.training_method import Training, TrainingMethod
from tfbdl.inference.weight_table import WeightTable
from tfbdl.keras_private import own_variables, walk
from tfbdl.memory import require
from tfbdl.models.ensemble import WeightEnsemble
from tfbdl.models.reweighted import floats
from tfbdl.sources import ENDLESS, GENERATOR, Source, kind_of, length_of


class Statistics(NamedTuple):
    """The statistics of BatchNormalization of the draws that `ensemble` gave last.

    Attributes:
        num_samples: the number of draws.
        seed: the seed of the draws, in 0 .. 2^64 - 1.
        states: the floating variables that do not train, at each draw, shape (num_samples, E).
    """

    num_samples: int
    seed: int
    states: np.ndarray


@keras.saving.register_keras_serializable(package="tfbdl")
class SWAG(TrainingMethod):
    """theta ~ N(mean, scale^2 (diag(variance) + D D^T / (K - 1))), of the moments of SGD's path.

    Mean and variance are those of the weights after each epoch; the columns of D are the deviations
    of the weights after the last K epochs from the mean until then (Maddox et al. 2019, "A simple
    baseline for Bayesian uncertainty in deep learning", section 3.2, whose scale is 2^-1/2). It is
    the cheapest posterior around one mode of a large network: train it, then let SGD go on at a
    constant rate that is large enough to move. Only the moments, in float64, and K deviations, in
    the weights' precision, are kept: for D weights in float32, 4 K D + 16 D bytes.

    Args:
        model: a built network, trained, and compiled with `keras.optimizers.SGD` at a constant
            rate and a loss. `fit` trains it on.
        rank: K, at least 2; the paper's 20. A shorter path gives fewer columns.
        scale: the factor of all standard deviations, > 0.
        start: epochs to leave out at the beginning.
        every: epochs between two points of the path.
        seed: the seed of the order of the examples.
        jit_compile: whether XLA compiles the steps, as in `tfbdl.train`.

    Attributes:
        mean: shape (D,).
        variance: the variance of each weight, shape (D,).
        deviations: the rows are the columns of D, shape (K, D).

    Raises:
        ValueError: if an argument is out of its range, or the model is random, not built or not
            compiled.
    """

    _result: PathMoments | None

    def __init__(
        self,
        model: keras.Model,
        *,
        rank: int = 20,
        scale: float = 0.5**0.5,
        start: int = 0,
        every: int = 1,
        seed: int = 0,
        jit_compile: bool | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        self._flat = FlatModel(model)
        self._flat.check_no_scales()
        if not model.compiled:
            raise ValueError(
                f"model={model.name} is not compiled; call model.compile(optimizer, loss)"
            )
        self.model = model
        self.rank = integer("rank", rank, least=2)
        self.scale = positive("scale", scale)
        self.start = integer("start", start, least=0)
        self.every = positive_integer("every", every)
        self.seed = arguments.seed("seed", seed)
        self.jit_compile = optional(boolean, "jit_compile", jit_compile)
        self._training = SimpleNamespace(x=None)  # Keras would wrap dictionaries
        self._statistics: Statistics | None = None

    def _trained(self, training: Training) -> PathMoments:
        run, x, savedir, callbacks = training
        path = Path(self.rank, self.start, self.every)
        run(self.model, savedir=savedir, callbacks=[*callbacks, path], seed=self.seed)
        moments = path.moments
        if moments is None or moments.num_points < 2:
            raise ValueError(
                f"start={self.start} and every={self.every} leave less than two points of the "
                "path; train longer"
            )
        self._statistics = None
        self._training.x = x if _can_read_again(x) else None
        return moments

    @property
    def mean(self) -> np.ndarray:
        return self._fitted("mean").mean

    @property
    def variance(self) -> np.ndarray:
        moments = self._fitted("variance")
        return moments.squares / moments.num_points

    @property
    def deviations(self) -> np.ndarray:
        return self._fitted("deviations").deviations

    def sample(self, num_samples: int = 30, *, seed: int = 0) -> np.ndarray:
        """Draws of theta, shape (num_samples, D), in the precision of the weights."""
        _, _, deviations, _ = self._fitted("sample")
        k, size = deviations.shape
        needed = deviations.itemsize * positive_integer("num_samples", num_samples) * size
        require(needed, f"num_samples={num_samples}", "draw fewer")
        rng = generator("seed", seed)
        stddev = self.scale * np.sqrt(self.variance)
        draws = np.empty((num_samples, size), deviations.dtype)
        for draw in draws:
            draw[:] = self.mean + stddev * rng.standard_normal(size)
        shared = self.scale * rng.standard_normal((num_samples, k)) / np.sqrt(max(k - 1, 1))
        for i, factors in enumerate(shared.astype(deviations.dtype)):
            draws[i] += factors @ deviations
        return draws

    def ensemble(
        self, num_samples: int = 30, *, x: Any = None, batch_size: int = 100, seed: int = 0
    ) -> WeightEnsemble:
        """Draws as a model whose functions `tfbdl.predict` draws.

        Args:
            num_samples: draws; the paper's 30.
            x: training inputs, from which the statistics of BatchNormalization that is not frozen
                are taken anew for each draw; by default those of `fit`. A file does not hold these,
                nor does a method that was fitted to a generator, a function, or data without an
                end: it has the statistics of the draws that it gave last, and gives these again.
            batch_size: examples at a time while these statistics are taken.
            seed: the seed of the draws.

        Raises:
            ValueError: if an argument is out of its range, the network has BatchNormalization that
                trains and neither inputs nor the statistics of these draws are known, inputs do not
                fit, or x is given to one without.
        """
        self._fitted("ensemble")
        batch_size = positive_integer("batch_size", batch_size)
        thetas = self.sample(num_samples, seed=seed)
        layers = _normalizations(self.model)
        states = None
        if x is not None and not layers:
            raise ValueError("x is for networks with BatchNormalization that trains; leave it out")
        if layers:
            x = self._training.x if x is None else x
            if x is None:
                states = self._kept_states(num_samples, seed, layers[0])
            else:
                states = self._new_states(thetas, Source(x, model=self.model), batch_size)
                self._statistics = Statistics(num_samples, seed % 2**64, states)
        ensemble = WeightEnsemble(self.model, thetas, states)
        ensemble.take_loss(self.model)
        return ensemble

    def _new_states(self, thetas: np.ndarray, data: Source, batch_size: int) -> np.ndarray:
        """The statistics at each theta, from training inputs."""
        self._flat.check_inputs(data.first(self._flat.dtype).x)
        with _left_as_it_was(self.model):
            return _statistics(self.model, thetas, data, batch_size)

    def _kept_states(
        self, num_samples: int, seed: int, layer: keras.layers.BatchNormalization
    ) -> np.ndarray:
        """The statistics of the same draws, if they were the last.

        Raises:
            ValueError: if they were not.
        """
        kept = self._statistics
        if kept is not None and (kept.num_samples, kept.seed) == (num_samples, seed % 2**64):
            return kept.states
        known = f"num_samples={kept.num_samples}, seed={kept.seed}" if kept else ""
        raise ValueError(
            f"x=None: layer={layer.name!r} keeps statistics of its inputs, which differ for each "
            f"draw; {f'ask for {known}, or ' if known else ''}give training inputs to ensemble"
        )

    def summary(self) -> WeightTable:
        """Means and standard deviations of the posterior, by weight tensor."""
        moments = self._fitted("summary")
        k = max(len(moments.deviations) - 1, 1)
        variance = self.variance
        for deviation in moments.deviations:
            variance += np.square(deviation, dtype=np.float64) / k
        remarks = [f"{moments.num_points} points of the path, {len(moments.deviations)} deviations"]
        stddev = self.scale * np.sqrt(variance)
        return WeightTable.of(repr(self), self._flat.shapes, moments.mean, stddev, remarks)

    def fitted_arrays(self) -> dict[str, np.ndarray]:
        moments = self._fitted("fitted_arrays")
        arrays = {name: np.asarray(value) for name, value in moments._asdict().items()}
        if self._statistics is not None:
            num_samples, seed, arrays["drawn_states"] = self._statistics
            arrays["drawn"] = np.array([num_samples, seed], np.uint64)
        return arrays

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        self._keep(PathMoments.of_arrays(arrays))
        if "drawn" in arrays:
            num_samples, seed = map(int, arrays["drawn"])
            self._statistics = Statistics(num_samples, seed, arrays["drawn_states"])


def _normalizations(model: keras.Model) -> list[keras.layers.BatchNormalization]:
    """The layers that take statistics in training: those that are frozen keep what they have."""
    kind = keras.layers.BatchNormalization
    return [layer for layer in walk(model) if isinstance(layer, kind) and layer.trainable]


@contextmanager
def _left_as_it_was(model: keras.Model) -> Iterator[None]:
    """Puts weights, statistics, the state of noise and momenta back when the context ends."""
    variables = [(v, v.numpy()) for layer in walk(model) for v in own_variables(layer)]
    momenta = [(layer, layer.momentum) for layer in _normalizations(model)]
    try:
        yield
    finally:
        for variable, value in variables:
            variable.assign(value)
        for layer, momentum in momenta:
            layer.momentum = momentum


def _can_read_again(x: Any) -> bool:
    """Whether x is arrays, or batches of which there is an end and a beginning."""
    is_generator = callable(x) or kind_of(x) == GENERATOR
    return not is_generator and (kind_of(x) is None or length_of(x) != ENDLESS)


def _statistics(
    model: keras.Model, thetas: np.ndarray, data: Source, batch_size: int
) -> np.ndarray:
    """The statistics of BatchNormalization at each theta: means over the batches of x, (K, E)."""
    flat, layers = FlatModel(model), _normalizations(model)
    states = []
    for theta in thetas:
        flat.assign(tf.cast(theta, flat.dtype))
        for i, x in enumerate(_parts(data, flat.dtype, batch_size)):
            for layer in layers:
                layer.momentum = i / (i + 1.0)
            flat.model(x, training=True)
        states.append(floats(flat.state).numpy())
    return np.stack(states)


def _parts(data: Source, dtype: tf.DType, batch_size: int) -> Iterator[Any]:
    """The inputs, at most so many at a time."""
    for element in data.elements(dtype, needs_y=False):
        for start in range(0, element.size, batch_size):
            rows = slice(start, start + batch_size)
            yield keras.tree.map_structure(lambda a, r=rows: a[r], element.x)

"""Statistics of the data about the weights of a network around their present values."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tfbdl import random
from tfbdl.batches import batches
from tfbdl.inference.laplace.blocks.base import Tensors
from tfbdl.inference.laplace.counts import Counts, Masks, check_sums
from tfbdl.inference.laplace.covariance import OutputCovariances
from tfbdl.inference.laplace.followed import Followed
from tfbdl.inference.laplace.forms import Forms, few_examples
from tfbdl.inference.laplace.head_pass import HeadPass
from tfbdl.inference.laplace.jacobian import Jacobian
from tfbdl.inference.laplace.moves import Moves
from tfbdl.inference.laplace.network_pass import NUMBERS, NetworkPass
from tfbdl.inference.laplace.output_parts import OutputPart, output_parts
from tfbdl.inference.laplace.precision import Precision, precision_of
from tfbdl.inference.laplace.scaled_likelihood import ScaledLikelihood
from tfbdl.inference.weight_subset import WeightSubset
from tfbdl.memory import require
from tfbdl.models.reweighted import floats
from tfbdl.predictive.kept import FEW_OUTPUTS
from tfbdl.sources import Source

_LARGEST = 2000


class GatheredCurvature:
    """The curvature of -log p(y | theta, x) and its value, gathered in one pass over data.

    What it does with a batch is compiled once, however often it gathers.

    Args:
        followed: the network.
        subset: the weights.
        likelihood: p(y | f(x)).
        structure: a Hessian structure.
        kind: a curvature.
        rank: the rank of "lowrank".
        temperature: T; H counts over T, and so does the likelihood.
        jit_compile: whether XLA compiles what is done with a batch, as in `Compiled`.
        chosen: the weights of "subnetwork", as in `precision_of`.

    Attributes:
        theta: the weights, shape (D,).
        states: the floating variables that are not trained, shape (1, E).
        mean: the weights of the subset, shape (P,), in float64.
        num_data: N, the sum of the weights of the examples.
        precision: H, in its structure.
    """

    _jacobian: Jacobian
    _forms: Forms | None
    _network: NetworkPass
    _heads: HeadPass | None
    _counts: Counts | None

    def __init__(
        self,
        followed: Followed,
        subset: WeightSubset,
        likelihood: ScaledLikelihood,
        *,
        structure: str,
        kind: str,
        rank: int,
        temperature: float,
        jit_compile: bool | None,
        chosen: np.ndarray | None = None,
    ) -> None:
        followed.check()
        self._flat, self._followed = followed.flat, followed
        self._subset, self._likelihood = subset, likelihood
        self._structure, self._kind, self._rank = structure, kind, rank
        self._temperature, self._jit_compile, self._chosen = temperature, jit_compile, chosen
        self._compile()

    def gather(self, data: Source, batch_size: int | None, *, further: bool = False) -> None:
        """Goes through the data, at the network's weights and state as they are.

        Args:
            data: inputs, targets and weights.
            batch_size: the most examples at once; None for as many as memory is good for.
            further: whether they come to all data before.

        Raises:
            ValueError: if the data do not fit the network or its likelihood, or it not into memory;
                or if weights without a posterior are others than for the data before.
        """
        theta = self._followed.theta
        if further:
            self._subset.check_others(self.theta, theta)
        if self._followed.take_up():
            self._compile()
        state = [tf.constant(v.numpy()) for v in self._flat.state]
        few, self._example_outputs = few_examples(
            self._flat, theta, state, data=data, likelihood=self._likelihood, subset=self._subset
        )
        self._shape = tuple(self._example_outputs.shape[1:])
        if self._forms is None:
            self._forms = self._jacobian.find_forms(theta, state, few, self._parts())
            self._make_passes()
        precision = self._new_precision()
        heads = self._heads if self._kind == "ggn" else None
        numbers = self._network.numbers(of_fit=True) if heads is None else heads.numbers()
        size = self._batch_size(numbers)
        total, sums = (self.precision.total, self._sums) if further else (None, np.zeros(3))
        if self._counts is None:
            self._counts = Counts(
                self._jacobian, self._likelihood.unit, self._example_outputs, self._jit_compile
            )
        most = min(size, batch_size or size)
        parts = batches(data, most, self._flat.dtype, one_shape=True).parts
        for number, batch in enumerate(parts):
            counted = self._counts.of(theta, state, batch)
            if heads is None:
                key = random.fold_in(random.key_of(0, "labels"), number)
                total, outputs = self._network.add(total, theta, state, counted, key)
            else:
                total, outputs = heads.add(total, theta, state, counted)
            sums = sums + self._counts.sums(outputs, counted).numpy()
        assert total is not None
        check_sums(sums)
        precision.finish(total)
        mean = self._subset.take(theta.numpy().astype(np.float64))
        moves = Moves.none(mean)
        if further:
            moves = self._moves.then(mean - self.mean, self.precision, self._subset)
        self._take(theta, state, precision, sums, moves)

    def sample(self, num_samples: int, seed: int, factors: list[Tensors]) -> np.ndarray:
        """Draws of the weights of the subset under these factors, (num_samples, P), in float64."""
        require(16 * num_samples * self._subset.size, f"num_samples={num_samples}", "draw fewer")
        key = random.key_of(seed, "laplace")
        noise = random.normal(key, (num_samples, self._subset.size), "float64")
        draws = self.precision.sample(noise, factors)
        draws += self.mean
        return draws

    def arrays(self) -> dict[str, np.ndarray]:
        """The statistics, by name, for a file."""
        assert self._forms is not None
        return {
            "theta": self.theta.numpy(),
            **self._forms.arrays(),
            "sums": self._sums,
            **self._moves.arrays(),
            **({} if self._chosen is None else {"chosen": self._chosen}),
            "outputs": np.array(self._shape, np.int64),
            **{f"state/{i}": v.numpy() for i, v in enumerate(self._state)},
            **{f"precision/{name}": array for name, array in self.precision.arrays().items()},
        }

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Restores the state from `arrays`."""
        self._forms, self._chosen = Forms.of_arrays(arrays), arrays.get("chosen")
        self._jacobian = Jacobian(self._flat, self._subset, self._likelihood.link, self._forms)
        self._shape = tuple(map(int, arrays["outputs"]))
        self._make_passes()
        precision = self._new_precision()
        start = len("precision/")
        of_precision = {k[start:]: v for k, v in arrays.items() if k.startswith("precision/")}
        precision.restore(of_precision)
        state = [tf.constant(arrays[f"state/{i}"]) for i in range(len(self._flat.state))]
        theta = tf.constant(arrays["theta"])
        moves = Moves.of_arrays(arrays, self._subset.take(arrays["theta"].astype(np.float64)))
        self._take(theta, state, precision, arrays["sums"], moves)

    def _compile(self) -> None:
        self._jacobian = Jacobian(self._flat, self._subset, self._likelihood.link)
        self._forms = None
        self._counts = None

    def _take(
        self,
        theta: tf.Tensor,
        state: list[tf.Tensor],
        precision: Precision,
        sums: np.ndarray,
        moves: Moves,
    ) -> None:
        self.theta, self._state, self.precision = theta, state, precision
        self._sums, self._moves = sums, moves
        self.states = floats(state).numpy()[np.newaxis]
        self.mean = self._subset.take(theta.numpy().astype(np.float64))
        self.num_data = float(sums[2])

    def log_marginal_likelihood(
        self, delta: tf.Tensor, prior_mean: tf.Tensor, sigma: tf.Tensor
    ) -> tf.Tensor:
        """Log p(y | x) in nats, for all data: log p(y, theta | x), and the posterior's volume."""
        log_prob, count, _ = map(float, self._sums)
        log_likelihood = self._likelihood.log_likelihood(log_prob, count, sigma)
        c = self.scale(sigma)
        log_det_ratio = self.precision.log_det(delta, c) - tf.reduce_sum(tf.math.log(delta))
        scatter = self._moves.scatter(prior_mean, delta, c)
        return log_likelihood / self._temperature - 0.5 * (scatter + log_det_ratio)

    def function_moments(
        self, x: Source, factors: list[Tensors], batch_size: int | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean, shape (N, ...), and covariance at each x, (N, F, F), of the linearised outputs."""
        self._followed.note_settings()
        size = self._batch_size(self._network.numbers_of_whole())
        means, covariances = [], []
        for batch in batches(x, min(size, batch_size or size), self._flat.dtype).parts:
            mean, covariance = self._network.whole(self.theta, self._state, batch.x, factors)
            means.append(mean[: batch.size].numpy().astype(np.float64))
            covariances.append(covariance[: batch.size].numpy())
        return np.concatenate(means), np.concatenate(covariances)

    def covariances(
        self,
        x: Source,
        factors: list[Tensors],
        batch_size: int | None,
        *,
        jointly: bool,
        kept: tuple[int, int] | None,
    ) -> Iterator[tuple[tf.Tensor, list[OutputCovariances], tf.Tensor | None]]:
        """Mean outputs of each batch, each output's covariances in its positions, and masks.

        Args:
            x: inputs.
            factors: the posterior, as `factors` gives it.
            batch_size: the most examples at once, or None.
            jointly: whether all that an example has counts as one position, where it is up to 100
                numbers.
            kept: the number and the seed of draws that are to be joint over all that an example
                has, or None; where an example has many outputs, of the weights, the same for all.
        """
        self._followed.note_settings()
        heads = self._heads
        one_position = heads is not None and all(h.positions == 1 for h in self._jacobian.heads)
        few = math.prod(self._shape) <= FEW_OUTPUTS
        if not one_position and ((few and (jointly or kept)) or (kept and heads is None)):
            find, numbers = self._network.whole_laws, self._network.numbers_of_whole()
        elif heads is None:
            find, numbers = self._network.covariances, self._network.numbers(of_fit=False)
        else:
            drawn = None
            if kept and not one_position:
                drawn = self.sample(*kept, factors) - self.mean
            find, numbers = functools.partial(heads.covariances, drawn=drawn), heads.numbers()
        size = self._batch_size(numbers)
        for batch in batches(x, min(size, batch_size or size), self._flat.dtype).parts:
            with self._flat.blaming(batch.x):
                mean, laws = find(self.theta, self._state, batch.x, factors)
            share, mask = batch.size / len(mean), self._masks.of(self.theta, self._state, batch)
            yield (
                mean[: batch.size],
                [law.rows(slice(round(law.num_positions * share))) for law in laws],
                None if mask is None else mask[: batch.size],
            )

    def _parts(self) -> list[OutputPart]:
        return output_parts(self._likelihood.unit, self._shape)

    def _new_precision(self) -> Precision:
        of = self._structure, self._subset, self._jacobian
        return precision_of(*of, rank=self._rank, chosen=self._chosen)

    def _make_passes(self) -> None:
        form, parts = self._new_precision(), self._parts()
        self._bytes = form.bytes
        self._masks = Masks(self._jacobian, self._likelihood.unit, self._jit_compile)
        self._network = NetworkPass(
            self._jacobian,
            parts,
            form,
            likelihood=self._likelihood.unit,
            kind=self._kind,
            jit_compile=self._jit_compile,
        )
        self._heads = None
        if self._jacobian.heads:
            self._heads = HeadPass(self._jacobian, parts, form, self._jit_compile)

    def _batch_size(self, numbers: int) -> int:
        """Examples of so many numbers each that leave memory."""
        require(
            self._bytes + 4 * numbers,
            f"the posterior of {self._subset.size:,} weights",
            "use hessian_structure='diag' or fewer weights",
        )
        return int(np.clip(NUMBERS // max(numbers, 1), 1, _LARGEST))

    def scale(self, sigma: Any) -> tf.Tensor:
        """C, by which H counts in the posterior's precision under this noise."""
        sigma = tf.convert_to_tensor(sigma, tf.float64)
        return self._likelihood.curvature(self._kind, sigma) / self._temperature

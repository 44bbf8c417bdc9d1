"""Predictions of the linearised network (Immer, Korzepa, Bauer 2021): f(x) ~ N(f(x), J S J^T)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl import random
from tfbdl.graphs import Compiled
from tfbdl.inference.laplace.blocks.base import Tensors
from tfbdl.inference.laplace.covariance import OutputCovariances
from tfbdl.inference.laplace.gathering import GatheredCurvature
from tfbdl.inference.laplace.jacobian import rows
from tfbdl.inference.laplace.joint_rows import JointRows
from tfbdl.inference.laplace.links import mean_of_classes
from tfbdl.inference.laplace.output_parts import output_parts
from tfbdl.lengths import check_one_length
from tfbdl.likelihoods import Bernoulli, Categorical, Likelihood, Normal
from tfbdl.likelihoods.base import HALF_LOG_2PI_E
from tfbdl.predictive import Prediction
from tfbdl.predictive.closed_form import ClosedFormPrediction
from tfbdl.predictive.finite import check_finite
from tfbdl.predictive.kept import Kept
from tfbdl.predictive.moments import of_one
from tfbdl.predictive.predict import Request
from tfbdl.probability import tfp
from tfbdl.sources import Source

_DRAWN = 3_000_000
"""Numbers that the draws of some examples may take: 12 MB, and each of their moments as much."""


def default_link(likelihood: Likelihood) -> str:
    """The default link from normal f to p(y | x): exact where known, or else "probit" or "mc"."""
    if isinstance(likelihood, Normal) and likelihood.scale != "predicted":
        return "exact"
    return "probit" if isinstance(likelihood, (Categorical, Bernoulli)) else "mc"


class Linearised:
    """Predictions under one likelihood, whose programs are compiled once.

    Args:
        likelihood: p(y | f).
        link_approx: "probit", "bridge" or "mc"; None for the default of each output.
    """

    def __init__(self, likelihood: Likelihood, link_approx: str | None) -> None:
        self._likelihood, self._link = likelihood, link_approx
        self._programs: dict[Any, Compiled] = {}

    def predictions(
        self, gathered: GatheredCurvature, factors: list[Tensors], x: Source, request: Request
    ) -> Any:
        """The predictive distribution of y at x; one for each of several outputs.

        Args:
            gathered: the network at its mode.
            factors: the posterior.
            x: inputs.
            request: what is asked for. All comes from its draws of f that the link does not give.
        """
        likelihood, number = self._likelihood, request.num_samples
        kept = (number, request.seed) if request.return_samples else None
        jointly = self._has_joint_density
        key = random.key_of(request.seed, "outputs")
        answers: list[Answer] = []
        for mean, laws, mask in gathered.covariances(
            x, factors, request.batch_size, jointly=jointly, kept=kept
        ):
            parts = output_parts(likelihood, mean.shape[1:])
            for place, part in enumerate(parts if not answers else ()):
                draws = self._draws(place, part.likelihood, random.fold_in(key, place), request)
                link = self._link or default_link(part.likelihood)
                answers.append(_answer(link, part.likelihood, draws))
            for part, law, answer in zip(parts, laws, answers, strict=True):
                answer.add(part.take(rows(mean)), law)
                if mask is not None:
                    answer.masks.append(part.positions_of(mask).numpy())
        each = [answer.prediction() for answer in answers]
        if not isinstance(likelihood, JointRows):
            return each[0]
        return keras.tree.pack_sequence_as(likelihood.joint.likelihoods, each)

    @property
    def _has_joint_density(self) -> bool:
        """Whether p(y | x) of an output is exact, so that all its elements have a joint density."""
        likelihood = self._likelihood
        parts = likelihood.parts if isinstance(likelihood, JointRows) else [likelihood]
        return any(default_link(part) == "exact" for part in parts)

    def _draws(
        self, place: int, likelihood: Likelihood, key: tf.Tensor, request: Request
    ) -> FunctionDraws:
        number, kept = request.num_samples, request.return_samples
        name = place, number, kept
        if name not in self._programs:
            self._programs[name] = moments_of_draws(likelihood, number, kept)
        return FunctionDraws(self._programs[name], number, key, kept)


def moments_of_draws(likelihood: Likelihood, num_samples: int, kept: bool) -> Compiled:
    """A function of means, covariances and a key: `_moments` of draws of f; and these, if kept."""

    def step(
        mean: tf.Tensor, law: OutputCovariances, key: tf.Tensor
    ) -> tuple[tuple[tf.Tensor, ...], tf.Tensor | None]:
        shapes = enumerate(law.noise_shapes(num_samples))
        noises = [random.normal(random.fold_in(key, k), shape, mean.dtype) for k, shape in shapes]
        deviations = tf.reshape(law.draws(noises), [num_samples, *mean.shape])
        values = tf.cast(mean + deviations, tf.float32)
        return _moments(likelihood, values), values if kept else None

    return Compiled(step)


class FunctionDraws:
    """Draws of f, independent between examples.

    Args:
        program: `moments_of_draws`.
        num_samples: S.
        key: the key of their noise.
        kept: whether they are kept.
    """

    def __init__(self, program: Compiled, num_samples: int, key: tf.Tensor, kept: bool) -> None:
        self.num_samples, self.kept = num_samples, kept
        self._program, self._key, self._number = program, key, 0

    def of(
        self, mean: tf.Tensor, law: OutputCovariances
    ) -> Iterator[tuple[tuple[tf.Tensor, ...], Any]]:
        """`_moments` of a few examples at a time; with their f, (S, n, ...), or None."""
        positions = law.num_positions // len(mean)
        numbers = self.num_samples * len(rows(mean)[0])
        most = max(_DRAWN // numbers, 1)
        start = 0
        while start < len(mean):
            left = min(most, len(mean) - start)
            stop = start + (1 << (left.bit_length() - 1))  # few sizes are compiled
            some = law.rows(slice(start * positions, stop * positions)).rooted()
            key = random.fold_in(self._key, self._number)
            self._number += 1
            yield self._program(mean[start:stop], some, key)
            start = stop


class Answer:
    """The prediction of one output, from one batch after the other.

    Args:
        likelihood: p(y | f).
        link_approx: "exact", "probit", "bridge" or "mc".
        draws: the draws of f.

    Attributes:
        masks: the positions that count in each batch; none where all do.
    """

    def __init__(self, likelihood: Likelihood, link_approx: str, draws: FunctionDraws) -> None:
        self._likelihood, self._link_approx, self._draws = likelihood, link_approx, draws
        self._moments: list[tuple[np.ndarray, ...]] = []
        self._kept: list[np.ndarray] = []
        self.masks: list[np.ndarray] = []

    def add(self, mean: tf.Tensor, law: OutputCovariances) -> None:
        """Takes in a batch: the mean of f, shape (B, ...), and its covariances."""
        moments = []
        for some, values in self._draws.of(mean, law):
            moments.append([v.numpy() for v in some])
            self._keep(values)
        average, *others = map(np.concatenate, zip(*moments, strict=True))
        if self._link_approx != "mc":
            f = mean.numpy().astype(np.float64)
            average = mean_of_classes(self._likelihood, self._link_approx, f, law)
        if self._moments:
            check_one_length("outputs", self._moments[0][0], average)
        self._moments.append(tuple(_single(v) for v in (average, *others)))

    def prediction(self) -> Prediction:
        """The prediction of all examples."""
        average, aleatoric, epistemic, entropy = self._all()
        moments: dict[str, Any] = {
            "mean": average,
            "aleatoric_variance": aleatoric,
            "epistemic_variance": epistemic,
            "expected_entropy": entropy,
        }
        check_finite(None, self._likelihood, **moments)
        if not self._likelihood.has_entropy:
            moments["expected_entropy"] = None
        return Prediction(
            **moments,
            num_samples=self._draws.num_samples,
            likelihood=self._likelihood,
            outputs=self._outputs(),
            mask=self._mask(),
        )

    def _keep(self, values: tf.Tensor | None) -> None:
        if values is not None:
            self._kept.append(values.numpy())

    def _all(self) -> list[np.ndarray]:
        return [np.concatenate(values) for values in zip(*self._moments, strict=True)]

    def _mask(self) -> np.ndarray | None:
        return np.concatenate(self.masks) if self.masks else None

    def _outputs(self) -> np.ndarray | None:
        return np.concatenate(self._kept, axis=1) if self._draws.kept else None


class ExactAnswer(Answer):
    """The prediction under normal noise on normal f."""

    def __init__(self, likelihood: Likelihood, link_approx: str, draws: FunctionDraws) -> None:
        super().__init__(likelihood, link_approx, draws)
        self._covariances = Kept()

    def add(self, mean: tf.Tensor, law: OutputCovariances) -> None:
        variance = tf.reshape(law.diagonal(), mean.shape)
        self._moments.append((mean.numpy().astype(np.float64), variance.numpy()))
        size = rows(mean).shape[1]
        if law.num_outputs == size:  # else those between positions are not known
            self._covariances.add((len(mean), size, size), lambda: law.dense().numpy())
        for _, values in self._draws.of(mean, law) if self._draws.kept else ():
            self._keep(values)

    def prediction(self) -> ClosedFormPrediction:
        assert isinstance(self._likelihood, Normal)
        noise = float(self._likelihood.scale) ** 2
        mean, variance = self._all()
        size = int(np.prod(mean.shape[1:]))
        joint, covariances = None, self._covariances.whole()
        if covariances is not None:
            lower = np.linalg.cholesky(covariances + noise * np.eye(size))
            joint = tfp.distributions.MultivariateNormalTriL(mean.reshape(len(mean), -1), lower)
        entropy = np.full(mean.shape, HALF_LOG_2PI_E + 0.5 * np.log(noise))
        return ClosedFormPrediction(
            mean=_single(mean),
            aleatoric_variance=_single(np.full_like(mean, noise)),
            epistemic_variance=_single(variance),
            expected_entropy=_single(entropy.sum(axis=-1) if mean.ndim > 1 else entropy),
            num_samples=self._draws.num_samples,
            likelihood=self._likelihood,
            outputs=self._outputs(),
            mask=self._mask(),
            joint=joint,
            marginal=tfp.distributions.Normal(tf.constant(mean), np.sqrt(variance + noise)),
        )


def _answer(link_approx: str, likelihood: Likelihood, draws: FunctionDraws) -> Answer:
    kind = ExactAnswer if link_approx == "exact" else Answer
    return kind(likelihood, link_approx, draws)


def _moments(likelihood: Likelihood, draws: tf.Tensor) -> tuple[tf.Tensor, ...]:
    """E[y], its mean noise, its variance over draws, and the mean entropy given f."""
    one = of_one(tf.reshape(draws, [-1, *draws.shape[2:]]), likelihood)
    bounded = isinstance(likelihood, (Bernoulli, Categorical))  # no square of it overflows
    mean, variance, entropy = (
        tf.cast(tf.reshape(v, [*draws.shape[:2], *v.shape[1:]]), v.dtype if bounded else tf.float64)
        for v in (one.mean, one.variance, one.entropy)
    )
    average, aleatoric, expected = (tf.reduce_mean(v, axis=0) for v in (mean, variance, entropy))
    return average, aleatoric, tf.math.reduce_variance(mean, axis=0), expected


def _single(values: Any) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.asarray(values, np.float32)

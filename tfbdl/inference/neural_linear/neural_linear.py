"""Bayesian linear regression on the features that a network has learned: neural linear."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl.arguments import generator, option, positive, positive_integer
from tfbdl.inference import prior_precision as prior
from tfbdl.inference.evidence import EvidenceMethod
from tfbdl.inference.neural_linear.features import LastLayerFeatures
from tfbdl.inference.neural_linear.linear_regression import RegressionStatistics, Solution, solve
from tfbdl.inference.neural_linear.moments import joint_moments, moments
from tfbdl.inference.neural_linear.noise import KnownNoise, UnknownNoise, noise_of, raw_scale
from tfbdl.inference.weight_table import WeightTable
from tfbdl.likelihoods.targets import match
from tfbdl.memory import require
from tfbdl.models import WeightEnsemble
from tfbdl.predictive.closed_form import ClosedFormPrediction
from tfbdl.predictive.independent_outputs import IndependentPrediction
from tfbdl.predictive.predict import Request
from tfbdl.probability import tfp
from tfbdl.sources import NO_TARGETS, Source


@keras.saving.register_keras_serializable(package="tfbdl")
class NeuralLinear(EvidenceMethod):
    """The exact posterior of the last layer, on the features that a network has learned.

    y = W^T phi(x) + noise, where phi(x) is what the network's last Dense layer is given (Snoek et
    al. 2015; Riquelme, Tucker, Snoek 2018): Bayesian linear regression, with W ~ N(0, 1 / delta) if
    the noise is known (Bishop 2006, section 3.3), and else sigma^2 ~ inverse gamma(a, b) and
    W ~ N(0, sigma^2 / delta), both for each of the F outputs (Murphy 2012, section 7.6.3). It is
    for regressions whose features can be trusted: nothing is approximated, and `update` finds what
    `fit` to all data would. The layer's own weights are not used; where there is only a network of
    features, pass `keras.Sequential([features, keras.layers.Dense(F)])`.

    Args:
        model: any built Keras model that is deterministic in inference mode, and whose outputs are
            those of a Dense layer, or of a convolution of single pixels, without activation. Each
            position of an example, as a pixel or a token, is then a row of the regression. `update`
            and predictions use the network as it was at `fit`.
        prior_precision: delta: a number; shape (L,), one for the kernel and one for the bias; or
            shape (M,), one for each feature, and for the bias behind them.
        sigma_noise: standard deviation of the noise; None if it is unknown.
        noise_prior: a and b for an unknown noise; they weigh as much as 2 a rows with squared
            errors of b / a. The default (1, 0.1) says little about targets of variance about 1. It
            must be left out for a known noise.
        dtype: "float32" or "float64", in which the network is computed; all else is in float64.

    Attributes:
        paths: names of the layer's weights.

    Raises:
        ValueError: if an argument is out of its range, the model is not built or random or ends
            otherwise, or what has to be kept does not fit into memory.
    """

    _result: RegressionStatistics | None

    def __init__(
        self,
        model: keras.Model,
        *,
        prior_precision: Any = 1.0,
        sigma_noise: float | None = None,
        noise_prior: Sequence[float] | None = None,
        dtype: str = "float32",
        name: str | None = None,
    ) -> None:
        super().__init__(name=name, dtype=option("dtype", dtype, ("float32", "float64")))
        self.model = model
        self.noise_prior = noise_prior
        self._features = LastLayerFeatures(model, dtype)
        self._sizes, self._outputs = self._features.sizes, self._features.num_outputs
        require(
            5 * 8 * (sum(self._sizes) + self._outputs) ** 2,
            f"the posterior of {sum(self._sizes):,} features",
            "use a narrower last layer",
        )
        self._noise = noise_of(sigma_noise, noise_prior)
        self.has_known_noise = isinstance(self._noise, KnownNoise)
        self.prior_precision = prior_precision

    @property
    def paths(self) -> list[str]:
        return self._features.paths

    @property
    def sigma_noise(self) -> float | None:
        """Standard deviation of a known noise, which can be set; None if the noise is unknown."""
        return self._noise.sigma if isinstance(self._noise, KnownNoise) else None

    @sigma_noise.setter
    def sigma_noise(self, value: float) -> None:
        self._require_known_noise("sigma_noise", value)
        self._noise = KnownNoise(positive("sigma_noise", value))
        self._forget()

    def _take_in(self, data: Source, batch_size: int | None, *, further: bool) -> None:
        if further:
            self._take(self._fitted("update"), data, batch_size)
            return
        before = self._features.held
        self._features.hold()
        try:
            nothing = RegressionStatistics(np.zeros((0, sum(self._sizes) + self._outputs)), 0.0)
            self._take(nothing, data, batch_size)
        except Exception:
            self._features.held = before
            raise

    def _take(self, examples: RegressionStatistics, data: Source, batch_size: int | None) -> None:
        """Keeps these examples and those of more data."""
        for batch in self._features.of_batches(data, batch_size):
            if batch.y is None:
                raise ValueError(NO_TARGETS)
            shape = tf.TensorShape([*batch.phi.shape[:-1], self._outputs])
            y = match(tf.cast(batch.y, tf.float64), shape).numpy().reshape(-1, self._outputs)
            examples = examples.and_more(batch.rows, y, batch.weights_of_rows)
        if not examples.num_data:
            raise ValueError("x has weights of 0 for all examples; give one that counts")
        self._keep(examples)
        self._forget()

    def log_marginal_likelihood(
        self, prior_precision: Any = None, sigma_noise: Any = None
    ) -> tf.Tensor:
        """Log p(y | x), exact, in nats, of all data since `fit`.

        Arguments and errors are those of the base class.
        """
        self._fitted("log_marginal_likelihood")
        delta, noise = self._delta(prior_precision), self._noise
        if sigma_noise is not None:
            self._require_known_noise("sigma_noise", sigma_noise)
            noise = KnownNoise(prior.noise(sigma_noise))
        return noise.log_evidence(self._solve(delta, noise))

    def _function_moments(self, x: Source, batch_size: int | None) -> tuple[np.ndarray, np.ndarray]:
        variance = self._noise.variance(self._posterior)
        batches = self._features.of_batches(x, batch_size)
        return joint_moments(self._posterior, batches, variance)

    def predictive(self, x: Source, request: Request) -> ClosedFormPrediction:
        """The predictive distribution of y at x, exact: normal, or Student's t of unknown noise.

        Functions are drawn only if they are kept. Under unknown noise each function has a noise of
        its own.
        """
        self._fitted("predict")
        solution, noise = self._posterior, self._noise
        draws = self._draw(request.num_samples, request.seed) if request.return_samples else None
        weights = None if draws is None else draws[0]
        at = moments(solution, self._features.of_batches(x, request.batch_size), weights)
        mean, leverage = at.mean, at.leverage[..., np.newaxis]
        variance = np.broadcast_to(noise.variance(solution), mean.shape)
        marginal = noise.predictive(solution, mean, np.sqrt(1.0 + leverage))
        kind: type[ClosedFormPrediction] = IndependentPrediction
        joint: Any = None
        if mean.ndim == 2:
            kind, joint = ClosedFormPrediction, tfp.distributions.Independent(marginal, 1)
        elif at.root is not None:
            joint = noise.joint(solution, mean, at.root)
        return kind(
            mean=_single(mean),
            aleatoric_variance=_single(variance),
            epistemic_variance=_single(leverage * variance),
            expected_entropy=_single(np.full(mean.shape[:-1], noise.entropy(solution))),
            num_samples=request.num_samples,
            likelihood=noise.likelihood(),
            outputs=None if draws is None else _single(noise.outputs(at.drawn, draws[1])),
            mask=at.mask,
            joint=joint,
            marginal=marginal,
        )

    def sample(self, num_samples: int = 100, *, seed: int = 0) -> np.ndarray:
        """Draws of the layer's weights, shape (num_samples, M F), in the order of `paths`."""
        self._fitted("sample")
        weights, _ = self._draw(num_samples, seed)
        return weights.reshape(num_samples, -1)

    def ensemble(self, num_samples: int = 100, *, seed: int = 0) -> WeightEnsemble:
        """Draws of the posterior as a model whose functions `tfbdl.predict` draws.

        Under unknown noise the outputs of a function are its means, and behind them the raw scales
        of its own noise.
        """
        self._fitted("ensemble")
        weights, sigma = self._draw(num_samples, seed)
        known = isinstance(self._noise, KnownNoise)
        ensemble = self._features.ensemble(weights, None if known else raw_scale(sigma))
        ensemble.compile(loss=self._noise.likelihood())
        return ensemble

    def summary(self) -> WeightTable:
        """Mean and standard deviation of the last layer, and the log evidence of all rows."""
        self._fitted("summary")
        solution = self._posterior
        inverse = tf.linalg.inv(solution.upper)
        factors = tf.sqrt(tf.reduce_sum(inverse**2, axis=1)).numpy()[:, np.newaxis]
        stddev = factors * np.sqrt(self._noise.variance(solution))
        remark = self._remark(solution.num_data, "rows")
        if not self.has_known_noise:
            means = np.sqrt(self._noise.variance(solution))
            remark += "; noise " + ", ".join(f"{mean:.3g}" for mean in means)
        remarks = [
            f"last layer {', '.join(self.paths)}: {len(factors)} features, {self._outputs} outputs",
            remark,
        ]
        mean = solution.mean.numpy().ravel()
        return WeightTable.of(repr(self), self._features.shapes, mean, stddev.ravel(), remarks)

    def fitted_arrays(self) -> dict[str, np.ndarray]:
        examples = self._fitted("fitted_arrays")
        return {
            **self._features.arrays(),
            "prior_precision": self._prior_precision.numpy(),
            "r": examples.r,
            "num_data": np.array(examples.num_data),
        }

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        self._features.restore(arrays)
        self._keep(RegressionStatistics(arrays["r"], float(arrays["num_data"])))
        self.prior_precision = arrays["prior_precision"]

    @functools.cached_property
    def _posterior(self) -> Solution:
        return self._solve(self._delta(), self._noise)

    def _solve(self, delta: tf.Tensor, noise: KnownNoise | UnknownNoise) -> Solution:
        examples = self._fitted("posterior")
        return solve(examples, noise.in_units(delta))

    def _draw(self, num_samples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Draws of the weights, shape (S, M, F), and of the noise, shape (S, F)."""
        size = positive_integer("num_samples", num_samples) * sum(self._sizes) * self._outputs
        require(3 * 8 * size, f"num_samples={num_samples}", "draw fewer")
        rng = generator("seed", seed)
        sigma = self._noise.draw(self._posterior, rng, num_samples)
        return self._posterior.draw(rng, sigma), sigma


def _single(values: Any) -> np.ndarray:
    return np.asarray(values, np.float32)

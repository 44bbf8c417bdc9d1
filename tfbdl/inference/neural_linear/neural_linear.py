"""Bayesian linear regression on the features that a network has learned: neural linear."""

from __future__ import annotations

import functools
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl.arguments import generator, option, positive_integer
from tfbdl.inference.closed_form import ClosedFormPrediction
from tfbdl.inference.laplace import prior, tuning
from tfbdl.inference.laplace.memory import require
from tfbdl.inference.laplace.scaled_likelihood import checked_noise
from tfbdl.inference.neural_linear.features import Features
from tfbdl.inference.neural_linear.linear_regression import Examples, Solution, solve
from tfbdl.inference.neural_linear.noise import KnownNoise, UnknownNoise, noise_of, raw_scale
from tfbdl.likelihoods.base import match
from tfbdl.models import Ensemble
from tfbdl.probability import tfp


class NeuralLinear:
    """The exact posterior of the last layer, on the features that a network has learned.

    y = W^T phi(x) + noise, where phi(x) is what the network's last Dense layer is given (Snoek et
    al. 2015; Riquelme, Tucker, Snoek 2018): Bayesian linear regression, with W ~ N(0, 1 / delta)
    if the noise is known (Bishop 2006, section 3.3), and else sigma^2 ~ inverse gamma(a, b) and
    W ~ N(0, sigma^2 / delta), both for each of the F outputs (Murphy 2012, section 7.6.3). The
    layer's own weights are not used: of a network of features alone make
    `keras.Sequential([features, keras.layers.Dense(F)])`.

    Args:
        model: any built Keras model that is deterministic in inference mode, and whose outputs are
            those of a Dense layer without activation. It stays for `update` and `predict` what it
            is at `fit`.
        prior_precision: delta: a number; shape (L,), one for the kernel and one for the bias; or
            shape (M,), one for each feature, and for the bias behind them.
        sigma_noise: standard deviation of the noise; None if it is unknown.
        noise_prior: a and b, of the unknown noise: as much as 2 a examples with squared errors of
            b / a say. The default says little of targets of variance about 1.
        dtype: "float32" or "float64", in which the network is computed; all else is in float64.

    Attributes:
        paths: names of the layer's weights.

    Raises:
        ValueError: if an argument is out of its range, the model is not built or random or ends
            otherwise, or what has to be kept does not fit into memory.
    """

    def __init__(
        self,
        model: keras.Model,
        *,
        prior_precision: Any = 1.0,
        sigma_noise: float | None = None,
        noise_prior: tuple[float, float] = (1.0, 0.1),
        dtype: str = "float32",
    ) -> None:
        self._features = Features(model, dtype)
        self.paths = self._features.paths
        self._sizes, self._outputs = self._features.sizes, self._features.num_outputs
        require(
            5 * 8 * (sum(self._sizes) + self._outputs) ** 2,
            f"the posterior of {sum(self._sizes):,} features",
            "use a narrower last layer",
        )
        self._noise = noise_of(sigma_noise, noise_prior)
        self._examples: Examples | None = None
        self.prior_precision = prior_precision

    @property
    def prior_precision(self) -> tf.Tensor:
        """Delta, in float64; can be set."""
        return self._prior_precision

    @prior_precision.setter
    def prior_precision(self, value: Any) -> None:
        self._prior_precision = prior.prior_precision(value, self._sizes)
        self._forget()

    @property
    def sigma_noise(self) -> float | None:
        """Standard deviation of a known noise, which can be set; None of an unknown one."""
        return self._noise.sigma if isinstance(self._noise, KnownNoise) else None

    @sigma_noise.setter
    def sigma_noise(self, value: float) -> None:
        self._require_known("sigma_noise", value)
        self._noise = KnownNoise(checked_noise(value))
        self._forget()

    def fit(self, x: Any, y: Any = None, *, batch_size: int = 1000) -> NeuralLinear:
        """The posterior given these data alone, on the network as it is now.

        Args:
            x: inputs, shape (N, ...), or a `tf.data.Dataset` of batches (x, y).
            y: targets, shape (N, F); None if x is a data set.
            batch_size: examples at once.

        Raises:
            ValueError: if x and y do not fit each other or the model.
        """
        self._examples = None
        return self.update(x, y, batch_size=batch_size)

    def update(self, x: Any, y: Any = None, *, batch_size: int = 1000) -> NeuralLinear:
        """The posterior given these data too, as `fit` of all would give it, on the same network.

        Arguments and errors are those of `fit`.
        """
        positive_integer("batch_size", batch_size)
        examples = self._examples
        if examples is None:
            self._features.hold()
            examples = Examples(np.zeros((0, sum(self._sizes) + self._outputs)), 0)
        for phi, targets in self._features.of_batches(x, y, batch_size):
            if targets is None:
                raise ValueError("y=None: give targets, or a data set of batches (x, y)")
            shape = tf.TensorShape([len(phi), self._outputs])
            examples = examples.and_more(phi, match(tf.cast(targets, tf.float64), shape).numpy())
        self._examples = examples
        self._forget()
        return self

    def log_marginal_likelihood(
        self, prior_precision: Any = None, sigma_noise: Any = None
    ) -> tf.Tensor:
        """Log p(y | x), exact, in nats, of all data since `fit`.

        It is differentiable by TensorFlow in both arguments, a float64 scalar.

        Args:
            prior_precision: delta, as in the class; by default the one it has.
            sigma_noise: a known noise, a number or tensor; by default the one it has.

        Raises:
            ValueError: if there is no fit yet, or an argument is out of its range.
        """
        delta, noise = self._prior_precision, self._noise
        if prior_precision is not None:
            delta = prior.prior_precision(prior_precision, self._sizes)
        if sigma_noise is not None:
            self._require_known("sigma_noise", sigma_noise)
            noise = KnownNoise(prior.in_float64(sigma_noise))
        return noise.log_evidence(self._solve(delta, noise))

    def optimize_prior_precision(
        self, prior_structure: str = "scalar", *, with_noise: bool = False
    ) -> NeuralLinear:
        """Sets `prior_precision`, and a known noise if asked, to the largest marginal likelihood.

        Args:
            prior_structure: "scalar", "layerwise" (one delta for the kernel, one for the bias), or
                "diag" (one for each feature; that of a useless one becomes very large).
            with_noise: whether `sigma_noise` is chosen too.

        Raises:
            ValueError: if there is no fit yet, an argument is unknown, or the noise is not known.
        """
        option("prior_structure", prior_structure, prior.PRIOR_STRUCTURES)
        starts = [prior.in_structure(self._prior_precision, self._sizes, prior_structure)]
        if with_noise:
            self._require_known("with_noise", with_noise)
            starts.append(tf.constant(self.sigma_noise, tf.float64))
        self.prior_precision, *noise = tuning.maximum(self.log_marginal_likelihood, starts)
        if noise:
            self.sigma_noise = float(noise[0])
        return self

    def function_moments(self, x: Any, *, batch_size: int = 1000) -> tuple[np.ndarray, np.ndarray]:
        """Mean of f(x) = W^T phi(x), shape (N, F), and covariance at each x, (N, F, F).

        Args:
            x: inputs, shape (N, ...), or a `tf.data.Dataset` of batches.
            batch_size: examples at once.
        """
        mean, leverage, _ = self._at(x, batch_size)
        variance = leverage[:, np.newaxis] * self._noise.variance(self._posterior)
        return mean, variance[:, :, np.newaxis] * np.eye(self._outputs)

    def predict(
        self,
        x: Any,
        n_samples: int = 100,
        *,
        batch_size: int = 1000,
        seed: int = 0,
        return_samples: bool = False,
    ) -> ClosedFormPrediction:
        """The predictive distribution of y at x, exact: normal, or Student's t of unknown noise.

        Args:
            x: inputs, shape (N, ...), or a `tf.data.Dataset` of batches.
            n_samples: functions to keep.
            batch_size: examples at once.
            seed: of those functions.
            return_samples: whether any are kept. Under unknown noise each has its own.

        Raises:
            ValueError: if there is no fit yet, or x does not fit the model.
        """
        found, noise = self._posterior, self._noise
        draws = self._draw(n_samples, seed) if return_samples else None
        mean, leverage, means = self._at(x, batch_size, draws)
        leverage = leverage[:, np.newaxis]
        variance = np.broadcast_to(noise.variance(found), mean.shape)
        marginal = noise.predictive(found, mean, np.sqrt(1.0 + leverage))
        return ClosedFormPrediction(
            mean=_single(mean),
            aleatoric_variance=_single(variance),
            epistemic_variance=_single(leverage * variance),
            expected_entropy=_single(np.full(len(mean), noise.entropy(found))),
            num_samples=n_samples,
            likelihood=noise.likelihood(),
            outputs=None if draws is None else _single(noise.outputs(means, draws[1])),
            joint=tfp.distributions.Independent(marginal, 1),
            marginal=marginal,
        )

    def sample(self, n_samples: int = 100, *, seed: int = 0) -> np.ndarray:
        """Draws of the layer's weights, shape (n_samples, M F), in the order of `paths`."""
        weights, _ = self._draw(n_samples, seed)
        return weights.reshape(n_samples, -1)

    def ensemble(self, n_samples: int = 100, *, seed: int = 0) -> Ensemble:
        """Draws of the posterior as a model whose functions `tfbdl.predict` draws.

        Under unknown noise each function predicts its own, behind its means.
        """
        weights, sigma = self._draw(n_samples, seed)
        known = isinstance(self._noise, KnownNoise)
        ensemble = self._features.ensemble(weights, None if known else raw_scale(sigma))
        ensemble.compile(loss=self._noise.likelihood())
        return ensemble

    @functools.cached_property
    def _posterior(self) -> Solution:
        return self._solve(self._prior_precision, self._noise)

    def _forget(self) -> None:
        """Drops what depends on the data, the prior or the noise."""
        self.__dict__.pop("_posterior", None)

    def _solve(self, delta: tf.Tensor, noise: KnownNoise | UnknownNoise) -> Solution:
        if self._examples is None:
            raise ValueError("there is no posterior yet; call fit(x, y) first")
        delta = prior.of_each_weight(delta, self._sizes)
        return solve(self._examples, noise.in_units(delta))

    def _require_known(self, name: str, value: Any) -> None:
        if isinstance(self._noise, UnknownNoise):
            raise ValueError(
                f"{name}={value!r} is for a known noise; give sigma_noise at the start"
            )

    def _draw(self, n_samples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Draws of the weights, shape (S, M, F), and of the noise, shape (S, F)."""
        size = positive_integer("n_samples", n_samples) * sum(self._sizes) * self._outputs
        require(3 * 8 * size, f"n_samples={n_samples}", "draw fewer")
        rng = generator("seed", seed)
        sigma = self._noise.draw(self._posterior, rng, n_samples)
        return self._posterior.draw(rng, sigma), sigma

    def _at(
        self, x: Any, batch_size: int, draws: tuple[np.ndarray, np.ndarray] | None = None
    ) -> tuple[np.ndarray, np.ndarray, Any]:
        """Means of f, (N, F), leverages, (N,), and values of drawn functions, (S, N, F)."""
        found, batch_size = self._posterior, positive_integer("batch_size", batch_size)
        means, leverages, values = [], [], []
        for phi, _ in self._features.of_batches(x, None, batch_size):
            means.append(phi @ found.mean.numpy())
            leverages.append(found.leverage(phi))
            if draws is not None:
                values.append(phi @ draws[0])
        drawn = np.concatenate(values, axis=1) if draws is not None else None
        return np.concatenate(means), np.concatenate(leverages), drawn


def _single(values: Any) -> np.ndarray:
    return np.asarray(values, np.float32)

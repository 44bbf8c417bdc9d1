"""A normal posterior over weights: the curvature of the data, and the prior's precision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import keras
import numpy as np
import tensorflow as tf

from tfbdl import arguments, random
from tfbdl.arguments import number, option, positive_integer
from tfbdl.flat_model import FlatModel, in_precision
from tfbdl.inference.laplace import prior
from tfbdl.inference.laplace.blocks.base import Tensors
from tfbdl.inference.laplace.curvature import CURVATURES
from tfbdl.inference.laplace.fitting import Fit
from tfbdl.inference.laplace.memory import require
from tfbdl.inference.laplace.precision import STRUCTURES
from tfbdl.inference.laplace.scaled_likelihood import ScaledLikelihood, checked_noise
from tfbdl.inference.laplace.subset import Subset
from tfbdl.likelihoods import Likelihood

Self = TypeVar("Self", bound="NormalPosterior")


class NormalPosterior:
    """What a `Laplace` knows of weights; arguments and attributes are described there."""

    def __init__(
        self,
        model: keras.Model,
        likelihood: str | Likelihood,
        subset_of_weights: str | Sequence[str] = "last_layer",
        hessian_structure: str = "kron",
        *,
        prior_precision: Any = 1.0,
        sigma_noise: float | None = None,
        curvature: str = "ggn",
        temperature: float = 1.0,
        rank: int = 50,
        dtype: str = "float32",
        jit_compile: bool | None = None,
    ) -> None:
        self.hessian_structure = option("hessian_structure", hessian_structure, STRUCTURES)
        self.curvature = option("curvature", curvature, CURVATURES)
        if curvature == "hessian" and hessian_structure != "full":
            raise ValueError(
                f"curvature='hessian' is for hessian_structure='full', not {hessian_structure!r}"
            )
        self.temperature = number("temperature", temperature, lambda t: t > 0, "positive")
        self.rank = positive_integer("rank", rank)
        self.network, self._jit_compile = model, jit_compile
        self._flat = FlatModel(in_precision(model, dtype))
        self._observed = ScaledLikelihood(model, likelihood, sigma_noise)
        self._subset = Subset(self._flat, subset_of_weights)
        self.paths = self._subset.paths
        self._fit: Fit | None = None
        self.sigma_noise = self._observed.sigma_noise
        self.prior_precision = prior_precision
        if hessian_structure == "full":
            require(
                16 * self._subset.size**2,
                f"hessian_structure='full' over {self._subset.size:,} weights",
                "use 'kron', 'diag', or fewer weights",
            )

    @property
    def prior_precision(self) -> tf.Tensor:
        """Delta, in float64; can be set."""
        return self._prior_precision

    @prior_precision.setter
    def prior_precision(self, value: Any) -> None:
        self._prior_precision = self._checked_precision(value)
        self._forget()

    @property
    def sigma_noise(self) -> float:
        """Standard deviation of the noise; can be set where there is one."""
        return self._sigma_noise

    @sigma_noise.setter
    def sigma_noise(self, value: float) -> None:
        if not self._observed.has_noise and value != 1.0:
            raise ValueError(f"sigma_noise={value!r} is for regression with one noise")
        self._sigma_noise = checked_noise(value)
        self._forget()

    @property
    def likelihood(self) -> Likelihood:
        """p(y | f(x)) of the network's outputs, at `sigma_noise`."""
        return self._observed.of_network(self.sigma_noise)

    @property
    def weights(self) -> list[keras.Variable]:
        """Those of the network that have a posterior, in the order of `paths`."""
        return [self.network.trainable_variables[i] for i in self._subset.index]

    def fit(self: Self, x: Any, y: Any = None, *, batch_size: int | None = None) -> Self:
        """Gathers the curvature in one pass over all data, afresh.

        Args:
            x: inputs, shape (N, ...), or a `tf.data.Dataset` of batches (x, y).
            y: targets, shape (N, ...); None if x is a data set.
            batch_size: examples at once; by default as many as fit into about 200 MB.

        Raises:
            ValueError: if x and y do not fit each other, the model or the likelihood, or what has
                to be kept does not fit into memory.
        """
        batch_size = None if batch_size is None else positive_integer("batch_size", batch_size)
        if self._flat.model is not self.network:  # it is a copy, in another precision
            self._flat.model.set_weights(self.network.get_weights())
        fit = self._fit or Fit(
            self._flat,
            self._subset,
            self._observed,
            structure=self.hessian_structure,
            kind=self.curvature,
            rank=self.rank,
            jit_compile=self._jit_compile,
        )
        fit.gather(x, y, batch_size)
        self._fit = fit
        self._forget()
        return self

    def log_marginal_likelihood(
        self, prior_precision: Any = None, sigma_noise: Any = None
    ) -> tf.Tensor:
        """Laplace's approximation of log p(y | x), in nats, for the whole data set.

        log p(y | theta*, x) + log p(theta*) + P / 2 log(2 pi) - 1 / 2 log det(H + diag(delta))
        (MacKay 1992; Immer et al. 2021, equation 2), differentiable by TensorFlow in both
        arguments, a float64 scalar.

        Args:
            prior_precision: delta, as in the class; by default the one it has.
            sigma_noise: a number or tensor; by default the one it has.

        Raises:
            ValueError: if there is no fit yet, an argument is out of its range, or the exact
                Hessian with the prior is not positive definite.
        """
        delta = self._prior_precision
        if prior_precision is not None:
            delta = self._checked_precision(prior_precision)
        sigma = self.sigma_noise if sigma_noise is None else sigma_noise
        return self._fitted.log_marginal_likelihood(
            prior.of_each_weight(delta, self._subset.sizes),
            prior.in_float64(sigma),
            self.temperature,
        )

    def sample(self, n_samples: int = 100, *, seed: int = 0) -> np.ndarray:
        """Draws of the weights of the subset, shape (n_samples, P), in the order of `paths`."""
        fit = self._fitted
        shape = positive_integer("n_samples", n_samples), self._subset.size
        require(16 * shape[0] * shape[1], f"n_samples={n_samples}", "draw fewer")
        key = random.key_of(arguments.seed("seed", seed), "laplace")
        noise = random.normal(key, shape, "float64")
        return fit.mean + fit.precision.sample(noise, self._posterior_factors).numpy()

    def _checked_precision(self, value: Any) -> tf.Tensor:
        for_each = self.hessian_structure != "kron"
        return prior.prior_precision(value, self._subset.sizes, for_each=for_each)

    def _forget(self) -> None:
        """Drops what depends on the fit, the prior or the noise."""
        self._factors: list[Tensors] | None = None

    @property
    def _fitted(self) -> Fit:
        if self._fit is None:
            raise ValueError("there is no posterior yet; call fit(x, y) first")
        return self._fit

    @property
    def _posterior_factors(self) -> list[Tensors]:
        if self._factors is None:
            self._factors = self._fitted.factors(
                prior.of_each_weight(self._prior_precision, self._subset.sizes),
                tf.constant(self.sigma_noise, tf.float64),
                self.temperature,
            )
        return self._factors

"""Variational dropout: a dense layer that learns how much noise each weight bears, and prunes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl import posteriors, priors
from tfbdl.arguments import number, option
from tfbdl.inherited_arguments import LayerArguments, Unpack
from tfbdl.layers import estimators
from tfbdl.layers.bayes_dense import BayesDense
from tfbdl.posteriors import MeanFieldNormal, MultiplicativeNormal
from tfbdl.priors.log_uniform import LogUniform, log_alpha


@keras.saving.register_keras_serializable(package="tfbdl")
class VariationalDropout(BayesDense):
    """A `BayesDense` with a log-uniform prior, trained by local reparameterisation.

    Args:
        units: output dimension.
        activation: as in `keras.layers.Dense`.
        num_data: N, the number of training examples; required, since the KL enters as KL / N.
        kl: `"molchanov"` (2017, equation 14): any alpha, noise sigma of its own starting at
            log sigma^2 = -10, prunes; or `"kingma"` (2015, appendix C): alpha at most 1,
            multiplicative noise, regularises.
        prior: p(w), by default log-uniform with the approximation of `kl`.
        posterior: the family of q(w), by default the one that `kl` names.
        estimator: as in `BayesDense`.
        use_bias: whether there is a b.
        bias_prior: p(b), by default flat.
        bias_posterior: q(b), by default a point.
        kernel_initializer: the start of the kernel's means.
        bias_initializer: the start of the bias.
        activity_regularizer: as in `keras.layers.Layer`.
        seed: as in `BayesDense`.
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.

    Raises:
        ValueError: if `kl` is neither.
    """

    def __init__(
        self,
        units: int,
        activation: str | Callable[[Any], Any] | None = None,
        *,
        num_data: int,
        kl: str = "molchanov",
        prior: float | str | dict[str, Any] | priors.Prior | None = None,
        posterior: str | dict[str, Any] | posteriors.Posterior | None = None,
        estimator: str | dict[str, Any] | estimators.Estimator = "local_reparameterization",
        use_bias: bool = True,
        bias_prior: float | str | dict[str, Any] | priors.Prior | None = None,
        bias_posterior: str | dict[str, Any] | posteriors.Posterior | None = None,
        kernel_initializer: str | keras.initializers.Initializer = "glorot_uniform",
        bias_initializer: str | keras.initializers.Initializer = "zeros",
        activity_regularizer: Any = None,
        seed: int | None = None,
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        self.approximation = option("kl", kl, ("kingma", "molchanov"))
        sparse = MeanFieldNormal(rho_initializer=keras.initializers.Constant(-5.0))
        if posterior is None:
            posterior = sparse if kl == "molchanov" else MultiplicativeNormal()
        if use_bias:
            bias_prior = "flat" if bias_prior is None else bias_prior
            bias_posterior = "point" if bias_posterior is None else bias_posterior
        super().__init__(
            units,
            activation,
            num_data=num_data,
            prior=LogUniform(kl) if prior is None else prior,
            posterior=posterior,
            estimator=estimator,
            use_bias=use_bias,
            bias_prior=bias_prior,
            bias_posterior=bias_posterior,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            activity_regularizer=activity_regularizer,
            seed=seed,
            **kwargs,
        )

    @property
    def log_alpha(self) -> tf.Tensor:
        """log(sigma^2 / mu^2) of each kernel weight, within [-8, 8], shape (d_in, units)."""
        return log_alpha(self.kernel.mean, self.kernel.stddev)

    def sparsity(self, threshold: float = 3.0) -> float:
        """Fraction of kernel weights whose log alpha exceeds `threshold`.

        At the default, that of Molchanov et al., a weight's signal is below 5 % of its variance.

        Raises:
            ValueError: if `threshold` is no finite number.
        """
        return float(tf.reduce_mean(tf.cast(self._is_noise(threshold), tf.float32)))

    def prune(self, threshold: float = 3.0) -> None:
        """Sets the kernel weights above `threshold` to zero, mean and noise.

        They count as pruned from then on, unless the layer is trained further.

        Raises:
            ValueError: if `threshold` is no finite number.
        """
        self.kernel.remove(np.asarray(self._is_noise(threshold)))

    def _is_noise(self, threshold: float) -> tf.Tensor:
        """A mask of the kernel weights whose log alpha is above the threshold."""
        return self.log_alpha > number("threshold", threshold, math.isfinite, "a finite number")

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "kl": self.approximation}

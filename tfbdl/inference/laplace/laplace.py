"""The Laplace approximation of the posterior over the weights of a trained Keras model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfbdl import arguments
from tfbdl.arguments import option, positive_integer
from tfbdl.inference.laplace import glm, prior, tuning
from tfbdl.inference.laplace.links import LINKS
from tfbdl.inference.laplace.normal_posterior import NormalPosterior
from tfbdl.models import Ensemble
from tfbdl.predictive import Prediction, predict


class Laplace(NormalPosterior):
    """N(theta*, (H / T + diag(delta))^-1) for the weights theta* of a trained model.

    H is the curvature of -log p(y | theta, x) of all data at theta*; the precision delta of the
    normal prior is added once. The names are those of laplace-torch (Daxberger et al. 2021,
    "Laplace Redux"). Nothing asks whether theta* is a mode: train until it is one, with the prior
    as weight decay, delta / (2 N) |theta|^2 beside Keras' mean loss.

    Args:
        model: any built Keras model that is deterministic in inference mode. Its weights as they
            are at `fit` are the mean; BatchNormalization keeps its statistics.
        likelihood: p(y | f(x)): an object; "regression" for `Normal(sigma_noise)`; or
            "classification" for what the model was compiled with, by default `Categorical()`, of
            logits. Networks that end in a softmax or sigmoid are linearised before it.
        subset_of_weights: "last_layer", "all", or names of layers, or of weights as
            "dense/kernel". All other weights stay as they are.
        hessian_structure: "full", all correlations; "kron", one Kronecker product for each kernel
            of a dense layer or convolution (Ritter et al. 2018), all correlations of its bias, and
            none for other weights (of LSTM, BatchNormalization, Embedding and so on); "diag"; or
            "lowrank", the `rank` directions in which H is largest.
        prior_precision: delta: a number; shape (L,), one for each weight tensor of `paths`; or
            shape (P,), one for each weight, not under "kron".
        sigma_noise: standard deviation of the noise, for "regression" (by default 1) and `Normal`.
        curvature: "ggn", the generalised Gauss-Newton matrix; "ef", the empirical Fisher;
            "mc_fisher", an unbiased estimate of "ggn" from one drawn y an example, for many
            classes; or "hessian", the exact Hessian, for "full" and small networks.
        temperature: T; the likelihood counts to the power 1 / T.
        rank: of "lowrank".
        dtype: "float32" or "float64", in which the network is computed; H and what comes of it are
            in float64.
        jit_compile: whether XLA compiles what is done with a batch; by default unless it convolves
            on a CPU, where XLA is slow.

    Attributes:
        network: the model.
        paths: names of the weight tensors that have a posterior.

    Raises:
        ValueError: if an argument is unknown or out of its range, the model is not built or
            random, or the posterior does not fit into memory.
    """

    def optimize_prior_precision(
        self,
        method: str = "marglik",
        prior_structure: str = "scalar",
        x: Any = None,
        y: Any = None,
        *,
        with_noise: bool = False,
        grid: Sequence[float] = tuning.GRID,
    ) -> Laplace:
        """Sets `prior_precision`, and the noise if asked, to the best found.

        Args:
            method: "marglik" for the largest marginal likelihood, by L-BFGS in the logarithms; or
                "gridsearch" for the largest mean log probability of validation data, predicted as
                by `predict`, in the `grid`.
            prior_structure: "scalar", "layerwise" (one delta for each weight tensor), or "diag"
                (for each weight; not under "kron"); a scalar for "gridsearch".
            x: validation inputs.
            y: validation targets.
            with_noise: whether `sigma_noise` is chosen too, for "marglik".
            grid: values of delta to try.

        Raises:
            ValueError: if there is no fit yet, an argument is unknown, or does not go with others.
        """
        option("method", method, ("marglik", "gridsearch"))
        option("prior_structure", prior_structure, prior.PRIOR_STRUCTURES)
        if method == "gridsearch":
            self.prior_precision = tuning.likeliest(grid, lambda d: self._predict_under(d, x), x, y)
            return self
        if with_noise and not self._observed.has_noise:
            raise ValueError("with_noise=True is for regression with one noise")
        starts = [prior.in_structure(self._prior_precision, self._subset.sizes, prior_structure)]
        starts += [tf.constant(self.sigma_noise, tf.float64)] * with_noise
        self.prior_precision, *noise = tuning.maximum(self.log_marginal_likelihood, starts)
        if noise:
            self.sigma_noise = float(noise[0])
        return self

    def _predict_under(self, delta: float, x: Any) -> Prediction:
        self.prior_precision = delta
        return self.predict(x, return_samples=True)

    def function_moments(
        self, x: Any, *, batch_size: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean, shape (N, ...), and covariance at each x, (N, F, F), of the linearised outputs.

        f(x) ~ N(f(x, theta*), J Sigma J^T): of logits, where there are classes.

        Args:
            x: inputs, shape (N, ...), or a `tf.data.Dataset` of batches.
            batch_size: examples at once; by default as many as fit into about 200 MB.
        """
        return self._fitted.function_moments(x, self._posterior_factors, batch_size)

    def predict(
        self,
        x: Any,
        pred_type: str = "glm",
        link_approx: str | None = None,
        n_samples: int = 100,
        *,
        batch_size: int | None = None,
        seed: int = 0,
        return_samples: bool = False,
    ) -> Prediction:
        """The predictive distribution of y at x.

        Args:
            x: inputs, shape (N, ...), or a `tf.data.Dataset` of batches.
            pred_type: "glm" for the linearised network, whose posterior this is (Immer, Korzepa,
                Bauer 2021), or "nn" for drawn weights in the network itself, which underfit where
                the posterior is wide.
            link_approx: how p(y | x) comes of normal f under "glm". For normal noise it is exact
                by default. Of classes "probit" (the default), "bridge" or "mc" give the mean;
                for all other likelihoods, "mc".
            n_samples: draws, of f or of the weights, for all that has no closed form.
            batch_size: examples at once.
            seed: equal seeds draw equal functions.
            return_samples: whether to keep the outputs of all draws. Those of "glm" are
                independent between examples.

        Raises:
            ValueError: if there is no fit yet, an argument is unknown, or does not go with others.
        """
        num_samples = positive_integer("n_samples", n_samples)
        seed = arguments.seed("seed", seed)
        if option("pred_type", pred_type, ("glm", "nn")) == "nn":
            if link_approx is not None:
                raise ValueError(f"link_approx={link_approx!r} is for pred_type='glm'")
            return predict(
                self.ensemble(num_samples, seed=seed),
                x,
                num_samples,
                batch_size=batch_size,
                return_samples=return_samples,
                verbose=0,
            )
        likelihood = self._observed.of_links(self.sigma_noise)
        if link_approx is None:
            link_approx = glm.default_link(likelihood)
        else:
            option("link_approx", link_approx, LINKS)
        return glm.prediction(
            likelihood,
            *self.function_moments(x, batch_size=batch_size),
            link_approx=link_approx,
            num_samples=num_samples,
            seed=seed,
            return_samples=return_samples,
        )

    def ensemble(self, n_samples: int = 100, *, seed: int = 0) -> Ensemble:
        """Draws of the posterior as a model whose functions `tfbdl.predict` draws."""
        members = self._subset.put(self.sample(n_samples, seed=seed), self._fitted.theta.numpy())
        ensemble = Ensemble(self._flat.model, members, self._fitted.states)
        ensemble.compile(loss=self.likelihood)
        return ensemble

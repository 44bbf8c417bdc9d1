"""The Laplace approximation of the posterior over the weights of a trained Keras model."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl import arguments, likelihoods
from tfbdl.arguments import boolean, option, optional, positive, positive_integer
from tfbdl.inference.evidence import EvidenceMethod, in_config
from tfbdl.inference.laplace.as_prior import as_prior
from tfbdl.inference.laplace.blocks.base import Tensors
from tfbdl.inference.laplace.curvature import checked_curvature
from tfbdl.inference.laplace.followed import Followed
from tfbdl.inference.laplace.gathering import GatheredCurvature
from tfbdl.inference.laplace.glm import Linearised
from tfbdl.inference.laplace.links import check_link
from tfbdl.inference.laplace.precision import STRUCTURES, check_structure
from tfbdl.inference.laplace.prior_mean import checked_prior_mean
from tfbdl.inference.laplace.scaled_likelihood import ScaledLikelihood
from tfbdl.inference.prior_precision import noise
from tfbdl.inference.weight_subset import WeightSubset
from tfbdl.inference.weight_table import WeightTable
from tfbdl.likelihoods import LikelihoodLike
from tfbdl.models import WeightEnsemble
from tfbdl.predictive.predict import Request
from tfbdl.sources import Source


@keras.saving.register_keras_serializable(package="tfbdl")
class Laplace(EvidenceMethod):
    """N(theta*, (H / T + diag(delta))^-1) for the weights theta* of a trained model.

    H is the curvature of -log p(y | theta, x) of all data at theta*; the precision delta of the
    normal prior is added once. It is the cheapest posterior of a network that is trained already,
    at one pass over the data. It knows one mode, and trusts a parabola beyond where it holds. The
    names are those of laplace-torch (Daxberger et al. 2021, "Laplace Redux"). `fit` does not check
    that theta* is a mode: train until it is one, with the prior as weight decay, delta / (2 N)
    |theta|^2 beside Keras' mean loss.

    Args:
        model: any built Keras model that is deterministic in inference mode. Its weights as they
            are at `fit` are the mean; BatchNormalization keeps its statistics.
        likelihood: p(y | f(x)), as `likelihoods.get` takes it; by default that of the model's loss.
            Networks that end in a softmax or sigmoid are linearised before it.
        subset_of_weights: "last_layer", "all", "lora" for the factors of LoRA (Yang et al. 2024,
            "Bayesian Low-rank Adaptation for Large Language Models"), or names of layers, or of
            weights as "dense/kernel". All other weights stay as they are.
        hessian_structure: "full", all correlations; "kron", one Kronecker product for each kernel
            of a dense layer, einsum or convolution, pointwise where that is separable (Ritter et
            al. 2018), and for each factor of LoRA in these, all correlations of their biases, and
            none for other weights (LSTM, Embedding and so on); "diag"; "lowrank", the `rank`
            directions in which H is largest; or "subnetwork", all correlations of the
            `subnetwork_size` weights whose variances under "diag" are largest, the others staying
            at their means (Daxberger et al. 2021), for which `fit` reads the data twice.
        prior_precision: delta: a number; shape (L,), one for each weight tensor of `paths`; or
            shape (P,), one for each weight, not under "kron".
        prior_mean: the mean of the prior: a number; shape (P,); or "current" for the weights that
            there are now. It counts in the evidence alone, as the posterior's mean is where
            training has gone.
        sigma_noise: standard deviation of normal noise; by default that of the likelihood. It can
            be set afterwards.
        curvature: "ggn", the generalised Gauss-Newton matrix; "ef", the empirical Fisher;
            "mc_fisher", an unbiased estimate of "ggn" from one drawn y an example, for many
            classes; or "hessian", the exact Hessian, for "full" and small networks.
        temperature: T; the likelihood counts to the power 1 / T.
        rank: the rank of "lowrank", by default 50; only for it.
        subnetwork_size: the number of weights of "subnetwork"; only for it.
        pred_type: the functions that `tfbdl.predict` asks: "glm", the linearised network, whose
            posterior this is (Immer, Korzepa, Bauer 2021), or "nn", drawn weights in the network
            itself, which underfit where the posterior is wide.
        link_approx: the way from normal f to p(y | x) under "glm". For normal noise it is exact by
            default. For classes the mean is by "probit" (the default), "bridge" or "mc"; for all
            other likelihoods, by "mc".
        dtype: "float32" or "float64", in which the network is computed; H and what comes of it are
            in float64.
        jit_compile: whether XLA compiles what is done with a batch; by default unless the network
            has operations that it cannot compile, or convolves on a CPU, where XLA is slow.

    Attributes:
        paths: names of the weight tensors that have a posterior.

    Raises:
        ValueError: if an argument is unknown or out of its range, the model is not built or
            random, or the posterior does not fit into memory.
    """

    def __init__(
        self,
        model: keras.Model,
        likelihood: LikelihoodLike | None = None,
        *,
        subset_of_weights: str | Sequence[str] = "last_layer",
        hessian_structure: str = "kron",
        prior_precision: Any = 1.0,
        prior_mean: Any = 0.0,
        sigma_noise: float | None = None,
        curvature: str = "ggn",
        temperature: float = 1.0,
        rank: int | None = None,
        subnetwork_size: int | None = None,
        pred_type: str = "glm",
        link_approx: str | None = None,
        dtype: str = "float32",
        jit_compile: bool | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name, dtype=option("dtype", dtype, ("float32", "float64")))
        self.hessian_structure = option("hessian_structure", hessian_structure, STRUCTURES)
        self.curvature = checked_curvature(curvature, hessian_structure)
        self.rank, self.subnetwork_size = rank, subnetwork_size
        self.temperature = positive("temperature", temperature)
        self.pred_type = option("pred_type", pred_type, ("glm", "nn"))
        self.model, self.link_approx, self.subset_of_weights = model, link_approx, subset_of_weights
        self.likelihood = None if likelihood is None else likelihoods.get(likelihood)
        self.jit_compile = optional(boolean, "jit_compile", jit_compile)
        self._followed = Followed(model, dtype)
        self._scaled = ScaledLikelihood(model, likelihood, sigma_noise)
        check_link(self._scaled.unit, link_approx, pred_type)
        self._subset = WeightSubset(self._followed.flat, subset_of_weights)
        self._sizes, self._one_for_each_weight = self._subset.sizes, hessian_structure != "kron"
        self.has_known_noise, self.sigma_noise = self._scaled.has_noise, self._scaled.sigma_noise
        self.prior_precision, self.prior_mean = prior_precision, prior_mean
        check_structure(hessian_structure, self._subset.size, rank, subnetwork_size)

    @property
    def paths(self) -> list[str]:
        return self._subset.paths

    @property
    def sigma_noise(self) -> float | None:
        """Standard deviation of the noise; can be set where there is one, and is None elsewhere."""
        return self._sigma_noise if self.has_known_noise else None

    @sigma_noise.setter
    def sigma_noise(self, value: float) -> None:
        if (sigma := positive("sigma_noise", value)) != 1.0:
            self._require_known_noise("sigma_noise", value)
        self._sigma_noise = sigma
        self._linearised = Linearised(self._scaled.of_links(sigma), self.link_approx)
        self._forget()

    @property
    def prior_mean(self) -> tf.Tensor:
        """The mean of the prior, () or (P,), in float64; can be set."""
        return self._prior_mean

    @prior_mean.setter
    def prior_mean(self, value: Any) -> None:
        self._prior_mean = checked_prior_mean(value, self._subset, self._followed.theta)

    @property
    def weights_with_posterior(self) -> list[keras.Variable]:
        """The weights of the model that have a posterior, in the order of `paths`."""
        return [self.model.trainable_variables[i] for i in self._subset.index]

    def _take_in(self, data: Source, batch_size: int | None, *, further: bool) -> None:
        size = None if further else self.subnetwork_size
        gathered = self._new_gathered() if size or not self.is_fitted else self._result
        gathered.gather(data, batch_size, further=further)
        if size:
            of_all = self._delta(), gathered.scale(self._sigma_noise)
            chosen = gathered.precision.largest_variances(size, *of_all)
            gathered = self._new_gathered(chosen)
            gathered.gather(data, batch_size)
        self._keep(gathered)
        self._forget()

    def as_prior(self, num_data: int) -> AbstractContextManager[None]:
        """Makes this posterior the prior under which the model trains on, until it is left.

        This is online Laplace (Ritter, Botev, Barber 2018): `update` then moves the mean to the
        weights as they are, and adds the curvature of the further data, under "kron" factor by
        factor. It is exact for linear models with normal noise.

            with posterior.as_prior(num_data=len(x)):
                model.compile("adam", likelihood)
                model.fit(x, y, epochs=20)
            posterior.update(x, y)

        The weights that have a posterior get the regulariser -log p(theta) / N up to a constant, in
        the place of any that they have, as the posterior contains the prior. Compile the model
        inside the `with` block, since Keras keeps what it has traced. Weights without a posterior
        are to stay as they are: freeze them before the posterior is made.

        Args:
            num_data: N of the data that it will train on.

        Raises:
            NotFittedError: before `fit`.
            ValueError: if `num_data` is no positive integer.
        """
        gathered = self._fitted("as_prior")
        return as_prior(
            self.weights_with_posterior,
            self._subset.split(tf.constant(gathered.mean)),
            gathered.precision,
            deltas=self._subset.split(self._delta()),
            c=gathered.scale(self._sigma_noise),
            num_data=positive_integer("num_data", num_data),
        )

    def log_marginal_likelihood(
        self, prior_precision: Any = None, sigma_noise: Any = None
    ) -> tf.Tensor:
        """Laplace's approximation of log p(y | x), in nats, for the whole data set.

        log p(y | theta*, x) + log p(theta*) + P / 2 log(2 pi) - 1 / 2 log det(H + diag(delta))
        (MacKay 1992; Immer et al. 2021, equation 2). Arguments and errors are those of the base
        class; a ValueError too if the exact Hessian with the prior is not positive definite.
        """
        sigma = self._sigma_noise if sigma_noise is None else sigma_noise
        return self._fitted("log_marginal_likelihood").log_marginal_likelihood(
            self._delta(prior_precision), self._prior_mean, noise(sigma)
        )

    def _function_moments(self, x: Source, batch_size: int | None) -> tuple[np.ndarray, np.ndarray]:
        return self._fitted("function_moments").function_moments(x, self._posterior, batch_size)

    def functions(self, num_samples: int, seed: int) -> keras.Model:
        self._fitted("export")
        if self.pred_type != "nn":
            raise ValueError(
                "pred_type='glm' knows moments of each output and no functions of them all, as "
                "exports and joint densities need; take pred_type='nn', or ensemble()"
            )
        return super().functions(num_samples, seed)

    def predictive(self, x: Source, request: Request) -> Any:
        """The predictive distribution; samples of "glm" are independent between examples."""
        if self.pred_type == "nn":
            return super().predictive(x, request)
        return self._linearised.predictions(self._fitted("predict"), self._posterior, x, request)

    def sample(self, num_samples: int = 100, *, seed: int = 0) -> np.ndarray:
        """Draws of the weights of the subset, shape (num_samples, P), in the order of `paths`."""
        gathered = self._fitted("sample")
        number = positive_integer("num_samples", num_samples)
        return gathered.sample(number, arguments.seed("seed", seed), self._posterior)

    def ensemble(self, num_samples: int = 100, *, seed: int = 0) -> WeightEnsemble:
        gathered = self._fitted("ensemble")
        members = self.sample(num_samples, seed=seed)
        shared = {"own_weights": self.paths, "theta": gathered.theta}
        ensemble = WeightEnsemble(self._followed.flat.model, members, gathered.states, **shared)
        ensemble.compile(loss=self._scaled.of_network(self._sigma_noise))
        return ensemble

    def summary(self) -> WeightTable:
        """Means, standard deviations of what has a posterior, and the log evidence."""
        gathered, flat = self._fitted("summary"), self._followed.flat
        share = f"posterior over {self._subset.size:,} of {flat.size:,} weights: "
        remarks = [share + ", ".join(self.paths), self._remark(gathered.num_data, "examples")]
        variances = gathered.precision.variances_of_weights(self._posterior)
        stddev = self._subset.known(np.sqrt(variances), flat.size)
        return WeightTable.of(repr(self), flat.shapes, gathered.theta.numpy(), stddev, remarks)

    def get_config(self) -> dict[str, Any]:
        config = {**super().get_config(), "prior_mean": in_config(self._prior_mean, 0.0)}
        if self.likelihood is not None:
            given = self._scaled.of_network(self._sigma_noise)
            config |= {"likelihood": self._serialized("likelihood", given), "sigma_noise": None}
        return config

    def fitted_arrays(self) -> dict[str, np.ndarray]:
        precision, mean = self._prior_precision.numpy(), self._prior_mean.numpy()
        prior = {"prior_precision": precision, "prior_mean": mean}
        return {**self._fitted("fitted_arrays").arrays(), **prior}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        self._keep(self._new_gathered())
        self._result.restore(arrays)
        self.prior_precision = arrays["prior_precision"]
        self.prior_mean = arrays.get("prior_mean", 0.0)

    def _new_gathered(self, chosen: np.ndarray | None = None) -> GatheredCurvature:
        return GatheredCurvature(
            self._followed,
            self._subset,
            self._scaled,
            structure=self.hessian_structure,
            kind=self.curvature,
            rank=self.rank or 50,
            temperature=self.temperature,
            jit_compile=self.jit_compile,
            chosen=chosen,
        )

    @functools.cached_property
    def _posterior(self) -> list[Tensors]:
        gathered = self._fitted("posterior")
        return gathered.precision.factors(self._delta(), gathered.scale(self._sigma_noise))

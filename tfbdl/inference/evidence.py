"""Methods that know their marginal likelihood, and choose prior and noise by it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf

from tfbdl.arguments import boolean, option, optional, positive_integer, shown
from tfbdl.inference import hyperparameters, prior_precision
from tfbdl.inference.method import Method
from tfbdl.likelihoods import Joint, Likelihood, of_model
from tfbdl.predictive.predict import Request
from tfbdl.sources import Source, kind_of

E = TypeVar("E", bound="EvidenceMethod")
_LARGEST_IN_CONFIG = 1000


class EvidenceMethod(Method):
    """A posterior under the prior N(0, 1 / delta), with its evidence log p(y | x).

    delta is a number; or of shape (L,), one for each weight tensor that has a posterior; or of
    shape (P,), one for each weight. A subclass defines `_take_in`, `_function_moments` and
    `log_marginal_likelihood`; what it computes from the data under one prior and noise it caches
    as `_posterior`.

    Attributes:
        likelihood: p(y | outputs); None for the likelihood of the model's loss.
        has_known_noise: whether there is one noise, of known standard deviation, to be chosen.
    """

    likelihood: Likelihood | None = None
    has_known_noise: bool
    _sizes: Sequence[int]
    _one_for_each_weight = True

    @property
    def prior_precision(self) -> tf.Tensor:
        """Delta, in float64; can be set."""
        return self._prior_precision

    @prior_precision.setter
    def prior_precision(self, value: Any) -> None:
        self._prior_precision = self._checked_precision(value)
        self._forget()

    @property
    def sigma_noise(self) -> float | None:
        """Standard deviation of the noise, which can be set where it is known."""
        raise NotImplementedError

    @sigma_noise.setter
    def sigma_noise(self, value: float) -> None:
        raise NotImplementedError

    def fit(
        self: E,
        x: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        class_weight: Mapping[int, float] | None = None,
        batch_size: int | None = None,
        steps: int | None = None,
    ) -> E:
        """Finds the posterior in one pass over all data, afresh; returns the object itself.

        The posterior is taken around the weights that the network has now, or on its present
        features.

        Args:
            x: inputs, shape (N, ...), a structure of such arrays, or a `pandas.DataFrame`; or
                batches (x, y) or (x, y, weights): a `tf.data.Dataset`, a `keras.utils.PyDataset`, a
                generator.
            y: targets, shape (N, ...); None if x has them.
            sample_weight: the weights w_n of the examples, shape (N,): the likelihood is the
                product of p(y_n | f(x_n))^w_n, and N is their sum.
            class_weight: weights by class in their place, as in Keras' `fit`.
            batch_size: examples at once; by default as many as memory is good for.
            steps: the number of batches to take of a data set; None for all.

        Raises:
            ValueError: if the data do not fit each other, the model or its likelihood, what has to
                be kept does not fit into memory, or the model trains other weights than it did.
        """
        weights = {"sample_weight": sample_weight, "class_weight": class_weight}
        return self._given(x, y, batch_size, further=False, steps=steps, **weights)

    def update(
        self: E,
        x: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        class_weight: Mapping[int, float] | None = None,
        batch_size: int | None = None,
        steps: int | None = None,
    ) -> E:
        """Adds further data to those before, which are not seen again; returns the object itself.

        The method's own documentation says whether a posterior from data in parts is exact.
        Before `fit` it is `fit`. Arguments and errors are those of `fit`; a ValueError too if
        weights that have no posterior have changed since.
        """
        weights = {"sample_weight": sample_weight, "class_weight": class_weight}
        return self._given(x, y, batch_size, further=self.is_fitted, steps=steps, **weights)

    def _given(
        self: E, x: Any, y: Any, batch_size: int | None, *, further: bool, **of_data: Any
    ) -> E:
        optional(positive_integer, "batch_size", batch_size)
        self._take_in(Source(x, y, **of_data, model=self.model), batch_size, further=further)
        return self

    def _take_in(self, data: Source, batch_size: int | None, *, further: bool) -> None:
        """Takes the posterior given these data, and those before if they are `further`."""
        raise NotImplementedError

    def function_moments(
        self, x: Any, *, batch_size: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean of the outputs f(x), shape (N, ...), and covariance at each x, (N, F, F).

        F counts all numbers that the network gives for an example, position after position. Where y
        is a class, the outputs are its logits.

        Args:
            x: inputs, shape (N, ...), or a `tf.data.Dataset` of batches.
            batch_size: examples at once; by default as many as memory is good for.

        Raises:
            NotFittedError: before `fit`.
            ValueError: if x does not fit the model, its outputs are of several lengths, or the
                covariances do not fit into memory.
        """
        self._fitted("function_moments")
        optional(positive_integer, "batch_size", batch_size)
        return self._function_moments(Source.of(x, self.model), batch_size)

    def _function_moments(self, x: Source, batch_size: int | None) -> tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError

    def log_marginal_likelihood(
        self, prior_precision: Any = None, sigma_noise: Any = None
    ) -> tf.Tensor:
        """Log p(y | x), in nats, for the whole data set: a float64 scalar.

        Differentiable by TensorFlow in both arguments.

        Args:
            prior_precision: delta; by default the present one.
            sigma_noise: a known noise, a number or tensor; by default the present one.

        Raises:
            NotFittedError: before `fit`.
            ValueError: if an argument is out of its range.
        """
        raise NotImplementedError

    def optimize_prior_precision(
        self,
        method: str = "marglik",
        prior_structure: str = "scalar",
        x: Any = None,
        y: Any = None,
        *,
        with_noise: bool = False,
        grid: Sequence[float] | None = None,
    ) -> EvidenceMethod:
        """Sets `prior_precision`, and the noise if asked, to the best found.

        Args:
            method: "marglik" for the largest marginal likelihood, by L-BFGS in the logarithms; or
                "gridsearch" for the largest mean log probability of validation data, predicted as
                by `tfbdl.predict`, in the `grid`.
            prior_structure: "scalar", "layerwise" (one delta for each weight tensor), or "diag"
                (for each weight, where the posterior allows it); "scalar" alone for "gridsearch".
            x: validation inputs, for "gridsearch", or batches (x, y) or (x, y, weights).
            y: validation targets, for "gridsearch"; None if x has them.
            with_noise: whether `sigma_noise` is chosen too, for "marglik".
            grid: values of delta to try, for "gridsearch"; by default 21 from 1e-4 to 1e4.

        Raises:
            NotFittedError: before `fit`.
            ValueError: if an argument is unknown, or does not go with others.
        """
        option("method", method, ("marglik", "gridsearch"))
        option("prior_structure", prior_structure, prior_precision.PRIOR_STRUCTURES)
        boolean("with_noise", with_noise)
        self._fitted("optimize_prior_precision")
        if method == "gridsearch":
            if prior_structure != "scalar" or with_noise:
                raise ValueError(
                    f"prior_structure={prior_structure!r} and with_noise={with_noise} are for "
                    "method='marglik'; leave them out"
                )
            self._search(hyperparameters.checked_grid(grid), x, y)
            return self
        for name, value in (("x", x), ("y", y), ("grid", grid)):
            if value is not None:
                raise ValueError(f"{name} is for method='gridsearch'; leave it out")
        self._climb(prior_structure, with_noise)
        return self

    def get_config(self) -> dict[str, Any]:
        return {
            **self._config_but("prior_precision", "sigma_noise"),
            "prior_precision": in_config(self._prior_precision, 1.0),
            "sigma_noise": self.sigma_noise if self.has_known_noise else None,
        }

    def _search(self, grid: Sequence[float], x: Any, y: Any) -> None:
        if x is None or (y is None and kind_of(x) is None):
            raise ValueError("method='gridsearch' needs validation data; give x and y")
        data = Source(x, y, model=self).whole()
        likelihood = of_model(self.model, self.likelihood)
        joint = likelihood if isinstance(likelihood, Joint) else None
        if joint is not None:
            joint.match(data.y, "y")
        before = self.prior_precision
        try:
            best = hyperparameters.likeliest(
                grid, lambda d: self._predict_under(d, Source(data.x)), data, joint
            )
        except Exception:
            self.prior_precision = before
            raise
        self.prior_precision = best

    def _climb(self, prior_structure: str, with_noise: bool) -> None:
        delta = self._prior_precision
        starts = [prior_precision.in_structure(delta, self._sizes, prior_structure)]
        if with_noise:
            self._require_known_noise("with_noise", with_noise)
            starts.append(tf.constant(self.sigma_noise, tf.float64))
        self.prior_precision, *noise = hyperparameters.maximum(self.log_marginal_likelihood, starts)
        if noise:
            self.sigma_noise = float(noise[0])

    def _predict_under(self, delta: float, x: Source) -> Any:
        self.prior_precision = delta
        return self.predictive(x, Request(return_samples=True))

    def _require_known_noise(self, name: str, value: Any) -> None:
        if not self.has_known_noise:
            raise ValueError(f"{name}={shown(value)} is for regression with one known noise")

    def _checked_precision(self, value: Any) -> tf.Tensor:
        for_each = self._one_for_each_weight
        return prior_precision.prior_precision(value, self._sizes, for_each=for_each)

    def _delta(self, given: Any = None) -> tf.Tensor:
        """The precision of each weight, shape (P,): as `given`, or as it is."""
        delta = self._prior_precision if given is None else self._checked_precision(given)
        return prior_precision.of_each_weight(delta, self._sizes)

    def _remark(self, num_data: float, counted: str) -> str:
        """A line of a summary: the evidence of so many of what is `counted`, prior and noise."""
        delta = np.atleast_1d(self._prior_precision)
        precision = f"{delta.min():.3g}" + (f" to {delta.max():.3g}" if delta.size > 1 else "")
        return (
            f"log marginal likelihood {float(self.log_marginal_likelihood()):.6g} nats of "
            f"{num_data:,.10g} {counted}; prior precision {precision}"
            + (f"; noise {self.sigma_noise:.3g}" if self.has_known_noise else "")
        )

    def _forget(self) -> None:
        """Drops what is cached, as the data, the prior or the noise have changed."""
        self.__dict__.pop("_posterior", None)


def in_config(value: tf.Tensor, default: float) -> Any:
    """The numbers of a prior as a file's config holds them.

    Where there are many, the config has the `default` in their place, and the numbers are among the
    file's arrays.
    """
    numbers = value.numpy()
    return numbers.tolist() if numbers.size <= _LARGEST_IN_CONFIG else default

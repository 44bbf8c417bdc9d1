"""Posteriors that are the prior of what comes next: a prior mean, and data one after another."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import keras
import numpy as np
import tensorflow as tf

from tfbdl.arguments import optional, positive_integer, shown
from tfbdl.flat_model import FlatModel
from tfbdl.inference.evidence import LARGEST_IN_CONFIG, EvidenceMethod
from tfbdl.inference.laplace.as_prior import as_prior
from tfbdl.inference.laplace.gathering import GatheredCurvature
from tfbdl.inference.prior_precision import in_float64
from tfbdl.inference.weight_subset import WeightSubset
from tfbdl.sources import Source

C = TypeVar("C", bound="ContinualMethod")


class ContinualMethod(EvidenceMethod):
    """A parabola around the weights of a network, to which that of further data can be added."""

    _result: GatheredCurvature | None
    _subset: WeightSubset
    _flat: FlatModel
    temperature: float

    @property
    def prior_mean(self) -> tf.Tensor:
        """The mean of the prior, () or (P,), in float64; can be set."""
        return self._prior_mean

    @prior_mean.setter
    def prior_mean(self, value: Any) -> None:
        if isinstance(value, str):
            if value != "current":
                raise ValueError(
                    f"prior_mean={shown(value)} must be 'current', a number, or an array"
                )
            value = self._subset.take(self._theta_now())
        mean = in_float64("prior_mean", value)
        if tuple(mean.shape) not in [(), (self._subset.size,)]:
            raise ValueError(
                f"prior_mean has shape {tuple(mean.shape)}; give a number, 'current', or an array "
                f"of shape ({self._subset.size},)"
            )
        if not np.isfinite(mean.numpy()).all():
            raise ValueError(f"prior_mean={shown(value)} must be finite")
        self._prior_mean = mean

    def as_prior(self, num_data: int) -> AbstractContextManager[None]:
        """Makes this posterior the prior under which the model trains on, until it is left.

            with posterior.as_prior(num_data=len(x)):
                model.compile("adam", likelihood)
                model.fit(x, y, epochs=20)
            posterior.update(x, y)

        The weights that have a posterior get the regulariser -log p(theta) / N up to a constant, in
        the place of any that they have, as the posterior contains the prior. Compile the model in
        there, since Keras keeps what it has traced. What has no posterior is to stay as it is:
        freeze it before the posterior is made.

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
            deltas=self._subset.split(self._of_each_weight(self._prior_precision)),
            c=self._scale(gathered),
            num_data=positive_integer("num_data", num_data),
        )

    def update(
        self: C,
        x: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        class_weight: Mapping[int, float] | None = None,
        batch_size: int | None = None,
        steps: int | None = None,
    ) -> C:
        """Adds further data, around the network as it is now; returns the object itself.

        Online Laplace (Ritter, Botev and Barber 2018): the mean moves to the weights that the model
        has now, trained on these data under `as_prior`; their curvature is added to that of all
        data before, which is not seen again. It is exact for linear models with normal noise.
        Under "kron" factors of both are added each for itself.

        Args:
            x: as in `fit`, other data.
            y: as in `fit`.
            sample_weight: as in `fit`.
            class_weight: as in `fit`.
            batch_size: as in `fit`.
            steps: as in `fit`.

        Raises:
            NotFittedError: before `fit`.
            ValueError: as in `fit`, and if weights that have no posterior have changed since.
        """
        gathered = self._fitted("update")
        optional(positive_integer, "batch_size", batch_size)
        now = tf.constant(self._theta_now(), gathered.theta.dtype)
        others = self._subset.scatter(self._subset.gather(gathered.theta), now)
        if not np.array_equal(others, gathered.theta):
            raise ValueError(
                "model has changed in weights that have no posterior; take "
                "subset_of_weights='all', or freeze them before making the Laplace"
            )
        weights = {"sample_weight": sample_weight, "class_weight": class_weight}
        data = Source(x, y, **weights, steps=steps, model=self.model)
        gathered.gather(data, batch_size, further=True)
        self._forget()
        return self

    @property
    def weights_with_posterior(self) -> list[keras.Variable]:
        """The weights of the model that have a posterior, in the order of `paths`."""
        return [self.model.trainable_variables[i] for i in self._subset.index]

    def get_config(self) -> dict[str, Any]:
        mean = self._prior_mean.numpy()
        small = mean.size <= LARGEST_IN_CONFIG
        return {**super().get_config(), "prior_mean": mean.tolist() if small else 0.0}

    def _theta_now(self) -> np.ndarray:
        """All weights of the user's model, shape (D,)."""
        if len(self.model.trainable_variables) != len(self._flat.shapes):
            raise ValueError(
                "model has other trainable weights than it had; freeze them before making the "
                "Laplace"
            )
        flat = [np.ravel(keras.ops.convert_to_numpy(v)) for v in self.model.trainable_variables]
        return np.concatenate(flat)

    def _scale(self, gathered: GatheredCurvature) -> tf.Tensor:
        """C, by which H counts in the posterior's precision."""
        return gathered.scale(tf.constant(self.sigma_noise, tf.float64), self.temperature)

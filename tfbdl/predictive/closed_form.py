"""Predictions whose distribution of y is known in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.stats
import tensorflow as tf

from tfbdl.arguments import number
from tfbdl.examples import as_array, examples
from tfbdl.likelihoods.base import HALF_LOG_2PI_E
from tfbdl.likelihoods.targets import match
from tfbdl.predictive import Prediction
from tfbdl.predictive.kept import FEW_OUTPUTS, KEPT
from tfbdl.probability import tfp


@dataclass(frozen=True, eq=False, repr=False)
class ClosedFormPrediction(Prediction):
    """A `Prediction` without Monte Carlo: densities, intervals and entropies are exact.

    Attributes:
        joint: p(y | x) of each example over all it holds, of batch shape (N,); None where the
            covariances of so many outputs and examples were not kept.
        marginal: p of each element of y, of the batch shape of `mean`.
    """

    joint: tfp.distributions.Distribution | None
    marginal: tfp.distributions.Distribution

    @property
    def _origin(self) -> str:
        return "in closed form"

    @property
    def entropy(self) -> np.ndarray:
        """Entropy of p(y | x) at each position, shape (N, ...), in nats.

        Raises:
            ValueError: if it takes the joint distribution of an example's outputs, which was not
                kept.
        """
        if self.mean.ndim > 1 and self.mean.shape[-1] == 1:
            return self.marginal.entropy().numpy()[..., 0]
        if self.mean.ndim <= 2:
            return self._known_joint("entropy").entropy().numpy()
        num, size = len(self.mean), self.mean.shape[-1]
        covariance = self._known_joint("entropy").covariance().numpy()
        blocks = covariance.reshape(num, -1, size, covariance.shape[-1] // size, size)
        of_positions = np.einsum("ntctd->ntcd", blocks)
        entropy = 0.5 * np.linalg.slogdet(of_positions)[1] + size * HALF_LOG_2PI_E
        return entropy.reshape(self.mean.shape[:-1])

    def quantile(self, q: float) -> np.ndarray:
        """The exact quantile; arguments as in `Prediction.quantile`."""
        return self.marginal.quantile(number("q", q, lambda v: 0 < v < 1, "in (0, 1)")).numpy()

    def cdf(self, y: np.ndarray) -> np.ndarray:
        """The exact distribution function; arguments as in `Prediction.cdf`."""
        y = match(examples("y", y), self.mean.shape)
        return self.marginal.cdf(tf.constant(y, self.marginal.dtype)).numpy()

    def log_prob(self, y: np.ndarray) -> np.ndarray:
        """Log p(y | x) of each example, shape (N,), in nats.

        Raises:
            ValueError: if y does not fit, or the joint distribution was not kept.
        """
        joint = self._known_joint("log_prob")
        y = match(tf.constant(as_array("y", y), joint.dtype), tf.TensorShape(self.mean.shape))
        y = tf.reshape(y, [len(self.mean), -1]).numpy()
        if self.mask is None:
            return joint.log_prob(y).numpy()
        mask = self.mask if self.mask.ndim == self.mean.ndim else self.mask[..., np.newaxis]
        kept = np.broadcast_to(mask, self.mean.shape).reshape(len(self.mean), -1)
        if isinstance(joint, tfp.distributions.Independent):
            return np.where(kept, joint.distribution.log_prob(y), 0.0).sum(axis=1)
        laws = zip(kept, y, joint.mean().numpy(), joint.covariance().numpy(), strict=True)
        return np.array([_log_density(*law) for law in laws])

    def _known_joint(self, asked: str) -> Any:
        if self.joint is None:
            instead = ("predict fewer at once, or " if self._fewer_help() else "") + "use marginal"
            raise ValueError(
                f"{asked} needs the joint distribution of {self.mean[0].size:,} outputs, which is "
                f"not kept for so many; {instead}"
            )
        return self.joint

    def _fewer_help(self) -> bool:
        """Whether the joint distribution is kept where fewer examples are predicted at once."""
        size = self.mean[0].size
        known = self.mean.ndim == 2 or size <= FEW_OUTPUTS
        return len(self) > 1 and known and size**2 <= KEPT

    def _rows_of(self, name: str, value: Any, rows: np.ndarray) -> Any:
        if isinstance(value, tfp.distributions.Distribution):
            return _rows(value, rows)
        return super()._rows_of(name, value, rows)


def _log_density(kept: np.ndarray, y: np.ndarray, mean: np.ndarray, covariance: Any) -> float:
    """Log p of some elements of y, under a joint normal law of all."""
    if not kept.any():
        return 0.0
    part = covariance[np.ix_(kept, kept)]
    return float(scipy.stats.multivariate_normal.logpdf(y[kept], mean[kept], part))


def _rows(
    distribution: tfp.distributions.Distribution, rows: np.ndarray
) -> tfp.distributions.Distribution:
    """Some of the first axis of a batch of distributions."""
    rank = distribution.batch_shape.rank
    if isinstance(distribution, tfp.distributions.Independent):
        return distribution.copy(distribution=_rows(distribution.distribution, rows))
    of_rows = {}
    for name, properties in distribution.parameter_properties().items():
        value = distribution.parameters.get(name)
        if value is None:
            continue
        value = tf.convert_to_tensor(value)
        if value.shape.rank - properties.event_ndims == rank and value.shape[0] > 1:
            of_rows[name] = tf.gather(value, rows)
    return distribution.copy(**of_rows)

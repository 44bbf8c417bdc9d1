"""Real numbers by their quantiles, which do not cross: quantile regression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfbdl import random
from tfbdl.arguments import positive as positive_number
from tfbdl.arguments import shown
from tfbdl.inherited_arguments import LossArguments, Unpack
from tfbdl.likelihoods.base import Likelihood, positive
from tfbdl.likelihoods.positions import sum_over_position
from tfbdl.likelihoods.targets import check_numbers, match, wide


@keras.saving.register_keras_serializable(package="tfbdl.likelihoods")
class Quantiles(Likelihood):
    """The pinball loss of K quantiles of each element of y, on the scale of a likelihood.

    It is for y whose law given x no family describes. The outputs have shape (B, ..., K D): D
    numbers that are the lowest quantiles, and K - 1 times D raw gaps to the next, whose softplus is
    added, so that quantiles never cross. The log probability of an element is the mean over levels
    q of that of an asymmetric Laplace law,

        log q (1 - q) / scale - max(q d, (q - 1) d) / scale,    d = y - Q_q,

    largest at the true quantiles whatever the law of y (Koenker and Bassett 1978; Yu and Moyeed
    2001). It is made for training, and cannot be compared with densities of other families; it has
    no curvature, from which `Laplace` could take a posterior, and is refused there.

    Predictions are of the law that has these quantiles: uniform between them, and exponential
    beyond, with the density of the interval beside it. Its `cdf` gives quantiles and intervals of
    drawn functions at all levels.

    Args:
        levels: K probabilities, rising, in (0, 1), at least 2.
        scale: the size of y's noise, roughly. A unit of y weighs 1 / scale nats beside the KL of
            random layers.
        **kwargs: `reduction` and `dtype`; like `name` as in `keras.losses.Loss`.

    Raises:
        ValueError: if `levels` are not such, or `scale` is not positive.
    """

    has_curvature = False

    def __init__(
        self,
        levels: Sequence[float] = (0.05, 0.25, 0.5, 0.75, 0.95),
        scale: float = 1.0,
        name: str = "quantiles",
        **kwargs: Unpack[LossArguments],
    ) -> None:
        super().__init__(name=name, **kwargs)
        self.levels = _levels(levels)
        self.scale = positive_number("scale", scale)

    @property
    def outputs_per_function(self) -> int:
        return len(self.levels)

    @property
    def outputs_hold(self) -> str:
        return "lowest quantiles and raw gaps"

    def quantiles(self, outputs: tf.Tensor) -> tf.Tensor:
        """The quantiles at `levels`, for outputs of shape (B, ..., K D), shape (B, ..., K, D)."""
        return self._law(outputs).knots

    def log_prob_of_elements(self, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """The mean over levels of the logarithms of asymmetric Laplace densities."""
        knots = self._law(outputs).knots
        q = self._column(knots)
        d = match(y, _shape_of_y(knots))[..., tf.newaxis, :] - knots
        log_density = tf.math.log(q * (1.0 - q) / self.scale) - tf.maximum(q * d, (q - 1.0) * d) / (
            self.scale
        )
        return tf.reduce_mean(log_density, axis=-2)

    def mean(self, outputs: tf.Tensor) -> tf.Tensor:
        return self._law(outputs).moments()[0]

    def variance(self, outputs: tf.Tensor) -> tf.Tensor:
        return self._law(outputs).moments()[1]

    def entropy(self, outputs: tf.Tensor) -> tf.Tensor:
        """Entropy of the law with these quantiles, at each position, shape (B, ...), in nats."""
        return sum_over_position(self._law(outputs).entropy())

    def cdf(self, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        law = self._law(outputs)
        return law.cdf(tf.cast(y, law.knots.dtype)[..., tf.newaxis, :])

    def sample(self, key: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        law = self._law(outputs)
        shape = tf.shape(law.knots[..., 0, :])
        return law.at(*random.tails(key, shape, law.knots.dtype))

    def check(self, outputs: tf.Tensor) -> None:
        self._law(outputs)

    def check_targets(self, y: Any, outputs: tf.Tensor) -> None:
        check_numbers(y, _shape_of_y(self._law(outputs[:1]).knots))

    def _law(self, outputs: tf.Tensor) -> _Law:
        """The law that the outputs describe.

        Raises:
            ValueError: if the last axis is no multiple of K.
        """
        outputs, K = wide(outputs), len(self.levels)
        last = outputs.shape[-1]
        if last is None or last % K:
            raise ValueError(
                f"outputs has shape {tuple(outputs.shape)}; Quantiles of {K} levels needs a last "
                f"axis of a multiple of {K}: lowest quantiles and raw gaps"
            )
        parts = tf.reshape(outputs, tf.concat([tf.shape(outputs)[:-1], [K, last // K]], 0))
        parts.set_shape([*outputs.shape[:-1], K, last // K])
        gaps = positive(parts[..., 1:, :])
        lowest = parts[..., :1, :]
        knots = tf.concat([lowest, lowest + tf.cumsum(gaps, axis=-2)], axis=-2)
        return _Law(knots, gaps, self._column(knots))

    def _column(self, like: tf.Tensor) -> tf.Tensor:
        return tf.constant(self.levels, like.dtype)[:, tf.newaxis]

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "levels": list(self.levels), "scale": self.scale}


class _Law(NamedTuple):
    """Laws uniform between quantiles and exponential beyond.

    knots: the quantiles, shape (..., K, D).
    gaps: the differences of the quantiles, to all digits, (..., K - 1, D).
    levels: (K, 1).
    """

    knots: tf.Tensor
    gaps: tf.Tensor
    levels: tf.Tensor

    @property
    def shares(self) -> tf.Tensor:
        """The probabilities between quantiles, shape (K - 1, 1)."""
        return self.levels[1:] - self.levels[:-1]

    def tails(self) -> tuple[tuple[tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]:
        """Probability and mean excess, (..., D), below and above all quantiles."""
        width = self.gaps / self.shares
        below, above = self.levels[0], 1.0 - self.levels[-1]
        return (below, below * width[..., 0, :]), (above, above * width[..., -1, :])

    def cdf(self, y: tf.Tensor) -> tf.Tensor:
        """P(Y <= y), shape (..., D), for y of shape (..., 1, D)."""
        (below, left), (above, right) = self.tails()
        d = y - self.knots
        inside = self.shares * tf.clip_by_value(d[..., :-1, :] / self.gaps, 0.0, 1.0)
        low = below * tf.exp(tf.minimum(d[..., 0, :] / left, 0.0))
        high = -above * tf.math.expm1(-tf.maximum(d[..., -1, :] / right, 0.0))
        return low + tf.reduce_sum(inside, axis=-2) + high

    def at(self, u: tf.Tensor, rest: tf.Tensor) -> tf.Tensor:
        """The u-quantiles, of the shape (..., D) of u; `rest` is 1 - u."""
        (below, left), (above, right) = self.tails()
        share = (u[..., tf.newaxis, :] - self.levels[:-1]) / self.shares
        inside = tf.reduce_sum(self.gaps * tf.clip_by_value(share, 0.0, 1.0), axis=-2)
        low = left * tf.math.log(tf.minimum(u / below, 1.0))
        high = right * tf.math.log(tf.minimum(rest / above, 1.0))
        return self.knots[..., 0, :] + inside + low - high

    def moments(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean and variance, shape (..., D), from distances to the lowest quantile."""
        (below, left), (above, right) = self.tails()
        ends = tf.cumsum(self.gaps, axis=-2)
        starts, top = ends - self.gaps, ends[..., -1, :]
        middle = starts + 0.5 * self.gaps
        mean = tf.reduce_sum(self.shares * middle, axis=-2) - below * left + above * (top + right)
        around = mean[..., tf.newaxis, :]
        inside = self.shares * (tf.square(middle - around) + tf.square(self.gaps) / 12.0)
        low = below * (tf.square(mean + left) + tf.square(left))
        high = above * (tf.square(top + right - mean) + tf.square(right))
        return self.knots[..., 0, :] + mean, tf.reduce_sum(inside, axis=-2) + low + high

    def entropy(self) -> tf.Tensor:
        """The entropy in nats, shape (..., D)."""
        inside = self.shares * tf.math.log(self.gaps / self.shares)
        tails = [p * (1.0 + tf.math.log(excess / p)) for p, excess in self.tails()]
        return tf.reduce_sum(inside, axis=-2) + tails[0] + tails[1]


def _shape_of_y(knots: tf.Tensor) -> tf.TensorShape:
    return knots.shape[:-2] + knots.shape[-1:]


def _levels(levels: Any) -> tuple[float, ...]:
    """The levels, checked.

    Raises:
        ValueError: if they are not at least two, rising, in (0, 1).
    """
    wanted = "must be at least two probabilities in (0, 1), rising"
    try:
        values = np.asarray(levels, np.float64)
    except (TypeError, ValueError):
        values = np.zeros(0)
    rises = values.ndim == 1 and len(values) > 1 and bool((np.diff(values) > 0).all())
    if not rises or not (values[0] > 0.0 and values[-1] < 1.0):
        raise ValueError(f"levels={shown(levels)} {wanted}")
    if not (np.diff(values) > 1e-6).all() or values[0] < 1e-6 or values[-1] > 1.0 - 1e-6:
        raise ValueError(f"levels={shown(levels)} {wanted}, by 1e-6, which float32 tells apart")
    return tuple(values.tolist())

"""Where the mean of a posterior has been while it was updated, and what that costs.

After the first data the posterior is N(theta_1, P_1^-1). It is the prior of the next data, at whose
mode theta_2 the parabola is added, and so on (Ritter, Botev, Barber 2018, "Online structured
Laplace approximations for overcoming catastrophic forgetting"). For linear models it is exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfbdl.inference.laplace.precision import Precision
from tfbdl.inference.weight_subset import WeightSubset


class Moves(NamedTuple):
    """How far the mean has moved.

    first: theta_1, shape (P,), in float64.
    squares: the sum over t of (theta_{t+1} - theta_t)^2, shape (P,).
    curved: the sum over t of (theta_{t+1} - theta_t)^T H_t (theta_{t+1} - theta_t).
    """

    first: np.ndarray
    squares: np.ndarray
    curved: float

    @classmethod
    def none(cls, mean: np.ndarray) -> Moves:
        """The moves of a posterior that was never updated."""
        return cls(mean, np.zeros_like(mean), 0.0)

    def then(self, step: np.ndarray, precision: Precision, subset: WeightSubset) -> Moves:
        """The moves after one more, by `step`, under the curvature of all data so far."""
        curved = self.curved
        d = subset.split(tf.constant(step))
        for places, quadratic in precision.quadratics:
            curved += float(quadratic(tf.concat([d[place] for place in places], axis=0)))
        return Moves(self.first, self.squares + step**2, curved)

    def scatter(self, prior_mean: tf.Tensor, delta: tf.Tensor, c: tf.Tensor) -> tf.Tensor:
        """-2 log of what the priors of all data say of the means, but for their volumes."""
        squares = (self.first - prior_mean) ** 2 + self.squares
        return tf.reduce_sum(delta * squares) + c * self.curved

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays for a file; none of a posterior that was never updated."""
        if not self.squares.any():
            return {}
        return {"moves": np.stack([self.first, self.squares]), "curved": np.array(self.curved)}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, np.ndarray], mean: np.ndarray) -> Moves:
        """The moves from `arrays`."""
        if "moves" not in arrays:
            return cls.none(mean)
        first, squares = arrays["moves"]
        return cls(first, squares, float(arrays["curved"]))

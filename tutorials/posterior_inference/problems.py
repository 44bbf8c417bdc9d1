"""Data, likelihood and prior: one posterior for all methods to approximate.

    f(x) = V^T a tanh(s (W^T x + b)) + c,    w ~ N(0, 1) for each weight of W, b, V and c.

The constants s and a take the place of prior scales that differ from layer to layer: with them
a = A / sqrt(H) is a prior N(0, A^2 / H) of the output weights. Every method is told N(0, 1).
"""

from __future__ import annotations

from dataclasses import dataclass

import keras
import numpy as np

from tfbdl.data import gapped_sine
from tfbdl.inference import LogPosterior
from tfbdl.likelihoods import Bernoulli, Categorical, Likelihood, Normal

NOISE = 0.1
"""Standard deviation of `gapped_sine`."""
MOON_NOISE = 0.2


@dataclass(frozen=True)
class Problem:
    """What is given.

    Attributes:
        x: examples, shape (N, inputs).
        y: targets, shape (N, 1), or classes, (N,).
        likelihood: p(y | f(x)).
        outputs: the number of outputs of the network.
        units: H, the units of its hidden layer.
        inner: s.
        outer: A; a = A / sqrt(H).
        batch_size: the batch size of stochastic gradients.
        rate: the `learning_rate` of samplers by stochastic gradients, far below 2 over the largest
            curvature of the mean loss, so that their steps and batches add little to the noise.
    """

    x: np.ndarray
    y: np.ndarray
    likelihood: Likelihood
    outputs: int
    units: int
    inner: float
    outer: float
    batch_size: int
    rate: float

    @property
    def num_data(self) -> int:
        """N."""
        return len(self.x)

    def stack(self, hidden: keras.layers.Layer, *last: keras.layers.Layer) -> keras.Model:
        """The network of a layer W^T x + b and a layer V^T h + c, of any kind."""
        return keras.Sequential(
            [
                keras.Input(self.x.shape[1:]),
                hidden,
                keras.layers.Rescaling(self.inner),
                keras.layers.Activation("tanh"),
                keras.layers.Rescaling(self.outer / self.units**0.5),
                *last,
            ]
        )

    def penalty(self, keep: float = 1.0) -> keras.regularizers.Regularizer:
        """The prior as weight decay beside the mean loss, |w|^2 / (2 N).

        Args:
            keep: probability that a weight is kept; w / keep is what has the prior then.
        """
        return keras.regularizers.L2(0.5 / (keep * self.num_data))

    def dense(self, units: int, *, decay: bool = False, keep: float = 1.0) -> keras.layers.Dense:
        """A layer whose weights start at a draw from the prior, with its `penalty` or without."""
        kernel, bias = (keras.initializers.RandomNormal(stddev=1.0) for _ in range(2))
        return keras.layers.Dense(
            units,
            kernel_initializer=kernel,
            bias_initializer=bias,
            kernel_regularizer=self.penalty(keep) if decay else None,
            bias_regularizer=self.penalty() if decay else None,
        )

    def network(self, seed: int, *, decay: bool = False) -> keras.Model:
        """The network of stock layers, its weights drawn from the prior."""
        keras.utils.set_random_seed(seed)
        layers = [self.dense(units, decay=decay) for units in (self.units, self.outputs)]
        return self.stack(*layers)

    def log_posterior(self, dtype: str = "float32") -> LogPosterior:
        """Log p(y, w | x)."""
        network, likelihood = self.network(0), self.likelihood
        return LogPosterior(network, 1.0, self.x, self.y, likelihood=likelihood, dtype=dtype)


def regression(n: int, seed: int) -> Problem:
    """A noisy sine with a gap, y = sin(2 x) + N(0, 0.1^2), in one dimension."""
    x, y = gapped_sine(n, seed)
    return Problem(
        x, y, Normal(NOISE), outputs=1, units=20, inner=2.0, outer=2.0, batch_size=n, rate=1e-3
    )


def two_classes(n: int, seed: int) -> Problem:
    """Two moons in the plane, as many points of each on average."""
    x, y = two_moons(n, seed)
    return Problem(
        x, y, Bernoulli(), outputs=1, units=20, inner=1.5, outer=5.0, batch_size=n, rate=3e-2
    )


def digits(x: np.ndarray, y: np.ndarray, units: int) -> Problem:
    """Ten classes of images that `pooled` has made small."""
    return Problem(
        x, y, Categorical(), outputs=10, units=units, inner=0.3, outer=4.0, batch_size=100, rate=0.1
    )


def two_moons(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Half circles of radius 1 that reach into each other, with noise: (n, 2) and labels (n, 1)."""
    generator = np.random.default_rng(seed)
    y = generator.integers(2, size=n)
    angle = generator.uniform(0, np.pi, n)
    side = 1 - 2 * y
    curve = np.stack([side * (np.cos(angle) - 0.5), side * (np.sin(angle) - 0.25)], axis=1)
    x = curve + MOON_NOISE * generator.standard_normal((n, 2))
    return x.astype("float32"), y[:, None].astype("float32")


def pooled(rows: np.ndarray) -> np.ndarray:
    """Images of 28x28 pixels as means over squares of 2x2: (N, 784) to (N, 196)."""
    return rows.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)).reshape(-1, 196)

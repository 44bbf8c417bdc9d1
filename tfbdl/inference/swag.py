"""SWAG: a normal posterior from the path of stochastic gradient descent (Maddox et al. 2019)."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from tfbdl.arguments import generator, number, positive_integer
from tfbdl.flat_model import FlatModel
from tfbdl.inference.posterior_samples import PosteriorSamples
from tfbdl.keras_private import walk
from tfbdl.models.ensemble import Ensemble, floats


class SWAG:
    """theta ~ N(mean, scale^2 (diag(variance) + D D^T / (K - 1)) ), of the path's moments.

    mean and variance are those of all samples of the path; the columns of D are the deviations of
    the last K samples from the mean until then (Maddox et al. 2019, section 3.2, whose scale is
    2^-1/2). Train with SGD at a constant rate, large enough to move, and keep the path with
    `PosteriorSamples`.

    Args:
        path: a `PosteriorSamples` that has trained.
        rank: K, at least 2; the paper's 20. Fewer samples give fewer columns.
        scale: of the spread, > 0.

    Attributes:
        mean: shape (D,).
        variance: of each weight, shape (D,).
        deviations: the rows are the columns of D, shape (K, D).

    Raises:
        ValueError: if an argument is out of its range, or the path has less than two samples.
    """

    def __init__(self, path: PosteriorSamples, *, rank: int = 20, scale: float = 0.5**0.5) -> None:
        if positive_integer("rank", rank) < 2:
            raise ValueError(f"rank={rank} must be at least 2")
        self.scale = number("scale", scale, lambda s: s > 0, "a positive number")
        ensemble = path.ensemble()
        thetas = np.asarray(ensemble.members, np.float64)
        if len(thetas) < 2:
            raise ValueError(f"path has {len(thetas)} samples; keep at least 2")
        self._network = path.model
        self._loss = path.model.loss
        self.mean = thetas.mean(axis=0)
        self.variance = thetas.var(axis=0)
        means = np.cumsum(thetas, axis=0) / np.arange(1, len(thetas) + 1)[:, None]
        self.deviations = (thetas - means)[-rank:]

    def sample(self, num_samples: int, *, seed: int = 0) -> np.ndarray:
        """Draws of theta, shape (num_samples, D)."""
        rng = generator("seed", seed)
        k = len(self.deviations)
        independent = np.sqrt(self.variance) * rng.normal(size=(num_samples, len(self.mean)))
        shared = rng.normal(size=(num_samples, k)) @ self.deviations / np.sqrt(max(k - 1, 1))
        return self.mean + self.scale * (independent + shared)

    def ensemble(
        self, num_samples: int = 30, *, x: Any = None, batch_size: int = 100, seed: int = 0
    ) -> Ensemble:
        """Draws as a model whose functions `tfbdl.predict` draws.

        Args:
            num_samples: draws; the paper's 30.
            x: training inputs, from which the statistics of BatchNormalization are taken anew for
                each draw; None for a network without.
            batch_size: examples at a time while they are.
            seed: of the draws.

        Raises:
            ValueError: if the network has BatchNormalization and x is None.
        """
        thetas = self.sample(positive_integer("num_samples", num_samples), seed=seed)
        flat = FlatModel(self._network)
        layers = [v for v in walk(self._network) if isinstance(v, keras.layers.BatchNormalization)]
        states = None
        if layers:
            if x is None:
                raise ValueError(
                    f"x=None: layer={layers[0].name!r} keeps statistics of its inputs, which "
                    "differ for each draw; give training inputs"
                )
            before = self._network.get_weights()
            states = np.stack([self._state(flat, layers, t, x, batch_size) for t in thetas])
            self._network.set_weights(before)
        ensemble = Ensemble(self._network, thetas, states)
        ensemble.compile(loss=self._loss)
        return ensemble

    @staticmethod
    def _state(
        flat: FlatModel, layers: list[Any], theta: np.ndarray, x: Any, batch_size: int
    ) -> np.ndarray:
        """The statistics of BatchNormalization at theta: means over the batches of x."""
        flat.assign(theta.astype(flat.dtype.as_numpy_dtype))
        momenta = [layer.momentum for layer in layers]
        for i, start in enumerate(range(0, len(x), batch_size)):
            for layer in layers:
                layer.momentum = i / (i + 1.0)
            flat.model(x[start : start + batch_size], training=True)
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum
        return floats(flat.state).numpy()

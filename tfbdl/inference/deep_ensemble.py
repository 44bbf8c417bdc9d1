"""Deep ensembles: networks trained alike from different starts (Lakshminarayanan et al. 2017)."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from tfbdl import arguments
from tfbdl.arguments import function, integer, optional, positive_integer, shown
from tfbdl.models import Ensemble
from tfbdl.training.loop import train


class DeepEnsemble:
    """K networks that differ in where they start and in the order of the examples.

    Args:
        build: makes a compiled model; called once for each member, under its own Keras seed.
        num_members: K; the paper's 5.
        seed: member k has the Keras seed `seed + k`, of 32 bits.

    Attributes:
        members: the trained networks.

    Raises:
        ValueError: if `num_members` is not a positive integer, or `seed` not such a seed.
    """

    def __init__(
        self, build: Callable[[], keras.Model], num_members: int = 5, *, seed: int = 0
    ) -> None:
        self.build = function("build", build, "a function that makes a compiled model")
        self.num_members = positive_integer("num_members", num_members)
        most = 2**32 - self.num_members
        self.seed = integer("seed", seed, "Keras' own seeds have 32 bits", least=0, most=most)
        self.members: list[keras.Model] = []

    def fit(
        self,
        x: np.ndarray,
        y: np.ndarray,
        *,
        savedir: str | os.PathLike[str] | None = None,
        **training: Any,
    ) -> DeepEnsemble:
        """Trains the members one after the other with `tfbdl.train`.

        Args:
            x: examples, shape (N, ...).
            y: targets, shape (N, ...).
            savedir: folder, with one for each member in it; a stopped call goes on where it was.
            **training: as in `tfbdl.train`: epochs, batch_size, verbose and so on.
        """
        self.members = []
        savedir = optional(arguments.path, "savedir", savedir)
        for k in range(self.num_members):
            seed = (self.seed + k) % 2**64
            keras.utils.set_random_seed(seed % 2**32)
            model = self.build()
            if not isinstance(model, keras.Model):
                raise ValueError(f"build gives {shown(model)}; let it give a compiled keras.Model")
            folder = None if savedir is None else savedir / f"member_{k}"
            train(model, x, y, savedir=folder, seed=seed, **training)
            self.members.append(model)
        return self

    def ensemble(self) -> Ensemble:
        """The members as one model, whose functions `tfbdl.predict` draws.

        Raises:
            ValueError: if they are not trained yet.
        """
        if not self.members:
            raise ValueError("members is empty; call fit first")
        ensemble = Ensemble.of(self.members)
        ensemble.compile(loss=self.members[0].loss)
        return ensemble

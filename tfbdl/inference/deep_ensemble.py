"""Deep ensembles: networks trained alike from different starts (Lakshminarayanan et al. 2017)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tfbdl.arguments import integer, positive_integer
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
        self.build = build
        self.num_members = positive_integer("num_members", num_members)
        self.seed = integer("seed", seed)
        if not 0 <= self.seed <= 2**32 - self.num_members:
            raise ValueError(
                f"seed={seed} must be in [0, 2**32 - {num_members}]: Keras' own seeds have 32 bits"
            )
        self.members: list[keras.Model] = []

    def fit(
        self,
        x: np.ndarray,
        y: np.ndarray,
        *,
        savedir: str | os.PathLike[str] | None = None,
        **arguments: Any,
    ) -> DeepEnsemble:
        """Trains the members one after the other with `tfbdl.train`.

        Args:
            x: examples, shape (N, ...).
            y: targets, shape (N, ...).
            savedir: folder, with one for each member in it; a stopped call goes on where it was.
            **arguments: as in `tfbdl.train`: epochs, batch_size, verbose and so on.
        """
        self.members = []
        for k in range(self.num_members):
            keras.utils.set_random_seed(self.seed + k)
            model = self.build()
            folder = None if savedir is None else Path(savedir) / f"member_{k}"
            train(model, x, y, savedir=folder, seed=self.seed + k, **arguments)
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

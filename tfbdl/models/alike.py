"""Networks of equal architecture, taken up one by one: what they share is kept once."""

from __future__ import annotations

import re
from typing import Any

import keras
import numpy as np

from tfbdl.flat_model import FlatModel
from tfbdl.keras_private import own_variables, walk
from tfbdl.models.reweighted import floating, integers


class Alike:
    """The weights of networks that differ in their weights alone.

    The first of them is kept, of the others only what differs from it.
    """

    def __init__(self) -> None:
        self.first: keras.Model | None = None
        self._weights: list[_Values] = []
        self._states: list[_Values] = []
        self._number = 0

    def add(self, network: keras.Model, *, keep: bool = True) -> None:
        """Takes up one more.

        Args:
            network: built.
            keep: whether its weights are kept; else it is only looked at.

        Raises:
            ValueError: if it is random, or differs from the first in its layers or in weights that
                are integers, as those of quantized layers.
        """
        flat = FlatModel(network)
        if self.first is None:
            self.first, self._shapes = network, tuple(flat.shapes.values())
            self._architecture = layer_configs(network, OF_TRAINING)
            self._weights = [_Values() for _ in flat.shapes]
            self._states = [_Values() for _ in floating(network)]
        elif self.first is not network:
            self._check(network, tuple(flat.shapes.values()))
        self._number += 1
        if not keep:
            return
        for values, variable in zip(self._weights, network.trainable_variables, strict=True):
            values.add(np.asarray(variable))
        for values, variable in zip(self._states, floating(network), strict=True):
            values.add(np.asarray(variable))

    def members(self, *, whole: bool = False) -> tuple[np.ndarray, list[str]]:
        """The weights that differ side by side, shape (K, P), and their paths.

        Args:
            whole: whether weights that do not differ are there too, so that P = D.
        """
        assert self.first is not None
        paths = list(FlatModel(self.first).shapes)
        own = [i for i, v in enumerate(self._weights) if whole or v.differ]
        return self._side_by_side([self._weights[i] for i in own]), [paths[i] for i in own]

    def states(self) -> tuple[np.ndarray, list[int]]:
        """Other variables that differ, shape (K, Q), and their places among the floating ones."""
        own = [i for i, v in enumerate(self._states) if v.differ]
        return self._side_by_side([self._states[i] for i in own]), own

    def _side_by_side(self, columns: list[_Values]) -> np.ndarray:
        if not columns:
            return np.zeros((self._number, 0), np.float32)
        return np.concatenate([column.rows() for column in columns], axis=1)

    def _check(self, other: keras.Model, shapes: tuple[tuple[int, ...], ...]) -> None:
        assert self.first is not None
        k = self._number
        if shapes != self._shapes:
            raise ValueError("models differ in the shapes of their weights; give equal networks")
        if layer_configs(other, OF_TRAINING) != self._architecture:
            raise ValueError(
                f"models[{k}] has other layers than models[0], or has adapted them to other "
                "data; give networks that differ in their weights alone"
            )
        pairs = zip(integers(self.first), integers(other), strict=True)
        changed = next((v for v, w in pairs if not np.array_equal(v, w)), None)
        if changed is not None:
            raise ValueError(
                f"models[{k}] differs from models[0] in the integers of {changed.path}, which "
                "members share; give networks that are not quantized"
            )


class _Values:
    """The values of a variable in one network after the other: one, while they are equal."""

    def __init__(self) -> None:
        self.number = 0
        self._kept: list[np.ndarray] = []

    def add(self, value: np.ndarray) -> None:
        """The value in one more network."""
        if not self.number:
            self._kept = [value]
        elif len(self._kept) > 1 or not np.array_equal(value, self._kept[0]):
            first = self._kept * self.number if len(self._kept) == 1 else self._kept
            self._kept = [*first, value]
        self.number += 1

    @property
    def differ(self) -> bool:
        """Whether they differ; a single one counts as different from those of others."""
        return len(self._kept) == self.number

    def rows(self) -> np.ndarray:
        """All values, shape (K, size), in float32 at least."""
        rows = np.stack([np.ravel(value) for value in self._kept])
        rows = np.repeat(rows, self.number, axis=0) if len(rows) < self.number else rows
        return rows.astype(np.result_type(rows.dtype, np.float32), copy=False)


OF_START = re.compile("name|seed|.*_initializer")
"""Settings of layers that say where a training starts."""

OF_TRAINING = re.compile(
    "trainable|rate|stddev|dropout|recurrent_dropout|momentum|.*_(regularizer|constraint)|"
    + OF_START.pattern
)
"""Settings of layers that change nothing in inference mode."""


def layer_configs(model: keras.Model, but: re.Pattern[str]) -> list[tuple[str, str, str]]:
    """The layers of a network with their settings, but for those whose names match."""

    def kept(config: Any) -> Any:
        if isinstance(config, dict):
            return {k: kept(v) for k, v in config.items() if not but.fullmatch(k)}
        return [kept(c) for c in config] if isinstance(config, list) else config

    configs = []
    for layer in walk(model):
        try:
            config = {} if isinstance(layer, keras.Model) else layer.get_config()
        except NotImplementedError:
            config = {}
        adapted = []
        if hasattr(layer, "finalize_state"):  # what it computes with is no variable
            adapted = [np.asarray(v).tolist() for v in own_variables(layer)]
            adapted += layer.get_vocabulary() if hasattr(layer, "get_vocabulary") else []
        configs.append((type(layer).__name__, repr(kept(config)), repr(adapted)))
    return configs

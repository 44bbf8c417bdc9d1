"""Mixtures of posteriors, each around a mode of its own, such as MultiSWAG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import keras
import numpy as np

from tfbdl import arguments
from tfbdl.arguments import positive_integer, shown
from tfbdl.inference.method import Method
from tfbdl.inference.training_method import Training, TrainingMethod
from tfbdl.inference.weight_table import WeightTable
from tfbdl.keras_private import walk
from tfbdl.models import WeightEnsemble
from tfbdl.models.alike import Alike


@keras.saving.register_keras_serializable(package="tfbdl")
class Mixture(TrainingMethod):
    """p(theta) = 1/K sum_k p_k(theta): each of K posteriors counts the same.

    A posterior around one mode is narrow, an ensemble of modes has no width; a mixture has both. A
    mixture of `SWAG`s from different starts is MultiSWAG (Wilson, Izmailov 2020, "Bayesian deep
    learning and a probabilistic perspective of generalization"):

        multi_swag = Mixture([SWAG(build(), seed=k) for k in range(5)]).fit(x, y, epochs=100)

    `fit` fits all of them, one after the other. Posteriors that are fitted already, of whatever
    method, need none: a mixture of Laplace approximations is `Mixture([Laplace(m).fit(x, y), ...])`
    (Eschenhagen et al. 2021, "Mixtures of Laplace approximations for improved post-hoc
    uncertainty in deep learning").

    Sample number s comes from posterior s modulo K, so that each gives an equal share.

    Args:
        methods: K methods over networks that differ in their weights alone.

    Raises:
        ValueError: if there are none, they are no methods, or two are of one network; when asked,
            if their networks differ in more than their weights; in `fit` if one is not fitted along
            a training.
    """

    jit_compile = None

    def __init__(self, methods: Sequence[Method], *, name: str | None = None) -> None:
        super().__init__(name=name)
        known = isinstance(methods, (list, tuple)) and len(methods) > 0
        if not known or not all(isinstance(method, Method) for method in methods):
            raise ValueError(
                f"methods={shown(methods)} must be a list of methods of tfbdl.inference, at least "
                "one"
            )
        owner: dict[int, int] = {}
        for k, method in enumerate(methods):
            for layer in walk(method):
                if owner.setdefault(id(layer), k) != k:
                    raise ValueError(
                        f"methods[{owner[id(layer)]}] and methods[{k}] are of one network; give "
                        "each its own"
                    )
        self.methods = list(methods)

    def _trained(self, training: Training) -> None:
        for k, method in enumerate(self.methods):
            if not isinstance(method, TrainingMethod):
                raise ValueError(
                    f"methods[{k}] is a {type(method).__name__}, which is fitted along no training;"
                    " fit it by itself"
                )
        for k, method in enumerate(self.methods):
            own = training._replace(
                run=partial(training.run, jit_compile=method.jit_compile),
                savedir=training.savedir and training.savedir / f"member_{k}",
            )
            method._keep(method._trained(own))

    def _fitted(self, what: str) -> None:
        super()._fitted(what)
        for method in self.methods:
            method._fitted(what)

    @property
    def is_fitted(self) -> bool:
        return all(method.is_fitted for method in self.methods)

    @property
    def input(self) -> Any:
        return self.methods[0].input

    def sample(self, num_samples: int = 30, *, seed: int = 0) -> np.ndarray:
        """Samples of theta, shape (num_samples, D), equally many from each posterior.

        A posterior that has fewer samples than its share repeats them, so that each posterior
        counts the same.

        Raises:
            NotFittedError: before `fit`.
        """
        self._fitted("sample")
        parts = self._of_each(num_samples, seed, lambda m, n, s: m.sample(n, seed=s))
        return np.stack([part[s // len(self.methods) % len(part)] for s, part in parts])

    def ensemble(self, num_samples: int = 30, *, seed: int = 0) -> WeightEnsemble:
        """Draws as one model, whose functions `tfbdl.predict` draws.

        A posterior that has fewer samples than its share repeats them, as in `sample`.

        Raises:
            ValueError: as that of the posteriors, and if their networks differ in more than their
                weights.
            NotFittedError: before `fit`.
        """
        self._fitted("ensemble")
        parts = self._of_each(num_samples, seed, lambda m, n, s: m.ensemble(n, seed=s))
        alike = Alike()
        for _, part in parts[: len(self.methods)]:
            alike.add(part.network, keep=False)
        places = [(part, s // len(self.methods) % part.num_functions) for s, part in parts]
        states = np.stack([part.state(k) for part, k in places])
        same = (states == states[0]).all()
        first = parts[0][1]
        ensemble = WeightEnsemble(
            first.network,
            np.stack([part.theta(k) for part, k in places]),
            states[:1] if same else states,
        )
        ensemble.take_loss(first)
        return ensemble

    def summary(self) -> WeightTable:
        """Means over all posteriors, and standard deviations within them, by weight tensor.

        Raises:
            ValueError: if chains have fewer than 4 samples.
            NotFittedError: before `fit`.
        """
        self._fitted("summary")
        summaries = [method.summary() for method in self.methods]
        tables = [s if isinstance(s, WeightTable) else s.weight_table() for s in summaries]
        return WeightTable.of_several(repr(self), tables)

    def fitted_arrays(self) -> dict[str, np.ndarray]:
        """Nothing of its own, as each method saves itself."""
        self._fitted("fitted_arrays")
        return {}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Nothing: each method restores itself."""

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Mixture:
        make = keras.saving.deserialize_keras_object
        return super().from_config({**config, "methods": [make(m) for m in config["methods"]]})

    def _of_each(
        self, num_samples: int, seed: int, draw: Callable[[Any, int, int], Any]
    ) -> list[tuple[int, Any]]:
        """The number of each draw, with what `draw(method, number, seed)` gives of its method."""
        positive_integer("num_samples", num_samples)
        methods = self.methods[:num_samples]
        seeds = arguments.generator("seed", seed).integers(2**63, size=len(self.methods))
        parts = [
            draw(method, len(range(k, num_samples, len(self.methods))), int(seeds[k]))
            for k, method in enumerate(methods)
        ]
        return [(s, parts[s % len(self.methods)]) for s in range(num_samples)]

"""Detectors of what is out of distribution: made, fitted and asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from soak.calls.case import STEPS, Case, Wrong, shaped
from tfbdl import detection

RNG = np.random.default_rng(4)
F, OTHER = RNG.normal(size=(2, 30, 4)) * np.r_[1.0, 2.0, 0.5, 1.0]
Y = np.arange(30) % 3
NEW = RNG.normal(size=(7, 4)) * 3.0
HEAD = RNG.normal(size=(4, 3)), np.zeros(3)
UNUSED: dict[str, tuple[Any, Any]] = {"model": (None, Wrong(1)), "layer": (None, Wrong("a"))}


def _scores(
    detector: detection.Detector, x: Any = F, y: Any = Y, new: Any = NEW, **how: Any
) -> Any:
    return shaped(detector.fit(x, y, **how).score(new), len(NEW))


def cases() -> Iterator[Case]:
    """Each detector, and the two calls of those that learn."""
    shrinkage: dict[str, tuple[Any, Any]] = {"shrinkage": (0.1, 0.9)}
    model = {"model": UNUSED["model"]}
    head: dict[str, tuple[Any, Any]] = {"head": (HEAD, (HEAD[0], np.ones(3)))}
    families: dict[str, dict[str, tuple[Any, Any]]] = {
        "MaxSoftmax": model,
        "MaxLogit": model,
        "Energy": {**model, "temperature": (1.0, 3.0)},
        "Mahalanobis": {**UNUSED, **shrinkage},
        "RelativeMahalanobis": {**UNUSED, **shrinkage},
        "NearestNeighbors": {**UNUSED, "k": (3, 9)},
        "ViM": {**model, **head, "num_components": (2, 1)},
    }
    for name, arguments in families.items():
        kind = getattr(detection, name)

        def made(kind: Any = kind, **arguments: Any) -> Any:
            return _scores(kind(**arguments))

        yield Case(f"tfbdl.detection.{name}", kind, made, arguments)
    how = {"batch_size": (None, Wrong(0)), **STEPS}

    def fitted(**given: Any) -> Any:
        return _scores(detection.Mahalanobis(), **given)

    def asked(x: Any, **given: Any) -> Any:
        return shaped(detection.Mahalanobis().fit(F, Y).score(x, **given), len(np.asarray(x)))

    of_fit = {"x": (F, OTHER), "y": (Y, np.sort(Y)), **how}
    yield Case("Mahalanobis.fit", detection.Mahalanobis.fit, fitted, of_fit)
    yield Case("Mahalanobis.score", detection.Mahalanobis.score, asked, {"x": (NEW, -NEW), **how})


BASES = (detection.Detector,)
"""What cannot be used itself."""

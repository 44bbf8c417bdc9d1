"""What posteriors answer: draws of weights, ensembles, predictions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from soak.calls.case import Case, X, floats

DRAWS = {"num_samples": (3, 2), "seed": (0, 1)}


def answered(found: Any) -> Any:
    """What is to be seen of any result of an inference."""
    if hasattr(found, "epistemic_variance"):
        return [found.mean, found.stddev, found.outputs, found.num_samples]
    if hasattr(found, "members"):
        return [found.members, found(X)]
    return list(floats(found)) or found


def drawn(kind: type, kept: Any, arguments: Any, *methods: str) -> Iterator[Case]:
    """The methods of a posterior that draw."""
    for method in methods:
        yield Case(
            f"{kind.__name__}.{method}",
            getattr(kind, method),
            lambda method=method, **given: answered(getattr(kept(), method)(**given)),
            arguments,
            slow=True,
        )

"""What posteriors answer: draws of weights, ensembles, predictions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tfbdl
from soak.calls.case import STEPS, Case, Wrong, X, floats
from tfbdl import likelihoods

DRAWS = {"num_samples": (3, 2), "seed": (0, 1)}


def answered(actual: Any) -> Any:
    """What is to be seen of any result of an inference."""
    if hasattr(actual, "epistemic_variance"):
        return [actual.mean, actual.stddev, actual.outputs, actual.num_samples]
    if hasattr(actual, "members"):
        return [actual.members, actual(X)]
    return list(floats(actual)) or actual


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


def asked(mode: str, posterior: Any, number: Any, seed: Any) -> Case:
    """`tfbdl.predict` of a posterior, with what it hears and what it refuses."""
    return Case(
        f"tfbdl.predict, {mode}",
        tfbdl.predict,
        lambda **given: answered(tfbdl.predict(posterior(), **given)),
        {
            "x": (X, X + 1.0),
            "num_samples": number,
            "batch_size": (None, Wrong(0)),
            **STEPS,
            "seed": seed,
            "likelihood": (None, Wrong(likelihoods.Normal())),
            "return_samples": (False, True),
            "jit_compile": (None, Wrong("yes")),
            "verbose": (0, Wrong("loud")),
        },
        slow=True,
    )

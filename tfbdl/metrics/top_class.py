"""Which class is predicted, and with what confidence."""

from __future__ import annotations

from typing import Any

from tfbdl.metrics.either import operations


def top_class(label: Any, p: Any) -> tuple[Any, Any]:
    """The largest probability, and whether its class is the label; both of shape (N,).

    Where several classes are equally probable, the first is the predicted one.
    """
    ops = operations(p)
    return ops.max(p, axis=-1), ops.equal(ops.argmax(p, axis=-1), label)

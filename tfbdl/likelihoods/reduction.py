"""Losses that are means over the examples of a batch, beside which a term of 1 / N can stand."""

from __future__ import annotations

import keras


def check_is_mean(model: keras.Model, beside: str) -> None:
    """Raises ValueError where a loss of a compiled model is a sum over the batch.

    Args:
        model: the model.
        beside: what is added to the loss, as messages name it.
    """
    for loss in keras.tree.flatten(getattr(model, "loss", None)):
        if getattr(loss, "reduction", None) == "sum":
            raise ValueError(
                f"loss={loss.name!r} has reduction='sum', beside which {beside} would count too "
                "little by the size of a batch; leave reduction out"
            )

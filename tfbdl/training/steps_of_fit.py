"""Conditions in the training steps of one call of `fit`, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import keras


class StepsOfFit:
    """The train function of a model, run inside a context during one call of `fit`.

    Keras tells callbacks of no end by an exception or Ctrl-C. What a context undoes is undone after
    each step, and a later call of `fit`, which finds this train function still there, runs it
    without the context.

    Args:
        model: the model whose train function this becomes; `on_train_begin` is the time for it.
        context: is given what the train function is given.

    Attributes:
        inner: the train function before.
    """

    def __init__(
        self, model: keras.Model, context: Callable[[Any], AbstractContextManager[Any]]
    ) -> None:
        self.inner = model.train_function
        self._model = model
        self._context = context
        self._fit = _this_fit(model)
        model.train_function = self

    def __call__(self, iterator: Any) -> Any:
        if _this_fit(self._model) is not self._fit:
            return self.inner(iterator)
        with self._context(iterator):
            return self.inner(iterator)


def _this_fit(model: keras.Model) -> Any:
    """The object that Keras makes anew in each call of `fit`."""
    return getattr(model, "history", None)

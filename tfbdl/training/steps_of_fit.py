"""Conditions in the steps of one call of `fit`, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import keras


class StepsOfFit:
    """The train or test function of a model, run inside a context during one call of `fit`.

    Keras tells callbacks of no end by an exception or Ctrl-C. What a context undoes is undone after
    each step, and a later call of `fit`, which finds this function still there, runs it without the
    context.

    Args:
        model: the model whose function this becomes; `on_train_begin` is the time for it.
        context: is given what the function is given.
        function: "train_function" or "test_function", the name of the attribute.

    Attributes:
        inner: the function before.
    """

    def __init__(
        self,
        model: keras.Model,
        context: Callable[[Any], AbstractContextManager[Any]],
        function: str = "train_function",
    ) -> None:
        self.inner = getattr(model, function)
        self._model = model
        self._context = context
        self._fit = _this_fit(model)
        setattr(model, function, self)

    def __call__(self, iterator: Any) -> Any:
        if _this_fit(self._model) is not self._fit:
            return self.inner(iterator)
        with self._context(iterator):
            return self.inner(iterator)


def _this_fit(model: keras.Model) -> Any:
    """The object that Keras makes anew in each call of `fit`."""
    return getattr(model, "history", None)

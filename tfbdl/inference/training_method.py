"""Methods that find their posterior along a training by `tfbdl.train`."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import keras

from tfbdl import arguments
from tfbdl.arguments import optional
from tfbdl.inference.method import Method
from tfbdl.keras_private_training import inner_optimizer
from tfbdl.training.checks import check_callbacks
from tfbdl.training.loop import train
from tfbdl.training.streams import DataOfEpoch
from tfbdl.training.validation import split

M = TypeVar("M", bound="TrainingMethod")


class Training(NamedTuple):
    """What one call of `fit` has to train with.

    Attributes:
        run: `tfbdl.train`, of a model, with a seed, callbacks and a savedir.
        x: the examples, or a function of the epoch.
        savedir: the folder of the run, if any.
        callbacks: callbacks of the user.
    """

    run: Callable[..., Any]
    x: Any
    savedir: Path | None
    callbacks: Sequence[keras.callbacks.Callback]


class TrainingMethod(Method):
    """A method whose `fit` trains networks, and keeps what it needs of them.

    A subclass has a `jit_compile`, and says by `_trained` what is kept.
    """

    jit_compile: bool | None

    def fit(
        self: M,
        x: Any | DataOfEpoch,
        y: Any = None,
        *,
        epochs: int,
        sample_weight: Any = None,
        class_weight: Mapping[int, float] | None = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        validation_steps: int | None = None,
        num_data: int | None = None,
        batch_size: int | None = None,
        steps_per_epoch: int | None = None,
        savedir: str | os.PathLike[str] | None = None,
        columns: Sequence[str] | None = None,
        callbacks: Sequence[keras.callbacks.Callback] = (),
        changed: str | Collection[str] = (),
        verbose: int = 1,
    ) -> M:
        """Trains by `tfbdl.train`, which says more about the arguments; returns the object itself.

        Args:
            x: examples, shape (N, ...), a structure of such arrays, or a `pandas.DataFrame`; or
                batches (x, y) or (x, y, weights): a `tf.data.Dataset`, a `keras.utils.PyDataset`, a
                generator; or a function of the epoch.
            y: targets, shape (N, ...); None if x gives them, or the model needs none.
            epochs: number of the last epoch of each network.
            sample_weight: the weights of the examples, shape (N,), or of positions.
            class_weight: weights by class in their place, as in Keras' `fit`.
            validation_split: the share of arrays, at their end, to evaluate on instead.
            validation_data: (x, y) or (x, y, weights), or batches, to evaluate after each epoch.
            validation_steps: the number of batches to take of these; None for all.
            num_data: N, if x is a function.
            batch_size: examples a step, by default 100; data sets have their own.
            steps_per_epoch: batches of an epoch; by default all of a data set.
            savedir: folder of the run: its log, its checkpoints, and what is kept on the way. A
                stopped call goes on where it was. None writes nothing.
            columns: the columns of the log.
            callbacks: called around training and epochs.
            changed: the names of the parts that differ from the run in `savedir` on purpose.
            verbose: 0 for silence, 1 for the lines of the log.

        Raises:
            ValueError: as `tfbdl.train`, and if nothing is left to make a posterior of.
            OSError: as `tfbdl.train`.
            TrainingError: as `tfbdl.train`.
        """
        folder = optional(arguments.path, "savedir", savedir)
        check_callbacks(callbacks)
        if validation_split and validation_data is None:
            parts = split((x, y, sample_weight), validation_split)
            (x, y, sample_weight), validation_data = parts
        run = partial(
            train,
            x=x,
            y=y,
            epochs=epochs,
            sample_weight=sample_weight,
            class_weight=class_weight,
            validation_data=validation_data,
            validation_steps=validation_steps,
            num_data=num_data,
            batch_size=batch_size,
            steps_per_epoch=steps_per_epoch,
            columns=columns,
            changed=changed,
            jit_compile=self.jit_compile,
            verbose=verbose,
        )
        self._keep(self._trained(Training(run, x, folder, callbacks)))
        return self

    def _trained(self, training: Training) -> Any:
        """The result of a training."""
        raise NotImplementedError


def check_optimizer(model: keras.Model, kind: type[keras.optimizers.Optimizer], lacks: str) -> None:
    """Raises ValueError unless the model is compiled with an optimizer of this kind.

    Args:
        model: the model.
        kind: the type of optimizer, also inside one that scales the loss.
        lacks: the message: what other optimizers do, and what to compile with.
    """
    optimizer = inner_optimizer(getattr(model, "optimizer", None))
    if not isinstance(optimizer, kind):
        raise ValueError(
            f"model={model.name} is compiled with {type(optimizer).__name__}, which {lacks}"
        )

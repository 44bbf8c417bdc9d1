"""The package's own training loop: Keras' `train_step`, compiled, on data that stays on the device.

It trains whatever `model.fit` trains and adds what `fit` lacks: epochs without Python in them,
`train.log`, a checkpoint every epoch with exact resume, an end at the first loss that is not
finite, and several workers.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

import keras
import numpy as np
import tensorflow as tf

from tfbdl import arguments
from tfbdl.arguments import option, optional, shown
from tfbdl.keras_private import build_all
from tfbdl.tensorflow_private import gradients_die
from tfbdl.training import checks, workers
from tfbdl.training.description import PARTS
from tfbdl.training.feed import DataOfEpoch, feed_of
from tfbdl.training.kl_schedule import KLSchedule
from tfbdl.training.observer import Observer
from tfbdl.training.progress import Progress
from tfbdl.training.run import Run, open_run
from tfbdl.training.steps import Steps


class TrainingError(RuntimeError):
    """Training cannot go on; the message names epoch and step, and the files that are left."""


def train(
    model: keras.Model,
    x: np.ndarray | DataOfEpoch,
    y: np.ndarray | None = None,
    *,
    epochs: int,
    num_data: int | None = None,
    batch_size: int = 100,
    savedir: str | os.PathLike[str] | None = None,
    columns: Sequence[str] | None = None,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    changed: str | Collection[str] = (),
    seed: int = 0,
    jit_compile: bool | None = None,
    verbose: int = 1,
) -> dict[str, list[float]]:
    """Trains a compiled model; returns the value of each column after each epoch of this call.

    The examples are shuffled anew each epoch by `seed` and the epoch's number. A last batch that
    is not full is left out (other examples each epoch), so that no shape is compiled twice. Under
    a `tf.distribute` strategy, the one the model was made in, each replica takes its share of
    every batch. Where several workers call this, the chief alone writes and prints.

    Args:
        model: compiled, with its loss in `compile` or of its own.
        x: examples, shape (N, ...); or a function of the epoch's number and a
            `tf.distribute.InputContext` that gives a `tf.data.Dataset` of single examples, x or
            (x, y), in the order of that epoch: those of one worker, where there are several.
        y: targets, shape (N, ...), or None for a model that needs none (VAE).
        epochs: number of the last epoch.
        num_data: N, the examples of an epoch over all workers, if x is a function.
        batch_size: examples a step, over all replicas; N if that is less.
        savedir: folder for `train.log` and `checkpoint.npz`. A run found there with the same N,
            batch size and seed, and of the same layers, loss and optimizer with the same settings,
            goes on behind its last checkpoint as if it had not stopped; a finished one is left as
            it is. None writes nothing.
        columns: the columns of the log. By default the loss, the compiled metrics, and the terms of
            the layers: kl, wd, ent, in nats per data set. Each is the mean over the epoch's
            batches.
        callbacks: Keras callbacks, called around training and epochs, not batches; each
            `KLSchedule` among them is part of the compiled steps. `ELBOLogger`, `TrainLogger` and
            `PosteriorTensorBoard` are for `model.fit` alone. The checkpoint keeps the state of
            those that have a `get_state` and a `set_state`, such as `inference.EmpiricalBayes`.
        changed: what is other than in the run found in `savedir`, on purpose: any of "model",
            "loss" and "optimizer". The model must have weights of the same shapes; an optimizer
            begins anew.
        seed: the seed of the order of arrays.
        jit_compile: whether XLA compiles the steps; by default unless they convolve on a CPU, where
            XLA is slow. Under several replicas it never does.
        verbose: 0 for silence, 1 for the lines of the log and, in a terminal, a progress bar.

    Raises:
        ValueError: for bad arguments or data, or a `savedir` that holds another run.
        OSError: for a `savedir` that cannot be written, or that another process writes into.
        TrainingError: if the loss is not finite, a worker is lost, x gives too few examples, or
            Python code in a data set raises, which TensorFlow tells as an error of its own. The
            last good checkpoint stays.
    """
    checks.check(
        model,
        epochs=epochs,
        batch_size=batch_size,
        seed=seed,
        columns=columns,
        callbacks=callbacks,
        jit_compile=jit_compile,
        verbose=verbose,
    )
    savedir = optional(arguments.path, "savedir", savedir)
    changed = [changed] if isinstance(changed, str) else changed
    for part in arguments.words("changed", changed, f"some of {', '.join(PARTS)}"):
        option("changed", part, PARTS)
    if changed and savedir is None:
        raise ValueError(f"changed={shown(changed)} is said of the run in savedir; give savedir")
    for callback in callbacks:
        if isinstance(callback, Observer):
            raise ValueError(
                f"callbacks has {type(callback).__name__}, which is for model.fit; tfbdl.train "
                "logs the terms of the layers by itself"
            )
    strategy = model.distribute_strategy
    with (
        workers.loss_raises(strategy, lambda: TrainingError(_lost(savedir))),
        _python_raises(savedir),
    ):
        feed = feed_of(model, x, y, num_data=num_data, batch_size=batch_size, seed=seed)
        with gradients_die():
            build_all(model, tuple(part[:1] for part in feed.first))
        schedules = [c for c in callbacks if isinstance(c, KLSchedule)]
        others = [c for c in callbacks if not isinstance(c, KLSchedule)]
        called = keras.callbacks.CallbackList(others, model=model, epochs=epochs)
        steps = Steps(model, feed, jit_compile, schedules)
        unknown = [name for name in columns or () if name not in steps.names]
        if unknown:
            raise ValueError(f"columns has {unknown[0]!r}; this model has {', '.join(steps.names)}")
        settings = {"num_data": feed.num_data, "batch_size": feed.batch_size, "seed": seed}
        workers.check_alike(strategy, {**settings, "epochs": epochs})
        with (
            Progress(epochs, steps.number, verbose * workers.is_chief(strategy)) as progress,
            open_run(
                model, savedir, settings, progress.echo, callbacks=callbacks, changed=changed
            ) as run,
        ):
            return _train(
                model, steps, run, progress, epochs=epochs, columns=columns, callbacks=called
            )


def _train(
    model: keras.Model,
    steps: Steps,
    run: Run,
    progress: Progress,
    *,
    epochs: int,
    columns: Sequence[str] | None,
    callbacks: keras.callbacks.CallbackList,
) -> dict[str, list[float]]:
    history: dict[str, list[float]] = {}
    model.stop_training = False
    callbacks.on_train_begin()
    for epoch in range(run.epochs_done + 1, epochs + 1):
        callbacks.on_epoch_begin(epoch - 1)
        run.start(epoch, float(tf.convert_to_tensor(model.optimizer.learning_rate)))
        started = time.perf_counter()
        for step in _steps_of(steps, epoch, run):
            progress.at(epoch - 1, step)
        logs = steps.means()
        seconds = time.perf_counter() - started
        callbacks.on_epoch_end(epoch - 1, logs)
        values = {name: logs[name] for name in columns or logs}
        run.end(epoch, seconds, values)
        for name, value in values.items():
            history.setdefault(name, []).append(value)
        if model.stop_training:
            break
    callbacks.on_train_end()
    return history


def _steps_of(steps: Steps, epoch: int, run: Run) -> Iterator[int]:
    """The numbers of steps done in an epoch.

    Raises:
        TrainingError: if it cannot be ended.
    """
    try:
        for step in steps.epoch(epoch):
            if not steps.finite:
                raise TrainingError(
                    f"loss or weights are not finite at epoch {epoch}, step {step}; {run.last_good}"
                )
            yield step
    except tf.errors.OutOfRangeError:
        raise TrainingError(
            f"x gave fewer examples in epoch {epoch} than {steps.number} batches need; "
            f"{run.last_good}"
        ) from None


@contextmanager
def _python_raises(savedir: str | os.PathLike[str] | None) -> Iterator[None]:
    """Says in one line what TensorFlow tells in a hundred: the error of a generator, a map.

    Raises:
        TrainingError: from the error of TensorFlow, which has the traceback.
    """
    try:
        yield
    except tf.errors.OpError as error:
        _, last_frame, text = str(error).rpartition('\n  File "')
        if "PyFunc" not in str(error) or not last_frame:
            raise
        own = " ".join(text.partition("\n\n")[2].partition("\n\n\t [[")[0].split())
        own = re.sub(r"^[\w.<>]+\.(?=\w)", "", own)  # the error's class has its module before it
        kept = "" if savedir is None else f"; the last checkpoint stays in {savedir}"
        raise TrainingError(f"the data, or Python code in the model, raised {own}{kept}") from error


def _lost(savedir: str | os.PathLike[str] | None) -> str:
    """The message when another worker is gone."""
    kept = "" if savedir is None else f"; they go on after the last checkpoint in {savedir}"
    return f"another worker is gone, and training stops; start all workers again{kept}"

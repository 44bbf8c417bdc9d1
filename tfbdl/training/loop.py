"""The package's own training loop: Keras' `train_step`, compiled, on data that stays on the device.

It trains whatever `model.fit` trains and adds what `fit` lacks: epochs without Python in them,
`train.log`, a checkpoint every epoch with exact resume, an end at the first loss that is not
finite, and several workers.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf

from tfbdl import arguments
from tfbdl.arguments import option, optional, shown
from tfbdl.keras_private import build_all
from tfbdl.tensorflow_private import gradients_die
from tfbdl.training import checks, workers
from tfbdl.training.description import PARTS
from tfbdl.training.feed import Examples, feed_of
from tfbdl.training.kl_schedule import KLSchedule
from tfbdl.training.observer import Observer
from tfbdl.training.progress import Progress
from tfbdl.training.run import Run, open_run
from tfbdl.training.steps import Steps
from tfbdl.training.streams import DataOfEpoch
from tfbdl.training.validation import Validation, split


class TrainingError(RuntimeError):
    """Training cannot go on; the message names epoch and step, and the files that are left."""


def train(
    model: keras.Model,
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
    seed: int = 0,
    jit_compile: bool | None = None,
    verbose: int = 1,
) -> dict[str, list[float]]:
    """Trains a compiled model; returns the value of each column after each epoch of this call.

    Arrays are shuffled anew each epoch by `seed` and the epoch's number. A last batch that is not
    full is left out (other examples each epoch), so that no shape is compiled twice. Data sets and
    generators have their own batches, all of which are used. Under a `tf.distribute` strategy, the
    one the model was made in, each replica takes its share of every batch. Where several workers
    call this, the chief alone writes and prints.

    Args:
        model: compiled, with its loss in `compile` or of its own.
        x: examples, shape (N, ...), or a structure of such arrays, as the model takes them: a
            dictionary, a list or a tuple; or a `pandas.DataFrame`, whose columns go to inputs of
            their names, if there are several. Or batches x, (x, y) or (x, y, weights): a
            `tf.data.Dataset` in its own order, a `keras.utils.PyDataset` in an order by `seed` and
            epoch, a generator. Or a function of the epoch's number and a
            `tf.distribute.InputContext` that gives a `tf.data.Dataset` of single examples, x, (x,
            y) or (x, y, weight), in the order of that epoch; where there are several workers, it
            gives the examples of one.
        y: targets, shape (N, ...), or None if x has them or the model needs none (VAE).
        epochs: number of the last epoch.
        sample_weight: the weights of the examples, shape (N,), or of positions, as in Keras' `fit`:
            for several outputs one array for all, or one for each. The loss is divided by the
            number of examples.
        class_weight: weights by class in their place, as in Keras' `fit`.
        validation_split: the share of arrays, at their end, that is held out as `validation_data`
            where these are None, as in Keras' `fit`. N is the number of the others.
        validation_data: (x, y) or (x, y, weights), or batches as x: what `model.evaluate` says of
            them after each epoch goes to callbacks, log and history, as "val_loss" and so on.
        validation_steps: the number of batches to take of these; None for all.
        num_data: N, the examples of an epoch over all workers, if x is a function.
        batch_size: examples a step, over all replicas; by default 100, and N if that is less. Data
            sets and generators have their own.
        steps_per_epoch: batches of an epoch; the next epoch goes on behind them. By default an
            epoch is all of a data set. A generator needs it, and whatever has no end or known
            length.
        savedir: folder for `train.log` and `checkpoint.npz`. A run found there with the same N,
            batch size (or steps of an epoch), seed and columns, and of the same layers, loss and
            optimizer with the same settings, goes on behind its last checkpoint as if it had not
            stopped; a finished one is left as it is. None writes nothing.
        columns: the columns of the log. By default the loss, the compiled metrics, and the terms of
            the layers: kl, wd, ent, in nats per data set. Each is the mean over the epoch's
            batches. "grad_norm", which has to be named, is the norm of the loss's gradient before
            the optimizer clips it; under several replicas it is the norm for each replica's share.
        callbacks: Keras callbacks, called around training and epochs, not batches; each
            `KLSchedule` among them is part of the compiled steps. `ELBOLogger`, `TrainLogger` and
            `PosteriorTensorBoard` are for `model.fit` alone. The checkpoint keeps the state of
            those that have a `get_state` and a `set_state`, such as `inference.EmpiricalBayes`. If
            training ends by an exception, it calls `on_train_error` of those that have one.
        changed: the parts that differ on purpose from the run found in `savedir`: any of "model",
            "loss" and "optimizer". The model must have weights of the same shapes; an optimizer
            begins anew.
        seed: the seed of the order of arrays, and of the batches of a `PyDataset`.
        jit_compile: whether XLA compiles the steps; by default unless they convolve on a CPU, where
            XLA is slow, or look up rows in batches that are read as they go, which XLA does not
            check. Under several replicas it never does.
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
        if validation_split and validation_data is None:
            parts = split((x, y, sample_weight), validation_split)
            (x, y, sample_weight), validation_data = parts
        given = (sample_weight, class_weight, num_data, batch_size, steps_per_epoch)
        feed = feed_of(model, Examples(x, y, *given), epochs=epochs, seed=seed)
        validation = None
        if validation_data is not None:
            validation = Validation(
                model, validation_data, batch_size=batch_size, steps=validation_steps
            )
        elif validation_steps is not None:
            raise ValueError("validation_steps is given without validation_data; leave it out")
        with gradients_die():
            build_all(model, keras.tree.map_structure(lambda part: part[:1], feed.first))
        schedules = [c for c in callbacks if isinstance(c, KLSchedule)]
        others = [c for c in callbacks if not isinstance(c, KLSchedule)]
        called = keras.callbacks.CallbackList(others, model=model, epochs=epochs)
        steps = Steps(model, feed, jit_compile, schedules, columns or ())
        names = steps.columns(columns, with_validation=validation is not None)
        settings = {**feed.settings, "seed": seed}
        workers.check_alike(strategy, {**settings, "epochs": epochs})
        with (
            Progress(epochs, steps.number, verbose * workers.is_chief(strategy)) as progress,
            open_run(
                model,
                savedir,
                {**settings, "columns": names},
                progress.echo,
                callbacks=callbacks,
                changed=changed,
            ) as run,
            _told_of_errors(callbacks),
        ):
            return _train(
                model,
                steps,
                run,
                progress,
                epochs=epochs,
                columns=columns,
                callbacks=called,
                validation=validation,
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
    validation: Validation | None,
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
        if validation is not None:
            logs |= validation.logs()
        callbacks.on_epoch_end(epoch - 1, logs)
        values = {name: logs[name] for name in columns or logs}
        run.end(epoch, seconds, values)
        for name, value in values.items():
            history.setdefault(name, []).append(value)
        if model.stop_training:
            break
    callbacks.on_train_end()
    return history


@contextmanager
def _told_of_errors(callbacks: Sequence[keras.callbacks.Callback]) -> Iterator[None]:
    """Calls `on_train_error` of callbacks that have it, as Keras calls nothing then."""
    try:
        yield
    except BaseException:
        for callback in callbacks:
            getattr(callback, "on_train_error", lambda: None)()
        raise


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

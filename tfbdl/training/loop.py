"""The package's own training loop: Keras' `train_step`, compiled, on data that stays on the device.

It trains whatever `model.fit` trains and adds what `fit` lacks: epochs without Python in them,
`train.log`, a checkpoint every epoch with exact resume, and an end at the first loss that is not
finite.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from tfbdl.arguments import output_on
from tfbdl.keras_private import build_all
from tfbdl.training import inputs
from tfbdl.training.kl_weight import MinibatchKL
from tfbdl.training.progress import Progress
from tfbdl.training.run import open_run
from tfbdl.training.steps import Steps


class TrainingError(RuntimeError):
    """Training cannot go on; the message names epoch and step, and what is left."""


def train(
    model: keras.Model,
    x: np.ndarray,
    y: np.ndarray | None = None,
    *,
    epochs: int,
    batch_size: int = 100,
    savedir: str | os.PathLike[str] | None = None,
    columns: Sequence[str] | None = None,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    seed: int = 0,
    jit_compile: bool = True,
    verbose: int = 1,
) -> dict[str, list[float]]:
    """Trains a compiled model; returns the value of each column after each epoch of this call.

    The examples are shuffled anew each epoch by `seed` and the epoch's number. A last batch that
    is not full is left out (other examples each epoch), so that no shape is compiled twice. Under
    a `tf.distribute` strategy, the one the model was made in, each replica takes its share of
    every batch.

    Args:
        model: compiled, with its loss in `compile` or of its own.
        x: examples, shape (N, ...).
        y: targets, shape (N, ...), or None for a model that needs none (VAE).
        epochs: number of the last epoch.
        batch_size: examples a step, over all replicas; N if that is less.
        savedir: folder for `train.log` and `checkpoint.npz`. A run found there with the same N,
            batch size and seed goes on behind its last checkpoint as if it had not stopped; a
            finished one is left as it is. None writes nothing.
        columns: of the log. By default the loss, the compiled metrics, and the terms of the
            layers: kl, wd, ent, in nats per data set. Each is the mean over the epoch's batches.
        callbacks: Keras callbacks, called around training and epochs (not batches, but
            `MinibatchKL` holds). The checkpoint keeps the state of those that have a `get_state`
            and a `set_state`, such as `inference.MarginalLikelihood`.
        seed: of the order of the examples.
        jit_compile: whether XLA compiles the step; never under several replicas.
        verbose: 0 for silence, 1 for the lines of the log and, in a terminal, a progress bar.

    Raises:
        ValueError: for bad arguments or data, or a `savedir` that holds another run.
        OSError: for a `savedir` that cannot be written.
        TrainingError: if the loss is not finite. The last good checkpoint stays.
    """
    x, y = np.asarray(x), None if y is None else np.asarray(y)
    inputs.check(model, x, y, epochs=epochs, batch_size=batch_size, seed=seed)
    batch_size = min(batch_size, len(x))
    data = tuple(_on_device(array) for array in (x, y) if array is not None)
    inputs.check_labels(model, y, output_on(model, data[0][:1]))
    build_all(model, tuple(array[:1] for array in data))
    minibatch_kl = next((c for c in callbacks if isinstance(c, MinibatchKL)), None)
    steps = Steps(model, data, batch_size, jit_compile, minibatch_kl)
    unknown = [name for name in columns or () if name not in steps.names]
    if unknown:
        raise ValueError(f"columns has {unknown[0]!r}; this model has {', '.join(steps.names)}")
    settings = {"num_data": len(x), "batch_size": batch_size, "seed": seed}
    keras_callbacks = keras.callbacks.CallbackList(list(callbacks), model=model, epochs=epochs)
    history: dict[str, list[float]] = {}
    with (
        Progress(epochs, len(x) // batch_size, verbose) as progress,
        open_run(model, savedir, settings, progress.echo, callbacks) as run,
    ):
        model.stop_training = False
        keras_callbacks.on_train_begin()
        for epoch in range(run.epochs_done + 1, epochs + 1):
            keras_callbacks.on_epoch_begin(epoch - 1)
            run.start(epoch, float(tf.convert_to_tensor(model.optimizer.learning_rate)))
            started = time.perf_counter()
            for step in steps.epoch(_order(len(x), seed, epoch)):
                if not steps.finite:
                    raise TrainingError(
                        f"loss or weights are not finite at epoch {epoch}, step {step}; "
                        f"{run.last_good}"
                    )
                progress.at(epoch - 1, step)
            logs = steps.means()
            seconds = time.perf_counter() - started
            keras_callbacks.on_epoch_end(epoch - 1, logs)
            values = {name: logs[name] for name in columns or logs}
            run.end(epoch, seconds, values)
            for name, value in values.items():
                history.setdefault(name, []).append(value)
            if model.stop_training:
                break
        keras_callbacks.on_train_end()
    return history


def _order(num_data: int, seed: int, epoch: int) -> tf.Tensor:
    return tf.random.experimental.stateless_shuffle(tf.range(num_data), seed=(seed, epoch))


def _on_device(array: np.ndarray) -> tf.Tensor:
    dtype = keras.config.floatx() if array.dtype.kind == "f" else array.dtype
    return tf.constant(array, dtype)

"""The loop, its log and its callbacks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

import tfbdl
from soak.calls.case import HELD_OUT, LABELS, WEIGHTS, Case, Made, N, Wrong, X, folder, shaped
from soak.calls.networks import (
    dropout_network,
)
from tfbdl.training.log import epoch_header, epoch_line


def _train(model: keras.Model, **given: Any) -> Any:
    history = tfbdl.train(model, **given)
    files = sorted(p.name for p in Path(given["savedir"] or "/nowhere").rglob("*"))
    return {"history": history, "weights": model.get_weights(), "files": files}


def _fit(callback: Any, model: keras.Model | None = None) -> Any:
    model = model or dropout_network()
    history = model.fit(X, LABELS, 3, 3, callbacks=[callback], verbose=0).history
    return {"history": history, "weights": model.get_weights()}


def _logged(**given: Any) -> Any:
    actual = _fit(tfbdl.TrainLogger(**given))
    log = tfbdl.read_log(given["path"])
    return {**actual, "metrics": log.metrics, "epochs": shaped(log.epochs, 3)}


def _of_epoch(epoch: Any, context: Any) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices((X, LABELS))


def _stopping(epoch: int, logs: Any) -> None:
    raise ValueError("callbacks: this one stops the training")


def log_of(epochs: int) -> Path:
    """A log of so many epochs."""
    path = folder() / "train.log"
    rows = (epoch_header(i, 0.1) + epoch_line(i, 0.5, {"elbo": i}) for i in range(1, epochs + 1))
    path.write_text("".join(rows))
    return path


def cases() -> Iterator[Case]:
    """The loop, and each callback."""
    callback = Made(lambda: [keras.callbacks.LambdaCallback(on_epoch_end=_stopping)])
    how = {
        "epochs": (2, 1),
        "batch_size": (3, 2),
        **HELD_OUT,
        "steps_per_epoch": (None, Wrong(2)),
        "savedir": (None, Made(folder)),
        "columns": (None, ("loss",)),
        "callbacks": ((), callback),
        "changed": ((), Wrong("everything")),
        "jit_compile": (False, Wrong("yes")),
        "verbose": (0, Wrong("loud")),
    }
    arrays = {
        "model": (Made(dropout_network), Made(lambda: dropout_network(0.2))),
        "x": (X, X[::-1]),
        "y": (LABELS, (LABELS + 1) % 3),
        "num_data": (None, N),
        "sample_weight": (None, WEIGHTS),
        "class_weight": (None, {0: 2.0}),
        "seed": (0, 1),
    }
    yield Case("tfbdl.train", tfbdl.train, _train, {**arrays, **how}, slow=True)
    stream = {**arrays, "x": (_of_epoch, lambda *_: _of_epoch(*_).map(lambda x, y: (2.0 * x, y)))}
    stream |= {"y": (None, LABELS), "num_data": (N, N - 3), "sample_weight": (None, Wrong(WEIGHTS))}
    del stream["seed"]
    yield Case("tfbdl.train, a function", tfbdl.train, _train, {**stream, **how}, slow=True)
    path = (Made(lambda: folder() / "train.log"), Made(lambda: folder() / "other" / "train.log"))
    log = {"path": path, "columns": (None, ("loss",)), "verbose": (0, Wrong("loud"))}
    yield Case("tfbdl.TrainLogger", tfbdl.TrainLogger, _logged, log, slow=True)
    annealing = {"start": (0, 1), "end": (2, 3), "period": (None, 2)}
    yield Case(
        "tfbdl.KLAnnealing",
        tfbdl.KLAnnealing,
        lambda **given: _fit(tfbdl.KLAnnealing(**given)),
        annealing,
        slow=True,
    )
    yield Case(
        "tfbdl.MinibatchKL", tfbdl.MinibatchKL, lambda: _fit(tfbdl.MinibatchKL()), {}, slow=True
    )
    yield Case(
        "tfbdl.ELBOLogger", tfbdl.ELBOLogger, lambda: _fit(tfbdl.ELBOLogger()), {}, slow=True
    )
    yield Case(
        "tfbdl.PosteriorTensorBoard",
        tfbdl.PosteriorTensorBoard,
        lambda log_dir: [_fit(tfbdl.PosteriorTensorBoard(log_dir)), Path(log_dir).name],
        {"log_dir": (Made(lambda: folder() / "a"), Made(lambda: folder() / "b"))},
        slow=True,
    )
    made_log = Made(lambda: log_of(3))
    yield Case(
        "tfbdl.read_log",
        tfbdl.read_log,
        lambda path: vars(tfbdl.read_log(path)),
        {"path": (made_log, Made(lambda: log_of(2)))},
        called={"path": "give a train.log file"},
    )


BASES = (tfbdl.KLSchedule,)
"""What cannot be used itself."""

"""Each kind of file that the package, its command line and its scripts write, on a broken disk."""

from __future__ import annotations

import contextlib
import io
import random
import tempfile
from argparse import Namespace
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np
from matplotlib.figure import Figure

import tfbdl
from soak.full_disk import largest_file
from soak.jobs import N, X, Y
from tfbdl import cli
from tfbdl.inference.mcmc.stepping import Draws
from tfbdl.inference.mcmc.storage import ChainStorage
from tfbdl.training import checkpoint
from tfbdl.training.log import epoch_header, epoch_line
from tfbdl.training.log_writer import LogWriter
from tutorials import run_files

LOG = epoch_header(1, 0.1) + epoch_line(1, 0.5, {"loss": 0.25})


class Kind(NamedTuple):
    """A kind of file.

    write: makes it in a folder; a second time it replaces it, or makes another one.
    error: what it raises where it cannot.
    """

    write: Callable[[Path], object]
    error: type[Exception] = OSError


def model() -> keras.Model:
    """A small Bayesian network, compiled."""
    model = keras.Sequential(
        [
            keras.Input((4,)),
            tfbdl.layers.BayesDense(8, num_data=N, seed=1),
            tfbdl.layers.MCDropout(0.2, seed=1),
            keras.layers.Dense(3),
        ]
    )
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def _new(folder: Path, suffix: str = "") -> Path:
    return folder / f"{len(list(folder.iterdir()))}{suffix}"


def _log(folder: Path) -> None:
    with LogWriter(_new(folder, ".log")) as log:
        for epoch in range(1, 40):
            log.start(epoch, 0.1)
            log.end(epoch, 0.5, {"loss": 0.25, "accuracy": 0.5})


def _fit(*callbacks: keras.callbacks.Callback) -> None:
    model().fit(X, Y, batch_size=10, epochs=5, verbose=0, callbacks=list(callbacks))


def _checkpoint(folder: Path) -> None:
    network = model()
    network.optimizer.build(network.trainable_variables)
    checkpoint.save(folder / "checkpoint.npz", network, {"epoch": 3})


def _draws(folder: Path) -> None:
    start = Draws(*(np.zeros((2, 300), "float32") for _ in Draws._fields))
    (folder / "chains").mkdir(exist_ok=True)
    savedir = _new(folder / "chains")
    savedir.mkdir()
    ChainStorage(start, 500, savedir, {"seed": 0}).save([np.zeros(3000)], 4)


def _command(*arguments: object) -> None:
    """Raises the line of error of a command of `tfbdl` as OSError."""
    errors = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
        code = cli.main([str(argument) for argument in arguments])
    if code:
        raise OSError(errors.getvalue().strip())


def _predict(folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as elsewhere:
        network, inputs = Path(elsewhere) / "m.keras", Path(elsewhere) / "x.npz"
        model().save(network)
        np.savez(inputs, x=X)
        _command("predict", network, inputs, "--force", "--output", folder / "answers.npz")


def _curves(folder: Path) -> None:
    log = folder / "train.log"
    if not log.exists():
        log.write_text(LOG)
    _command("log", log, "--force", "--figure", folder / "curves.png")


def _silently(write: Callable[..., object], *arguments: object, **named: object) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        write(*arguments, **named)


def _figure() -> Figure:
    figure = Figure()
    figure.subplots().plot([1.0, 2.0])
    return figure


FILES = {
    "log": Kind(_log),
    "log of fit": Kind(lambda folder: _fit(tfbdl.TrainLogger(_new(folder, ".log")))),
    "TensorBoard": Kind(lambda folder: _fit(tfbdl.PosteriorTensorBoard(_new(folder)))),
    "checkpoint": Kind(_checkpoint),
    "draws of chains": Kind(_draws),
    "SavedModel": Kind(lambda folder: tfbdl.export(model(), _new(folder))),
    "answers of tfbdl predict": Kind(_predict),
    "figure of tfbdl log": Kind(_curves),
    "record of a script": Kind(
        lambda folder: run_files.write_metrics(Namespace(savedir=folder), loss=[0.25] * 5000)
    ),
    "table of a script": Kind(
        lambda folder: _silently(run_files.write_table, folder / "table.md", ["| a |"] * 5000)
    ),
    "figure of a script": Kind(
        lambda folder: _silently(run_files.write_figure, _figure(), folder / "figure.png")
    ),
    "model of a script": Kind(lambda folder: run_files.save(model(), folder)),
}


def on_full_disk(name: str, times: int, seed: int) -> Counter[str]:
    """Writes a kind of file under limits on the sizes of files, and then without one.

    Raises:
        AssertionError: if a limit gives anything but one line of error, or costs what was there,
            or leaves a file that is none.
    """
    kind, chance, actual = FILES[name], random.Random(seed), Counter[str]()
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        kind.write(folder)
        largest = max(len(content) for content in contents(folder).values())
        for _ in range(times):
            before = contents(folder)
            with largest_file(chance.randrange(largest)):
                actual[_end(name, kind, folder)] += 1
            after = contents(folder)
            lost = [file for file in before if after.get(file) != before[file]]
            if lost and name not in ("log", "log of fit"):
                raise AssertionError(f"{name}: a full disk costs {lost}")
            if any(".tfbdl-" in file for file in after):
                raise AssertionError(f"{name}: a full disk leaves {sorted(after)}")
        kind.write(folder)
    return actual


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a folder, and what is in them."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def _end(name: str, kind: Kind, folder: Path) -> str:
    try:
        kind.write(folder)
    except kind.error as error:
        if "\n" in str(error):
            raise AssertionError(f"{name}: {error!r} has not one line") from error
        return "one line"
    return "done"

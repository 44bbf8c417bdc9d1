"""Runs that leave files, small enough to be broken many times."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import keras
import numpy as np
import tensorflow as tf

import tfbdl
from tfbdl.npz_file import read_npz
from tfbdl.training import checkpoint
from tfbdl.whole_file import write_whole

ROOT = Path(__file__).parents[2]
N, BATCH, WARMUP = 50, 16, 50
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 4)).astype("float32")
Y = np.argmax(X @ RNG.normal(size=(4, 3)), axis=1)


class Refused(Exception):
    """A run says in one line that it does not go on in the folder that it was given."""


class Job(NamedTuple):
    """A run in a folder.

    run: starts it, or goes on; calls its second argument when all is compiled that can be before.
        Only `Refused` may be raised.
    check: raises unless what a broken run has left is in order.
    outcome: the outcome of a run that has ended, the same whether it was broken or not.
    """

    run: Callable[[Path, Callable[[], None]], None]
    check: Callable[[Path], None]
    outcome: Callable[[Path], Any]


def _classifier(optimizer: keras.optimizers.Optimizer, *hidden: keras.layers.Layer) -> keras.Model:
    model = keras.Sequential([keras.Input((4,)), *hidden, keras.layers.Dense(3)])
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def _train(model: keras.Model, folder: Path, begun: Callable[[], None], *others: Any) -> None:
    begin = keras.callbacks.LambdaCallback(on_train_begin=lambda logs: begun())
    tfbdl.train(
        model,
        X,
        Y,
        epochs=60,
        batch_size=BATCH,
        savedir=folder,
        seed=7,
        jit_compile=False,
        verbose=0,
        callbacks=[begin, *others],
    )


def _training(folder: Path, begun: Callable[[], None]) -> None:
    """All kinds of state: seeds of the package and of Keras, statistics, Adam's moments."""
    model = _classifier(
        keras.optimizers.Adam(0.01),
        tfbdl.layers.BayesDense(8, "tanh", num_data=N),
        tfbdl.layers.ConcreteDropout(keras.layers.Dense(6), num_data=N, lengthscale=2.0),
        keras.layers.BatchNormalization(),
        keras.layers.Dropout(0.2),
    )
    _train(model, folder / "run", begun)


def _fit(folder: Path, begun: Callable[[], None]) -> None:
    """`fit` with a log, which cannot be taken up: each time into a folder of its own."""
    keras.utils.set_random_seed(1)
    folder.mkdir(parents=True, exist_ok=True)
    run = folder / f"{len(list(folder.iterdir())):03d}"
    run.mkdir()
    model = _classifier(keras.optimizers.Adam(0.01), tfbdl.layers.BayesDense(8, num_data=N))
    begin = keras.callbacks.LambdaCallback(on_train_begin=lambda logs: begun())
    log = tfbdl.TrainLogger(run / "train.log")
    model.fit(_untuned(X, Y), epochs=60, verbose=0, callbacks=[begin, log])


def _untuned(*arrays: Any) -> tf.data.Dataset:
    """Shuffled batches without TensorFlow's autotuning.

    Its thread (`Model::OptimizeLoop`) waits by the wall clock, so a `fit` of arrays can hang for
    ever in the end of an epoch when that is set back, with any model.
    """
    data = tf.data.Dataset.from_tensor_slices(arrays).shuffle(N, seed=1).batch(BATCH)
    options = tf.data.Options()
    options.autotune.enabled = False
    return data.with_options(options)


def check_logs(folder: Path) -> None:
    """Raises unless each log in the folder can be read and has all epochs up to its last."""
    for log in folder.rglob("train.log"):
        epochs = tfbdl.read_log(log).epochs.tolist()
        if epochs != list(range(1, len(epochs) + 1)):
            raise AssertionError(f"{log} has epochs {epochs}")


def _outcome_of_fit(folder: Path) -> Any:
    return without_seconds(max(folder.glob("*/train.log")))


def _ensemble(folder: Path, begun: Callable[[], None]) -> None:
    """Networks one after the other, each with a folder in the folder."""

    def build() -> keras.Model:
        return _classifier(keras.optimizers.Adam(0.01), keras.layers.Dense(8, "tanh"))

    begin = keras.callbacks.LambdaCallback(on_train_begin=lambda logs: begun())
    tfbdl.inference.DeepEnsemble(build, 3, seed=1).fit(
        X, Y, epochs=30, batch_size=BATCH, savedir=folder, verbose=0, callbacks=[begin]
    )


def _outcome_of_ensemble(folder: Path) -> Any:
    return [
        (without_seconds(member / "train.log"), arrays(member / "checkpoint.npz"))
        for member in sorted(folder.glob("member_*"))
    ]


def _check_training(folder: Path) -> None:
    log, kept = folder / "run" / "train.log", folder / "run" / "checkpoint.npz"
    epochs = tfbdl.read_log(log).epochs.tolist() if log.exists() else []
    done = checkpoint.read_meta(kept)["epoch"] if kept.exists() else 0
    if epochs != list(range(1, len(epochs) + 1)) or len(epochs) < done:
        raise AssertionError(f"the log has epochs {epochs}, the checkpoint is of epoch {done}")


def _outcome_of_training(folder: Path) -> Any:
    run = folder / "run"
    return without_seconds(run / "train.log"), arrays(run / "checkpoint.npz")


def _sampling(folder: Path, begun: Callable[[], None]) -> None:
    """SGLD, whose weights are kept after every second epoch."""
    optimizer = tfbdl.optimizers.SGLD(1e-3, num_data=N)
    kept = tfbdl.inference.WeightSnapshots(every=2, savedir=folder / "samples")
    _train(_classifier(optimizer, keras.layers.Dense(8)), folder / "run", begun, kept)


def _check_sampling(folder: Path) -> None:
    _check_training(folder)
    for path in folder.glob("samples/*.npz"):
        arrays(path)


def _outcome_of_sampling(folder: Path) -> Any:
    samples = sorted((folder / "samples").glob("*.npz"))
    return _outcome_of_training(folder), {path.name: arrays(path) for path in samples}


def _chains(folder: Path, begun: Callable[[], None]) -> None:
    """Langevin chains with a checkpoint every hundredth of a second."""
    chains = tfbdl.inference.MCMC(
        lambda theta: -0.5 * tf.reduce_sum(theta**2 * [1.0, 4.0, 9.0], axis=1),
        kernel="mala",
        initial=np.zeros(3),
        jitter=1.0,
        num_warmup=WARMUP,
        num_samples=100,
        jit_compile=False,
    )
    with mock.patch("tfbdl.inference.mcmc.progress.SECONDS", 0.01):
        begun()
        chains.fit(savedir=folder / "run", verbose=0)


def _check_chains(folder: Path) -> None:
    path = folder / "run" / "checkpoint.npz"
    if path.exists():
        steps = json.loads(arrays(path)["meta"][2])["steps"]
        for draws in (folder / "run").glob("*.npy"):
            if len(np.load(draws)) < steps - WARMUP:
                raise AssertionError(f"{draws} is shorter than the checkpoint says")


def _outcome_of_chains(folder: Path) -> Any:
    arrays = {path.name: np.load(path) for path in sorted((folder / "run").glob("*.npy"))}
    return {name: (a.shape, str(a.dtype), a.tobytes()) for name, a in arrays.items()}


def _results(folder: Path, begun: Callable[[], None]) -> None:
    """Records and arrays that replace their predecessors."""
    folder.mkdir(parents=True, exist_ok=True)
    begun()
    for k in range(200):
        text = json.dumps([k] * 5000)
        write_whole(folder / "metrics.json", lambda file, text=text: file.write(text.encode()))
        array = np.full(20_000, k)
        write_whole(folder / "outputs.npz", lambda file, array=array: np.savez(file, array=array))


def _check_results(folder: Path) -> None:
    if (folder / "metrics.json").exists():
        values = json.loads((folder / "metrics.json").read_text())
        if values != values[:1] * 5000:
            raise AssertionError("metrics.json mixes two records")
    if (folder / "outputs.npz").exists():
        array = read_npz(folder / "outputs.npz", lambda file: file["array"])
        if not np.array_equal(array, np.full(20_000, array[0])):
            raise AssertionError("outputs.npz mixes two arrays")


def _outcome_of_results(folder: Path) -> Any:
    return (folder / "metrics.json").read_text(), arrays(folder / "outputs.npz")


def without_seconds(log: Path) -> str:
    """The text of a log without the times that epochs took."""
    return re.sub(r"\(\d+\.\d{3} secs\)", "", log.read_text())


def arrays(path: Path) -> dict[str, Any]:
    """Shape, type and bytes of each array; the text of those of text."""

    def content(a: np.ndarray) -> Any:
        return a.shape, str(a.dtype), str(a) if a.dtype.kind == "U" else a.tobytes()

    return read_npz(path, lambda file: {name: content(file[name]) for name in file.files})


JOBS = {
    "training": Job(_training, _check_training, _outcome_of_training),
    "chains": Job(_chains, _check_chains, _outcome_of_chains),
    "samples of SGLD": Job(_sampling, _check_sampling, _outcome_of_sampling),
    "fit with a log": Job(_fit, check_logs, _outcome_of_fit),
    "deep ensemble": Job(_ensemble, check_logs, _outcome_of_ensemble),
    "results": Job(_results, _check_results, _outcome_of_results),
}

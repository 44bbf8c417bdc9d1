"""A checkpoint is one file that is either whole or not there."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import keras
import numpy as np
import tensorflow as tf

T = TypeVar("T")
State: TypeAlias = Mapping[str, np.ndarray]


class CheckpointError(ValueError):
    """A checkpoint cannot be read, or belongs to another run; the message says which."""


def save(
    path: str | os.PathLike[str],
    model: keras.Model,
    meta: dict[str, Any],
    states: Sequence[State] = (),
) -> None:
    """Writes the model's and its optimizer's variables to `path`, and what goes with them.

    The file is written beside `path`, flushed to the disk and renamed, so that a kill at any moment
    leaves the checkpoint before or the checkpoint after.

    Args:
        path: of the file, in an existing folder.
        model: compiled, with a built optimizer.
        meta: JSON values.
        states: of callbacks, each with at least one array.
    """
    path = Path(path)
    arrays: dict[str, Any] = {f"v{i}": _to_numpy(v) for i, v in enumerate(_variables(model))}
    for i, state in enumerate(states):
        arrays |= {f"state{i}/{name}": array for name, array in state.items()}
    arrays["meta"] = np.array(json.dumps(meta))
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        with open(temporary, "wb") as file:
            np.savez(file, **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def restore(path: str | os.PathLike[str], model: keras.Model) -> None:
    """Puts the variables of a checkpoint into `model` and its built optimizer.

    Raises:
        CheckpointError: if the file is not a checkpoint or holds another model; then no variable
            has changed.
    """
    variables = _variables(model)
    arrays = _read(path, _arrays_of_model)
    if [a.shape for a in arrays] != [tuple(v.shape) for v in variables]:
        raise CheckpointError(
            f"{path} holds another model or optimizer ({len(arrays)} variables, this one has "
            f"{len(variables)}); name another savedir"
        )
    for variable, array in zip(variables, arrays, strict=True):
        variable.assign(array)


def read_meta(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The `meta` that was given to `save`.

    Raises:
        CheckpointError: if the file is not a checkpoint.
    """
    return _read(path, lambda file: json.loads(str(file["meta"])))


def read_states(path: str | os.PathLike[str]) -> list[State]:
    """The `states` that were given to `save`.

    Raises:
        CheckpointError: if the file is not a checkpoint.
    """
    return _read(path, _states)


def _arrays_of_model(file: Any) -> list[np.ndarray]:
    return [file[f"v{i}"] for i in range(sum("/" not in name for name in file.files) - 1)]


def _states(file: Any) -> list[State]:
    states: dict[str, dict[str, np.ndarray]] = {}
    for number, _, name in (key.partition("/") for key in file.files if "/" in key):
        states.setdefault(number, {})[name] = file[f"{number}/{name}"]
    return list(states.values())


def _read(path: str | os.PathLike[str], extract: Callable[[Any], T]) -> T:
    try:
        with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
            return extract(file)
    except (
        OSError,
        ValueError,
        NotImplementedError,
        AttributeError,
        TypeError,
        LookupError,
        EOFError,
        zipfile.BadZipFile,
    ) as error:
        raise CheckpointError(f"{path} is not a readable checkpoint ({error})") from None


def _variables(model: keras.Model) -> list[keras.Variable]:
    return [*model.variables, *model.optimizer.variables]


def _to_numpy(variable: keras.Variable) -> np.ndarray:
    array = tf.convert_to_tensor(variable.value).numpy()
    return array.astype(np.float32) if array.dtype.kind == "V" or array.itemsize == 2 else array

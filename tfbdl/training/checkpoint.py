"""A checkpoint is one file that is either whole or not there."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import keras
import numpy as np
import tensorflow as tf

from tfbdl.npz_file import numbers, read_arrays, write_arrays

T = TypeVar("T")
State: TypeAlias = Mapping[str, np.ndarray]


class CheckpointError(ValueError):
    """A checkpoint cannot be read, or belongs to another run; the message says which."""


def save(
    path: str | os.PathLike[str] | None,
    model: keras.Model,
    meta: dict[str, Any],
    states: Sequence[State] = (),
) -> None:
    """Writes the model's and its optimizer's variables to `path`, and what goes with them.

    A kill at any moment leaves the checkpoint before or the checkpoint after.

    Args:
        path: the path of the file, in an existing folder. None writes nothing: a worker other than
            the chief only helps to read variables that are sums over workers.
        model: compiled, with a built optimizer.
        meta: JSON values.
        states: the states of callbacks, each with at least one array.
    """
    arrays: dict[str, Any] = {f"v{i}": _to_numpy(v) for i, v in enumerate(_variables(model))}
    for i, state in enumerate(states):
        arrays |= {f"state{i}/{name}": array for name, array in state.items()}
    arrays["meta"] = np.array(json.dumps(meta))
    if path is not None:
        write_arrays(Path(path), arrays)


def restore(
    path: str | os.PathLike[str],
    model: keras.Model,
    content: bytes | None = None,
    *,
    optimizer: bool = True,
) -> None:
    """Puts the variables of a checkpoint into `model` and its built optimizer.

    Args:
        path: the path of the file.
        model: compiled, with the variables that the file holds.
        content: the content of the file, if another worker has read it.
        optimizer: whether the optimizer's variables are taken too, or left as they are.

    Raises:
        CheckpointError: if the file is not a checkpoint or holds another model; then no variable
            has changed.
    """
    variables = _variables(model) if optimizer else model.variables
    number = None if optimizer else len(variables)
    arrays = _read(path, content, lambda file: _arrays_of_model(file, number))
    if [a.shape for a in arrays] != [tuple(v.shape) for v in variables]:
        raise CheckpointError(
            f"{path} holds another model or optimizer ({len(arrays)} variables, this one has "
            f"{len(variables)}); name another savedir"
        )
    for variable, array in zip(variables, arrays, strict=True):
        variable.assign(array)


def read_meta(path: str | os.PathLike[str], content: bytes | None = None) -> dict[str, Any]:
    """The `meta` that was given to `save`; arguments as in `restore`.

    Raises:
        CheckpointError: if the file is not a checkpoint.
    """
    return _read(path, content, lambda file: dict(json.loads(str(file["meta"]))))


def read_states(path: str | os.PathLike[str], content: bytes | None = None) -> list[State]:
    """The `states` that were given to `save`; arguments as in `restore`.

    Raises:
        CheckpointError: if the file is not a checkpoint.
    """
    return _read(path, content, _states)


def _arrays_of_model(file: Any, number: int | None) -> list[np.ndarray]:
    """The first so many variables, or all."""
    held = sum(name.startswith("v") for name in file.files)
    return [numbers(file, f"v{i}") for i in range(held if number is None else min(number, held))]


def _states(file: Any) -> list[State]:
    states: dict[str, dict[str, np.ndarray]] = {}
    for number, _, name in (key.partition("/") for key in file.files if "/" in key):
        states.setdefault(number, {})[name] = numbers(file, f"{number}/{name}")
    return list(states.values())


def _read(path: str | os.PathLike[str], content: bytes | None, extract: Callable[[Any], T]) -> T:
    try:
        return read_arrays(path, extract, content)
    except ValueError as error:
        raise CheckpointError(f"{path} is not a readable checkpoint ({error})") from None


def _variables(model: keras.Model) -> list[keras.Variable]:
    return [*model.variables, *model.optimizer.variables]


def _to_numpy(variable: keras.Variable) -> np.ndarray:
    array = tf.convert_to_tensor(variable.value).numpy()
    return array.astype(np.float32) if array.dtype.kind == "V" or array.itemsize == 2 else array

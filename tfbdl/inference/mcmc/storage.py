"""The samples of chains in memory, or in a folder from which a killed run goes on."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tfbdl.inference.mcmc.stepping import Draws, Position
from tfbdl.npz_file import numbers, read_arrays, write_arrays
from tfbdl.whole_file import replacing

CHECKPOINT = "checkpoint.npz"


class ChainStorage:
    """Arrays of draws that are filled from the front, and how far the chains are.

    In a folder each is a `.npy` file, written in place and read as a memory map, and the checkpoint
    says how much of them counts.

    Args:
        draws: one sample of all chains, for shapes and types.
        num_samples: S. A folder may hold fewer: they are what the chains go on from.
        savedir: the folder; None keeps all in memory.
        settings: the settings that a run in the folder must have been begun with; JSON values.

    Attributes:
        arrays: shape (S, C, ...) each.
        steps: the steps of warm-up and sampling that are done.
        position: the position of the chains then; None for a new run.

    Raises:
        ValueError: if the folder holds another run.
        OSError: if it cannot be written.
    """

    def __init__(
        self,
        draws: Draws,
        num_samples: int,
        savedir: Path | None,
        settings: Mapping[str, Any],
    ) -> None:
        self.savedir = savedir
        self.settings = dict(settings)
        self.steps = 0
        self.position: list[np.ndarray] | None = None
        if savedir is None:
            self.arrays = Draws(*(np.empty((num_samples, *a.shape), a.dtype) for a in draws))
            return
        resumed = (savedir / CHECKPOINT).exists()
        if resumed:
            self._read()
        self.arrays = Draws(
            *(
                _open(savedir / f"{name}.npy", (num_samples, *a.shape), a.dtype, keep=resumed)
                for name, a in draws._asdict().items()
            )
        )

    def resumed(self, start: Position) -> Position:
        """The position that was kept; `start`, which is kept from now on, if there was none.

        Raises:
            ValueError: if that of another structure was kept.
        """
        if self.position is None:
            self.save(start, 0)
            return start
        leaves, kept = tf.nest.flatten(start), self.position
        if [(a.shape, a.dtype) for a in kept] != [(a.shape, a.dtype) for a in leaves]:
            raise ValueError(
                f"savedir={str(self.savedir)!r} has a checkpoint of other chains; name another "
                "savedir"
            )
        return tf.nest.pack_sequence_as(start, kept)

    def write(self, first: int, draws: Draws) -> None:
        """Puts draws, (B, C, ...), behind `first` others."""
        for array, values in zip(self.arrays, draws, strict=True):
            array[first : first + len(values)] = values

    def save(self, position: Position, steps: int) -> None:
        """Records where the chains are after so many steps; nothing without a folder."""
        self.steps = steps
        if self.savedir is None:
            return
        for array in self.arrays:
            array.flush()
        leaves = {f"p{i}": leaf for i, leaf in enumerate(tf.nest.flatten(position))}
        meta = np.array(json.dumps({"settings": self.settings, "steps": steps}))
        write_arrays(self.savedir / CHECKPOINT, {"meta": meta, **leaves})

    def _read(self) -> None:
        assert self.savedir is not None
        path = self.savedir / CHECKPOINT
        try:
            meta, self.position = read_arrays(path, _position)
            self.steps, settings = int(meta["steps"]), dict(meta["settings"])
        except (ValueError, LookupError, TypeError) as error:
            raise ValueError(
                f"{path} is not a readable checkpoint ({error}); name another savedir"
            ) from None
        for name, value in self.settings.items():
            kept = settings.get(name)
            if not _equal(kept, value):
                raise ValueError(
                    f"savedir={str(self.savedir)!r} holds a run with {name}={kept}, not {value}; "
                    "name another savedir"
                )


def _position(file: Mapping[str, np.ndarray]) -> tuple[dict[str, Any], list[np.ndarray]]:
    leaves = [numbers(file, f"p{i}") for i in range(sum(name.startswith("p") for name in file))]
    return dict(json.loads(str(file["meta"]))), leaves


def _equal(kept: Any, value: Any) -> bool:
    """Numbers may differ by rounding, as they do from machine to machine."""
    if isinstance(value, list):
        return np.shape(kept) == np.shape(value) and np.allclose(kept, value, rtol=1e-3)
    return kept == value


def _open(path: Path, shape: tuple[int, ...], dtype: np.dtype, *, keep: bool) -> np.memmap:
    """The array of a file, made where there is none to keep, made longer where it is short."""
    if not keep:
        return _make(path, shape, dtype)
    try:
        _check_whole(path)
        array: Any = np.lib.format.open_memmap(path, mode="r+")
    except Exception as error:  # damaged bytes make numpy raise nearly anything
        reason = " ".join(str(error).split())
        raise ValueError(f"{path} cannot be read ({reason}); name another savedir") from None
    if array.dtype != dtype or array.shape[1:] != shape[1:]:
        raise ValueError(
            f"{path} holds samples of shape {array.shape[1:]} and type {array.dtype}, not of "
            f"{shape[1:]} and {dtype}; name another savedir"
        )
    if len(array) >= shape[0]:
        return array[: shape[0]]
    return _make(path, shape, dtype, array)


def _check_whole(path: Path) -> None:
    """Raises ValueError for a file that is cut off, which a memory map would fill with zeros."""
    with open(path, "rb") as file:
        version = np.lib.format.read_magic(file)
        if version != (1, 0):
            raise ValueError(f"it has the version {version} of .npy files")
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        due = file.tell() + math.prod(shape) * dtype.itemsize
        size = file.seek(0, os.SEEK_END)
    if size < due:
        raise ValueError(f"it has {size} bytes where {due} are due")


def _make(
    path: Path, shape: tuple[int, ...], dtype: np.dtype, first: np.ndarray | None = None
) -> np.memmap:
    """The array of a new file, with these in front."""
    try:
        with replacing(path) as file:
            array = np.lib.format.open_memmap(file.name, mode="w+", dtype=dtype, shape=shape)
            if hasattr(os, "posix_fallocate") and array.nbytes:
                # a full disk is an error now, not a crash later
                os.posix_fallocate(file.fileno(), 0, array.offset + array.nbytes)
            if first is not None:
                array[: len(first)] = first
                array.flush()
    except OSError as error:
        raise OSError(
            error.errno,
            f"cannot be made for samples of shape {shape}, {error.strerror}; make room, or name "
            "another savedir",
            str(path),
        ) from None
    return array

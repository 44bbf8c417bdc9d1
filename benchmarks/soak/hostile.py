"""Files that were made to do harm, and files that end anywhere, for all readers."""

from __future__ import annotations

import gzip
import io
import json
import math
import pickle
import struct
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np

import tfbdl
from soak.readers import PIXELS, Reader, check, in_zip, of_zip, readers
from tfbdl.cli import predict
from tfbdl.inference.mcmc.stepping import Draws
from tfbdl.inference.mcmc.storage import ChainStorage

TB = 10**12
READ_WHEN_CUT = {"train.log"}
"""Kinds of files that are good up to any line."""


def all_readers() -> dict[str, Reader]:
    """Readers of `readers`, and of what chains, samplers and `tfbdl predict` keep or take."""
    chains = _chains()
    return readers() | {
        "samples of a chain": Reader(chains["theta.npy"], _resume_chains, ValueError, "theta.npy"),
        "position of a chain": Reader(
            chains["checkpoint.npz"], _resume_chains, ValueError, "checkpoint.npz"
        ),
        "sample of SGLD": Reader(
            _npz(member=np.zeros(10, "float32"), state=np.zeros(0, "float32")),
            _ensemble,
            ValueError,
            "sample_00000001.npz",
        ),
        "inputs": Reader(_npz(x=PIXELS), predict.read_inputs, ValueError, "x.npz"),
    }


def truncated(name: str, most: int) -> Counter[str]:
    """Cuts a file off at about so many places, all over it.

    Raises:
        AssertionError: if a part is taken for the whole, or not refused in one line.
    """
    reader = all_readers()[name]
    actual: Counter[str] = Counter()
    size = len(reader.sample)
    for stop in range(0, size, max(size // most, 1)):
        part = reader.sample[:stop]
        outcome = check(reader, part)
        if outcome == "read" and name not in READ_WHEN_CUT and not _same(part, reader.sample):
            raise AssertionError(f"{name}: {stop} of {size} bytes are read")
        actual[outcome] += 1
    return actual


def _same(part: bytes, whole: bytes) -> bool:
    """Whether both are text of the same numbers, as "8 9" and "8 9.0" are."""
    try:
        return [float(word) for word in part.split()] == [float(word) for word in whole.split()]
    except ValueError:
        return False


def refused() -> Counter[str]:
    """How many hostile files there are of each kind, all refused.

    Raises:
        AssertionError: if one is read, or not refused in one line, in time and within memory.
    """
    known, actual = all_readers(), Counter[str]()
    for reader in known.values():  # what is imported with first use is not a file's doing
        check(reader, reader.sample, megabytes_at_most=math.inf)
    for name, what, content in hostile():
        Trap.sprung = False
        if check(known[name], content) == "read":
            raise AssertionError(f"{name}: {what} is read")
        if Trap.sprung:
            raise AssertionError(f"{name}: {what} has run code")
        actual[name] += 1
    return actual


def hostile() -> Iterator[tuple[str, str, bytes]]:
    """The reader, what is wrong, and the file."""
    yield from _images()
    for name, array in (
        ("npz", "x_train"),
        ("checkpoint", "v0"),
        ("sample of SGLD", "member"),
        ("position of a chain", "p0"),
        ("inputs", "x"),
    ):
        sample = all_readers()[name].sample
        with np.load(io.BytesIO(sample)) as arrays:
            if array not in arrays:
                raise AssertionError(f"{name}: it has no array {array!r} to be made hostile")
        for what, content in _archives(sample, f"{array}.npy"):
            yield name, what, content
    for what, header in _claims().items():
        yield "samples of a chain", what, _npy(header)
    yield from _models()
    yield "UCI table", "16 MB of one line", b"1 " * 2**23
    yield "UCI table", "too large", b"1\n" * 2**24
    yield "UCI index", "16 MB of numbers", b"0\n" * 2**23
    yield "mushrooms", "16 MB of rows", b"p\n" * 2**23


class Trap:
    """Sets `sprung` if it is unpickled."""

    sprung = False

    @classmethod
    def spring(cls) -> Trap:
        cls.sprung = True
        return cls()

    def __reduce__(self) -> tuple[Callable[[], Trap], tuple[()]]:
        return Trap.spring, ()


def _images() -> Iterator[tuple[str, str, bytes]]:
    header = struct.pack(">HBB3I", 0, 8, 3, *PIXELS.shape)
    lie = struct.pack(">HBB3I", 0, 8, 3, *[2**32 - 1] * 3)
    yield "IDX", "a header that claims 2^96 bytes", gzip.compress(lie + PIXELS.tobytes())
    yield "IDX", "200 MB in 200 kB", gzip.compress(header + bytes(2 * 10**8), 9)
    yield "IDX", "a name without end", b"\x1f\x8b\x08\x08" + b"a" * 2**20
    yield "IDX", "255 dimensions", gzip.compress(struct.pack(">HBB", 0, 8, 255) + bytes(1020))


def _claims() -> dict[str, str]:
    """Headers of `.npy` files by what is wrong with them."""
    kept = "{{'descr': {}, 'fortran_order': False, 'shape': {}, }}"
    return {
        "10^12 numbers": kept.format("'<f4'", (TB,)),
        "10^36 numbers": kept.format("'<f4'", (TB, TB, TB)),
        "less than none": kept.format("'<f4'", (-1,)),
        "text of 10^9 letters": kept.format(f"'<U{10**9}'", ()),
        "10^12 empty texts": kept.format("'<U0'", (TB,)),
        "objects": kept.format("'|O'", (1,)),
        "a record that holds itself": kept.format([("a", "'O'")], (1,)),
        "a type that is code": kept.format("__import__('os')", (1,)),
        "10^4 brackets": "(" * 10_000,
    }


def _archives(sample: bytes, member: str) -> Iterator[tuple[str, bytes]]:
    """Archives like a good one, with one member that is not."""
    members = in_zip(sample)
    for what, header in _claims().items():
        yield what, of_zip({**members, member: _npy(header)})
    trap = pickle.dumps(np.array([Trap()], object))
    yield "a pickle in an array", of_zip({**members, member: _npy(_claims()["objects"], trap)})
    yield "a pickle in a member", of_zip({**members, member: pickle.dumps(Trap())})
    yield "a pickle alone", pickle.dumps(Trap())
    zeros = _npy(
        "{'descr': '|u1', 'fortran_order': False, 'shape': (400000000,), }", bytes(4 * 10**8)
    )
    yield "400 MB in 400 kB", _compressed({**members, member: zeros}, zipfile.ZIP_DEFLATED)
    small = {**members, member: zeros[: 2**22]}
    yield "LZMA", _compressed(small, zipfile.ZIP_LZMA)
    yield "BZIP2", _compressed(small, zipfile.ZIP_BZIP2)
    yield "a member that lies", _lying(sample)
    yield "members one over the other", _overlapping(members, member)


def _models() -> Iterator[tuple[str, str, bytes]]:
    whole = in_zip(readers()[".keras"].sample)
    config = json.loads(whole["config.json"])

    def with_config(change: Callable[[Any], Any]) -> bytes:
        copy = json.loads(whole["config.json"])
        change(copy)
        return of_zip({**whole, "config.json": json.dumps(copy).encode()})

    def weights(**dataset: Any) -> bytes:
        raw = io.BytesIO()
        with h5py.File(raw, "w") as file:
            file.create_dataset("layers/dense/vars/0", dtype="float32", **dataset)
        return of_zip({**whole, "model.weights.h5": raw.getvalue()})

    bomb = bytes(2**28)
    for name in ("config.json", "metadata.json", "model.weights.h5", "assets/a"):
        yield (
            ".keras",
            f"256 MB in {name}",
            _compressed({**whole, name: bomb}, zipfile.ZIP_DEFLATED),
        )
    for name in ("../../evil", "/tmp/evil", "assets/../../evil"):
        yield ".keras", f"a member {name}", of_zip({**whole, name: b"evil"})
    yield ".keras", "weights that claim 4 TB", weights(shape=(TB,), chunks=True)
    yield ".keras", "weights that claim 400 MB", weights(shape=(10**8,), chunks=True, fillvalue=1)
    yield ".keras", "10^4 brackets", of_zip({**whole, "config.json": b"[" * 10_000})
    code = {"module": "os", "class_name": "system", "config": "touch /tmp/evil"}
    yield ".keras", "a class that is none", with_config(lambda c: c.update(code))
    lambda_layer = {"module": "keras.layers", "class_name": "Lambda", "config": {"function": code}}
    for what, layer in {"code in a Lambda": lambda_layer, "a number": 7, "nothing": None}.items():

        def put(c: Any, layer: Any = layer) -> None:
            c["config"]["layers"][1] = layer

        yield ".keras", f"{what} as a layer", with_config(put)
    for i, layer in enumerate(config["config"]["layers"]):
        for name, value in layer["config"].items():
            if isinstance(value, int) and not isinstance(value, bool):

                def change(c: Any, i: int = i, name: str = name) -> None:
                    c["config"]["layers"][i]["config"][name] = {"a": [name]}

                yield ".keras", f"a dictionary as {name}", with_config(change)


def _npy(header: str, payload: bytes = b"\1" * 64) -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text + payload


def _npz(**arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def _compressed(members: dict[str, bytes], how: int) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", how) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def _lying(sample: bytes) -> bytes:
    """An archive whose directory claims 4 GB of its first member."""
    place = sample.index(b"PK\1\2") + 20
    return sample[:place] + b"\xfe\xff\xff\xff" * 2 + sample[place + 8 :]


def _overlapping(members: dict[str, bytes], member: str) -> bytes:
    """An archive of a thousand entries that are the same megabyte (Fifield 2019)."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        archive.writestr("v", bytes(2**20))
        first = archive.getinfo("v")
        for k in range(1000):
            copy = zipfile.ZipInfo(f"x{k}.npy")
            for name in ("header_offset", "CRC", "compress_size", "file_size", "flag_bits"):
                setattr(copy, name, getattr(first, name))
            archive.filelist.append(copy)
            archive.NameToInfo[copy.filename] = copy
    return file.getvalue()


DRAWS = Draws(*(np.zeros((2, 3), "float32") for _ in Draws._fields))


def _chains() -> dict[str, bytes]:
    """The files of chains that have begun."""
    with tempfile.TemporaryDirectory() as folder:
        storage = ChainStorage(DRAWS, 5, Path(folder), {"seed": 0})
        storage.save([np.zeros(3), np.zeros(2)], 4)
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def _resume_chains(path: Path) -> Any:
    """Takes up chains of which one file is damaged."""
    for name, content in _chains().items():
        if name != path.name:
            (path.parent / name).write_bytes(content)
    storage = ChainStorage(DRAWS, 5, path.parent, {"seed": 0})
    return storage.resumed([np.zeros(3), np.zeros(2)])


def _ensemble(path: Path) -> Any:
    keeper = tfbdl.inference.WeightSnapshots(savedir=path.parent)
    keeper.set_model(keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)]))
    return keeper.ensemble()

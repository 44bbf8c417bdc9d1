"""Data sets that are drawn or embedded; those on disk are looked for where they are not."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import keras
import numpy as np

from soak.calls.case import Case, Made, folder, shaped
from tfbdl import data
from tfbdl.data.uci import PUBLISHED, Published

COLOUR = sys.modules[data.cifar10.__module__]
TABLE = np.arange(6.0).reshape(3, 2)
DIGITS = np.linspace(0.0, 1.0, 2 * 784).reshape(2, 28, 28)
COLOURS = np.linspace(0.0, 1.0, 2 * 3 * 64).reshape(2, 8, 8, 3)


def _points(target: Any, **given: Any) -> Any:
    return [shaped(part, given["n"], 1) for part in target(**given)]


def _images(**given: Any) -> Any:
    actual = data.load(**given)
    if given["split"] == "tutorial":
        per_class = given["per_class"] or 100
        shaped(actual.x_train, 10 * per_class, 28, 28)
    return {"train": actual.y_train, "test": actual.y_test, "pixels": actual.x_train[:2]}


def _table(target: Any, **given: Any) -> Any:
    made = Published("made", 1, hashlib.md5(TABLE.tobytes()).hexdigest(), 1)
    with mock.patch.dict(PUBLISHED, made=made):
        return _parts(target(**given))


def _parts(split: data.RegressionData) -> Any:
    return [shaped(part, len(part), len(part.T)) for part in split]


def _table_folder() -> Path:
    """One in the form of the UCI regressions, with a split and a gap that differ."""
    place = _write_table(folder() / "made" / "data")
    _write_split(place, 0, test=2)
    _write_split(place.parents[1] / "uci_gap" / "made", 0, test=1)
    return place.parents[1]


def _write_table(place: Path) -> Path:
    place.mkdir(parents=True)
    np.savetxt(place / "data.txt", TABLE)
    np.savetxt(place / "index_features.txt", [0])
    np.savetxt(place / "index_target.txt", [1])
    return place


def _write_split(place: Path, number: int, test: int) -> Path:
    place.mkdir(parents=True, exist_ok=True)
    rows = np.arange(len(TABLE))
    np.savetxt(place / f"index_train_{number}.txt", rows[rows != test])
    np.savetxt(place / f"index_test_{number}.txt", rows[rows == test])
    return place


def _own_table(scale: float = 1.0) -> Path:
    """A regression with two splits, in a folder of its own."""
    place = _write_table(folder() / "own")
    np.savetxt(place / "data.txt", scale * TABLE)
    _write_split(place, 1, test=1)
    return _write_split(place, 0, test=0)


def _colour(target: Any, **given: Any) -> Any:
    with mock.patch.dict(COLOUR.SIZES, train=2, test=1):
        return target(**given)


def _colour_folder() -> Path:
    """One in the form of CIFAR-10, with three images."""
    place = folder()
    arrays: dict[str, np.ndarray] = {}
    for name, size in (("train", 2), ("test", 1)):
        keras.utils.save_img(place / "a.jpg", np.zeros((32, 32, 3)), scale=False)
        jpeg = np.frombuffer((place / "a.jpg").read_bytes(), np.uint8)
        arrays[f"x_{name}"] = np.tile(jpeg, size)
        arrays[f"x_{name}_offsets"] = len(jpeg) * np.arange(size + 1)
        arrays[f"y_{name}"] = np.arange(size)
    np.savez(place / COLOUR.IMAGES, **arrays)
    np.save(place / "hmc_probabilities.npy", np.full((1, 10), 0.1, "float32"))
    np.save(place / "human_counts.npy", np.full((1, 10), 5))
    return place


def _series() -> Path:
    """Two months of CO2."""
    place = folder()
    rows = "1958 3 1958.208 315.71 315.71 314.62 -1\n1958 4 1958.292 317.45 317.45 315.29 -1\n"
    (place / "co2_mm_mlo.txt").write_text(rows)
    return place


ELSEWHERE = {"directory": "TFBDL_DATA"}
SEED: dict[str, tuple[Any, Any]] = {"seed": (1, 2)}


def cases() -> Iterator[Case]:
    """Each function."""
    yield from _on_disk()
    yield from _drawn()
    yield from _changed()
    yield from _loaded()


def _on_disk() -> Iterator[Case]:
    table = {
        "name": ("made", "boston"),
        "split": (0, 1),
        "gap": (False, True),
        "directory": (Made(_table_folder), Made(folder)),
    }
    called = {**ELSEWHERE, "name": "bostonHousing"}
    yield Case("tfbdl.data.uci", data.uci, partial(_table, data.uci), table, called=called)
    series = {"directory": (Made(_series), Made(folder))}
    yield Case("tfbdl.data.co2", data.co2, data.co2, series, called=ELSEWHERE)
    splits = {"name": ("boston", "protein"), "gap": (False, True)}
    yield Case("tfbdl.data.uci_splits", data.uci_splits, data.uci_splits, splits)
    own = {
        "folder": (Made(_own_table), Made(lambda: _own_table(2.0))),
        "split": (0, 1),
        "splits": (None, Made(lambda: _write_split(folder(), 0, test=2))),
    }
    yield Case(
        "tfbdl.data.regression",
        data.regression,
        lambda **given: _parts(data.regression(**given)),
        own,
    )
    yield Case(
        "tfbdl.data.regression_splits",
        data.regression_splits,
        data.regression_splits,
        {"folder": (Made(_own_table), Made(folder))},
    )
    for name in ("cifar10", "cifar10_hmc_probabilities", "cifar10_human_counts"):
        target = getattr(data, name)
        yield Case(
            f"tfbdl.data.{name}",
            target,
            lambda target=target, **given: _colour(target, **given),
            {"directory": (Made(_colour_folder), Made(folder))},
            called=ELSEWHERE,
        )


def _drawn() -> Iterator[Case]:
    points = {"n": (4, 5), **SEED}
    for name in ("gal_linear", "gapped_sine"):
        target = getattr(data, name)
        yield Case(
            f"tfbdl.data.{name}",
            target,
            lambda target=target, **given: _points(target, **given),
            points,
        )
    yield Case(
        "tfbdl.data.blundell_curve",
        data.blundell_curve,
        lambda **given: _points(data.blundell_curve, **given),
        {**points, "noise_stddev": (0.02, 0.1)},
    )
    yield Case(
        "tfbdl.data.noise",
        data.noise,
        lambda **given: shaped(data.noise(**given), given["n"], 28, 28),
        points,
    )


def _changed() -> Iterator[Case]:
    yield Case(
        "tfbdl.data.binarize",
        data.binarize,
        lambda **given: shaped(data.binarize(**given), *np.shape(given["x"])),
        {"x": (DIGITS, 1.0 - DIGITS), **SEED},
    )
    yield Case(
        "tfbdl.data.rotate",
        data.rotate,
        lambda **given: shaped(data.rotate(**given), *np.shape(given["images"])),
        {"images": (DIGITS, 1.0 - DIGITS), "degrees": (30.0, 60.0)},
    )
    yield Case(
        "tfbdl.data.blend",
        data.blend,
        lambda **given: shaped(data.blend(**given), *np.shape(given["a"])),
        {"a": (DIGITS, DIGITS**2), "b": (1.0 - DIGITS, DIGITS), "weight": (0.5, 0.2)},
    )
    yield Case(
        "tfbdl.data.corrupt",
        data.corrupt,
        lambda **given: shaped(data.corrupt(**given), *np.shape(given["images"])),
        {
            "images": (COLOURS, 1.0 - COLOURS),
            "kind": ("gaussian_noise", "pixelation"),
            "strength": (1, 2),
            **SEED,
        },
    )


def _loaded() -> Iterator[Case]:
    missing = {"directory": (None, Made(folder))}
    of_class = {"name": ("digits", "mnist"), "split": ("tutorial", "full")}
    yield Case(
        "tfbdl.data.load",
        data.load,
        _images,
        {**of_class, "per_class": (2, 3), **missing},
        called=ELSEWHERE,
        slow=True,
    )
    yield Case(
        "tfbdl.data.load, 'full'",
        data.load,
        _images,
        {
            "name": ("digits", "mnist"),
            "split": ("full", "tutorial"),
            "per_class": (None, 3),
            **missing,
        },
        called=ELSEWHERE,
        slow=True,
    )

"""The images of CIFAR-10: those on which HMC was run, and their pixels."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

from tfbdl.data import CIFAR10, DataError, cifar10
from tfbdl.data.cifar10 import SIZES
from tutorials.cifar10 import pixels, problem

RNG = np.random.default_rng(0)


def given(y: np.ndarray) -> CIFAR10:
    x = np.broadcast_to(np.arange(len(y))[:, None, None, None] % 251, (len(y), 2, 2, 3))
    return CIFAR10(x.astype("uint8"), y.astype("int32"), x, y)


def test_the_order_is_that_of_tensorflow_datasets() -> None:
    """Its catalogue shows train_16399, train_01680, train_47917, train_17307 first."""
    order = problem.in_order_of_hashes(50_000)
    assert order[:4] == [16_399, 1_680, 47_917, 17_307]
    assert sorted(order) == list(range(50_000))


def test_hmc_s_images_are_trained_on() -> None:
    """In an order of their own: the first of its 200, each with its class."""
    y = np.concatenate([problem.FIRST_CLASSES, RNG.integers(0, 10, 190)])
    with (
        mock.patch.object(problem, "cifar10", return_value=given(y)),
        mock.patch.object(problem, "NUM_DATA", 150),
    ):
        x, classes = problem.training_data()
    first = problem.in_order_of_hashes(200)[:150]
    levels = 255 * (x * problem.STDDEV + problem.MEAN)
    np.testing.assert_allclose(levels, given(y).x_train[first], atol=1e-3)
    np.testing.assert_array_equal(classes, y[first])


def test_images_in_another_order_are_refused() -> None:
    shuffled = given(RNG.integers(0, 10, 200))
    with (
        mock.patch.object(problem, "cifar10", return_value=shuffled),
        pytest.raises(DataError, match=r"not in their original order, .* cifar10/cifar10\.npz"),
    ):
        problem.training_data()


def test_pixels_come_from_the_package(tmp_path: Path) -> None:
    """Rows of the batches become images; another package is refused, and nothing written."""
    x = RNG.integers(0, 256, (12, 32, 32, 3), "uint8")
    y = RNG.integers(0, 10, 12).astype("uint8")
    names = [name for part in ("train", "test") for name in pixels.PARTS[part]]
    package = tmp_path / "package"
    package.mkdir()
    for name, batch in zip(names, x.reshape(6, 2, 1024, 3), strict=True):
        (package / f"{name}.png").write_bytes(tf.io.encode_png(batch).numpy())
    rows = {"train": slice(0, 10), "test": slice(10, 12)}
    for part, of_part in rows.items():
        (package / f"{part}_lables.json").write_text(json.dumps(y[of_part].tolist()))
    args = pixels.parser().parse_args(["--package", str(package), "--data", str(tmp_path)])
    with pytest.raises(DataError, match="does not hold the 50000 train images"):
        pixels.write_pixels(args)
    assert not (tmp_path / "cifar10").exists()
    hashes = {p: hashlib.md5(x[r].tobytes() + y[r].tobytes()).hexdigest() for p, r in rows.items()}
    sizes = {"train": 10, "test": 2}
    with mock.patch.dict(pixels.MD5, hashes), mock.patch.dict(SIZES, sizes):
        pixels.write_pixels(args)
        read = cifar10(directory=tmp_path)
    for part, r in rows.items():
        np.testing.assert_array_equal(getattr(read, f"x_{part}"), x[r])
        np.testing.assert_array_equal(getattr(read, f"y_{part}"), y[r])

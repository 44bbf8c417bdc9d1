"""A checkpoint is whole, or refused in one line with the model untouched."""

import io
import os
import tempfile
import unittest
import zipfile
from pathlib import Path
from typing import Any
from unittest import mock

import keras
import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tfbdl.npz_file import FORMAT
from tfbdl.training import checkpoint
from tfbdl.training.checkpoint import CheckpointError

META = {"epoch": 3, "seed": 5, "num_data": 50}


def make(units: int = 1, optimizer: str = "sgd", use_bias: bool = True) -> Any:
    keras.utils.set_random_seed(1)
    layer = keras.layers.Dense(units, use_bias=use_bias)
    model = keras.Sequential([keras.Input((2,)), layer])
    model.compile(optimizer, "mse")
    model.optimizer.build(model.trainable_variables)
    return model


def variables(model: Any) -> Any:
    return (*model.variables, *model.optimizer.variables)


def state(model: Any) -> Any:
    return [np.asarray(v.value) for v in variables(model)]


class CheckpointCase(tf.test.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = Path(self.enter_context(tempfile.TemporaryDirectory()))
        self.path = self.folder / "checkpoint.npz"

    def assert_state(self, model: Any, expected: Any) -> None:
        for a, b in zip(state(model), expected, strict=True):
            self.assertEqual(a.dtype, b.dtype)
            np.testing.assert_array_equal(a, b)

    def assert_refused(self, model: Any) -> None:
        """Neither part of the file can be read, in one line, and no variable moves."""
        before = state(model)
        with self.assertRaises(CheckpointError) as caught:
            checkpoint.read_meta(self.path)
            checkpoint.restore(self.path, model)
        message = str(caught.exception)
        self.assertNotIn("\n", message)
        self.assertIn(str(self.path), message)
        self.assert_state(model, before)


class RoundTripTest(CheckpointCase):
    def test_everything_comes_back(self) -> None:
        keras.utils.set_random_seed(1)
        stack = [keras.layers.Dense(3), keras.layers.BatchNormalization()]
        stack.append(keras.layers.Dropout(0.5, seed=3))
        model = keras.Sequential([keras.Input((2,)), *stack])
        model.compile(keras.optimizers.Adam(0.01), "mse")
        x = np.random.default_rng(0).normal(size=(32, 2)).astype("float32")
        model.fit(x, x[:, :1] + np.zeros((1, 3)), verbose=0)
        kept = state(model)
        self.assertIn(np.dtype("int64"), {a.dtype for a in kept})  # the seed generator's
        checkpoint.save(self.path, model, META)
        model.fit(x, x[:, :1] + np.zeros((1, 3)), verbose=0)
        self.assertFalse(all(map(np.array_equal, kept, state(model))))
        checkpoint.restore(self.path, model)
        self.assert_state(model, kept)
        self.assertEqual(checkpoint.read_meta(self.path), META)

    def test_narrow_types(self) -> None:
        for dtype in ("float16", "bfloat16", "float64"):
            with self.subTest(dtype):
                model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3, dtype=dtype)])
                model.compile(keras.optimizers.SGD(0.1, momentum=0.9), "mse")
                model.optimizer.build(model.trainable_variables)
                kept = [tf.identity(v.value) for v in model.variables]
                checkpoint.save(self.path, model, META)
                for v in model.variables:
                    v.assign(v.value + 1)
                checkpoint.restore(self.path, model)
                for v, expected in zip(model.variables, kept, strict=True):
                    self.assertEqual(v.value.dtype, expected.dtype)
                    self.assertTrue(bool(tf.reduce_all(v.value == expected)))

    def test_special_values(self) -> None:
        model = make()
        model.layers[0].kernel.assign([[-0.0], [1e-45]])
        kept = state(model)
        checkpoint.save(self.path, model, META)
        model.layers[0].kernel.assign([[1.0], [1.0]])
        checkpoint.restore(self.path, model)
        for a, b in zip(state(model), kept, strict=True):
            self.assertEqual(a.tobytes(), b.tobytes())

    def test_states_beside_the_model(self) -> None:
        """States of callbacks: arrays of their types, by callback and name, in order."""
        states = [{"delta": np.array([0.1, np.pi]), "epochs": np.array([3])}, {"v0": np.array(2.0)}]
        checkpoint.save(self.path, make(), META, states)
        checkpoint.restore(self.path, make())
        actual = checkpoint.read_states(self.path)
        self.assertEqual([list(s) for s in actual], [["delta", "epochs"], ["v0"]])
        for got, expected in zip(actual, states, strict=True):
            for name, array in expected.items():
                self.assertEqual(got[name].dtype, array.dtype)
                np.testing.assert_array_equal(got[name], array)
        checkpoint.save(self.path, make(), META)
        self.assertEqual(checkpoint.read_states(self.path), [])

    def test_a_second_save_replaces_the_first_and_leaves_no_other_file(self) -> None:
        model = make()
        checkpoint.save(self.path, model, META)
        checkpoint.save(self.path, model, {**META, "epoch": 4})
        self.assertEqual(checkpoint.read_meta(self.path)["epoch"], 4)
        self.assertEqual(os.listdir(self.folder), ["checkpoint.npz"])


class FailedSaveTest(CheckpointCase):
    def test_the_checkpoint_before_stays(self) -> None:
        """Whatever step of saving fails: the old file is whole and nothing lies beside it."""
        model = make()
        checkpoint.save(self.path, model, META)
        before = self.path.read_bytes()
        full = OSError(28, "No space left on device")
        for name in ("os.fsync", "os.replace", "numpy.savez"):
            for error in (full, KeyboardInterrupt()):
                with self.subTest(name, error=error), mock.patch(name, side_effect=error):
                    model.layers[0].kernel.assign_add([[1.0], [1.0]])
                    with self.assertRaises(type(error)):
                        checkpoint.save(self.path, model, {**META, "epoch": 4})
                    self.assertEqual(self.path.read_bytes(), before)
                    self.assertEqual(os.listdir(self.folder), ["checkpoint.npz"])

    def test_the_file_is_on_disk_before_it_gets_its_name(self) -> None:
        calls = []
        real_sync, real_replace = os.fsync, os.replace

        def sync(descriptor: Any) -> None:
            calls.append(("sync", os.fstat(descriptor).st_size))
            real_sync(descriptor)

        def replace(source: Any, target: Any) -> None:
            calls.append(("replace", os.stat(source).st_size))
            real_replace(source, target)

        with mock.patch("os.fsync", sync), mock.patch("os.replace", replace):
            checkpoint.save(self.path, make(), META)
        size = self.path.stat().st_size
        self.assertEqual(calls[:2], [("sync", size), ("replace", size)])


class DamageTest(CheckpointCase):
    def setUp(self) -> None:
        super().setUp()
        self.model = make(use_bias=False)
        self.model.layers[0].kernel.assign([[5.0], [6.0]])
        checkpoint.save(self.path, self.model, META)
        self.whole = self.path.read_bytes()
        self.saved = state(self.model)
        self.model.layers[0].kernel.assign([[1.0], [2.0]])

    def test_every_prefix(self) -> None:
        accepted = []
        for end in range(len(self.whole)):
            self.path.write_bytes(self.whole[:end])
            try:
                self.assert_refused(self.model)
            except AssertionError:
                accepted.append(end)
        self.assertEqual(accepted, [])

    def test_every_byte_damaged(self) -> None:
        """A damaged byte is refused, or was of no consequence: never other numbers."""
        before = state(self.model)
        kinds = set()
        for place in range(len(self.whole)):
            damaged = bytearray(self.whole)
            damaged[place] ^= 0xFF
            self.path.write_bytes(damaged)
            try:
                meta = checkpoint.read_meta(self.path)
                checkpoint.restore(self.path, self.model)
            except CheckpointError as error:
                self.assertNotIn("\n", str(error))
                self.assert_state(self.model, before)
            except Exception as error:
                kinds.add(f"{type(error).__name__}: {error}"[:80])
                self.assert_state(self.model, before)
            else:
                self.assertEqual(meta, META)
                self.assert_state(self.model, self.saved)
                for v, value in zip(variables(self.model), before, strict=True):
                    v.assign(value)
        self.assertEqual(sorted(kinds), [], "these are no CheckpointError")

    @settings(max_examples=50, deadline=None, derandomize=True)
    @given(st.binary(max_size=300))
    def test_garbage(self, garbage: Any) -> None:
        self.path.write_bytes(garbage)
        self.assert_refused(self.model)

    def test_files_of_another_kind(self) -> None:
        others = {
            "npy": lambda: self.save_npy(np.ones(3)),
            "pickle": lambda: self.save_npy(np.array([{}], object)),
            "npz": lambda: np.savez(self.path, a=np.ones(3)),
            "without meta": lambda: np.savez(self.path, format=FORMAT, v0=np.ones(3)),
            "without a format": lambda: np.savez(self.path, meta=np.array("{}"), **self.values()),
            "weights": self.save_weights,
            "meta is no json": lambda: self.save_arrays("epoch"),
            "meta is a list": lambda: self.save_arrays("[1]"),
            "text for numbers": lambda: self.save_arrays("{}", v0=np.array("text")),
            "bytes for numbers": self.save_bytes,
            "log": lambda: self.path.write_text("\nEpoch 1 start, learning rate 0.001000\n"),
        }
        for name, write in others.items():
            with self.subTest(name):
                self.path.unlink()
                write()
                self.assert_refused(self.model)

    def save_npy(self, array: Any) -> None:
        with self.path.open("wb") as file:
            np.save(file, array, allow_pickle=True)

    def save_bytes(self) -> None:
        """A member of an archive that NumPy does not take for an array."""
        with zipfile.ZipFile(io.BytesIO(self.whole)) as whole, zipfile.ZipFile(self.path, "w") as z:
            for name in whole.namelist():
                z.writestr(name, b"" if name == "v0.npy" else whole.read(name))

    def save_weights(self) -> None:
        weights = self.folder / "m.weights.h5"
        self.model.save_weights(weights)
        os.replace(weights, self.path)

    def save_arrays(self, meta: Any, **arrays: Any) -> None:
        np.savez(self.path, format=FORMAT, meta=np.array(meta), **self.values() | arrays)

    def values(self) -> Any:
        return {f"v{i}": a for i, a in enumerate(state(self.model))}

    def test_the_format_of_a_newer_version(self) -> None:
        np.savez(self.path, format=FORMAT + 1, meta=np.array("{}"), **self.values())
        self.assert_refused(self.model)
        with self.assertRaisesRegex(CheckpointError, f"format {FORMAT + 1} is of a newer tfbdl"):
            checkpoint.restore(self.path, self.model)

    def test_a_folder_in_its_place(self) -> None:
        self.path.unlink()
        self.path.mkdir()
        self.assert_refused(self.model)

    def test_missing(self) -> None:
        self.path.unlink()
        self.assert_refused(self.model)


class OtherModelTest(CheckpointCase):
    def check(self, other: Any) -> None:
        checkpoint.save(self.path, make(), META)
        before = state(other)
        with self.assertRaisesRegex(CheckpointError, "another model or optimizer") as caught:
            checkpoint.restore(self.path, other)
        self.assertNotIn("\n", str(caught.exception))
        self.assert_state(other, before)

    def test_other_widths(self) -> None:
        self.check(make(units=2))

    def test_other_optimizer(self) -> None:
        self.check(make(optimizer="adam"))

    def test_fewer_variables(self) -> None:
        self.check(make(use_bias=False))


if __name__ == "__main__":
    unittest.main()

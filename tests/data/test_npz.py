import io
import struct
import tracemalloc
import zipfile
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from made_files import TemporaryFolderTestCase, assert_tells_what_to_do

from tfbdl.data import DataError
from tfbdl.data.npz import read_npz

X = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
Y = np.array([9, 0, 255], np.uint8)
SHAPES = {"x": (2, 3, 4), "y": (3,)}
QUICK = settings(max_examples=300, deadline=2000, database=None)


class Trap:
    """Sets `sprung` if it is unpickled."""

    sprung = False

    @classmethod
    def spring(cls) -> Any:
        cls.sprung = True
        return cls()

    def __reduce__(self) -> Any:
        return Trap.spring, ()


def member(header: Any, payload: Any = b"", version: Any = (1, 0)) -> Any:
    length = struct.pack("<H" if version == (1, 0) else "<I", len(header))
    return b"\x93NUMPY" + bytes(version) + length + header + payload


def archive(**members: Any) -> Any:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for key, content in members.items():
            made.writestr(f"{key}.npy", content)
    return file.getvalue()


class ReadNpzTest(TemporaryFolderTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.path = self.folder / "made.npz"

    def test_values_of_archives_of_numpy(self) -> None:
        for save in (np.savez, np.savez_compressed):
            save(self.path, y=Y, x=X, other=np.ones(3))
            arrays = read_npz(self.path, SHAPES)
            self.assertEqual(list(arrays), ["x", "y"])
            for array, expected in zip(arrays.values(), (X, Y), strict=True):
                self.assertEqual(array.dtype, np.uint8)
                np.testing.assert_array_equal(array, expected)

    def test_values_in_column_order(self) -> None:
        np.savez(self.path, x=np.asfortranarray(X))
        with zipfile.ZipFile(self.path) as made:
            self.assertIn(b"'fortran_order': True", made.read("x.npy"))
        np.testing.assert_array_equal(read_npz(self.path, {"x": (2, 3, 4)})["x"], X)

    def test_missing_array(self) -> None:
        np.savez(self.path, x=X)
        with self.assert_data_error("made.npz", "has no array 'y'", "replace"):
            read_npz(self.path, SHAPES)

    def test_other_shape_or_dtype(self) -> None:
        for other in (X[:1], X.reshape(6, 4), X.astype(np.int64), X.astype(np.int8)):
            np.savez(self.path, x=other, y=Y)
            with self.assert_data_error("holds x as", str(other.shape), str(other.dtype)):
                read_npz(self.path, SHAPES)

    def test_pickles_stay_pickled(self) -> None:
        np.savez(self.path, x=np.array([Trap()] * 24).reshape(2, 3, 4), y=Y)
        np.load(self.path, allow_pickle=True)["x"]
        self.assertTrue(Trap.sprung, "the trap works")
        Trap.sprung = False
        with self.assert_data_error("holds x as object"):
            read_npz(self.path, SHAPES)
        self.assertFalse(Trap.sprung)

    def test_not_an_archive(self) -> None:
        np.savez(self.path, x=X, y=Y)
        truncated = self.path.read_bytes()[:-30]
        for content in (b"", b"PK\3\4", b"<html>", truncated):
            self.path.write_bytes(content)
            with self.assert_data_error("not a readable .npz archive", "BadZipFile", "replace"):
                read_npz(self.path, SHAPES)
        with self.assert_data_error("FileNotFoundError"):
            read_npz(self.folder / "absent.npz", SHAPES)

    def test_damaged_members(self) -> None:
        good = b"{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }\n"
        for content in (
            b"",
            b"\x93NUMPY\1\0",
            member(good, b"\1\2"),
            member(good, b"\1\2\3\4"),
            member(good, b"\1\2\3", version=(2, 0)),
            member(good[:-3], b"\1\2\3"),
            member(b"(" * 5000, b"\1\2\3"),
            member(b"{'descr': 3, 'fortran_order': 3, 'shape': 3}", b"\1\2\3"),
        ):
            self.path.write_bytes(archive(y=content))
            with self.assert_data_error("made.npz"):
                read_npz(self.path, {"y": (3,)})

    def test_memory_is_bounded_by_the_expected_shape(self) -> None:
        absurd = b"{'descr': '|u1', 'fortran_order': False, 'shape': (100000000000,), }\n"
        honest = b"{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }\n"
        self.path.write_bytes(archive(y=member(absurd)))
        with zipfile.ZipFile(self.folder / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as made:
            made.writestr("y.npy", member(honest, bytes(50_000_000)))
        for path in (self.path, self.folder / "bomb.npz"):
            tracemalloc.start()
            with self.assert_data_error(path.name):
                read_npz(path, {"y": (3,)})
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            self.assertLess(peak, 2_000_000)

    def test_members_one_over_the_other(self) -> None:
        with zipfile.ZipFile(self.path, "w") as made:
            header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }\n"
            made.writestr("y.npy", member(header, b"\1\2\3"))
            made.filelist += 30 * [made.getinfo("y.npy")]
        with self.assert_data_error("members one over the other"):
            read_npz(self.path, {"y": (3,)})

    def test_compressed_as_numpy_never_does(self) -> None:
        """Python's zipfile inflates such members whole, to thousands of times their size."""
        header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }\n"
        for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
            with zipfile.ZipFile(self.path, "w", method) as made:
                made.writestr("y.npy", member(header, b"\1\2\3"))
            with self.assert_data_error("compressed as numpy never does"):
                read_npz(self.path, {"y": (3,)})


class AnyBytesTest(TemporaryFolderTestCase):
    def check(self, content: Any) -> Any:
        path = self.folder / "any.npz"
        path.write_bytes(content)
        try:
            return read_npz(path, SHAPES)
        except DataError as error:
            assert_tells_what_to_do(error)
            return None

    @QUICK
    @given(st.binary(max_size=200))
    def test_random_bytes(self, content: Any) -> None:
        self.assertIsNone(self.check(content))

    @QUICK
    @given(st.binary(max_size=200), st.booleans())
    def test_random_members(self, content: Any, has_magic: Any) -> None:
        self.check(archive(x=b"\x93NUMPY\1\0" * has_magic + content, y=b""))

    @QUICK
    @given(st.sampled_from([np.savez, np.savez_compressed]), st.data())
    def test_mutated_archive(self, save: Any, data: Any) -> None:
        file = io.BytesIO()
        save(file, x=X, y=Y)
        content = bytearray(file.getvalue())
        position = data.draw(st.integers(0, len(content) - 1))
        match data.draw(st.sampled_from(["change", "cut", "insert"])):
            case "change":
                content[position] = data.draw(st.integers(0, 255))
            case "cut":
                del content[position : position + data.draw(st.integers(1, 400))]
            case "insert":
                content[position:position] = data.draw(st.binary(max_size=20))
        arrays = self.check(bytes(content))
        if arrays is not None:
            np.testing.assert_array_equal(arrays["x"], X)
            np.testing.assert_array_equal(arrays["y"], Y)

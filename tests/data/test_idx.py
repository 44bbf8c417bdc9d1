import gzip
import struct
import tracemalloc
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from made_files import TemporaryFolderTestCase, assert_tells_what_to_do, idx_bytes

from tfbdl.data import DataError
from tfbdl.data.idx import read_idx

PIXELS = np.arange(12, dtype=np.uint8).reshape(2, 3, 2) * 20
QUICK = settings(max_examples=300, deadline=2000, database=None)


class ReadIdxTest(TemporaryFolderTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.path = self.folder / "made.gz"

    def read(self, content: Any, shape: Any = (2, 3, 2), level: int = 6) -> Any:
        self.path.write_bytes(gzip.compress(content, level))
        return read_idx(self.path, shape)

    def test_values_of_a_file_written_by_hand(self) -> None:
        content = bytes.fromhex("00000803 00000002 00000001 00000002 07ff0080")
        for level in (0, 1, 9):
            array = self.read(content, (2, 1, 2), level)
            self.assertEqual(array.dtype, np.uint8)
            np.testing.assert_array_equal(array, [[[7, 255]], [[0, 128]]])
        labels = self.read(bytes.fromhex("00000801 00000003 090001"), (3,))
        np.testing.assert_array_equal(labels, [9, 0, 1])

    def test_wrong_magic_number(self) -> None:
        valid = idx_bytes(PIXELS)
        for magic in (b"\0\0\x08\1", b"\0\0\x0d\3", b"\0\1\x08\3", b"\x1f\x8b\x08\0"):
            with self.assert_data_error("made.gz", magic.hex(), "00000803", "replace"):
                self.read(magic + valid[4:])

    def test_wrong_dimensions(self) -> None:
        of_file, expected = (struct.pack(">3I", *shape).hex() for shape in ((2, 3, 2), (2, 2, 3)))
        with self.assert_data_error("(2, 2, 3)", of_file, expected, "replace"):
            self.read(idx_bytes(PIXELS), (2, 2, 3))

    def test_wrong_length(self) -> None:
        valid = idx_bytes(PIXELS)
        with self.assert_data_error("11 bytes where 12"):
            self.read(valid[:-1])
        with self.assert_data_error("more bytes where 12"):
            self.read(valid + b"\0")
        for length in (0, 3, 15):
            with self.assert_data_error("made.gz"):
                self.read(valid[:length])

    def test_damaged_gzip(self) -> None:
        whole = gzip.compress(idx_bytes(PIXELS))
        wrong_crc = whole[:-8] + bytes(4) + whole[-4:]
        for damaged in (whole[:-1], whole[:20], whole[:5], wrong_crc, b"<html>"):
            self.path.write_bytes(damaged)
            with self.assert_data_error("made.gz", "not a readable gzip file", "replace"):
                read_idx(self.path, (2, 3, 2))
        self.path.write_bytes(b"")
        with self.assert_data_error("made.gz"):
            read_idx(self.path, (2, 3, 2))

    def test_missing_file_and_directory(self) -> None:
        with self.assert_data_error("FileNotFoundError"):
            read_idx(self.folder / "absent.gz", (1,))
        with self.assert_data_error("IsADirectoryError"):
            read_idx(self.folder, (1,))

    def test_memory_is_bounded_by_the_expected_shape(self) -> None:
        absurd = bytes([0, 0, 8, 3]) + struct.pack(">3I", *[2**32 - 1] * 3)
        bomb = idx_bytes(PIXELS) + bytes(50_000_000)
        for content in (absurd, bomb):
            self.path.write_bytes(gzip.compress(content, 1))
            tracemalloc.start()
            with self.assert_data_error("made.gz"):
                read_idx(self.path, (2, 3, 2))
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            self.assertLess(peak, 2_000_000)

    def test_a_file_that_is_too_large_is_not_read(self) -> None:
        """Python reads the name in a header of gzip byte by byte, which could take minutes."""
        self.path.write_bytes(b"\x1f\x8b\x08\x08" + b"a" * 1_000_000)
        with self.assert_data_error("more than the 65560 bytes"):
            read_idx(self.path, (2, 3, 2))


class AnyBytesTest(TemporaryFolderTestCase):
    def check(self, content: Any) -> Any:
        path = self.folder / "any.gz"
        path.write_bytes(content)
        try:
            return read_idx(path, (2, 3, 2))
        except DataError as error:
            assert_tells_what_to_do(error)
            return None

    @QUICK
    @given(st.binary(max_size=200), st.booleans())
    def test_random_bytes(self, content: Any, has_magic: Any) -> None:
        self.assertIsNone(self.check(b"\x1f\x8b\x08" * has_magic + content))

    @QUICK
    @given(st.binary(max_size=40), st.booleans())
    def test_random_content(self, content: Any, has_magic: Any) -> None:
        self.check(gzip.compress(b"\0\0\x08\3" * has_magic + content))

    @QUICK
    @given(st.data())
    def test_mutated_file(self, data: Any) -> None:
        content = bytearray(gzip.compress(idx_bytes(PIXELS), mtime=0))
        position = data.draw(st.integers(0, len(content) - 1))
        match data.draw(st.sampled_from(["change", "cut", "insert"])):
            case "change":
                content[position] = data.draw(st.integers(0, 255))
            case "cut":
                del content[position : position + data.draw(st.integers(1, 60))]
            case "insert":
                content[position:position] = data.draw(st.binary(max_size=20))
        array = self.check(bytes(content))
        if array is not None:
            np.testing.assert_array_equal(array, PIXELS)

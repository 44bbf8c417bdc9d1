import hashlib
import os
import pickle
import unittest
from collections import Counter
from pathlib import Path
from unittest import mock

import numpy as np
from made_files import TemporaryFolderTestCase

from tfbdl.data import DataError, mushroom
from tfbdl.data.mushroom import encode, mushrooms

ROWS = [f"{kind},{shape},{root},p" for kind in "ep" for shape in "bxb" for root in "?crr"]
HAS_PUBLISHED_FILE = any(
    Path(os.environ.get("TFBDL_DATA", "none"), folder, mushroom.FILE).is_file()
    for folder in ("", "mushroom")
)


def slow_encoding(rows: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Letter by letter, in the order of (attribute, letter)."""
    cells = [row.split(",") for row in rows]
    columns = [
        (attribute, letter)
        for attribute in range(1, len(cells[0]))
        for letter in sorted({row[attribute] for row in cells})
    ]
    x = [[float(row[attribute] == letter) for attribute, letter in columns] for row in cells]
    return np.array(x, np.float32), np.array([row[0] == "e" for row in cells])


class MushroomTestCase(TemporaryFolderTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.enter(mock.patch.dict(os.environ))
        os.environ.pop("TFBDL_DATA", None)

    def write(self, folder: Path, rows: list[str], end: str = "\n") -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / mushroom.FILE
        path.write_text("".join(row + end for row in rows), newline="")
        return path


class MadeFileTest(MushroomTestCase):
    def setUp(self) -> None:
        super().setUp()
        digest = hashlib.md5("\n".join(ROWS).encode()).hexdigest()
        self.enter(mock.patch.object(mushroom, "MD5", digest))

    def test_file_directly_or_in_a_subfolder(self) -> None:
        x, edible = slow_encoding(ROWS)
        for folder in (".", "mushroom"):
            root = self.folder / f"in {folder}"
            self.write(root / folder, ROWS)
            for directory in (root, str(root)):
                actual = mushrooms(directory)
                np.testing.assert_array_equal(actual.x, x, strict=True)
                np.testing.assert_array_equal(actual.edible, edible, strict=True)

    def test_environment_names_the_directory_and_the_argument_comes_first(self) -> None:
        self.write(self.folder / "here" / "mushroom", ROWS)
        os.environ["TFBDL_DATA"] = str(self.folder / "here")
        self.assertEqual(len(mushrooms().x), len(ROWS))
        with self.assertRaisesRegex(DataError, "^directory='.*elsewhere' has no agaricus"):
            mushrooms(self.folder / "elsewhere")

    def test_a_file_of_another_size_is_not_read(self) -> None:
        self.write(self.folder, ROWS * 100_000)
        with self.assertRaisesRegex(DataError, "bytes and the published file 373,704"):
            mushrooms(self.folder)

    def test_other_ends_of_lines_are_the_same_file(self) -> None:
        self.write(self.folder, ROWS, end="\r\n")
        self.assertEqual(len(mushrooms(self.folder).x), len(ROWS))

    def test_what_is_missing_is_said_in_one_line(self) -> None:
        for directory, variable, words in (
            (None, "", "TFBDL_DATA is not set: make it the folder that holds agaricus-lepiota"),
            (None, str(self.folder), f"TFBDL_DATA={str(self.folder)!r} has no agaricus-lepiota"),
            (self.folder, "", f"directory={str(self.folder)!r} has no agaricus-lepiota"),
        ):
            os.environ["TFBDL_DATA"] = variable
            with self.assertRaises(DataError) as caught:
                mushrooms(directory)
            for message in (
                str(caught.exception),
                str(pickle.loads(pickle.dumps(caught.exception))),
            ):
                self.assertIn(words, message)
                self.assertIn(mushroom.SOURCE, message)
                self.assertNotIn("\n", message)
                self.assertNotIn("digits", message)

    def test_another_file_is_refused(self) -> None:
        for rows in (ROWS[:-1], [*ROWS[:-1], "e,x,c,p"], []):
            path = self.write(self.folder, rows)
            with self.assertRaisesRegex(DataError, f"{path} is not the published file.*replace"):
                mushrooms(self.folder)


class EncodeTest(MushroomTestCase):
    def test_one_of_k_of_each_attribute(self) -> None:
        values = encode(np.array([row.split(",") for row in ["p,x,?", "e,a,c", "e,x,?"]]))
        np.testing.assert_array_equal(values.x, [[0, 1, 1, 0], [1, 0, 0, 1], [0, 1, 1, 0]])
        np.testing.assert_array_equal(values.edible, [False, True, True])


@unittest.skipUnless(HAS_PUBLISHED_FILE, "TFBDL_DATA names no folder with the published file")
class PublishedFileTest(unittest.TestCase):
    def test_is_what_its_documentation_says(self) -> None:
        """Counts, and exceptions to logical rules, as listed in agaricus-lepiota.names."""
        x, edible = mushrooms()
        self.assertEqual(x.shape, (8124, 117))
        self.assertEqual(Counter(edible.tolist()), {True: 4208, False: 3916})
        np.testing.assert_array_equal(x.sum(axis=1), 22)
        self.assertEqual(x[:, 51].sum(), 2480, "stalk-root is missing")
        almond, anise, none = x[:, 22], x[:, 25], x[:, 27]
        harmless = almond + anise + none > 0
        green_spores = x[:, 100] > 0
        self.assertEqual((harmless & ~edible).sum(), 120)
        self.assertEqual((harmless & ~green_spores & ~edible).sum(), 48)
        self.assertEqual((~harmless & edible).sum(), 0)


if __name__ == "__main__":
    unittest.main()

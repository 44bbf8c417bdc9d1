import hashlib
import os
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from made_files import TemporaryFolderTestCase

from tfbdl.data import DataError, regression, regression_splits, uci, uci_splits
from tfbdl.data.uci import GAP_SOURCE, PUBLISHED, SOURCE, Published

ROWS, FEATURES, TARGET = 7, [3, 0], 2
TABLE = np.random.default_rng(0).normal(size=(ROWS, 5)).round(3)
SPLITS = [([4, 0, 2, 6, 1], [3, 5]), ([0, 1, 2, 3, 4], [6, 5])]
MADE = Published("made-up", len(SPLITS), hashlib.md5(TABLE.tobytes()).hexdigest(), 2, (1,))
PLACES = [Path(os.environ.get("TFBDL_DATA", "none"), part) for part in ("uci", "")]
HAS_PUBLISHED_FILES = any((place / "concrete/data/data.txt").is_file() for place in PLACES)


def write(folder: Path, end: str = "\n") -> Path:
    """The files of one data set as they are in Gal's repository."""
    data = folder / MADE.folder / "data"
    data.mkdir(parents=True)
    rows = ["  ".join(f"{value:g}" for value in row) + " " for row in TABLE]
    (data / "data.txt").write_text(end.join([*rows, "", ""]), newline="")
    columns = {"features": FEATURES, "target": [TARGET]}
    for split, (train, test) in enumerate(SPLITS):
        columns |= {f"train_{split}": train, f"test_{split}": test}
    for name, values in columns.items():
        text = "".join(f"{value}{end}" for value in values)
        (data / f"index_{name}.txt").write_text(text, newline="")
    return data


class MadeFilesTest(TemporaryFolderTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.enter(mock.patch.dict(os.environ))
        self.enter(mock.patch.dict(PUBLISHED, {"made": MADE}))
        os.environ.pop("TFBDL_DATA", None)

    def assert_split(self, actual: tuple[Any, ...], split: int) -> None:
        train, test = SPLITS[split]
        for rows, x, y in ((train, *actual[:2]), (test, *actual[2:])):
            self.assertEqual(x.tolist(), [[TABLE[i, j] for j in FEATURES] for i in rows])
            self.assertEqual(y.tolist(), [[TABLE[i, TARGET]] for i in rows])

    def test_rows_and_columns_are_those_of_the_index_files(self) -> None:
        write(self.folder)
        for split in range(2):
            self.assert_split(uci("made", split, directory=self.folder), split)

    def test_a_subfolder_other_ends_of_lines_and_the_environment(self) -> None:
        write(self.folder / "uci", end="\r\n")
        self.assert_split(uci("made", directory=str(self.folder)), 0)
        os.environ["TFBDL_DATA"] = str(self.folder)
        self.assert_split(uci("made", 1), 1)
        with self.assertRaisesRegex(DataError, "^directory='.*elsewhere' has no made-up/data/data"):
            uci("made", directory=self.folder / "elsewhere")

    def test_gaps_have_index_files_of_their_own(self) -> None:
        """Column 3 is the first feature; the second, column 0, is said to be constant."""
        data = write(self.folder / "uci")
        order = np.argsort(TABLE[:, FEATURES[0]])
        parts = {"train": [*order[:2], *order[5:]], "test": order[2:5]}
        gaps = self.folder / "uci_gap" / "made"
        gaps.mkdir(parents=True)
        for part, rows in parts.items():
            (gaps / f"index_{part}_0.txt").write_text("".join(f"{row}\n" for row in rows))
        x, _, x_test, _ = uci("made", gap=True, directory=self.folder)
        between = x_test[:, 0]
        self.assertTrue(np.all((x[:2, 0].max() < between) & (between < x[2:, 0].min())))
        self.assertEqual(uci_splits("made", gap=True), [0])
        self.assertEqual(uci_splits("made"), [0, 1])
        with self.assertRaisesRegex(ValueError, "^split=1: feature 1 .* is constant; no gap"):
            uci("made", 1, gap=True, directory=self.folder)
        with self.assertRaisesRegex(ValueError, "^split=2 of 'made' must be one of 0 to 0 but 1$"):
            uci("made", 2, gap=True, directory=self.folder)
        (gaps / "index_train_0.txt").unlink()
        with self.assertRaisesRegex(DataError, f"has no .*index_train_0.txt.* {GAP_SOURCE}"):
            uci("made", gap=True, directory=self.folder)
        self.assert_split(regression(data, 1), 1)

    def test_any_set_from_a_folder(self) -> None:
        data = write(self.folder)
        self.assert_split(regression(data, 1), 1)
        elsewhere = self.folder / "other splits"
        elsewhere.mkdir()
        for part, rows in zip(("train", "test"), SPLITS[0], strict=True):
            (elsewhere / f"index_{part}_7.txt").write_text("".join(f"{row}\n" for row in rows))
        self.assert_split(regression(str(data), 7, splits=elsewhere), 0)
        self.assertEqual(regression_splits(data), [0, 1])
        self.assertEqual(regression_splits(elsewhere), [7])
        with self.assertRaisesRegex(
            DataError, "^split=2 has no index_train_2.txt in .*it has .0, 1.$"
        ):
            regression(data, 2)
        with self.assertRaisesRegex(ValueError, "^split=-1 must be"):
            regression(data, -1)

    def test_mistakes_are_said_in_one_line(self) -> None:
        for arguments, words in (
            (("wine",), "^name='wine' must be one of boston, concrete, .*, made$"),
            (("made", 2), "^split=2 of 'made' must be one of 0 to 1$"),
            (("made", -1), "^split=-1 of 'made' must be"),
            (("made", True), "^split=True of 'made' must be"),
            (
                ("made",),
                "^TFBDL_DATA is not set: make it the folder that holds made-up/data/data.txt, of ",
            ),
        ):
            with self.assertRaisesRegex(ValueError, words):
                uci(*arguments)

    def test_other_files_are_refused(self) -> None:
        data = write(self.folder)
        for file, text, words in (
            ("index_test_0.txt", "3\n4\n", "split 0 in .* does not hold each of the 7 rows once"),
            ("index_test_0.txt", "3\n", "split 0 in .* does not hold each of the 7 rows once"),
            ("index_test_0.txt", "three\n", "index_test_0.txt cannot be read as a table"),
            ("data.txt", "1 2\n3 4\n", "data.txt is not the published table: the md5"),
            (
                "index_train_0.txt",
                "0\n1\n2\n4\n6.5\n",
                "index_train_0.txt has numbers that are none",
            ),
            ("index_features.txt", "5\n", "index_features.txt has .* none of 0 to 4"),
            ("index_target.txt", "-1\n", "index_target.txt has .* none of 0 to 4"),
            ("index_target.txt", "nan\n", "index_target.txt has .* none of 0 to 4"),
            ("index_target.txt", "", "index_target.txt cannot be read as a table"),
            ("index_target.txt", "\0\xff", "index_target.txt cannot be read as a table"),
            ("data.txt", "1 2\n3\n", "data.txt cannot be read as a table of numbers"),
            ("data.txt", "1 " * 2**24, "data.txt is not the published file: it is larger"),
        ):
            kept = (data / file).read_text()
            (data / file).write_text(text)
            with self.assertRaisesRegex(DataError, words) as caught:
                uci("made", directory=self.folder)
            message = str(caught.exception)
            self.assertIn(SOURCE, message)
            self.assertNotIn("\n", message)
            self.assertNotIn("digits", message)
            (data / file).write_text(kept)
        (data / "index_train_1.txt").unlink()
        (data / "data.txt").unlink()
        write(self.folder / "again")
        (self.folder / "again" / MADE.folder / "data" / "index_train_1.txt").unlink()
        with self.assertRaisesRegex(DataError, "index_train_1.txt cannot be read"):
            uci("made", 1, directory=self.folder / "again")


@unittest.skipUnless(HAS_PUBLISHED_FILES, "TFBDL_DATA names no folder with the published files")
class PublishedFilesTest(unittest.TestCase):
    def test_are_those_of_the_literature(self) -> None:
        """Sizes, and the ranges that the documentation of the sets gives."""
        for name, rows, features, low, high in (
            ("boston", 506, 13, 5.0, 50.0),
            ("concrete", 1030, 8, 2.33, 82.6),
            ("energy", 768, 8, 6.01, 43.1),
            ("naval", 11934, 16, 0.95, 1.0),
            ("power", 9568, 4, 420.26, 495.76),
        ):
            for split in (0, 19):
                x, y, x_test, y_test = uci(name, split)
                self.assertEqual((len(x) + len(x_test), x.shape[1]), (rows, features))
                self.assertEqual(len(x_test), round(0.1 * rows))
                both = np.concatenate([y, y_test])
                self.assertEqual((both.min(), both.max()), (low, high))

    def test_gaps_lie_between(self) -> None:
        """The test rows of split k are the middle third by feature k (Foong et al. 2019)."""
        for name in ("boston", "concrete", "energy", "naval", "power", "protein"):
            for k in uci_splits(name, gap=True):
                x, _, x_test, _ = uci(name, k, gap=True)
                low, high = x_test[:, k].min(), x_test[:, k].max()
                below, above = (x[:, k] <= low).sum(), (x[:, k] >= high).sum()
                third = (len(x) + len(x_test)) / 3
                self.assertLess(abs(len(x_test) - third), 2)
                self.assertGreaterEqual(min(below, above), third - 2)
        self.assertEqual(len(uci_splits("naval", gap=True)), 14)


if __name__ == "__main__":
    unittest.main()

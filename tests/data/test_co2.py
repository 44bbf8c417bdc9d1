import math
import os
from pathlib import Path

import numpy as np
import pytest

from tfbdl.data import DataError, co2

HEADER = "# Mauna Loa\n#\n\n"
ROWS = [
    "1958  11    1958.875      313.33      313.33      315.31     -1",
    "1958  12    1958.958      -99.99      314.67      315.61     -1",
    "1959   1    1959.042      315.62      315.62      315.70     -1",
]
NEWER = [f"{row}  0.12" for row in ROWS]
DATA = os.environ.get("TFBDL_DATA", "nowhere")
HAS_FILE = any((Path(DATA) / folder / "co2_mm_mlo.txt").is_file() for folder in ("", "co2"))


def written(folder: Path, rows: list[str]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "co2_mm_mlo.txt").write_text(HEADER + "\n".join(rows) + "\n")
    return folder


@pytest.mark.parametrize("rows", [ROWS, NEWER])
@pytest.mark.parametrize("folder", ["", "co2"])
def test_months_without_measurements_are_interpolated(
    rows: list[str], folder: str, tmp_path: Path
) -> None:
    written(tmp_path / folder, rows)
    series = co2(directory=tmp_path)
    np.testing.assert_array_equal(series.year, [1958.875, 1958.958, 1959.042], strict=True)
    np.testing.assert_array_equal(series.ppm, [313.33, 314.67, 315.62], strict=True)


@pytest.mark.parametrize(
    "rows",
    [
        [],
        ROWS[:1] + ROWS[2:],
        ROWS[::-1],
        [*ROWS, "1959   2    1960.125      315.62      315.62      315.70     -1"],
        [*ROWS, "1959   2    1959.125      -99.99      -99.99      315.70     -1"],
        [*ROWS, "1959   2    1959.125      315.62"],
        [*ROWS, "1959 feb    1959.125      315.62      315.62      315.70     -1"],
        [*ROWS, "1959   2    1959.125      nan      nan      315.70     -1"],
    ],
)
def test_other_tables_are_refused(rows: list[str], tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"co2_mm_mlo.txt is no table of monthly means .*; replace"):
        co2(directory=written(tmp_path, rows))


def test_a_file_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    """Behind whole months it is that of an earlier time; elsewhere numbers would lack digits."""
    whole = (written(tmp_path, ROWS) / "co2_mm_mlo.txt").read_text()
    for stop in range(len(whole)):
        (tmp_path / "co2_mm_mlo.txt").write_text(whole[:stop])
        months = whole[:stop].count("\n") - HEADER.count("\n")
        if months > 0 and whole[stop - 1] == "\n":
            assert len(co2(directory=tmp_path).ppm) == months
            continue
        with pytest.raises(DataError, match="is no table"):
            co2(directory=tmp_path)


def test_a_missing_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFBDL_DATA", str(tmp_path))
    with pytest.raises(
        DataError, match=r"^TFBDL_DATA='.*' has no co2_mm_mlo\.txt: put that of http"
    ):
        co2()


@pytest.mark.skipif(not HAS_FILE, reason="needs the file of NOAA")
def test_the_published_series() -> None:
    """Its season and its rise, as Keeling found them."""
    series = co2()
    assert len(series.ppm) >= 719
    assert math.isclose(series.ppm[0], 315.71)
    assert math.isclose(series.ppm[718], 407.98)
    years = series.ppm[10 : 10 + 59 * 12].reshape(59, 12)
    np.testing.assert_array_equal(np.bincount(years.argmax(axis=1)).argmax(), 4)
    assert (np.diff(years.mean(axis=1)) > 0).all()

"""Files of records: made once, whole after a kill, shared by processes, and those of `results/`."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tfbdl.data.uci import PUBLISHED
from tutorials import records
from tutorials.records import RecordFile
from tutorials.uci import __main__ as uci

RESULTS = Path(__file__).parents[2] / "results"
SETTINGS = {"steps": 5}


def of_splits(path: Path) -> RecordFile:
    return RecordFile(path, "method", "split")


def add(file: RecordFile, method: str, split: int, value: float = 0.5) -> records.Record:
    key = {"method": method, "split": split}
    return file.kept(key, SETTINGS, lambda: {"rmse": value})


def test_a_record_is_made_once_and_read_by_others(tmp_path: Path) -> None:
    path = tmp_path / "run" / "set.jsonl"
    value = 0.1 + 0.2
    made = add(of_splits(path), "hmc", 0, value)
    assert made == {"method": "hmc", "split": 0, "rmse": value, "settings": SETTINGS}
    assert add(of_splits(path), "hmc", 0, 7.0) == made
    assert of_splits(path).records() == [made]
    assert add(of_splits(path), "hmc", 1, 7.0)["rmse"] == 7.0


def test_lines_are_in_the_order_of_their_keys(tmp_path: Path) -> None:
    """Whoever comes first; numbers as numbers, so that 10 is behind 9."""
    file = of_splits(tmp_path / "set.jsonl")
    for method, split in (("hmc", 10), ("laplace", 0), ("hmc", 9)):
        add(file, method, split)
    lines = [json.loads(line) for line in file.path.read_text().splitlines()]
    assert [(line["method"], line["split"]) for line in lines] == [
        ("hmc", 9),
        ("hmc", 10),
        ("laplace", 0),
    ]


def test_other_settings_are_refused(tmp_path: Path) -> None:
    file = of_splits(tmp_path / "set.jsonl")
    add(file, "hmc", 0)
    message = "method hmc, split 0 was made with --steps 5, not 6; name another --savedir"
    with pytest.raises(ValueError, match=message):
        file.kept({"method": "hmc", "split": 0}, {"steps": 6}, dict)
    with pytest.raises(FileNotFoundError, match="lacks results of these flags; run --mode train"):
        file.kept({"method": "hmc", "split": 1}, SETTINGS)


def test_a_record_is_found_or_not(tmp_path: Path) -> None:
    """None is made; one of other settings is refused here too."""
    file = of_splits(tmp_path / "set.jsonl")
    made, key = add(file, "hmc", 0), {"method": "hmc", "split": 0}
    assert file.get(key, SETTINGS) == made
    assert file.get({"method": "hmc", "split": 1}, SETTINGS) is None
    with pytest.raises(ValueError, match="was made with --steps 5, not 6"):
        file.get(key, {"steps": 6})
    assert file.records() == [made]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"method": "hmc", "spl', "line 2, is no record with method, split; remove the line"),
        ('{"method": "hmc"}', "line 2, is no record with method, split; remove the line"),
        ("<<<<<<< HEAD", "line 2, is no record with method, split; remove the line"),
        ("[1, 2]", "line 2, is no record with method, split; remove the line"),
        ('{"method": "hmc", "split": 0}', "line 2, is a second record of method hmc, split 0"),
    ],
)
def test_a_damaged_file_is_refused_and_left_alone(tmp_path: Path, line: str, message: str) -> None:
    file = of_splits(tmp_path / "set.jsonl")
    add(file, "hmc", 0)
    text = file.path.read_text() + line
    file.path.write_text(text)
    for call in (file.records, lambda: add(file, "hmc", 1)):
        with pytest.raises(ValueError, match=message):
            call()
    assert file.path.read_text() == text


def add_many(path: Path, method: str, number: int) -> None:
    for split in range(number):
        add(of_splits(path), method, split)


def killed_while_writing(path: Path) -> None:
    def die(target: Path, write: Any) -> None:
        with (target.parent / "half").open("wb") as file:
            write(file)
        os.kill(os.getpid(), signal.SIGKILL)

    with mock.patch.object(records, "write_whole", die):
        add(of_splits(path), "killed", 0)


def test_processes_share_a_file(tmp_path: Path) -> None:
    """Two add the same records as fast as they can; one is killed while it has the lock."""
    path, number = tmp_path / "set.jsonl", 25
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(target=add_many, args=(path, "hmc", number)),
        context.Process(target=add_many, args=(path, "hmc", number)),
        context.Process(target=killed_while_writing, args=(path,)),
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, -signal.SIGKILL]
    assert (tmp_path / "half").exists()
    kept = [(record["method"], record["split"]) for record in of_splits(path).records()]
    assert kept == [("hmc", split) for split in range(number)]


def test_threads_share_a_file(tmp_path: Path) -> None:
    path, number = tmp_path / "set.jsonl", 25
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add_many, [path] * 4, "aabc", [number] * 4))
    kept = [(record["method"], record["split"]) for record in of_splits(path).records()]
    assert kept == [(method, split) for method in "abc" for split in range(number)]


@pytest.mark.parametrize("name", ["boston", "concrete", "energy", "naval", "power", "protein"])
def test_tables_of_uci_are_those_of_the_records(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = RESULTS / "uci" / f"{name}.jsonl"
    (tmp_path / file.name).write_bytes(file.read_bytes())
    args = uci.parser().parse_args(["--set", name, "--savedir", str(tmp_path)])
    uci.table(args)
    expected = (RESULTS / "uci" / f"{name}.md").read_text()
    assert capsys.readouterr().out.startswith(expected)
    numbers = Counter(record["method"] for record in of_splits(file).records())
    assert numbers.keys() <= uci.METHODS.keys()
    assert set(numbers.values()) == {PUBLISHED[name].num_splits}


@pytest.mark.parametrize("path", sorted(RESULTS.rglob("*.jsonl")), ids=lambda path: path.stem)
def test_kept_results_are_as_they_would_be_written(path: Path) -> None:
    """Each line has the same text, and lines are in order of what stands before their numbers."""
    lines = path.read_text().splitlines()
    objects = [json.loads(line) for line in lines]
    assert [json.dumps(line) for line in objects] == lines
    names = list(objects[0])
    last = max(
        names.index(name) for name in ("method", "network", "split", "seed") if name in names
    )
    keys = names[: last + 1]
    file = RecordFile(path, *keys)
    order = [tuple(record[key] for key in keys) for record in file.records()]
    assert order == sorted(order)
    assert all("settings" in record for record in objects)

"""The tutorial of active learning, shortened, on the embedded digits."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import numpy as np
import pytest
import tutorial_runs

from tutorials import active_learning
from tutorials.records import RecordFile


def run_script(savedir: Path, *flags: str) -> str:
    output = io.StringIO()
    few = ("--labels", "40", "--pool", "60", "--S", "3", "--n_epochs", "8", "--seeds", "1")
    methods = ("--methods", "random", "BatchBALD", "--configurations", "50", "--decay", "0.1")
    data = ("--data", "digits", "--split", "tutorial", "--N", "500")
    with contextlib.redirect_stdout(output):
        tutorial_runs.run(active_learning, *data, *few, *methods, *flags, "--savedir", str(savedir))
    return output.getvalue()


def test_it_ends_at_an_error_and_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    """A run in parts is what it is in one piece."""
    path, whole = tmp_path / "active_learning.jsonl", tmp_path / "whole"
    run_script(tmp_path, "--until", "100")
    assert len(path.read_text().splitlines()) == 2
    text = run_script(tmp_path, "--until", "0")
    records = RecordFile(path, "method", "seed", "labels").records()
    assert [r["labels"] for r in records] == [20, 30, 40] * 2
    for method in ("random", "BatchBALD"):
        chosen = [i for r in records if r["method"] == method for i in r["chosen"]]
        assert len(set(chosen)) == len(chosen) == 30
    assert {p.name for p in tmp_path.glob("*.png") if p.stat().st_size > 5000}
    assert "| BatchBALD | 1 | " in text
    run_script(whole, "--until", "0")
    for file in ("active_learning.jsonl", "active_learning.md"):
        assert (whole / file).read_text() == (tmp_path / file).read_text()


def test_labels_to_an_error() -> None:
    """The first at which it is reached; the median of seeds, of which one does not reach it."""
    errors = {0: [40, 9, 12, 4], 1: [40, 20, 8, 6], 2: [40, 20, 9, 5]}
    records = [
        {"method": "BALD", "seed": seed, "labels": 20 + 10 * i, "error": e}
        for seed, of_seed in errors.items()
        for i, e in enumerate(of_seed)
    ]
    assert active_learning.labels_to(10, records[:4]) == 30
    assert active_learning.labels_to(3, records) == np.inf
    row = next(line for line in active_learning.table(records) if line.startswith("| BALD"))
    assert row == "| BALD | 3 | 40 (30 to 40) | 50 (50 to more) | 335 |"


if __name__ == "__main__":
    pytest.main()

"""The tutorial of continual learning, shortened, on the embedded digits."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import numpy as np
import tutorial_runs

from tutorials import continual_learning
from tutorials.records import RecordFile

FILE = "continual_learning.jsonl"


def run_script(savedir: Path) -> str:
    output = io.StringIO()
    data = ("--data", "digits", "--split", "tutorial", "--N", "300", "--batch_size", "50")
    tasks = ("--tasks", "3", "--n_epochs", "20", "--learning_rate", "0.003")
    few = ("--weights", "10", "--seeds", "1")
    with contextlib.redirect_stdout(output):
        tutorial_runs.run(continual_learning, *data, *tasks, *few, "--savedir", str(savedir))
    return output.getvalue()


def test_laplace_keeps_what_a_network_forgets(tmp_path: Path) -> None:
    """All learn the first task alike; it is made once."""
    text = run_script(tmp_path)
    records = RecordFile(tmp_path / FILE, "method", "weight", "seed").records()
    rows = {r["method"]: r["accuracies"] for r in records}
    assert list(rows) == ["Kronecker", "diagonal", "no memory"]
    assert all([len(row) for row in of] == [1, 2, 3] for of in rows.values())
    assert len({of[0][0] for of in rows.values()}) == 1
    assert rows["no memory"][2][0] + 8 < min(rows["diagonal"][2][0], rows["Kronecker"][2][0])
    whole = (tmp_path / FILE).read_text()
    assert run_script(tmp_path) == text
    assert (tmp_path / FILE).read_text() == whole
    assert (tmp_path / "continual_learning.png").stat().st_size > 5000


def test_table() -> None:
    """Means and standard deviations over seeds."""
    of_seeds = [[[98.0], [90.0, 96.0]], [[96.0], [94.0, 98.0]]]
    records = [
        {"method": "Kronecker", "weight": 3.0, "seed": seed, "accuracies": rows}
        for seed, rows in enumerate(of_seeds)
    ]
    row = continual_learning.table(records)[2]
    spread = np.sqrt([4.5, 8.0, 0.0])
    assert row == (
        f"| Kronecker, λ = 3 | 2 | 94.50 ± {spread[0]:.2f} % | 92.00 ± {spread[1]:.2f} % "
        f"| 97.00 ± {spread[2]:.2f} % |"
    )

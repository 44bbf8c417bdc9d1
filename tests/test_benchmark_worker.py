"""The worker of benchmarks does the package's work where only the project is on the path."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import bench  # noqa: E402
import work as works  # noqa: E402


def started(work: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "benchmarks/peers/worker.py"), "tfbdl", work]
    return subprocess.run(
        [*command, str(tmp_path / "samples.npy")],
        input="\n",
        env={**os.environ, "PYTHONPATH": str(ROOT), "TFBDL_QUIET": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("work", ["concrete"])
def test_a_round_for_each_line(work: str, tmp_path: Path) -> None:
    run = started(work, tmp_path)
    assert run.returncode == 0, run.stderr[-2000:]
    first, second = map(json.loads, run.stdout.splitlines())
    assert first["units"] == second["units"] > 0
    assert first["seconds"] > second["seconds"] > 0  # the first compiles


def test_unknown_work_is_an_error(tmp_path: Path) -> None:
    run = started("unheard_of", tmp_path)
    assert run.returncode != 0
    assert "unheard_of" in run.stderr


@pytest.mark.parametrize("work", works.TITLES)
def test_work_is_the_package_s_and_another_s(work: str) -> None:
    known = {peer for peer in bench.PACKAGES if bench.has(peer, work)}
    assert "tfbdl" in known
    assert known - {"tfbdl", *bench.report.FLOORS} or work == "concrete"
    assert work in works.UNITS


def test_another_checkout_takes_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each by its own script, and with its own package."""
    script = """
import json, os, sys
for units in (1, 2, 3):
    assert sys.argv[1:3] == ["tfbdl", "sgld"]
    print(json.dumps({"seconds": 0.5 if "older" in __file__ else 1.0, "units": units}), flush=True)
    assert os.environ["PYTHONPATH"] in __file__
    input()
"""
    checkouts = {"tfbdl": tmp_path / "newer", bench.BEFORE: tmp_path / "older"}
    for checkout in checkouts.values():
        (checkout / "benchmarks" / "peers").mkdir(parents=True)
        (checkout / "benchmarks" / "peers" / "worker.py").write_text(script)
    monkeypatch.setattr(bench, "commit_of", lambda checkout: checkout.name)
    rows = bench.measured("sgld", checkouts, rounds=2, minutes=1.0, logs=tmp_path)
    assert rows["tfbdl"] == {"seconds": [1, 1], "units": [2, 3], "first": 1, "version": "newer"}
    assert rows["before"] == {
        "seconds": [0.5, 0.5],
        "units": [2, 3],
        "first": 0.5,
        "version": "older",
    }

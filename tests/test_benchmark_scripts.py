"""Scripts of benchmarks start as their docstrings say: `python benchmarks/NAME.py`, and no more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = [p.name for p in (ROOT / "benchmarks").glob("*.py") if "add_argument" in p.read_text()]


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_starts(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / name), "--help"],
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout[:6]) == (0, "usage:"), done.stderr

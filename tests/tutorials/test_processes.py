"""Processes that tutorials start, and their memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from tutorials import processes

CODE = """
import numpy as np
from tutorials import processes
held = np.ones(25_000_000)
print(processes.peak_bytes())
"""


def test_the_peak_is_of_a_process_alone() -> None:
    """Whatever the process holds that has started it; also of what it no longer holds."""
    held = np.ones(100_000_000)
    process = subprocess.run([sys.executable, "-c", CODE], stdout=subprocess.PIPE, check=True)
    assert 0.2e9 < int(process.stdout) < 0.5e9
    assert processes.peak_bytes() > held.nbytes
    del held
    assert processes.peak_bytes() > 0.8e9


def test_where_there_is_no_status(tmp_path: Path) -> None:
    """As beside Linux, where the system counts for a process what it has held itself."""
    exact = processes.peak_bytes()
    with mock.patch.object(processes, "STATUS", tmp_path / "missing"):
        assert processes.peak_bytes() >= 0.9 * exact


def test_flags() -> None:
    with mock.patch.object(processes.subprocess, "run") as run:
        run.return_value.returncode = 0
        processes.run("uci", {"set": "boston", "N": 5, "path": None, "costs": True, "short": False})
    command = [sys.executable, "-m", "tutorials.uci", "--set", "boston", "--N", "5", "--costs"]
    assert run.call_args.args == (command,)


def test_a_failure_names_the_command(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match=r"^python -m tutorials.nothing --N 5 has failed"):
        processes.run("nothing", {"N": 5})
    assert "No module named tutorials.nothing" in capfd.readouterr().err

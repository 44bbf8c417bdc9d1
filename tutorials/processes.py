"""Tutorials in processes of their own, each with a peak of memory of its own."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

STATUS = Path("/proc/self/status")
UNIT = 1 if sys.platform == "darwin" else 1024
"""How many bytes `ru_maxrss` counts as one."""


def run(name: str, flags: Mapping[str, Any]) -> None:
    """Runs `python -m tutorials.NAME` with these flags but those that are None or False.

    Raises:
        ValueError: if it fails.
    """
    command = [sys.executable, "-m", f"tutorials.{name}"]
    for flag, value in flags.items():
        if value is not None and value is not False:
            command += [f"--{flag}"] if value is True else [f"--{flag}", str(value)]
    if subprocess.run(command, check=False).returncode:
        raise ValueError(f"python {' '.join(command[1:])} has failed; see above")


def peak_bytes() -> int:
    """The most memory that this process has held.

    Under Linux `ru_maxrss` begins at the peak of the process that has started this one.
    """
    peak = re.search(r"VmHWM:\s+(\d+) kB", STATUS.read_text() if STATUS.exists() else "")
    if peak:
        return 1024 * int(peak[1])
    return UNIT * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

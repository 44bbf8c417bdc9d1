"""Which slow tests `make test` runs: one in `SHARES`, others with each commit."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable

from imports import ROOT

SHARES = 60
"""Commits in a row that run all slow tests together."""
DAY = 86_400
"""Seconds of a day."""


def share_of(slow: Iterable[str], commit: int) -> set[str]:
    """The slow tests that are run at a commit."""
    return {*sorted(slow)[commit % SHARES :: SHARES]}


def commit() -> int:
    """The number of commits up to this one; where that is not known, of days."""
    command = ["git", "-C", str(ROOT), "rev-list", "--count", "HEAD"]
    try:
        return int(subprocess.check_output(command, stderr=subprocess.DEVNULL))
    except (OSError, ValueError, subprocess.CalledProcessError):
        return int(time.time() / DAY)

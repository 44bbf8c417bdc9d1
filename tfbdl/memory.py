"""Refusals of computations that do not fit into memory, before they begin."""

from __future__ import annotations

import os
import sys
from pathlib import Path

try:
    import resource
except ImportError:  # not on Windows, where no process has a limit of its own
    resource = None  # type: ignore[assignment]


def require(needed: int, what: str, instead: str) -> None:
    """Raises ValueError, with the figure, if `needed` bytes are more than there is free.

    Args:
        needed: bytes.
        what: the thing that needs them, the beginning of the message.
        instead: its end, what to do.
    """
    free = _free()
    if needed > free:
        raise ValueError(
            f"{what} needs {_readable(needed)} of memory, and {_readable(free)} is free; {instead}"
        )


def _free() -> int:
    """Bytes that the machine can give, and that this process may take (`ulimit -v`)."""
    return min(_of_machine(), _of_process())


def _of_machine() -> int:
    """Bytes that are free, with the files that the machine keeps in memory."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if "MemAvailable" in line)
    except (OSError, StopIteration):
        if not hasattr(os, "sysconf"):
            return sys.maxsize
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _of_process() -> int:
    """Bytes up to the limit of this process; no bound where there is no limit."""
    limit = -1 if resource is None else resource.getrlimit(resource.RLIMIT_AS)[0]
    if resource is None or limit == resource.RLIM_INFINITY:
        return sys.maxsize
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return limit
    return max(limit - pages * os.sysconf("SC_PAGE_SIZE"), 0)


def _readable(number: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} TB"

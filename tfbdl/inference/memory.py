"""What does not fit is refused before it is begun."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def require(needed: int, what: str, instead: str) -> None:
    """Raises ValueError, with the figure, if `needed` bytes are more than the machine has free.

    Args:
        needed: bytes.
        what: that needs them, the beginning of the message.
        instead: its end, what to do.
    """
    free = _free()
    if needed > free:
        raise ValueError(
            f"{what} needs {_readable(needed)} of memory, and {_readable(free)} is free; {instead}"
        )


def _free() -> int:
    """Bytes that the machine can give, with the files it keeps in memory counted as free."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if "MemAvailable" in line)
    except (OSError, StopIteration):
        if not hasattr(os, "sysconf"):
            return sys.maxsize
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _readable(number: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} TB"

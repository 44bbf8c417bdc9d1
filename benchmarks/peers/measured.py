"""What steps hold and take, in a process that may have a limit; for NumPy alone."""

from __future__ import annotations

import json
import math
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Steps = list[dict[str, Any]]


@contextmanager
def measured(steps: Steps, name: str) -> Iterator[None]:
    """Adds a step, with its seconds and the most memory that the process has held by its end."""
    clock, cpu = time.perf_counter(), time.process_time()
    yield
    clock, cpu = time.perf_counter() - clock, time.process_time() - cpu
    steps.append({"step": name, "seconds": clock, "cpu_seconds": cpu, "gigabytes": peak()})


def peak() -> float:
    """The most gigabytes that this process has held; `ru_maxrss` knows its parent's as well."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (kibibytes,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return 1024 * int(kibibytes) / 1e9


def limit(gigabytes: float, minutes: float) -> None:
    """Has this process fail where it asks for more memory, and end after minutes of a processor."""
    size, seconds = int(1e9 * gigabytes), math.ceil(60 * minutes)
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))


def tried(name: str, run: Callable[[], Any]) -> bool:
    """Whether a step works; prints its name, and then a line with what it took or why it fails."""
    print(json.dumps({"step": name}), flush=True)
    steps: Steps = []
    try:
        with measured(steps, name):
            run()
    except Exception as error:
        steps = [{"step": name, "fails": f"{type(error).__name__}: {' '.join(str(error).split())}"}]
    print(json.dumps(steps[0]), flush=True)
    return "fails" not in steps[0]

"""Runs whose clock is set back again and again, by libfaketime (Debian's package of that name).

python -m soak.clock training FOLDER      # one run, under whatever clock there is
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import keras

import tfbdl
from soak.kills import PATIENCE, job_of

LIBRARIES = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
"""Where the library is, if it is on this machine."""
YEARS = 365 * 24 * 3600
EVERY = 0.2
"""Seconds between two settings of the clock."""
LONGEST = 1000.0
"""Seconds that an epoch of a job can take by no clock that goes forward."""


def set_back(name: str, times: int, folder: Path, seed: int) -> str:
    """Runs a job while its clock is set to moments of the last fifty years, again and again.

    Raises:
        AssertionError: if a run fails, hangs, has another outcome than under a clock that goes on,
            or logs a duration that no epoch can have.
    """
    if not LIBRARIES:
        return "libfaketime is not on this machine"
    job, moments, settings = job_of(name), random.Random(seed), 0
    _run(name, folder / "whole", {})
    expected = job.outcome(folder / "whole")
    for i in range(times):
        run = folder / f"run_{i}"
        with tempfile.NamedTemporaryFile("w") as offset:
            settings += _run(name, run, _under(offset.name), lambda o=offset: _set(o, moments))
        job.check(run)
        if job.outcome(run) != expected:
            raise AssertionError(f"{name}: another outcome under a clock that is set back")
        for log in run.rglob("train.log"):
            if tfbdl.read_log(log).seconds.max(initial=0.0) > LONGEST:
                raise AssertionError(f"{log} has an epoch of more than {LONGEST} seconds")
    return f"{times} runs, {settings} settings of the clock"


def _under(offset: str) -> dict[str, str]:
    """The environment of a process whose clock a file shifts; the monotonic clock goes on."""
    return {
        "LD_PRELOAD": str(LIBRARIES[0]),
        "FAKETIME_TIMESTAMP_FILE": offset,
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }


def _set(file: tempfile._TemporaryFileWrapper, moments: random.Random) -> None:
    file.seek(0)
    file.truncate()
    file.write(f"-{moments.randrange(50 * YEARS)}\n")
    file.flush()


def _run(name, folder, environment, set_clock=lambda: None) -> int:  # type: ignore[no-untyped-def]
    """How often the clock was set before the process had ended."""
    command = [sys.executable, "-m", "soak.clock", name, str(folder)]
    set_clock()
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            command,
            cwd=Path(__file__).parents[1],
            env=os.environ | environment,
            stdout=output,
            stderr=output,
        )
        begun, number = time.monotonic(), 0
        try:
            while process.poll() is None:
                if time.monotonic() - begun > PATIENCE:
                    raise AssertionError(f"{name}: a process hangs under {environment}")
                time.sleep(EVERY)
                set_clock()
                number += 1
        finally:
            process.kill()
            process.wait()
        if process.returncode:
            output.seek(0)
            raise AssertionError(output.read()[-2000:])
    return number


if __name__ == "__main__":
    keras.utils.set_random_seed(1)
    job_of(sys.argv[1]).run(Path(sys.argv[2]), lambda: None)

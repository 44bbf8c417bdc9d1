"""Disks that are full, and folders that cannot be written.

unshare --mount python -m soak.full_disk 5 0     # on a small disk of its own; needs root
"""

from __future__ import annotations

import contextlib
import gc
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras

from soak.jobs import JOBS

DISK = 2**19
"""Bytes of the small disk."""

WHOLE = "whole"
"""The folder of a run that is let alone."""


def with_limits(name: str, times: int, folder: Path, seed: int) -> Counter[str]:
    """Runs a job under limits on the size of a file, each drawn anew, and then without one."""

    def at_random(chance: random.Random) -> contextlib.AbstractContextManager[None]:
        sizes = [path.stat().st_size for path in (folder / WHOLE).rglob("*") if path.is_file()]
        return largest_file(chance.randrange(max(sizes)))

    return _broken(name, times, folder, seed, at_random)


def on_small_disk(times: int, seed: int) -> str:
    """The same on a disk of its own, full or read-only; needs root, and says so where it is not.

    Raises:
        AssertionError: as `with_limits`.
    """
    command = ["unshare", "--mount", sys.executable, "-m", "soak.full_disk", str(times), str(seed)]
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        return "not permitted on this machine"
    process = subprocess.run(
        command,
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    if process.returncode:
        raise AssertionError(process.stderr[-3000:])
    return process.stdout.strip().splitlines()[-1]


def _broken(
    name: str,
    times: int,
    folder: Path,
    seed: int,
    fault: Callable[[random.Random], contextlib.AbstractContextManager[None]],
) -> Counter[str]:
    """Runs a job with faults, until it is done without one, so many times.

    Raises:
        AssertionError: if a fault gives anything but one line of OSError, or costs what was there.
    """
    job, chance, counts = JOBS[name], random.Random(seed), Counter[str]()
    expected = job.outcome(_run(name, folder / WHOLE))
    for i in range(times):
        run = folder / f"run_{i}"
        for _ in range(2):
            with fault(chance):
                counts[_errors(name, run)] += 1
            job.check(run)
        if job.outcome(_run(name, run)) != expected:
            raise AssertionError(f"{name}: another outcome after a fault")
        shutil.rmtree(run)
    return counts


def _errors(name: str, folder: Path) -> str:
    """How a run under a fault ends: "one error", or "done" where the fault hit nothing."""
    try:
        _run(name, folder)
    except OSError as error:
        if "\n" in str(error) or str(folder) not in str(error):
            raise AssertionError(f"{error!r} does not say in one line what to do where") from error
        return "one error"
    return "done"


def _run(name: str, folder: Path) -> Path:
    keras.utils.set_random_seed(1)
    JOBS[name].run(folder, lambda: None)
    return folder


@contextlib.contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Writing beyond that fails, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def _small_disk(disk: Path) -> Callable[[random.Random], Any]:
    """Faults of a disk: little room left at random, or none to write at all."""

    @contextlib.contextmanager
    def fault(chance: random.Random) -> Iterator[None]:
        ballast = disk / "ballast"
        if chance.random() < 0.25:
            gc.collect()  # memory maps of runs that have ended keep the disk writable
            _mount("-o", "remount,ro", disk)
        else:
            with contextlib.suppress(OSError), open(ballast, "wb", buffering=0) as file:
                left = chance.randrange(20_000)
                while file.write(bytes(4096)):
                    pass
            with open(ballast, "r+b") as file:
                file.truncate(max(ballast.stat().st_size - left, 0))
        try:
            yield
        finally:
            _mount("-o", "remount,rw", disk)
            ballast.unlink(missing_ok=True)

    return fault


def _mount(*arguments: Any) -> None:
    _when_free("mount", *arguments)


def _when_free(*command: Any) -> None:
    """Runs a command of mounts, again for a while where a process that has ended holds files."""
    for left in range(50, -1, -1):
        process = subprocess.run([*map(str, command)], check=False, capture_output=True)
        if process.returncode == 0:
            return
        if "busy" not in process.stderr.decode() or not left:
            raise OSError(process.stderr.decode())
        time.sleep(0.2)


def _main(times: int, seed: int) -> None:
    counts: Counter[str] = Counter()
    for name in ("training", "samples of SGLD", "chains"):
        with tempfile.TemporaryDirectory() as disk:
            _mount("-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", disk)
            try:
                counts += _broken(name, times, Path(disk), seed, _small_disk(Path(disk)))
            finally:
                _when_free("umount", "-l", disk)  # files that an ended process maps go later
    print(dict(counts))


if __name__ == "__main__":
    _main(int(sys.argv[1]), int(sys.argv[2]))

"""Everything, and a report of it.

make soak                             # whole: some 10 minutes on two cores
make soak SOAK="--scale 0.02"         # a fiftieth of it
"""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")  # faster for small networks
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")

import argparse
import platform
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import hypothesis
import keras
import numpy as np
import tensorflow as tf

import tfbdl
from soak import bad_calls, full_disk, fuzz, kills, memory, readers

REPORT = Path(__file__).parents[2] / "results" / "soak" / "README.md"
KILLS = {"training": 20, "chains": 15, "samples of SGLD": 10, "results": 5}


def main() -> None:
    """Runs the parts one after the other, and says at once what each of them gave."""
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the whole")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--report", type=Path, default=REPORT)
    args = parser.parse_args()
    begun, failures = time.monotonic(), 0
    lines = heading(args.scale, args.seed)
    for title, what, part in parts(args.scale, args.seed):
        try:
            outcome = part()
        except Exception:
            failures += 1
            outcome = "**FAILED**"
            print(traceback.format_exc()[-3000:])
        lines.append(f"| {title} | {what} | {outcome} |")
        print(lines[-1], flush=True)
        ending = f"\n{time.monotonic() - begun:.0f} seconds; {failures} parts failed.\n"
        args.report.parent.mkdir(parents=True, exist_ok=True)
        args.report.write_text("\n".join([*lines, ending]))
    if failures:
        raise SystemExit(f"{failures} parts failed")


def heading(scale: float, seed: int) -> list[str]:
    """What the report says of the machine, and of what its table holds."""
    versions = {
        "tfbdl": tfbdl.__version__,
        "TensorFlow": tf.__version__,
        "Keras": keras.__version__,
        "NumPy": np.__version__,
        "Hypothesis": hypothesis.__version__,
        "Python": platform.python_version(),
    }
    return [
        "# Robustness under load and faults",
        "",
        f"Made by `make soak` with `--scale {scale:g} --seed {seed}` on {os.cpu_count()} cores of "
        f"{platform.machine()}, {platform.system()}, with "
        + ", ".join(f"{name} {version}" for name, version in versions.items())
        + ".",
        "",
        "A row without FAILED means: after each SIGKILL what was left could be read, and the run "
        "that went on ended bit for bit as one that was let alone; each full disk, limit and "
        "read-only folder gave one line of error and lost nothing; each damaged file was read or "
        "refused in one line, within bounds of time and memory; each call with bad arguments gave "
        "a finite result of the documented shape or one line that names the argument; memory did "
        f"not grow by more than {memory.ALLOWED:g} MB after the first fifth of a run.",
        "",
        "| part | of | found |",
        "|---|---|---|",
    ]


def parts(scale: float, seed: int) -> Iterator[tuple[str, str, Callable[[], str]]]:
    """Title and subject of each part, and what runs it."""

    def share(whole: float) -> int:
        return max(round(scale * whole), 1)

    for name, number in KILLS.items():
        yield "kill -9", name, partial(killed, name, share(number), seed)
    for name in ("training", "samples of SGLD", "chains"):
        yield "limit on files", name, partial(limited, name, share(8), seed)
    yield "small disk", "all", partial(full_disk.on_small_disk, share(8), seed)
    for name, reader in readers.readers().items():
        examples = share(1000 if name == ".keras" else 5000)
        yield "Hypothesis", f"{name}, {examples} files", partial(fuzzed, reader, examples, seed)
    for name in fuzz.TRACED:
        seconds = share(45)
        what = f"{name}, {seconds} seconds"
        yield "Atheris", what, partial(fuzz.by_atheris, name, seconds, seed + 1)
    calls = share(10_000)
    yield "bad arguments", f"{calls} calls", partial(bad_calls.report, calls, seed)
    for name, run in memory.RUNS.items():
        yield "memory", name, partial(grown, run, share(100_000))


def killed(name: str, number: int, seed: int) -> str:
    """The row of kills."""
    with tempfile.TemporaryDirectory() as folder:
        runs = kills.survive(name, number, Path(folder), seed)
    return f"{runs.kills} kills, {runs.finished} runs finished; {runs.seconds:.1f} s if let alone"


def limited(name: str, number: int, seed: int) -> str:
    """The row of limits."""
    with tempfile.TemporaryDirectory() as folder:
        return str(dict(full_disk.with_limits(name, number, Path(folder), seed)))


def fuzzed(reader: readers.Reader, examples: int, seed: int) -> str:
    """The row of damaged files."""
    return str(dict(fuzz.by_hypothesis(reader, examples, seed)))


def grown(run: Callable[[int], memory.Growth], steps: int) -> str:
    """The row of memory."""
    growth = memory.check(run(steps))
    return f"{growth.steps} steps, {growth.early:.0f} MB to {growth.late:.0f} MB"


if __name__ == "__main__":
    main()

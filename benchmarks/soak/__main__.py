"""Everything, and a report of it.

make soak                                 # whole: some hours on two cores
make soak SOAK="--scale 0.02"             # a fiftieth of it
make soak SOAK="--only threads --again"   # some parts, done anew

Each part is a process of its own, with an hour to end in. What was found is kept after each, so
that the same command goes on where it was stopped.
"""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")  # faster for small networks
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")

import argparse
import contextlib
import json
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
REPORT = ROOT / "results" / "soak" / "README.md"
LIMIT = 3600.0
"""Seconds that a part may take."""
TITLE = "# Robustness under load and faults"
HEAD = ["| part | of | outcome | seconds | tfbdl |", "|---|---|---|---|---|"]
FAILED = "**FAILED**"


def main() -> None:
    """Does what has not been done yet, one part after the other, and says what each gave."""
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the whole")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="parts whose title or subject holds this")
    parser.add_argument("--again", action="store_true", help="also what has been done already")
    parser.add_argument("--report", type=Path, default=REPORT)
    parser.add_argument("--part", help=argparse.SUPPRESS)  # this one, here, and no report
    args = parser.parse_args()
    if args.part:
        print(_text(_parts(args)[args.part].run()))
        return
    done = _kept(args)
    names = list(_parts(args))
    for name in names:
        known = done.get(name, {}).get("outcome", FAILED) != FAILED
        if args.only not in name or (known and not args.again):
            continue
        done[name] = _row(name, args)
        print(f"{name} | {done[name]['outcome']}", flush=True)
        _write(args, {n: done[n] for n in names if n in done}, len(names))
    failures = sum(row["outcome"] == FAILED for row in done.values())
    if failures:
        raise SystemExit(f"{failures} parts failed")


def _parts(args: argparse.Namespace) -> dict[str, Any]:
    from soak.parts import parts  # noqa: PLC0415 (what is to be attacked is imported in processes)

    return {f"{p.title} | {p.of}": p for p in parts(args.scale, args.seed)}


def _row(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """What a part gives in a process of its own."""
    command = [sys.executable, "-m", "soak", "--part", name]
    command += ["--scale", str(args.scale), "--seed", str(args.seed)]
    begun = time.monotonic()
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=output, text=True, start_new_session=True
        )
        try:
            actual, _ = process.communicate(timeout=LIMIT)
            lines = actual.strip().splitlines() if process.returncode == 0 else []
            output.seek(0)
            problem = output.read()[-3000:]
        except subprocess.TimeoutExpired:
            lines, problem = [], f"no end after {LIMIT:g} seconds"
        finally:
            _end(process)
    if not lines:
        print(problem)
    return {
        "outcome": lines[-1] if lines else FAILED,
        "seconds": round(time.monotonic() - begun),
        "tfbdl": _commit(),
    }


def _end(process: subprocess.Popen) -> None:
    """Ends it with all that it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _commit() -> str:
    """The version of the package, and the commit that it is of."""
    command = ["git", "describe", "--always", "--dirty=+"]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return f"{version('tfbdl')} {process.stdout.strip()}".strip()


def _text(actual: object) -> str:
    if isinstance(actual, Counter):
        return ", ".join(f"{what}: {number}" for what, number in sorted(actual.items()))
    return str(actual)


def _kept(args: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """What has been found with the same scale and seed."""
    path = args.report.with_name("parts.json")
    kept = json.loads(path.read_text()) if path.exists() else {}
    same = (kept.get("scale"), kept.get("seed")) == (args.scale, args.seed)
    return kept["parts"] if same else {}


def _write(args: argparse.Namespace, done: Mapping[str, dict[str, Any]], whole: int) -> None:
    """The report of so many parts as the whole has or less, and what it is made of."""
    args.report.parent.mkdir(parents=True, exist_ok=True)
    record = {"scale": args.scale, "seed": args.seed, "parts": done}
    args.report.with_name("parts.json").write_text(json.dumps(record, indent=1) + "\n")
    rows = [
        f"| {name} | {row['outcome']} | {row['seconds']} | {row['tfbdl']} |"
        for name, row in done.items()
    ]
    failed = sum(row["outcome"] == FAILED for row in done.values())
    seconds = sum(row["seconds"] for row in done.values())
    ending = f"{len(done)} of {whole} parts, {seconds:,} seconds; {failed} failed."
    args.report.write_text("\n".join([*_heading(args), *HEAD, *rows, "", ending, ""]))


def _heading(args: argparse.Namespace) -> list[str]:
    """What the report says of the machine, and of what its table holds."""
    packages = ("TensorFlow", "Keras", "NumPy", "Hypothesis")
    versions = [f"{name} {version(name.lower())}" for name in packages]
    return [
        TITLE,
        "",
        f"Made by `make soak` with `--scale {args.scale:g} --seed {args.seed}` on "
        f"{os.cpu_count()} cores of {platform.machine()}, {platform.system()}, with "
        + ", ".join([*versions, f"Python {platform.python_version()}"])
        + "; the last column names the version of the package.",
        "",
        "A row without FAILED means: after each signal what was left could be read, and the run "
        "that went on ended bit for bit as one that was let alone, or refused to go on in one "
        "line. Of two processes that write into one folder one is refused in one line, and "
        "nothing is mixed; a clock that is set back changes no outcome. Each full disk, limit and "
        "folder without the right to write gave one line of error and lost nothing. Each damaged, "
        "cut off or hostile file was read or refused in one line, within bounds of time and "
        "memory, and ran no code. Each call with bad arguments gave a finite result of the "
        "documented shape or one line that names the argument. Predictions of several threads are "
        "those of one, and change no training. Memory did not grow by more than 16 MB after the "
        "first fifth of a long run, or than the row says from the first tenth of repeated calls "
        "on.",
        "",
    ]


if __name__ == "__main__":
    main()

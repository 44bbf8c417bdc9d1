"""The table of models that nobody here wrote and of what each can be asked.

make compatibility                                        # all, into results/compatibility
make compatibility COMPATIBILITY="--rows BERT --again"    # some rows anew

Each row is a process of its own. What is known already is not run again.
"""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import argparse
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "results" / "compatibility" / "cells.json"
PAGE = ROOT / "docs" / "compatibility.md"
SECONDS = 1800
"""The most that one cell may take."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m compatibility", description=__doc__)
    parser.add_argument("--rows", nargs="+", help="some of them")
    parser.add_argument("--columns", nargs="+", help="some of them")
    parser.add_argument("--again", action="store_true", help="also what is known already")
    parser.add_argument("--kept", type=Path, default=KEPT)
    parser.add_argument("--row", help=argparse.SUPPRESS)  # this one, here
    args = parser.parse_args()
    if args.row:
        run(args.row, args.columns)
        return
    from compatibility.cells import COLUMNS  # noqa: PLC0415 (starts TensorFlow)
    from compatibility.models import CASES  # noqa: PLC0415

    cells = json.loads(args.kept.read_text()) if args.kept.exists() else {}
    for row in args.rows or CASES:
        known = {} if args.again else cells.get(row, {})
        left = [c for c in args.columns or COLUMNS if not known.get(c, {}).get("found")]
        while left:
            for column, answer, seconds in in_a_process(row, left):
                print(f"{row} | {column} | {answer} | {seconds:.0f} s", flush=True)
                cells.setdefault(row, {})[column] = {"found": answer, "seconds": round(seconds, 1)}
                left.remove(column)
                args.kept.parent.mkdir(parents=True, exist_ok=True)
                args.kept.write_text(json.dumps(cells, indent=1) + "\n")
    if args.kept == KEPT:
        PAGE.write_text(page(cells))


def run(row: str, columns: list[str]) -> None:
    """Prints a line for each cell of a row."""
    from compatibility.cells import outcome  # noqa: PLC0415
    from compatibility.models import CASES  # noqa: PLC0415

    for column in columns:
        begun = time.monotonic()
        signal.alarm(SECONDS)  # ends the process
        answer = outcome(column, CASES[row])
        print("cell " + json.dumps([column, answer, time.monotonic() - begun]), flush=True)


def in_a_process(row: str, columns: list[str]) -> Iterator[tuple[str, str, float]]:
    """The cells of a row as they come; one whose process ends, or never does, fails."""
    command = [sys.executable, "-m", "compatibility", "--row", row, "--columns", *columns]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    done = 0
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if line.startswith("cell "):
                done += 1
                yield json.loads(line.removeprefix("cell "))
    finally:
        process.kill()
    if done < len(columns):
        yield columns[done], f"fails: the process ended with {process.wait()}", 0.0


def page(cells: dict[str, dict[str, dict[str, str]]]) -> str:
    """The table in the documentation, with every refusal below it."""
    from compatibility.cells import COLUMNS, REFUSED  # noqa: PLC0415

    marks, notes = {}, []
    for row, of_row in cells.items():
        for column, cell in of_row.items():
            kind = cell["found"].split(":")[0]
            marks[row, column] = {"works": "✓", "refused": "o"}.get(kind, "✗")
            if kind != "works":
                reason = REFUSED.get((row, column), "")
                notes.append(f"| {row} | {column} | {cell['found'].replace('|', '/')} | {reason} |")
    count = {mark: list(marks.values()).count(mark) for mark in "✓o✗"}
    unexpected = sum(mark != "✓" and cell not in REFUSED for cell, mark in marks.items())
    packages = ", ".join(f"{n} {version(n)}" for n in ("tensorflow", "keras", "keras-hub"))
    lines = [
        "# Compatibility",
        "",
        "Models that nobody here wrote, or as people write them, and what each was asked "
        f"(`make compatibility`, with {packages}). ✓ works, held against a known value where there "
        "is one: conversions against the model, loaded and exported models against "
        "`tfbdl.predict`. o is refused in one line, which stands below. ✗ fails.",
        "",
        f"{count['✓']} cells work, {count['o']} are refused, {count['✗']} fail; {unexpected} of "
        "these were not foreseen.",
        "",
        "| | " + " | ".join(COLUMNS) + " |",
        "|---" * (len(COLUMNS) + 1) + "|",
        *(
            f"| {row} | " + " | ".join(marks.get((row, column), "") for column in COLUMNS) + " |"
            for row in cells
        ),
        "",
        "| model | asked | answer | why it must be so |",
        "|---|---|---|---|",
        *notes,
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()

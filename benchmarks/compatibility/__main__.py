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
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "results" / "compatibility" / "cells.json"
PAGE = ROOT / "docs" / "compatibility.md"
PACKAGES = ("tensorflow", "keras", "keras-hub")
SECONDS = 1800
"""The most that one cell may take."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m compatibility", description=__doc__)
    parser.add_argument("--rows", nargs="+", help="some of them")
    parser.add_argument("--columns", nargs="+", help="some of them")
    parser.add_argument("--again", action="store_true", help="also what is known already")
    parser.add_argument("--kept", type=Path, default=KEPT)
    parser.add_argument("--page", action="store_true", help="only write the page, and run nothing")
    parser.add_argument("--row", help=argparse.SUPPRESS)  # this one, here
    args = parser.parse_args()
    if args.row:
        run(args.row, args.columns)
        return
    from compatibility.cells import COLUMNS  # noqa: PLC0415 (starts TensorFlow)
    from compatibility.models import CASES  # noqa: PLC0415

    kept = json.loads(args.kept.read_text()) if args.kept.exists() else {}
    cells = kept.setdefault("cells", {})
    for row in [] if args.page else args.rows or CASES:
        known = {} if args.again else cells.get(row, {})
        left = [c for c in args.columns or COLUMNS if not known.get(c, {}).get("outcome")]
        while left:
            for column, outcome, seconds in in_a_process(row, tuple(left)):
                print(f"{row} | {column} | {outcome} | {seconds:.0f} s", flush=True)
                cells.setdefault(row, {})[column] = {
                    "outcome": outcome,
                    "seconds": round(seconds, 1),
                }
                left.remove(column)
                kept["versions"] = {name: version(name) for name in PACKAGES}
                args.kept.parent.mkdir(parents=True, exist_ok=True)
                args.kept.write_text(json.dumps(kept, indent=1) + "\n")
    if args.kept == KEPT:
        PAGE.write_text(page(kept))


def run(row: str, columns: list[str]) -> None:
    """Prints a line for each cell of a row."""
    from compatibility.cells import outcome  # noqa: PLC0415
    from compatibility.models import CASES  # noqa: PLC0415

    case = CASES[row]()
    for column in columns:
        begun = time.monotonic()
        signal.alarm(SECONDS)  # ends the process
        answer = outcome(column, case)
        print("cell " + json.dumps([column, answer, time.monotonic() - begun]), flush=True)


def in_a_process(row: str, columns: Sequence[str]) -> Iterator[tuple[str, str, float]]:
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


def page(kept: dict[str, Any]) -> str:
    """The table in the documentation, with every refusal below it."""
    from compatibility.cells import COLUMNS, REFUSED  # noqa: PLC0415
    from compatibility.models import CASES  # noqa: PLC0415

    cells = {
        (row, column): kept["cells"].get(row, {}).get(column) for row in CASES for column in COLUMNS
    }
    marks = {place: mark_of(cell) for place, cell in cells.items()}
    count = {mark: list(marks.values()).count(mark) for mark in "✓o✗·"}
    others = {place for place, mark in marks.items() if mark in "o✗"}
    unforeseen = len(others - REFUSED.keys())
    packages = ", ".join(f"{name} {number}" for name, number in kept["versions"].items())
    answers: dict[tuple[str, str], dict[str, list[str]]] = {}
    for (row, column), cell in cells.items():
        if cell is not None and (row, column) in others:
            reason = REFUSED.get((row, column), "not foreseen")
            of_row = answers.setdefault((cell["outcome"].replace("|", "/"), reason), {})
            of_row.setdefault(row, []).append(column)
    lines = [
        "# Compatibility",
        "",
        "Models that nobody here wrote, or as people write them, and what each was asked "
        f"(`make compatibility`, with {packages}). ✓ works, held against a known value where there "
        "is one: conversions against the model, loaded and exported models against "
        "`tfbdl.predict`, of a network in mixed precision by its copy in float32 and roughly by "
        "itself. o is refused in one line, which stands below. ✗ fails. · was not run.",
        "",
        f"Of {len(cells)} cells {count['✓']} work, {count['o']} are refused, {count['✗']} fail and "
        f"{count['·']} were not run; {unforeseen} of those that do not work were not foreseen.",
        "",
        "| | " + " | ".join(COLUMNS) + " |",
        "|---" * (len(COLUMNS) + 1) + "|",
        *(
            f"| {row} | " + " | ".join(marks[row, column] for column in COLUMNS) + " |"
            for row in CASES
        ),
        "",
        "## What does not work",
        "",
        "Those that must be refused were written down, with the reason, before they were run; the "
        "others are said to be not foreseen.",
        "",
        "| model | asked | answer | why |",
        "|---|---|---|---|",
        *(
            f"| {row} | {', '.join(columns)} | {answer} | {reason} |"
            for (answer, reason), of_row in answers.items()
            for row, columns in of_row.items()
        ),
        "",
    ]
    return "\n".join(lines)


def mark_of(cell: dict[str, Any] | None) -> str:
    if cell is None:
        return "·"
    return {"works": "✓", "refused": "o"}.get(cell["outcome"].split(":")[0], "✗")


if __name__ == "__main__":
    main()

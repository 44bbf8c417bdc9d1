"""How long tests take: `python tests/durations.py REPORT.xml ...` keeps it in two files.

`durations.json` has the seconds of each test file, for `selection`; `slow.txt` the tests that
`make test` leaves to `make test-slow`. The reports are those that both have pytest write.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from xml.etree import ElementTree

from imports import ROOT

DURATIONS = ROOT / "tests" / "durations.json"
SLOW = ROOT / "tests" / "slow.txt"
LIMIT = 2.0
"""Seconds from which on a test is slow."""


def of_reports(paths: list[Path]) -> dict[str, float]:
    """Seconds on one core, by test."""
    return {
        f"{node_of(case.get('classname', ''))}::{case.get('name')}": float(case.get("time", 0))
        for path in paths
        for case in ElementTree.parse(path).iter("testcase")
        if case.get("classname")
    }


def node_of(classname: str) -> str:
    """`tests/layers/test_a.py::ATest` of `tests.layers.test_a.ATest`."""
    parts = classname.split(".")
    file = next(i for i, part in enumerate(parts) if part.startswith("test_")) + 1
    return "::".join(["/".join(parts[:file]) + ".py", *parts[file:]])


def main(reports: list[Path]) -> None:
    """Takes up what the reports say; what they do not speak of stays as it was."""
    seconds = of_reports(reports)
    known = json.loads(DURATIONS.read_text()) if DURATIONS.exists() else {}
    files = {file: taken for file, taken in known.items() if (ROOT / file).exists()}
    for file in {test.partition("::")[0] for test in seconds}:
        files[file] = round(sum(s for t, s in seconds.items() if t.startswith(f"{file}::")), 1)
    DURATIONS.write_text(json.dumps(files, indent=1, sort_keys=True) + "\n")
    slow = set(SLOW.read_text().splitlines()) - seconds.keys()
    slow |= {test for test, taken in seconds.items() if taken > LIMIT}
    SLOW.write_text("\n".join(sorted(slow)) + "\n")


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])

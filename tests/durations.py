"""How long tests take: `python tests/durations.py REPORT.xml ...` keeps it in two files.

`slow.txt` has the tests that `make test` leaves to `make test-slow`; `durations.json` the seconds
of each test file without them, for `selection`. The reports are those that both have pytest write.
Seconds are those of a processor: the same on a machine that does other things meanwhile.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from xml.etree import ElementTree

from imports import ROOT

DURATIONS = ROOT / "tests" / "durations.json"
SLOW = ROOT / "tests" / "slow.txt"
LIMIT = 1.2
"""Seconds from which on a test is slow, where two threads share a core."""
ALWAYS = 1 / 3
"""Share of the tests of a file, the quickest, that are never slow: `make test` asks every file."""


def of_reports(paths: list[Path]) -> dict[str, float]:
    """Seconds of a processor, by test."""
    return {
        f"{node_of(case.get('classname', ''))}::{case.get('name')}": seconds_of(case)
        for path in paths
        for case in ElementTree.parse(path).iter("testcase")
        if case.get("classname")
    }


def seconds_of(case: ElementTree.Element) -> float:
    """What `conftest` has noted; nothing of a test that was skipped."""
    noted = case.find("properties/property[@name='processor']")
    return 0.0 if noted is None else float(noted.get("value", 0))


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
    slow = set(SLOW.read_text().splitlines()) - seconds.keys()
    for file in {test.partition("::")[0] for test in seconds}:
        own = sorted((t for t in seconds if t.startswith(f"{file}::")), key=seconds.__getitem__)
        others = own[math.ceil(ALWAYS * len(own)) :]
        slow |= {test for test in others if seconds[test] > LIMIT}
        files[file] = round(sum(seconds[test] for test in own if test not in slow), 1)
    DURATIONS.write_text(json.dumps(files, indent=1, sort_keys=True) + "\n")
    SLOW.write_text("\n".join(sorted(slow)) + "\n")


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])

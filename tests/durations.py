"""How long tests take: `python tests/durations.py REPORT.xml ...` keeps it in two files.

`slow.txt` has the slow tests, which `make test-slow` runs, and `make test` in shares (`shares`);
`durations.json` the seconds of each test file without them, and of each single test that
`selection` chooses by itself, those of pages and of scripts. The reports are those that both have
pytest write. Seconds are those of a processor: the same on a machine that does other things
meanwhile.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from xml.etree import ElementTree

from imports import ROOT

DURATIONS = ROOT / "tests" / "durations.json"
SLOW = ROOT / "tests" / "slow.txt"
LIMIT = 0.6
"""Seconds from which on a test is slow, where two threads share a core."""
ALWAYS = 1 / 3
"""Share of the tests of a file, the quickest, that are never slow: `make test` asks every file."""
SCRIPTS = "tests/tutorials/"
"""Where the tests of scripts are, which `make test` leaves out."""
PAGES = "tests/test_docs.py::test_blocks_run"
CORE = ("tests/test_readme.py::test_block_runs", f"{PAGES}[reference/", "tests/test_under_xla.py::")
"""What users copy first, and what XLA compiles: of these `make test` runs as many as it can."""
CORE_SECONDS = 90.0
"""Seconds of the tests of `CORE` together, the quickest, that are never slow."""


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


def gone(ids: Iterable[str], collected: set[str]) -> list[str]:
    """Test files and single tests that are no more.

    Args:
        ids: the names of the tests.
        collected: all tests of some files; of others it is not known which tests they have.
    """
    known = {file_of(test) for test in collected}
    return [
        test
        for test in ids
        if not (ROOT / file_of(test)).exists()
        or ("::" in test and file_of(test) in known and test not in collected)
    ]


def file_of(test: str) -> str:
    """`tests/layers/test_a.py` of `tests/layers/test_a.py::ATest::test_b`."""
    return test.partition("::")[0]


def core(seconds: Mapping[str, float]) -> set[str]:
    """The quickest tests of `CORE` that take `CORE_SECONDS` together."""
    quickest = sorted((t for t in seconds if t.startswith(CORE)), key=seconds.__getitem__)
    totals = itertools.accumulate(seconds[test] for test in quickest)
    return {test for test, total in zip(quickest, totals, strict=True) if total <= CORE_SECONDS}


def slow_ones(seconds: Mapping[str, float]) -> set[str]:
    """The slow tests, of all tests of some files but scripts."""
    files: dict[str, list[str]] = {}
    for test in sorted(seconds, key=seconds.__getitem__):
        files.setdefault(file_of(test), []).append(test)
    others = {test for own in files.values() for test in own[math.ceil(ALWAYS * len(own)) :]}
    return {
        test
        for test in others - core(seconds)
        if seconds[test] > LIMIT and not test.startswith(SCRIPTS)
    }


def main(reports: list[Path]) -> None:
    """Takes up what the reports say; what they do not speak of stays as it was."""
    seconds = of_reports(reports)
    known = json.loads(DURATIONS.read_text()) if DURATIONS.exists() else {}
    slow = {*SLOW.read_text().splitlines()} - seconds.keys() | slow_ones(seconds)
    known |= {file_of(test): 0.0 for test in seconds}
    for test in seconds.keys() - slow:
        known[file_of(test)] += seconds[test]
    known |= {test: taken for test, taken in seconds.items() if test.startswith((PAGES, SCRIPTS))}
    dropped = {*gone([*known, *slow], set())}
    known = {test: round(taken, 1) for test, taken in known.items() if test not in dropped}
    DURATIONS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    SLOW.write_text("\n".join(sorted(slow - dropped)) + "\n")


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])

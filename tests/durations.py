"""How long test files take: `python tests/durations.py REPORT.xml ...` keeps it for `selection`.

The reports are those that `make durations` has pytest write (`--junitxml`).
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

from imports import ROOT

DURATIONS = ROOT / "tests" / "durations.json"


def of_reports(paths: list[Path]) -> dict[str, float]:
    """Seconds on one core, by test file."""
    seconds: Counter[str] = Counter()
    for path in paths:
        for case in ElementTree.parse(path).iter("testcase"):
            seconds[file_of(case.get("classname", ""))] += float(case.get("time", 0))
    return {file: round(taken, 1) for file, taken in sorted(seconds.items())}


def file_of(classname: str) -> str:
    """The file of a test whose class is called `tests.layers.test_contract.ContractTest`."""
    parts = classname.split(".")
    last = next(i for i, part in enumerate(parts) if part.startswith("test_"))
    return "/".join(parts[: last + 1]) + ".py"


if __name__ == "__main__":
    found = of_reports([Path(argument) for argument in sys.argv[1:]])
    known = json.loads(DURATIONS.read_text()) if DURATIONS.exists() else {}
    known = {file: taken for file, taken in known.items() if (ROOT / file).exists()}
    DURATIONS.write_text(json.dumps(known | found, indent=1, sort_keys=True) + "\n")

"""The tests that a change needs before a commit: `python tests/selection.py` prints their files.

What has changed since the last commit (or in it, where nothing has since) is followed through the
imports of the package to the test files that use it. A fixed sample and the tests of the changed
files themselves run always. The others run as long as the time lasts that `durations.json` says
they take: first the tests that name a changed page or tutorial, which no module imports, and those
of what every public name has, where the names of a package change; then test files by how many
imports lie between. What is left out, and to which command, is said on standard error.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from durations import DURATIONS, SCRIPTS, SLOW
from imports import MODULES, ROOT, uses

SECONDS = 100
"""Seconds of all tests together, in those of `durations.json`; two cores halve it."""
NOT_MEASURED = 5.0
"""Seconds of a test file that `durations.json` lacks; at most, of a single test that it lacks."""
SCRIPT = 30.0
"""Seconds of a single test of a script that it lacks; for a whole file of them there is no time."""

SAMPLE = (
    "tests/test_structure.py",
    "tests/test_durations.py",
    "tests/test_kl.py",
    "tests/layers/test_mc_dropout.py",
    "tests/training/test_log.py",
    "tests/predictive/test_moments.py",
)
PAGES = "tests/test_docs.py"
OF_NAMES = (
    "tests/test_arguments.py::TableTest",
    f"{PAGES}::test_reference_is_complete",
    f"{PAGES}::test_every_public_name_has_an_example",
    "tests/test_saving_everything.py::CompletenessTest",
    "tests/priors/test_every_prior.py::NamesTest",
)
"""Tests that name what a public name lacks: a case, an entry, an example."""
UNREACHED = 1_000
"""Imports between a test and what it does not reach."""


def changed_files() -> list[str]:
    """Paths that differ from the last commit, or that the last commit changed, if none do."""

    def lines(*command: str) -> list[str]:
        return subprocess.run(
            ["git", *command], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.splitlines()

    changed = lines("diff", "--name-only", "HEAD")
    changed += lines("ls-files", "--others", "--exclude-standard")
    return changed or lines("diff", "--name-only", "HEAD~1", "HEAD")


def distances(changed: Iterable[str]) -> dict[str, int]:
    """Imports between each test file and the nearest changed one; those of `changed` have 0."""
    changed = set(changed)
    modules = {name for name, path in MODULES.items() if str(path.relative_to(ROOT)) in changed}
    importers: dict[str, set[str]] = {name: set() for name in MODULES}
    for name, path in MODULES.items():
        if name != "tfbdl":  # which imports all
            for other in uses(path) - {name}:
                importers[other].add(name)
    far = dict.fromkeys(modules, 0)
    queue = deque(modules)
    while queue:
        name = queue.popleft()
        for importer in importers[name] - far.keys():
            far[importer] = far[name] + 1
            queue.append(importer)
    result = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        test = str(path.relative_to(ROOT))
        nearest = min((far[name] + 1 for name in uses(path) if name in far), default=UNREACHED)
        own = test in changed or any(_is_named_after(test, name) for name in modules)
        result[test] = 0 if own else nearest
    return result


class Choice(NamedTuple):
    """Tests to run, and those left out though they reach what has changed.

    run: the files, and single tests, in the order of their choice.
    left_out: the same of those for which there is no time.
    seconds: how long those to run take.
    """

    run: list[str]
    left_out: list[str]
    seconds: float


def selected(
    far: Mapping[str, int], seconds: Mapping[str, float], named: Iterable[str] = ()
) -> Choice:
    """The choice among test files at a distance, and single tests that are `named`."""

    def quickest(tests: Iterable[str]) -> list[str]:
        return sorted(tests, key=lambda test: (far.get(test, 0), taken(test, seconds)))

    run = [*SAMPLE, *(test for test in far if far[test] == 0 and test not in SAMPLE)]
    total = sum(taken(test, seconds) for test in run)
    left_out = []
    others = [test for test in far if far[test] < UNREACHED and test not in run]
    for test in (*quickest(named), *quickest(others)):
        if total + taken(test, seconds) <= SECONDS:
            run.append(test)
            total += taken(test, seconds)
        else:
            left_out.append(test)
    return Choice(run, left_out, total)


def taken(test: str, seconds: Mapping[str, float]) -> float:
    """Seconds of a test file, or of a single test, with all of its parameters or of its class."""
    file, _, single = test.partition("::")
    parts = [t for t in seconds if t.startswith((f"{test}[", f"{test}::"))] if single else []
    if test in seconds or parts:
        return sum(seconds[t] for t in parts or [test])
    if file.startswith(SCRIPTS):
        return SCRIPT if single else SECONDS
    of_file = seconds.get(file, NOT_MEASURED)
    return min(of_file, NOT_MEASURED) if single else of_file


def said(choice: Choice, slow: Iterable[str]) -> Iterator[str]:
    """Lines about what does not run, and about what takes longer than there is time."""
    if choice.seconds > SECONDS:
        yield (
            f"tests of what has changed take {choice.seconds:.0f} s of a processor, more than the "
            f"{SECONDS} s that others share: they run, and no others"
        )
    slow = {*slow}
    by_command: dict[str, list[str]] = {"make test": [], "make test-slow": []}
    for test in choice.left_out:
        is_slow = test in slow or test.startswith(SCRIPTS)
        by_command["make test-slow" if is_slow else "make test"].append(test)
    for command, tests in by_command.items():
        if tests:
            yield f"left to `{command}`: {', '.join(tests)}"


def of_names(changed: Iterable[str]) -> tuple[str, ...]:
    """Tests of what every public name has, where the names of a package have changed."""
    return OF_NAMES if any(re.fullmatch(r"tfbdl/.*__init__\.py", path) for path in changed) else ()


def of_pages(changed: Iterable[str]) -> Iterator[str]:
    """Tests of changed pages of the site: the code of the documentation's, and the links of all."""
    pages = [path for path in changed if re.fullmatch(r"(docs/.*|results/[^/]*)\.md", path)]
    if pages:
        yield from (f"{PAGES}::test_links_lead_somewhere", f"{PAGES}::test_nav_lists_every_page")
    of_docs = [path for path in pages if path.startswith("docs/")]
    for path in filter(lambda path: (ROOT / path).exists(), of_docs):
        page = path.removeprefix("docs/")
        if "```" in (ROOT / path).read_text() and not page.startswith("course/notebooks/"):
            yield f"{PAGES}::test_blocks_run[{page}]"


def of_tutorials(changed: Iterable[str]) -> Iterator[str]:
    """Tests of changed tutorials: those in whose text their names stand."""
    paths = [Path(path) for path in changed if _is_tutorial(path)]
    names = {name for path in paths for name in (path.parts[1].removesuffix(".py"), path.stem)}
    found: dict[str, None] = {}
    for path in sorted((ROOT / "tests" / "tutorials").glob("test_*.py")) if names else ():
        text = path.read_text()
        for case in ast.parse(text).body:
            of_case = case.body if isinstance(case, ast.ClassDef) else [case]
            for test in of_case:
                if isinstance(test, ast.FunctionDef) and test.name.startswith("test_"):
                    words = re.findall(r"\w+", ast.get_source_segment(text, test) or "")
                    if names & set(words):
                        inner = [case.name] if isinstance(case, ast.ClassDef) else []
                        own = [] if inner and _is_numbered(test) else [test.name]
                        found["::".join([str(path.relative_to(ROOT)), *inner, *own])] = None
    yield from found


def _is_tutorial(path: str) -> bool:
    return path.startswith("tutorials/") and path.endswith(".py")


def _is_numbered(test: ast.FunctionDef) -> bool:
    """Whether absl makes several tests of it, each of another name: their class stands for them."""
    return any("parameterized" in ast.unparse(decorator) for decorator in test.decorator_list)


def _is_named_after(test: str, module: str) -> bool:
    """Whether `tests/layers/test_mc_dropout.py` is that of `tfbdl.layers.mc_dropout`."""
    path = Path(test)
    names = (*path.parent.parts[1:], path.stem.removeprefix("test_"))
    return ".".join(("tfbdl", *names)) == module


if __name__ == "__main__":
    known = json.loads(DURATIONS.read_text()) if DURATIONS.exists() else {}
    files = changed_files()
    of_texts = (*of_names(files), *of_pages(files), *of_tutorials(files))
    choice = selected(distances(files), known, of_texts)
    print(*choice.run)
    for line in said(choice, SLOW.read_text().splitlines()):
        print(line, file=sys.stderr)

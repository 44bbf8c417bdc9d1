"""What is kept of how long tests take: of tests that exist, and which of them are slow."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import durations
import pytest
from durations import CORE_SECONDS, DURATIONS, LIMIT, PAGES, SCRIPTS, SLOW, core, gone, slow_ones

FILE = "tests/test_kl.py"


def test_every_id_is_of_a_test(collected: set[str]) -> None:
    """A slow test that is renamed does not become a quick one unseen, nor the other way round."""
    for path, ids in ((SLOW, SLOW.read_text().splitlines()), (DURATIONS, _known())):
        lost = gone(ids, collected)
        assert not lost, f"{path.name} names tests that are gone; rename or remove them"


def test_slow_tests_are_sorted_and_named_once() -> None:
    ids = SLOW.read_text().splitlines()
    assert ids == sorted({*ids})


def test_a_test_of_another_name_is_gone() -> None:
    ids = [f"{FILE}::test_old", f"{FILE}::test_new", FILE, "tests/test_graphs.py::test_unknown"]
    assert gone(ids, {f"{FILE}::test_new"}) == [f"{FILE}::test_old"]
    assert gone(["tests/test_no_more.py", "tests/test_no_more.py::test_a"], set()) == [
        "tests/test_no_more.py",
        "tests/test_no_more.py::test_a",
    ]


def test_the_slowest_of_a_file_are_slow_but_for_its_quickest_third() -> None:
    seconds = {f"{FILE}::test_{name}": 2 * LIMIT for name in "abcdef"}
    assert len(slow_ones(seconds)) == 4
    assert not slow_ones(dict.fromkeys(seconds, LIMIT / 2))


def test_scripts_have_a_step_of_their_own() -> None:
    """`make test` leaves them out by their folder."""
    assert not slow_ones({f"{SCRIPTS}test_a.py::test_{name}": 2 * LIMIT for name in "abcdef"})


def test_the_quickest_of_the_core_are_never_slow() -> None:
    third = CORE_SECONDS / 3
    pages = [f"{PAGES}[reference/{name}.md]" for name in ("a", "b", "c")]
    readme = "tests/test_readme.py::test_block_runs[0]"
    guide = f"{PAGES}[guides/a.md]"
    taken = (third - 1, third, third + 2, third - 1, third)
    seconds = dict(zip((*pages, readme, guide), taken, strict=True))
    assert core(seconds) == {pages[0], pages[1], readme}
    assert slow_ones(seconds) == {pages[2], guide}


def test_what_is_kept_of_the_core_is_in_its_time() -> None:
    """Pages are asked, whose seconds are kept."""
    slow = {*SLOW.read_text().splitlines()}
    pages = {test: taken for test, taken in _known().items() if test.startswith(f"{PAGES}[ref")}
    quick = [taken for test, taken in pages.items() if test not in slow]
    assert 0 < sum(quick) <= CORE_SECONDS
    assert len(quick) > len(pages) / 2


def test_reports_are_taken_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each as `make test` and `make test-slow` have pytest write it."""
    slow, kept = tmp_path / "slow.txt", tmp_path / "durations.json"
    monkeypatch.setattr(durations, "SLOW", slow)
    monkeypatch.setattr(durations, "DURATIONS", kept)
    slow.write_text(f"tests/test_graphs.py::test_stays\ntests/test_no_more.py::test_a\n{FILE}::b\n")
    kept.write_text('{"tests/test_no_more.py": 1.0, "tests/test_graphs.py": 2.0}')
    page = "guides/train.md"
    report = _report(
        {
            ("tests.test_kl", "a"): 0.25,
            ("tests.test_kl", "b"): 0.5,
            ("tests.test_kl.ATest", "c"): 9.0,
            ("tests.test_docs", "test_what_is_imported_is_used"): 0.1,
            ("tests.test_docs", f"test_blocks_run[{page}]"): 20.0,
        }
    )
    (tmp_path / "report.xml").write_text(report)
    durations.main([tmp_path / "report.xml"])
    page = f"{PAGES}[{page}]"
    assert slow.read_text().splitlines() == [
        page,
        "tests/test_graphs.py::test_stays",
        f"{FILE}::ATest::c",
    ]
    assert json.loads(kept.read_text()) == {
        page: 20.0,
        "tests/test_docs.py": 0.1,
        "tests/test_graphs.py": 2.0,
        FILE: 0.8,
    }


def _known() -> dict[str, float]:
    known: dict[str, float] = json.loads(DURATIONS.read_text())
    return known


def _report(seconds: Mapping[tuple[str, str], float]) -> str:
    cases = "".join(
        f'<testcase classname="{owner}" name="{name}"><properties>'
        f'<property name="processor" value="{taken}"/></properties></testcase>'
        for (owner, name), taken in seconds.items()
    )
    return f"<testsuites><testsuite>{cases}</testsuite></testsuites>"

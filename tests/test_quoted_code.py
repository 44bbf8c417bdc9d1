"""What pages of the course quote of the package, and the checks that they name, exist."""

from __future__ import annotations

import re

import pytest
from pages import ROOT

COURSE = ROOT / "docs" / "course"
QUOTE = re.compile(r'^```py title="([^"]+)"\n(.*?)^```$', flags=re.S | re.M)
PAGES = {path.relative_to(COURSE).as_posix(): path for path in sorted(COURSE.rglob("*.md"))}
QUOTES = [
    pytest.param(file, code, id=f"{page}-{number}")
    for page, path in PAGES.items()
    for number, (file, code) in enumerate(QUOTE.findall(path.read_text()), start=1)
]


@pytest.mark.parametrize(("file", "code"), QUOTES)
def test_the_file_has_these_lines(file: str, code: str) -> None:
    """One after the other; indentation and empty lines are the page's own."""
    quoted = lines(code)
    there = lines((ROOT / file).read_text())
    starts = [i for i, line in enumerate(there) if line == quoted[0]]
    assert any(there[i : i + len(quoted)] == quoted for i in starts), code


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize("page", PAGES)
def test_every_quote_names_its_file(page: str) -> None:
    text = PAGES[page].read_text()
    assert len(QUOTE.findall(text)) == len(re.findall("^```py ", text, flags=re.M))


@pytest.mark.parametrize("page", PAGES)
def test_checks_that_a_page_names_exist(page: str) -> None:
    tests = "".join(path.read_text() for path in (ROOT / "tests").glob("test_*.py"))
    named = re.findall(r"`(test_\w+)`", PAGES[page].read_text())
    assert [name for name in named if f"def {name}(" not in tests] == []

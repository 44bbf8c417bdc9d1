"""Lines of the package that pages of the course quote: the files still have them."""

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
    """One after the other, indented alike."""
    assert unindented(code)
    assert unindented(code) in unindented((ROOT / file).read_text(), code.index(code.lstrip(" ")))


def unindented(text: str, by: int | None = None) -> str:
    """The lines less the indentation of the first, or less that many spaces."""
    lines = text.strip("\n").splitlines()
    by = len(lines[0]) - len(lines[0].lstrip()) if by is None else by
    return "\n".join(line[by:] if line[:by].isspace() else line for line in lines) + "\n"


@pytest.mark.parametrize("page", PAGES)
def test_every_quote_names_its_file(page: str) -> None:
    text = PAGES[page].read_text()
    assert len(QUOTE.findall(text)) == len(re.findall("^```py ", text, flags=re.M))

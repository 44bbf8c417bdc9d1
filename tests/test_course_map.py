"""The map of the course: its rows are all there, and what they name exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from named import find

ROOT = Path(__file__).parents[1]
MAP = ROOT / "docs" / "course" / "map.md"
STATUSES = ("faithful", "different", "weaker", "missing")
CELL = re.compile(r"\s*(?<!\\)\|\s*")
NAME = re.compile(r"`([\w./]+(?:::\w+)?)`")


def rows() -> dict[int, list[str]]:
    """Code, result, test and status of each numbered row."""
    lines = [CELL.split(line.strip("| ")) for line in MAP.read_text().splitlines() if "|" in line]
    numbered = [cells for cells in lines if cells[0].isdigit()]
    by_name = {int(cells[0]): cells[2:] for cells in numbered}
    assert len(by_name) == len(numbered)
    return by_name


ROWS = rows()


def exists(name: str) -> bool:
    """Whether a file, a test in a file, a tutorial, or an object of the package has that name."""
    path, _, test = name.partition("::")
    if test:
        return f"def {test}(" in (ROOT / path).read_text()
    if name.startswith("tutorials."):
        return in_tutorials(name.split(".")[1:])
    if name.startswith("tfbdl."):
        return find(name) is not None
    return (ROOT / name).exists()


def in_tutorials(parts: list[str]) -> bool:
    """Whether these parts lead to a script, a folder of scripts, or a function of a script."""
    base = ROOT / "tutorials" / Path(*parts)
    if base.is_dir() or base.with_suffix(".py").exists():
        return True
    script = base.parent.with_suffix(".py")
    return script.exists() and parts[-1] in top_level(script)


@cache
def top_level(script: Path) -> set[str]:
    """The names of a script's functions and classes."""
    tree = ast.parse(script.read_text())
    return {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}


def test_every_statement_has_a_row() -> None:
    assert sorted(ROWS) == [n for n in range(1, 162) if n != 149]


@pytest.mark.parametrize("number", ROWS)
def test_what_a_row_names_exists(number: int) -> None:
    code, result, test, _ = ROWS[number]
    names = [NAME.findall(cell) for cell in (code, result, test)]
    assert [name for cell in names for name in cell if not exists(name)] == []
    for name, prefix in zip(names[1:], ("results", "tests"), strict=True):
        assert all(path.startswith(prefix) for path in name)


@pytest.mark.parametrize("number", ROWS)
def test_a_row_says_how_it_stands(number: int) -> None:
    code, _, test, status = ROWS[number]
    kind = re.split(r"[,;:]| ", status)[0]
    assert kind in STATUSES
    if kind == "faithful":
        assert NAME.search(code)
        assert NAME.search(test)
    else:
        assert len(status.partition(": ")[2]) > 20, "a reason"


def test_rows_are_counted() -> None:
    said = dict(re.findall(r"^\| (\w+) \| (\d+) \|", MAP.read_text(), flags=re.M))
    status = [cells[-1] for cells in ROWS.values()]
    counts = {kind: sum(s.startswith(kind) for s in status) for kind in STATUSES}
    assert {kind: int(said[kind]) for kind in counts} == counts

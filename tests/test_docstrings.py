"""Docstrings begin with what they say a thing is, and not with what its name leaves out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("tfbdl", "tutorials", "benchmarks", "tests")
LEFT_OUT = ("Of ", "Those ", "That of ", "Whose ")


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of the strings below definitions, modules and constants of a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        body = getattr(node, "body", None)  # an expression in a lambda
        for part in body if isinstance(body, list) else ():
            if isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant):
                text = part.value.value
                if isinstance(text, str):
                    yield part.lineno, text.strip()


@pytest.mark.parametrize("folder", FOLDERS)
def test_they_begin_with_a_noun_or_a_verb(folder: str) -> None:
    left_out = [
        f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, text in docstrings(path)
        if text.startswith(LEFT_OUT)
    ]
    assert not left_out, "\n".join(left_out)


def test_strings_are_read(tmp_path: Path) -> None:
    """Otherwise the test above compares nothing."""
    path = tmp_path / "one.py"
    path.write_text('"""Of a module."""\nX = 1\n"""Of X."""\ndef f():\n    """Those of f."""\n')
    assert [line for line, text in docstrings(path) if text.startswith(LEFT_OUT)] == [1, 3, 5]

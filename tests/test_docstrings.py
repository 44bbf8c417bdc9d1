"""Sentences of docstrings begin with what they are about, and not with what they leave out."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("tfbdl", "tutorials", "benchmarks", "tests")

_LEADS = "above|are|at|before|behind|below|for|from|here|in|of|on|that|there|which|with|without"
_VERBS = "are|can|can't|could|does|gives|has|have|is|makes|may|takes|was|were|will|would"
_SENTENCE = rf"""
    (?:\A|\n\s*\n\s*|[.?!:][)"'`]*\s+)  # a beginning, and what is left out:
    (?:
        Of\s(?!course\b|these\b)
        |That\sof\s
        |Those\s(?:{_LEADS})\b  # but not 'Those weights'
        |Theirs\b
        |Whose\s
        |Which\s(?:{_VERBS})\b  # but not 'Which weights'
    )
"""
_FIRST = r"\A(?:Their|Those|Whose)\s"
_ENTRY = r"^\ +\*{0,2}\w+(?:,\s\*{0,2}\w+)*:\s(?:of|that\sof|theirs?|those|whose)\b"  # of arguments
LEFT_OUT = re.compile(f"{_SENTENCE}|{_FIRST}|(?m:{_ENTRY})", re.VERBOSE)


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of the strings below definitions, modules and constants of a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        body = getattr(node, "body", None)  # an expression in a lambda
        for part in body if isinstance(body, list) else ():
            if isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant):
                text = part.value.value
                if isinstance(text, str):
                    yield part.lineno, text.strip()


def left_out(text: str) -> str | None:
    """The line at which a sentence or an argument leaves out what it is about; None if none."""
    match = LEFT_OUT.search(text)
    return text[match.start() :].strip(" \n.?!:)\"'`").splitlines()[0] if match else None


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_sentence_leaves_out_what_it_is_about(folder: str) -> None:
    lines = [
        f"{path.relative_to(ROOT)}:{line}: {fragment}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, text in docstrings(path)
        if (fragment := left_out(text))
    ]
    assert not lines, "\n".join(lines)


@pytest.mark.parametrize(
    "text",
    [
        "Of many the default is there.",
        "The numbers of a prior.\n\nOf many the default is there.",
        "The largest scores.\n\n    Of equal ones the first.",
        "Scores are sorted. Of equal ones\nthe first.",
        "XLA decides (as ever). Those of `SLOW` it may move.",
        "The fit.\n\nWhich is exact there.",
        "That of theta, and more.",
        "Their KL is in the losses.",
        "A block.\n\nArgs:\n    means: theirs, each flat.\n    deltas: that of each weight.",
        "An optimizer.\n\nArgs:\n    beta_1: of the mean gradient, in [0, 1).",
        "Parameters.\n\n    mu, rho: of the posterior.",
    ],
)
def test_fragments_are_seen(text: str) -> None:
    assert left_out(text)


@pytest.mark.parametrize(
    "text",
    [
        "Which weights of a network members share.",
        "Networks side by side. Their predictions are mixed with equal weights.",
        "Weights. Those weights stay. Those who read a config take entries out of it.",
        "A claim. Of course it holds. Of these, the first is taken.",
        "A loss.\n\nArgs:\n    mask: the mask, those of positions included.",
        "Deep learning of MNIST, of those that know it.",
    ],
)
def test_sentences_are_left_alone(text: str) -> None:
    assert left_out(text) is None


def test_strings_are_read(tmp_path: Path) -> None:
    """Otherwise the tests above compare nothing."""
    path = tmp_path / "one.py"
    path.write_text('"""Of a module."""\nX = 1\n"""Of X."""\ndef f():\n    """Those of f."""\n')
    assert [line for line, text in docstrings(path) if left_out(text)] == [1, 3, 5]

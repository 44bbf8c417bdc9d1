"""Models as people write them, asked for everything: a few cells of the table, and its page."""

import json

import pytest
from compatibility.__main__ import KEPT, PAGE, mark_of, page
from compatibility.cells import COLUMNS, REFUSED, SEEN, outcome
from compatibility.models import CASES

SHORT = [
    ("U-Net", "to_mc_dropout"),
    ("LSTM", "to_bayesian"),
    ("TCN", "temperature"),
    ("ViT", "NeuralLinear"),
    ("look-ups and normalisation", "LiteRT"),
    ("dict in, dict out", "Laplace, last layer"),
    ("dict in, dict out", "NeuralLinear"),
    ("shared layer", "fit"),
    ("subclassed", "to_mc_dropout"),
    ("subclassed", "Laplace, diagonal"),
    ("LoRA", "save, load"),
    ("int8", "predict"),
    ("mixed precision", "DeepEnsemble"),
]


@pytest.mark.parametrize(("row", "column"), SHORT)
def test_a_cell(row: str, column: str) -> None:
    """It works, or is refused in one line where it must be."""
    wanted = "refused" if (row, column) in REFUSED else "works"
    assert outcome(column, CASES[row]).split(":")[0] == wanted


def test_what_does_not_work_has_a_reason() -> None:
    for row, cells in json.loads(KEPT.read_text())["cells"].items():
        for column, cell in cells.items():
            known = (row, column) in {**REFUSED, **SEEN}
            assert (mark_of(cell) != "✓") == known, (row, column)
            assert mark_of(cell) == "o" or (row, column) not in REFUSED, (row, column)


def test_reasons_are_of_cells() -> None:
    assert all(row in CASES and column in COLUMNS for row, column in {**REFUSED, **SEEN})
    assert not REFUSED.keys() & SEEN.keys()


def test_the_page_is_what_was_found() -> None:
    assert PAGE.read_text() == page(json.loads(KEPT.read_text()))


def test_answers_are_counted_and_told() -> None:
    cells = {
        "U-Net": {"fit": {"found": "works"}, "train": {"found": "fails: ValueError: a | b"}},
        "TCN": {"ONNX": {"found": "refused: x=1 is no class"}},
    }
    text = page({"cells": cells, "versions": {"keras": "3"}})
    number = len(CASES) * len(COLUMNS)
    assert (
        f"Of {number} cells 1 work, 1 are refused, 1 fail and {number - 3} were not run; 2 of"
        in text
    )
    assert "| TCN | ONNX | refused: x=1 is no class | not foreseen: ? |" in text
    assert "| U-Net | train | fails: ValueError: a / b | not foreseen: ? |" in text

"""Models as people write them, asked for everything: a few cells of the table, and its page."""

import json
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from compatibility.__main__ import KEPT, PAGE, main, mark_of, page
from compatibility.cells import COLUMNS, REFUSED, outcome
from compatibility.models import CASES, Case

TRIED_CELLS = [
    ("U-Net", "to_mc_dropout"),
    ("LSTM", "to_bayesian"),
    ("LSTM", "SWAG"),
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


@pytest.mark.parametrize(("row", "column"), TRIED_CELLS)
def test_a_cell(row: str, column: str) -> None:
    """It works, or is refused in one line where it must be."""
    wanted = "refused" if (row, column) in REFUSED else "works"
    assert outcome(column, CASES[row]()).split(":")[0] == wanted


def test_a_column_that_trains_what_it_was_given_fails() -> None:
    def spoil(case: Case) -> None:
        case.model.set_weights([1.0 + weight for weight in case.model.get_weights()])

    with mock.patch.dict(COLUMNS, {"fit": spoil}):
        answer = outcome("fit", CASES["shared layer"]())
    assert answer == "fails: it has changed the weights of the model that it was given"


def test_what_does_not_work_has_a_reason() -> None:
    for row, cells in json.loads(KEPT.read_text())["cells"].items():
        for column, cell in cells.items():
            wanted = "o" if (row, column) in REFUSED else "✓"
            assert mark_of(cell) == wanted, (row, column)


def test_reasons_are_of_cells() -> None:
    assert all(row in CASES and column in COLUMNS for row, column in REFUSED)


def test_the_page_is_what_was_found() -> None:
    assert PAGE.read_text() == page(json.loads(KEPT.read_text()))


def test_answers_are_counted_and_told() -> None:
    cells = {
        "U-Net": {"fit": {"outcome": "works"}, "train": {"outcome": "fails: ValueError: a | b"}},
        "TCN": {"ONNX": {"outcome": "refused: x=1 is no class"}},
    }
    text = page({"cells": cells, "versions": {"keras": "3"}})
    number = len(CASES) * len(COLUMNS)
    assert (
        f"Of {number} cells 1 work, 1 are refused, 1 fail and {number - 3} were not run; 2 of"
        in text
    )
    assert "| TCN | ONNX | refused: x=1 is no class | not foreseen |" in text
    assert "| U-Net | train | fails: ValueError: a / b | not foreseen |" in text


class Ending:
    """A process that ends after its first cell."""

    def __init__(self, command: list[str], **_: Any) -> None:
        first = command[command.index("--columns") + 1]
        self.stdout = ["noise\n", "cell " + json.dumps([first, "works", 1.0]) + "\n"]

    def kill(self) -> None:
        pass

    def wait(self) -> int:
        return -6


def test_a_process_that_ends_fails_at_the_cell_that_it_was_at(tmp_path: Path) -> None:
    kept = tmp_path / "cells.json"
    arguments = ["--rows", "TCN", "--columns", "fit", "train", "predict", "--kept", str(kept)]
    with (
        mock.patch("subprocess.Popen", Ending),
        mock.patch("compatibility.__main__.version", return_value="1"),
        mock.patch.object(sys, "argv", ["compatibility", *arguments]),
    ):
        main()
    cells = json.loads(kept.read_text())["cells"]["TCN"]
    outcomes = {column: cell["outcome"] for column, cell in cells.items()}
    assert outcomes == {
        "fit": "works",
        "train": "fails: the process ended with -6",
        "predict": "works",
    }

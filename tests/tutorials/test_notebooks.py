"""The notebooks of the course: outputs are those of their text, and every cell runs, shortened."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pytest

from tfbdl import data
from tutorials import notebooks

QUICK_VALUES: dict[str, dict[str, Any]] = {
    "bayes_by_backprop": {"EPOCHS": 2, "EPOCHS_MIXTURE": 1, "REPEATS": 3},
    "co2_forecast": {"EPOCHS": 1, "FUNCTIONS": 2},
    "concrete_dropout": {"EPOCHS": 1, "SIZES": (20, 50), "UNITS": 8},
    "keras_bnn": {"EPOCHS": 1, "FUNCTIONS": 3, "WARMUP": 10, "SAMPLES": 4},
    "mc_dropout": {"EPOCHS": 3},
    "model_definition": {"SAMPLES": 3, "WARMUP": 20, "CHAIN_STEPS": 20},
    "posterior_inference": {"EPOCHS": 1, "CHAIN_STEPS": 20, "SAMPLES": 4},
    "priors": {},
    "report": {"N": 50, "LONGEST": 1, "SAMPLES": 3},
    "vae": {"EPOCHS": 1, "EPOCHS_2D": 1, "SAMPLES": 2},
    "variational_dropout": {"EPOCHS": 1},
}
"""Values of a notebook's first cell."""
RNG = np.random.default_rng(0)
TABLE = data.RegressionData(*(RNG.normal(size=(n, k)) for n in (40, 9) for k in (8, 1)))
YEAR = 1991 + np.arange(217) / 12
SERIES = data.CO2(YEAR, 350 + 1.5 * (YEAR - 1991) + np.sin(2 * np.pi * YEAR))
"""Stands in the place of published files: 204 months until 2008, and a year more."""
QUICK_CONSTANTS: dict[str, Any] = {
    "bayes_by_backprop.mnist.FIGURE_SAMPLES": 3,
    "model_definition.__main__.EPOCHS": 1,
    "part2_mc_dropout.FIGURE_SAMPLES": 3,
    "part2_mc_dropout.REGRESSION_EPOCHS": 2,
    "part3_concrete_dropout.REGRESSION_STEPS": 2,
    "posterior_inference.chains.THINNING": 2,
    "posterior_inference.running.STEPS_AN_EPOCH": 20,
    "priors.limit.FUNCTIONS": 100,
    "priors.limit.NETWORKS": 5,
    "priors.limit.WIDTHS": (1, 10),
}
"""Constants of scripts."""


def find_constant(path: str) -> tuple[Any, str]:
    module, _, name = path.rpartition(".")
    return importlib.import_module(f"tutorials.{module}"), name


@pytest.fixture
def shortened(monkeypatch: pytest.MonkeyPatch, without_xla: None) -> Iterator[None]:
    """Works in the folder of notebooks, with few steps everywhere; put back after use."""
    monkeypatch.chdir(notebooks.DOCS / "course" / "notebooks")
    shorten(monkeypatch)
    yield
    plt.close("all")


def shorten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "uci", lambda name: TABLE)
    monkeypatch.setattr(data, "co2", lambda: SERIES)
    for path, value in QUICK_CONSTANTS.items():
        monkeypatch.setattr(*find_constant(path), value)


@pytest.mark.parametrize("name", notebooks.FOLDERS)
def test_every_cell_runs(
    name: str, shortened: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All run in this process; what a kernel adds is tested on one."""
    namespace: dict[str, Any] = {"__name__": name}
    for i, cell in enumerate(notebooks.code_of(notebooks.notebook(name).cells)):
        exec(compile(cell.source, f"{name}, cell {i}", "exec"), namespace)
        if i == 0:
            assert QUICK_VALUES[name].keys() <= namespace.keys()
            namespace.update(QUICK_VALUES[name])
            shorten(monkeypatch)  # what the first cell may have set
        plt.close("all")
    assert capsys.readouterr().out


def test_all_are_shortened() -> None:
    assert set(QUICK_VALUES) == set(notebooks.FOLDERS)


@pytest.mark.parametrize("name", notebooks.FOLDERS)
def test_outputs_are_those_of_the_text(name: str) -> None:
    """The words and code as they are now; `make notebooks` runs what has changed."""
    book, kept = notebooks.notebook(name), notebooks.kept(name)
    assert kept is not None
    nbformat.validate(kept)
    assert [(c.cell_type, c.source) for c in kept.cells] == [
        (c.cell_type, c.source) for c in book.cells
    ]
    assert kept.metadata.code == book.metadata.code
    code = notebooks.code_of(kept.cells)
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell.outputs]
    assert {output.output_type for output in outputs} == {"stream", "display_data"}
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= (
        3 if name in notebooks.COURSE else 1
    )
    assert all(output.get("name", "stdout") == "stdout" for output in outputs)


@pytest.mark.parametrize("name", notebooks.COURSE)
def test_solutions_to_all_exercises(name: str) -> None:
    text = (notebooks.FOLDERS[name] / f"{name}.md").read_text()
    exercises, _, solutions = text.partition("## Exercises")[2].partition("## Solutions")
    asked = re.findall(r"^(\d)\. ", exercises, flags=re.M)
    assert len(asked) >= 3
    assert re.findall(r"^\*\*(\d)\.\*\* ", solutions, flags=re.M) == asked
    assert len(notebooks.CODE.findall(solutions)) == len(asked) + 1


def test_words_that_change_keep_their_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    book = notebooks.notebook("priors")
    last = notebooks.notebook("priors")
    for i, cell in enumerate(notebooks.code_of(last.cells)):
        cell.outputs, cell.execution_count = [nbformat.v4.new_output("stream", text=f"{i}")], i
    book.cells[0].source += " More words."
    merged = notebooks.with_outputs(book, last)
    assert merged.cells[0].source.endswith("More words.")
    assert notebooks.code_hash(merged.cells) == last.metadata.code
    texts = [cell.outputs[0].text for cell in notebooks.code_of(merged.cells)]
    assert texts == [str(i) for i in range(len(texts))]


def test_a_kernel_runs_one(tmp_path: Path) -> None:
    figure = "plt.figure(figsize=(20, 2)).add_subplot();"
    code = f"import matplotlib.pyplot as plt\n\nprint(6 * 7)\n{figure}"
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    book.metadata = {"kernelspec": notebooks.KERNEL}
    notebooks.execute(book, tmp_path)
    printed, figure = book.cells[0].outputs
    assert printed.text == "42\n"
    assert len(figure.data["image/png"]) < 10_000

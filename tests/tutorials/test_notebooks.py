"""The tutorials as notebooks: all hold what the tutorial does, and all are run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import nbformat
import pytest

from tutorials import notebooks, part2_mc_dropout
from tutorials.priors import empirical_bayes, limit

THREE_NETWORKS = """few = ("local", "predicted", "without_rho")
STEPS, WITHOUT = (
    {name: replace(of, n_epochs=1) for name, of in named.items() if name in few}
    for named in (STEPS, WITHOUT)
)
NETWORKS = STEPS | WITHOUT"""
FEW = ("--n_epochs", "1", "--N", "100", "--S", "2")
TINY = {
    "part2_mc_dropout": (FEW, "FIGURE_SAMPLES, REGRESSION_EPOCHS = 2, 2"),
    "part3_concrete_dropout": (FEW, "SEQUENCE, REGRESSION_STEPS = (10,), 2"),
    "part4_variational_dropout": (FEW, ""),
    "bayes_dense": (FEW, "part2.FIGURE_SAMPLES = 2"),
    "bayes_by_backprop.mnist": ((*FEW, "--plain_epochs", "1"), "FIGURE_SAMPLES = 2"),
    "bayes_by_backprop.regression": (("--N", "50", "--S", "2"), THREE_NETWORKS),
    "model_definition": (("--N", "20", "--S", "2"), "EPOCHS, CHAIN_STEPS = 1, 20"),
    "priors": (("--parts", "influence", "discrete", *FEW), ""),
    "posterior_inference": (
        ("--N", "10", "--S", "4", "--steps", "4", "--n_epochs", "1"),
        "METHODS = {name: METHODS[name] for name in ('HMC', 'MC dropout')}",
    ),
}
"""All but the one that a kernel runs."""


def code_of(book: nbformat.NotebookNode) -> str:
    return "\n\n".join(cell.source for cell in book.cells if cell.cell_type == "code")


def text_of(book: nbformat.NotebookNode) -> str:
    return "\n\n".join(cell.source for cell in book.cells if cell.cell_type == "markdown")


@pytest.mark.parametrize("tutorial", notebooks.FLAGS)
def test_notebooks_hold_their_tutorials(tutorial: str, tmp_path: Path) -> None:
    book = notebooks.notebook(tutorial, tmp_path)
    nbformat.validate(book)
    made = {node.name: node for node in functions(code_of(book))}
    originals = [node for node in functions(notebooks.source_of(tutorial))]
    assert set(made) == {node.name for node in originals} - {"main"}
    for node in originals:
        text = ast.get_docstring(node)
        if node.name != "main":
            body = node.body[1:] if text else node.body
            assert list(map(ast.dump, made[node.name].body)) == list(map(ast.dump, body))
            assert (text or "") in text_of(book)


def functions(source: str) -> list[ast.FunctionDef]:
    return [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without_xla: None) -> Iterator[Path]:
    """An empty folder; what the cells set is put back, and the working directory."""
    for module, name in (
        (part2_mc_dropout, "FIGURE_SAMPLES"),
        (limit, "WIDTHS"),
        (empirical_bayes, "GRID"),
    ):
        monkeypatch.setattr(module, name, getattr(module, name))
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    plt.close("all")


@pytest.mark.parametrize("tutorial", TINY)
def test_every_cell_runs(tutorial: str, alone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In this process: what a kernel adds is tested on one."""
    flags, tiny = TINY[tutorial]
    book = notebooks.notebook(tutorial, alone, *flags)
    namespace: dict[str, Any] = {"__name__": tutorial}
    for cell in book.cells:
        if cell.cell_type == "code":
            code = cell.source.replace("\nargs = ", f"\n{tiny}\nargs = ")
            exec(compile(code, tutorial, "exec"), namespace)
    printed = capsys.readouterr().out
    assert "test: " in printed
    assert printed.count("figure: ") == printed.count("Image object") > 0


def test_all_are_run() -> None:
    assert {"part1_vae", *TINY} == set(notebooks.FLAGS)


def test_a_kernel_runs_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # the threads of t-SNE wait in loops for each other
    book = notebooks.notebook("part1_vae", tmp_path, "--n_epochs", "2")
    notebooks.execute(book, tmp_path)
    nbformat.validate(book)
    outputs = [output for cell in book.cells for output in cell.get("outputs", ())]
    printed = "".join(o.get("text") or o.get("data", {}).get("text/plain", "") for o in outputs)
    assert "train: epoch 2, (" in printed
    assert "test: elbo -" in printed
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 5
    assert all(output.output_type in ("stream", "display_data") for output in outputs)

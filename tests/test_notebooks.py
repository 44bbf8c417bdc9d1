"""The tutorial scripts as notebooks: all hold what the script does, and one is run."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import nbformat
import pytest

TUTORIALS = Path(__file__).parents[1] / "tutorials"
sys.path.insert(0, str(TUTORIALS))

import notebooks  # noqa: E402


def code_of(book: nbformat.NotebookNode) -> str:
    return "\n\n".join(cell.source for cell in book.cells if cell.cell_type == "code")


def text_of(book: nbformat.NotebookNode) -> str:
    return "\n\n".join(cell.source for cell in book.cells if cell.cell_type == "markdown")


@pytest.mark.parametrize("script", notebooks.SCRIPTS)
def test_notebooks_hold_their_scripts(script: str, tmp_path: Path) -> None:
    book = notebooks.notebook(script, tmp_path, n_epochs=1)
    nbformat.validate(book)
    made = {node.name: node for node in functions(code_of(book))}
    originals = [node for node in functions((TUTORIALS / f"{script}.py").read_text())]
    assert set(made) == {node.name for node in originals} - {"main"}
    for node in originals:
        text = ast.get_docstring(node)
        if node.name != "main":
            body = node.body[1:] if text else node.body
            assert list(map(ast.dump, made[node.name].body)) == list(map(ast.dump, body))
            assert (text or "") in text_of(book)


def functions(source: str) -> list[ast.FunctionDef]:
    return [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]


def test_a_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # the threads of t-SNE wait in loops for each other
    book = notebooks.notebook("part1_vae", tmp_path, n_epochs=2)
    notebooks.execute(book, tmp_path)
    nbformat.validate(book)
    outputs = [output for cell in book.cells for output in cell.get("outputs", ())]
    printed = "".join(o.get("text") or o.get("data", {}).get("text/plain", "") for o in outputs)
    assert "train: epoch 2, (" in printed
    assert "test: elbo -" in printed
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 5
    assert all(output.output_type in ("stream", "display_data") for output in outputs)

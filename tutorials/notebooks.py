"""The tutorial scripts as notebooks, run on the embedded digits: `make notebooks`.

    python tutorials/notebooks.py                              # all, into docs/notebooks
    python tutorials/notebooks.py --scripts bayes_dense --n_epochs 2

A notebook has the docstring of its script, then each function below its own docstring, and ends
with the script's modes in few epochs. Notebooks are not kept: change the scripts.
"""

from __future__ import annotations

import argparse
import ast
import os
from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

TUTORIALS = Path(__file__).parent
SCRIPTS = (
    "part1_vae",
    "part2_mc_dropout",
    "part3_concrete_dropout",
    "part4_variational_dropout",
    "bayes_dense",
    "priors",
)
SHORT = {
    "part2_mc_dropout": "FIGURE_SAMPLES, REGRESSION_EPOCHS = 200, 500",
    "part3_concrete_dropout": "SEQUENCE, REGRESSION_STEPS = (10, 100, 1000), 200",
    "bayes_dense": "import part2_mc_dropout\n\npart2_mc_dropout.FIGURE_SAMPLES = 100",
    "priors": "limit.WIDTHS, empirical_bayes.GRID = (1, 10, 100), (0.25, 1.0)",
}
KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}
SHOW = """from IPython.display import Image, display

for path in sorted(args.savedir.glob("*.png")):
    display(Image(path))"""


def notebook(script: str, folder: Path, *flags: str) -> nbformat.NotebookNode:
    """The notebook of a script with these flags, not run, as it will stand in `folder`."""
    source = (TUTORIALS / f"{script}.py").read_text()
    tree = ast.parse(source)
    cells = [
        new_markdown_cell(f"# {ast.get_docstring(tree)}"),
        new_code_cell(f'import sys\n\nsys.path.insert(0, "{os.path.relpath(TUTORIALS, folder)}")'),
    ]
    loose: list[ast.stmt] = []  # imports and constants, which share a cell
    for node in tree.body[1:]:
        if isinstance(node, ast.FunctionDef):
            cells += [new_code_cell(quiet(lines(source, loose)))] if loose else []
            cells += function_cells(source, node) if node.name != "main" else []
            loose = []
        elif not isinstance(node, ast.If):
            loose.append(node)
    cells += closing_cells(SHORT.get(script), flags)
    for i, cell in enumerate(cells):
        cell["id"] = f"cell-{i}"
    return new_notebook(cells=cells, metadata={"kernelspec": KERNEL})


def function_cells(source: str, node: ast.FunctionDef) -> list[nbformat.NotebookNode]:
    """The docstring of a function as text, and the function without it."""
    text = ast.get_docstring(node)
    code = lines(source, [node]).splitlines()
    if text:
        first, last = (line - node.lineno for line in (node.body[0].lineno, node.body[1].lineno))
        del code[first:last]
    words = f"### {node.name}\n\n{text}" if text else f"### {node.name}"
    return [new_markdown_cell(words), new_code_cell("\n".join(code))]


def lines(source: str, nodes: Sequence[ast.stmt]) -> str:
    """The source from the first to the last of the nodes."""
    return "\n".join(source.splitlines()[nodes[0].lineno - 1 : nodes[-1].end_lineno])


def quiet(code: str) -> str:
    """Code whose last line, the words below a constant, Jupyter does not show as a result."""
    return f"{code};" if code.endswith('"""') else code


def closing_cells(short: str | None, flags: Sequence[str]) -> list[nbformat.NotebookNode]:
    """The script's modes, on the digits."""
    words = ", ".join(f'"{flag}"' for flag in ("--data", "digits", *flags))
    args = 'args = parser().parse_args([*flags, "--savedir", tempfile.mkdtemp()])'
    fewer = [new_code_cell(short)] if short else []
    return [
        new_markdown_cell("## Running it\n\nShortened: few epochs, on scikit-learn's digits."),
        *fewer,
        new_code_cell(f"import tempfile\n\nflags = [{words}]\n{args}\ntrain(args)"),
        new_code_cell("test(args)"),
        new_code_cell("visualize(args)"),
        new_code_cell(SHOW),
    ]


def execute(book: nbformat.NotebookNode, folder: Path) -> None:
    """Runs all cells in `folder`, and fills in their outputs.

    Raises:
        nbclient.exceptions.CellExecutionError: if a cell fails.
    """
    client = NotebookClient(
        book,
        timeout=1200,
        kernel_name="python3",
        coalesce_streams=True,
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute()


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--scripts", nargs="+", choices=SCRIPTS, default=SCRIPTS, metavar="NAME")
    parser.add_argument("--n_epochs", type=int, default=20, help="passes over the data")
    parser.add_argument("--folder", type=Path, default=TUTORIALS.parent / "docs" / "notebooks")
    return parser


def main() -> None:
    args = parser().parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    for script in args.scripts:
        book = notebook(script, args.folder, "--n_epochs", str(args.n_epochs))
        execute(book, args.folder)
        nbformat.write(book, args.folder / f"{script}.ipynb")
        print(f"notebook: {args.folder / script}.ipynb", flush=True)


if __name__ == "__main__":
    main()

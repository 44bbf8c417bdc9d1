"""The tutorials as notebooks, run on the embedded digits: `make notebooks`.

    python -m tutorials.notebooks                              # all, into docs/notebooks
    python -m tutorials.notebooks --tutorials bayes_dense

A notebook has the docstring of its tutorial, then each function below its own docstring, and ends
with the modes, in a short run. Notebooks are not kept: change the tutorials.
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

ROOT = Path(__file__).parents[1]
DIGITS = ("--data", "digits", "--n_epochs", "20")
FLAGS = {
    "part1_vae": DIGITS,
    "part2_mc_dropout": DIGITS,
    "part3_concrete_dropout": DIGITS,
    "part4_variational_dropout": DIGITS,
    "bayes_dense": DIGITS,
    "bayes_by_backprop.mnist": DIGITS,
    "bayes_by_backprop.regression": (),
    "model_definition": (),
    "priors": DIGITS,
    "posterior_inference": ("--n_epochs", "20", "--steps", "300"),
}
"""The lecture's parts, with flags for a short run."""
SHORT = {
    "part2_mc_dropout": "FIGURE_SAMPLES, REGRESSION_EPOCHS = 200, 500",
    "part3_concrete_dropout": "SEQUENCE, REGRESSION_STEPS = (10, 100, 1000), 200",
    "bayes_dense": "import tutorials.part2_mc_dropout as part2\n\npart2.FIGURE_SAMPLES = 100",
    "bayes_by_backprop.regression": """from dataclasses import replace

NETWORKS = {name: replace(of, n_epochs=min(of.n_epochs, 500)) for name, of in NETWORKS.items()}""",
    "model_definition": "EPOCHS, CHAIN_STEPS = 200, 300",
    "priors": "limit.WIDTHS, empirical_bayes.GRID = (1, 10, 100), (0.25, 1.0)",
}
"""What else makes it short."""
MODES = ("train", "test", "visualize")
KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}
SHOW = """from IPython.display import Image, display

for path in sorted(args.savedir.glob("*.png")):
    display(Image(path))"""


def source_of(tutorial: str) -> str:
    """The code of a tutorial that is run as `python -m tutorials.NAME`."""
    path = ROOT / "tutorials" / tutorial.replace(".", "/")
    return (path / "__main__.py" if path.is_dir() else path.with_suffix(".py")).read_text()


def notebook(tutorial: str, folder: Path, *flags: str) -> nbformat.NotebookNode:
    """The notebook of a tutorial, with these flags beside its own, as it will stand in `folder`."""
    source = source_of(tutorial)
    tree = ast.parse(source)
    top = os.path.relpath(ROOT, folder)
    cells = [
        new_markdown_cell(f"# {ast.get_docstring(tree)}"),
        new_code_cell(f'import os\n\nos.chdir("{top}")  # the top of the repository'),
    ]
    loose: list[ast.stmt] = []  # imports and constants, which share a cell
    modes: list[str] = []
    for node in tree.body[1:]:
        if not isinstance(node, ast.FunctionDef | ast.If):
            loose.append(node)
            continue
        cells += [new_code_cell(quiet(lines(source, loose)))] if loose else []
        loose = []
        if isinstance(node, ast.FunctionDef) and node.name != "main":
            cells += function_cells(source, node)
            modes += [node.name] if node.name in MODES else []
    if "train" in modes:
        modes.remove("test")  # which training ends with
    cells += closing_cells(SHORT.get(tutorial), (*FLAGS[tutorial], *flags), modes)
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


def closing_cells(
    short: str | None, flags: Sequence[str], modes: Sequence[str]
) -> list[nbformat.NotebookNode]:
    """The modes, shortened."""
    words = ", ".join(f'"{flag}"' for flag in flags)
    first, *rest = (f"{mode}(args)" for mode in modes)
    args = 'args = parser().parse_args([*flags, "--savedir", tempfile.mkdtemp()])'
    fewer = [new_code_cell(short)] if short else []
    return [
        new_markdown_cell("## Running it\n\nShortened: few epochs, and scikit-learn's digits."),
        *fewer,
        new_code_cell(f"import tempfile\n\nflags = [{words}]\n{args}\n{first}"),
        *map(new_code_cell, rest),
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
    parser.add_argument(
        "--tutorials", nargs="+", choices=list(FLAGS), default=list(FLAGS), metavar="NAME"
    )
    parser.add_argument("--folder", type=Path, default=ROOT / "docs" / "notebooks")
    return parser


def main() -> None:
    args = parser().parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    for tutorial in args.tutorials:
        book = notebook(tutorial, args.folder)
        execute(book, args.folder)
        path = args.folder / f"{tutorial.replace('.', '_')}.ipynb"
        nbformat.write(book, path)
        print(f"notebook: {path}", flush=True)


if __name__ == "__main__":
    main()

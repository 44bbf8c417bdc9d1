"""Notebooks, run from their text: `make notebooks`.

    python -m tutorials.notebooks                 # those whose code has changed
    python -m tutorials.notebooks --names vae     # this one, changed or not

The text of a notebook is `NAME.md` in `docs/course/notebooks`, or one of `docs/migrate`: `python`
blocks are its cells of code, what is between them the cells of words. `NAME.ipynb` beside it is
kept with its outputs and a hash of the code that gave them. Where only words have changed, outputs
stay as they are. The notebooks of `docs/migrate` read published data from the folder of
`TFBDL_DATA`.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import io
import re
import time
from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from PIL import Image

DOCS = Path(__file__).parents[1] / "docs"
COURSE = sorted(path.stem for path in (DOCS / "course" / "notebooks").glob("*.md"))
FOLDERS = {
    **dict.fromkeys(COURSE, DOCS / "course" / "notebooks"),
    **dict.fromkeys(("co2_forecast", "keras_bnn"), DOCS / "migrate"),
}
"""Where the notebook of a name is."""
CODE = re.compile(r"^```python\n(.*?)^```$", flags=re.S | re.M)
KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}
COLOURS, WIDTH = 256, 1000
"""Colours and width of a kept figure: enough for bands of ten classes, and half of the size."""


def notebook(name: str) -> nbformat.NotebookNode:
    """The cells of a notebook's text, without outputs."""
    parts = CODE.split((FOLDERS[name] / f"{name}.md").read_text())
    cells = [
        new_code_cell(part.rstrip()) if i % 2 else new_markdown_cell(part.strip())
        for i, part in enumerate(parts)
        if part.strip()
    ]
    for i, cell in enumerate(cells):
        cell["id"] = f"cell-{i}"
    return new_notebook(cells=cells, metadata={"kernelspec": KERNEL, "code": code_hash(cells)})


def code_of(cells: Sequence[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """The cells of code."""
    return [cell for cell in cells if cell.cell_type == "code"]


def code_hash(cells: Sequence[nbformat.NotebookNode]) -> str:
    """A hash of the code of all cells."""
    code = "\n\n".join(cell.source for cell in code_of(cells))
    return hashlib.sha256(code.encode()).hexdigest()


def kept(name: str) -> nbformat.NotebookNode | None:
    """The notebook with the outputs of its last run."""
    path = FOLDERS[name] / f"{name}.ipynb"
    return nbformat.read(path, nbformat.NO_CONVERT) if path.exists() else None


def with_outputs(book: nbformat.NotebookNode, last: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The notebook with the outputs of its last run, whose code is the same."""
    for cell, ran in zip(code_of(book.cells), code_of(last.cells), strict=True):
        cell.outputs, cell.execution_count = ran.outputs, ran.execution_count
    return book


def execute(book: nbformat.NotebookNode, folder: Path) -> None:
    """Runs all cells in `folder`, and fills in their outputs: what is printed, tables, figures.

    Raises:
        nbclient.exceptions.CellExecutionError: if a cell fails.
    """
    client = NotebookClient(
        book,
        timeout=1200,
        kernel_name="python3",
        coalesce_streams=True,
        record_timing=False,
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute()
    for cell in code_of(book.cells):
        cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
        for output in cell.outputs:
            if "image/png" in output.get("data", {}):
                output.data["image/png"] = small(output.data["image/png"])


def small(png: str) -> str:
    """A figure in few colours and no wider than `WIDTH` pixels, in base64."""
    image = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB")
    image.thumbnail((WIDTH, 10 * WIDTH))
    file = io.BytesIO()
    image.quantize(COLOURS, dither=Image.Dither.NONE).save(file, "PNG", optimize=True)
    return base64.b64encode(file.getvalue()).decode()


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--names", nargs="+", choices=FOLDERS, default=[], metavar="NAME")
    return parser


def main() -> None:
    args = parser().parse_args()
    for name in args.names or FOLDERS:
        book, last, folder = notebook(name), kept(name), FOLDERS[name]
        if last and last.metadata.get("code") == book.metadata.code and not args.names:
            book = with_outputs(book, last)
        else:
            began = time.perf_counter()
            execute(book, folder)
            print(f"run in {time.perf_counter() - began:.0f} seconds: {name}", flush=True)
        nbformat.write(book, folder / f"{name}.ipynb")
        print(f"notebook: {folder / name}.ipynb", flush=True)


if __name__ == "__main__":
    main()

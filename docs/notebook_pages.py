"""MkDocs hook: pages of notebooks show, below each block of code, what it gave when run.

A page `NAME.md` with a notebook `NAME.ipynb` beside it has a `python` block for each cell of code.
Figures become files of the site, and the page links the notebook itself.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

CODE = re.compile(r"^```python\n.*?^```$", flags=re.S | re.M)
HEADING = re.compile(r"\A(# .*\n)")


def on_files(files: Any, *, config: Any, **_: Any) -> Any:
    """Adds the figures of all notebooks."""
    for file in list(files):
        if file.src_uri.endswith(".ipynb"):
            for uri, png in figures(Path(file.abs_src_path), file.src_uri):
                files.append(File.generated(config, uri, content=base64.b64decode(png)))
    return files


def figures(path: Path, uri: str) -> Iterator[tuple[str, str]]:
    """Where each figure of a notebook lies in the site, and its PNG in base64."""
    for cell, outputs in enumerate(outputs_of(path)):
        for number, output in enumerate(outputs):
            if "image/png" in output.get("data", {}):
                yield uri.replace(".ipynb", f"/{cell}-{number}.png"), output["data"]["image/png"]


def outputs_of(path: Path) -> list[list[dict[str, Any]]]:
    """The outputs of each cell of code."""
    cells = json.loads(path.read_text())["cells"]
    return [cell["outputs"] for cell in cells if cell["cell_type"] == "code"]


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """The page with the outputs of its notebook.

    Raises:
        PluginError: if the notebook is of an older text.
    """
    path = Path(page.file.abs_src_path).with_suffix(".ipynb")
    if not path.exists():
        return markdown
    outputs = outputs_of(path)
    if len(outputs) != len(CODE.findall(markdown)):
        raise PluginError(f"{path.name} is not of this text: run make notebooks")
    cells = enumerate(outputs)

    def with_outputs(block: re.Match[str]) -> str:
        cell, outputs = next(cells)
        shown = (text(o) or f"![]({path.stem}/{cell}-{i}.png)" for i, o in enumerate(outputs))
        return "\n\n".join((block[0], *shown))

    link = f"\\1\n[The notebook, to run]({path.name}){{ .notebook }}\n"
    return HEADING.sub(link, CODE.sub(with_outputs, markdown))


def text(output: dict[str, Any]) -> str:
    """What is shown of an output that is no figure."""
    data = output.get("data", {})
    if "image/png" in data:
        return ""
    if "text/markdown" in data:
        return "".join(data["text/markdown"])
    words = "".join(output.get("text") or data.get("text/plain", ""))
    return f"``` {{ .text .output }}\n{words.rstrip()}\n```"

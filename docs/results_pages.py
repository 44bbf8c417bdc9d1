"""MkDocs hook: what `results/` holds is part of the site, and its figures are a gallery.

Pages link `results/` where it lies in the repository, beside `docs/`; in the site it lies below the
front page. Links that lead out of both, to code, are words there.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
GALLERY = "gallery.md"
FIGURES = "<!-- figures -->"
TO_RESULTS = re.compile(r"\]\(((?:\.\./)*)\.\./results/")
TO_DOCS = re.compile(r"\]\(\.\./docs/")
TO_CODE = re.compile(r"\[([^\]]*)\]\(\.\./(?:tutorials|benchmarks)[^)]*\)")
HEADING = re.compile(r"^##+ (.*)$", flags=re.M)
IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)]*)\)")


def on_files(files: Any, *, config: Any, **_: Any) -> Any:
    """Adds all of `results/`."""
    for path in sorted(RESULTS.rglob("*")):
        if path.is_file():
            uri = path.relative_to(ROOT).as_posix()
            files.append(File(uri, str(ROOT), config.site_dir, config.use_directory_urls))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """The page with links as they are in the site, and the gallery with its figures."""
    uri = page.file.src_uri
    if uri.startswith("results/"):
        return TO_CODE.sub(r"\1", TO_DOCS.sub("](../", markdown))
    if uri == GALLERY:
        markdown = markdown.replace(FIGURES, gallery((RESULTS / "README.md").read_text()))
    return TO_RESULTS.sub(r"](\1results/", markdown)


def gallery(results: str) -> str:
    """The figures of the page of results under its headings, each leading to the words about it."""
    sections = HEADING.split(results)[1:]
    return "\n\n".join(
        section(title, IMAGE.findall(body))
        for title, body in zip(sections[::2], sections[1::2], strict=True)
        if IMAGE.search(body)
    )


def section(title: str, images: list[tuple[str, str]]) -> str:
    """Figures side by side, each with its words."""
    anchor = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower())
    shown = "\n".join(
        f"- [![{words or name(path)}](../results/{path})](../results/README.md#{anchor})\n"
        f"  {words or name(path)}"
        for words, path in images
    )
    return f'## {title}\n\n<div class="gallery" markdown>\n\n{shown}\n\n</div>'


def name(path: str) -> str:
    """Words for a figure that has none."""
    folder, file = Path(path).parts[-2:]
    return f"{Path(file).stem.replace('_', ' ')}, `{folder}`"

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
HEADING = re.compile(r"^#+ (.*)$", flags=re.M)
PAGE = re.compile(r"^\| \[[^\]]*\]\((\w+\.md)\)", flags=re.M)
"""A page of figures, as the index of results lists them."""
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
        pages = PAGE.findall((RESULTS / "README.md").read_text())
        markdown = markdown.replace(FIGURES, "\n\n".join(map(gallery, pages)))
    return TO_RESULTS.sub(r"](\1results/", markdown)


def gallery(page: str) -> str:
    """The figures of a page of results under its title, each leading to the words about it."""
    title, *sections = HEADING.split((RESULTS / page).read_text())[1:]
    shown = [
        f"- [![{words or name(path)}](../results/{path})](../results/{page}#{anchor(heading)})\n"
        f"  {words or name(path)}"
        for heading, body in zip([title, *sections[1::2]], sections[::2], strict=True)
        for words, path in IMAGE.findall(body)
    ]
    if not shown:
        return ""
    return "\n".join([f'## {title}\n\n<div class="gallery" markdown>\n', *shown, "\n</div>"])


def anchor(heading: str) -> str:
    """Where the page has a heading."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


def name(path: str) -> str:
    """Words for a figure that has none."""
    folder, file = Path(path).parts[-2:]
    return f"{Path(file).stem.replace('_', ' ')}, `{folder}`"

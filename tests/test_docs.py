"""The pages of docs/: their code runs, their links lead somewhere, the reference is complete."""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
import types
from collections.abc import Iterator
from pathlib import Path

import keras
import matplotlib.pyplot as plt
import pytest
import tensorflow as tf
import two_replicas
from named import find
from pages import BLOCK, ROOT, run_blocks

import tfbdl
from tfbdl.cli import main
from tfbdl.convert import mc_dropout
from tfbdl.convert.random_layer import COUNTERPARTS

DOCS = ROOT / "docs"
PAGES = {path.relative_to(DOCS).as_posix(): path for path in sorted(DOCS.rglob("*.md"))}
RESULTS = [f"results/{path.name}" for path in sorted((ROOT / "results").glob("*.md"))]
FENCED = re.compile(r"^```.*?^```$", flags=re.S | re.M)
NOTEBOOKS = ("course/notebooks/", "migrate/co2_forecast.md", "migrate/keras_bnn.md")
"""Pages whose code `tutorials/test_notebooks` runs."""
WITH_CODE = [page for page, path in PAGES.items() if BLOCK.search(path.read_text())]
SHORTER = {
    "guides/inference.md": {
        "num_warmup=300, num_samples=100": "num_warmup=10, num_samples=10",
        "initial=np.ones(2)": "initial=np.ones(2), num_warmup=30, num_samples=130",
        "epochs=100": "epochs=10",
        "start=100": "start=10",
        "start=50, every=10": "start=5, every=5",
        "epochs=600": "epochs=60",
    }
}
"""Runs that show what is called, with fewer steps."""
LANGUAGES = {"python", "sh", "text", "py"}
"""Languages of blocks; `py` are lines of a file, which `test_quoted_code` looks for there."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working directory; figures and the precision policy are put back after use.

    A strategy over all devices is the one that other tests of this process have.
    """
    monkeypatch.chdir(tmp_path)
    strategy = two_replicas.strategy()
    monkeypatch.setattr(tf.distribute, "MirroredStrategy", lambda: strategy)
    plt.switch_backend("Agg")
    yield tmp_path
    plt.close("all")
    keras.config.set_dtype_policy("float32")


@pytest.mark.parametrize("page", [p for p in WITH_CODE if not p.startswith(NOTEBOOKS)])
def test_blocks_run(page: str, folder: Path) -> None:
    run_blocks(PAGES[page], SHORTER.get(page, {}))


@pytest.mark.parametrize("page", [p for p in WITH_CODE if not p.startswith(NOTEBOOKS)])
def test_what_is_imported_is_used(page: str) -> None:
    """So that no name stands on a page of which it shows nothing."""
    blocks = [
        code for language, code in BLOCK.findall(PAGES[page].read_text()) if language == "python"
    ]
    nodes = list(ast.walk(ast.parse("\n".join(blocks))))
    imports = [node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom))]
    imported = {(a.asname or a.name).split(".")[0] for node in imports for a in node.names}
    assert imported <= {node.id for node in nodes if isinstance(node, ast.Name)}


@pytest.mark.parametrize("page", WITH_CODE)
def test_no_code_is_only_shown(page: str) -> None:
    """What is not run is output or a formula, marked `text`."""
    text = PAGES[page].read_text()
    blocks = BLOCK.findall(text)
    assert 2 * len(blocks) == len(re.findall("^ *```", text, flags=re.M))
    assert {language for language, _ in blocks} <= LANGUAGES


def test_the_guide_of_conversions_tells_what_is_exchanged() -> None:
    text = PAGES["guides/convert.md"].read_text()
    table = [line for line in text.partition("## Weights")[2].splitlines() if line[:1] == "|"]
    assert set(re.findall("`(\\w+)`", "".join(table[2:5]))) == {k.__name__ for k in COUNTERPARTS}
    assert table[5].startswith("| refused")
    said, _, _ = text.partition("## Dropout")[2].partition("for layers")
    kinds = re.sub("`([23]D)`", r"`SpatialDropout\1`", said)
    match = set(re.findall("`(\\w*(?:Dropout|D))`", kinds)) - {"to_mc_dropout"}
    assert match == {kind.__name__ for kind in mc_dropout.RULES}


def test_the_ten_lines_are_those_of_the_readme() -> None:
    language, code = BLOCK.findall((DOCS / "index.md").read_text())[0]
    assert language == "python"
    assert code in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", FENCED.sub("", PAGES[page].read_text())):
        if link.startswith("http"):
            continue
        file, _, anchor = link.partition("#")
        target = PAGES[page].parent / file if file else PAGES[page]
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target.read_text()), link


def anchors(text: str) -> set[str]:
    """The anchors of the headings and the documented objects of a page."""
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", text), flags=re.M)
    slugs = {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", h).strip().lower()) for h in headings}
    return slugs | set(directives(text))


def directives(text: str) -> list[str]:
    """The objects whose docstrings a page shows."""
    return re.findall(r"^::: (\S+)$", text, flags=re.M)


def test_reference_is_complete() -> None:
    pages = sorted((DOCS / "reference").glob("*.md"))
    shown = {id(find(name)) for page in pages for name in directives(page.read_text())}
    inside = [m.name for m in pkgutil.iter_modules(tfbdl.__path__) if m.ispkg]
    for module in (tfbdl, *(find(f"tfbdl.{name}") for name in inside)):
        for name in getattr(module, "__all__", ()):
            thing = getattr(module, name)
            assert id(thing) in shown, f"{module.__name__}.{name} is on no page of the reference"


def test_every_public_name_has_an_example() -> None:
    """Beside its description, in a block that `test_blocks_run` runs."""
    shown: dict[int, str] = {}
    for path in (DOCS / "reference").glob("*.md"):
        text = path.read_text()
        code = "\n".join(code for language, code in BLOCK.findall(text) if language == "python")
        shown |= {id(find(name)): code for name in directives(text)}
    inside = [m.name for m in pkgutil.iter_modules(tfbdl.__path__) if m.ispkg]
    for module in (tfbdl, *(find(f"tfbdl.{name}") for name in inside)):
        for name in getattr(module, "__all__", ()):
            thing = getattr(module, name)
            if isinstance(thing, type) or inspect.isfunction(thing):
                assert re.search(rf"\b{name}\b", shown[id(thing)]), f"{module.__name__}.{name}"


def test_every_shown_name_has_a_docstring() -> None:
    for path in (DOCS / "reference").glob("*.md"):
        for name in directives(path.read_text()):
            thing = find(name)
            if isinstance(thing, (types.ModuleType, type)) or inspect.isroutine(thing):
                assert thing.__doc__, name


@pytest.mark.parametrize("command", ["predict", "summary", "log"])
def test_every_flag_is_listed(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    flags = set(re.findall(r"--\w+", capsys.readouterr().out)) - {"--help"}
    page = (DOCS / "reference" / "cli.md").read_text()
    section = page.partition(f"## tfbdl {command}\n")[2].partition("\n## ")[0]
    assert flags == set(re.findall(r"--\w+", section))


def test_index_of_results_lists_every_page() -> None:
    index = (ROOT / "results" / "README.md").read_text()
    pages = re.findall(r"^\| \[[^\]]*\]\(([\w/]+\.md)\)", index, flags=re.M)
    assert {f"results/{page}" for page in pages} >= {*RESULTS} - {"results/README.md"}


def test_nav_lists_every_page() -> None:
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    assert sorted(re.findall(r"\S+\.md", nav)) == sorted([*PAGES, *RESULTS])

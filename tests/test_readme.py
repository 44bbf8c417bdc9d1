"""The code blocks of README.md run as they stand, and links of all pages lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import BLOCK, ROOT, run_commands

README = ROOT / "README.md"
PAGES = (README, ROOT / "CONTRIBUTING.md", ROOT / "results" / "README.md")


def anchors(page: Path) -> list[str]:
    """What GitHub calls the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return [re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings]


BLOCKS = BLOCK.findall(README.read_text())
SHOWN = ("to_mc_dropout", "ResNet50V2", "BayesDense", "Laplace", "make", "part1_vae")
"""What the blocks are told apart by, one after the other."""


@pytest.mark.parametrize("number", range(len(SHOWN)), ids=SHOWN)
def test_block_runs(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each runs by itself, as a reader copies one; and what is predicted has been learned."""
    monkeypatch.chdir(tmp_path)
    language, code = BLOCKS[number]
    assert SHOWN[number] in code
    if language == "python":
        names: dict[str, Any] = {}
        exec(compile(code, str(README), "exec"), names)
        if "y_test" in names:
            right = names["prediction"].mean.argmax(axis=-1) == names["y_test"]
            assert np.mean(right) > 0.5, code
    else:
        assert language == "sh"
        run_commands(code)


def test_there_are_blocks_of_both_languages() -> None:
    assert len(BLOCKS) == len(SHOWN)
    assert {language for language, _ in BLOCKS} == {"python", "sh"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        if target.startswith("http"):
            continue
        path, _, anchor = target.partition("#")
        there = page.parent / path if path else page
        assert there.exists(), target
        if anchor:
            assert anchor in anchors(there), target

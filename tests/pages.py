"""Running the code blocks of a page: its Python, and its commands on the files that it made."""

from __future__ import annotations

import importlib
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import tutorial_runs

from tfbdl.cli import main

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", flags=re.S | re.M)

INSTALLING = ("pip", "export")
"""Commands that a test does not run, as they are about the machine."""

TARGETS = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), flags=re.M)
QUICK_FLAGS = ("--data", "digits", "--N", "100", "--n_epochs", "1", "--zdim", "2")


def run_blocks(page: Path, shorter: Mapping[str, str] = MappingProxyType({})) -> None:
    """Runs the blocks from top to bottom in one namespace, in the working directory.

    Args:
        page: a file of Markdown.
        shorter: words of its code, and those that take their place and less time.
    """
    text = page.read_text()
    for words, others in shorter.items():
        assert words in text, words
        text = text.replace(words, others)
    namespace: dict[str, Any] = {"__name__": f"docs.{page.stem}"}
    for block in BLOCK.finditer(text):
        language, code = block.groups()
        if language == "python":
            lines_before = text.count("\n", 0, block.start(2))
            exec(compile("\n" * lines_before + code, page, "exec"), namespace)
        elif language == "sh":
            run_commands(code)


def run_commands(code: str) -> None:
    """Runs each line: `tfbdl` as it is, tutorials shortened on the embedded digits."""
    for line in code.splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["tfbdl"]:
            assert main(words[1:]) == 0, line
        elif words[:1] == ["python"]:
            run_tutorial(words[1:])
        elif words[:1] == ["make"]:
            assert words[1] in TARGETS, line
        else:
            assert not words or words[0] in INSTALLING, line


def run_tutorial(words: list[str]) -> None:
    """Runs the autoencoder's tutorial, of which a page shows the modes."""
    module, name, *flags = words
    assert (module, name) == ("-m", "tutorials.part1_vae")
    tutorial_runs.run(importlib.import_module(name), *flags, *QUICK_FLAGS)

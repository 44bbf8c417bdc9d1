"""The code blocks of README.md run as they stand, and links of all pages lead somewhere."""

from __future__ import annotations

import os
import re
import tempfile
import unittest
from pathlib import Path
from typing import Any

import numpy as np
from pages import BLOCK, ROOT, run_commands

README = ROOT / "README.md"
PAGES = (README, ROOT / "CONTRIBUTING.md", ROOT / "results" / "README.md")


def anchors(page: Path) -> list[str]:
    """What GitHub calls the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return [re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings]


class ReadmeTest(unittest.TestCase):
    def test_blocks_run(self) -> None:
        """Each by itself, as a reader copies one; and what is predicted has been learned."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        blocks = BLOCK.findall(README.read_text())
        self.assertEqual({language for language, _ in blocks}, {"python", "sh"})
        for language, code in blocks:
            if language == "python":
                names: dict[str, Any] = {}
                exec(compile(code, str(README), "exec"), names)
                if "y_test" in names:
                    right = names["prediction"].mean.argmax(axis=-1) == names["y_test"]
                    self.assertGreater(np.mean(right), 0.5, code)
            else:
                run_commands(code)

    def test_links_lead_somewhere(self) -> None:
        for page in PAGES:
            for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
                if target.startswith("http"):
                    continue
                path, _, anchor = target.partition("#")
                there = page.parent / path if path else page
                self.assertTrue(there.exists(), f"{page}: {target}")
                if anchor:
                    self.assertIn(anchor, anchors(there), f"{page}: {target}")


if __name__ == "__main__":
    unittest.main()

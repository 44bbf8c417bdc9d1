"""The code blocks of README.md run as they stand, and links of all pages lead somewhere."""

from __future__ import annotations

import os
import re
import tempfile
import unittest
from pathlib import Path

from pages import BLOCK, ROOT, run_commands

README = ROOT / "README.md"
PAGES = (README, ROOT / "CONTRIBUTING.md", ROOT / "results" / "README.md")


def anchors(page: Path) -> list[str]:
    """What GitHub calls the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return [re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings]


class ReadmeTest(unittest.TestCase):
    def test_blocks_run(self) -> None:
        """Each by itself: a reader copies one."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        blocks = BLOCK.findall(README.read_text())
        self.assertEqual({language for language, _ in blocks}, {"python", "sh"})
        for language, code in blocks:
            if language == "python":
                exec(compile(code, str(README), "exec"), {})
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

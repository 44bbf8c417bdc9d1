"""The code blocks of README.md run as they stand, and links of all pages lead somewhere."""

from __future__ import annotations

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = (README, ROOT / "CONTRIBUTING.md", ROOT / "results" / "README.md")


class ReadmeTest(unittest.TestCase):
    def test_python_blocks_run(self) -> None:
        blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.S)
        self.assertGreater(len(blocks), 0)
        for block in blocks:
            exec(compile(block, str(README), "exec"), {})

    def test_links_lead_somewhere(self) -> None:
        for page in PAGES:
            for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
                if not target.startswith("http"):
                    self.assertTrue((page.parent / target).exists(), f"{page}: {target}")


if __name__ == "__main__":
    unittest.main()

"""The code blocks of README.md run as they stand."""

from __future__ import annotations

import re
import unittest
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


class ReadmeTest(unittest.TestCase):
    def test_python_blocks_run(self) -> None:
        blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.S)
        self.assertGreater(len(blocks), 0)
        for block in blocks:
            exec(compile(block, str(README), "exec"), {})

    def test_links_lead_somewhere(self) -> None:
        for target in re.findall(r"\]\(([^)]+)\)", README.read_text()):
            if not target.startswith("http"):
                self.assertTrue((README.parent / target).exists(), target)


if __name__ == "__main__":
    unittest.main()

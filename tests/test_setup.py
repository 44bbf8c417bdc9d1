"""setup.py under a setuptools that reads pyproject.toml, and under one that cannot."""

import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tfbdl

ROOT = Path(__file__).parents[1]


class VersionTest(unittest.TestCase):
    def test_project_package_and_changelog_name_the_same(self) -> None:
        """A version that is not released yet ends in `.dev0`, and the changelog has it open."""
        project = re.search(r'(?m)^version = "(.*)"$', (ROOT / "pyproject.toml").read_text())
        first = re.search(r"(?m)^## (\S+)(.*)$", (ROOT / "CHANGELOG.md").read_text())
        assert project is not None
        assert first is not None
        self.assertEqual(project[1], tfbdl.__version__)
        self.assertEqual(project[1].removesuffix(".dev0"), first[1])
        self.assertEqual(project[1].endswith(".dev0"), first[2] == " (unreleased)")


class SetupTest(unittest.TestCase):
    def run_setup(self, folder: Any) -> Any:
        for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, folder)
        (folder / "tfbdl").mkdir()
        command = [sys.executable, "setup.py", "--version"]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)

    def test_with_the_setuptools_that_is_here(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            done = self.run_setup(Path(folder))
        if int(version("setuptools").split(".")[0]) >= 77:
            self.assertEqual(done.stdout.strip().splitlines()[-1], tfbdl.__version__)
        else:
            self.assertIn("cannot read this pyproject.toml", done.stderr)

    def test_with_the_setuptools_of_python_3_11(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "setuptools.py").write_text('__version__ = "65.5.0"\n')
            done = self.run_setup(Path(folder))
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^setup\.py: setuptools 65\.5\.0 cannot read .*pip install")
        self.assertEqual(done.stderr.count("\n"), 1)


if __name__ == "__main__":
    unittest.main()

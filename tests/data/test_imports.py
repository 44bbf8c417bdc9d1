import subprocess
import sys
import unittest
from pathlib import Path

import tfbdl.data

PACKAGE = Path(tfbdl.data.__file__).parents[1]

IMPORT_DATA_ALONE = """
import sys, types
package = types.ModuleType("tfbdl")
package.__path__ = [sys.argv[1]]
sys.modules["tfbdl"] = package
import tfbdl.data
print(*sys.modules)
"""


class ImportsTest(unittest.TestCase):
    def test_importing_the_data_imports_no_heavy_library(self) -> None:
        done = subprocess.run(
            [sys.executable, "-c", IMPORT_DATA_ALONE, str(PACKAGE)],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        modules = done.stdout.split()
        self.assertIn("tfbdl.data.images", modules)
        for heavy in ("tensorflow", "keras", "sklearn"):
            self.assertNotIn(heavy, modules)

    def test_every_public_name_exists(self) -> None:
        for name in tfbdl.data.__all__:
            self.assertTrue(hasattr(tfbdl.data, name), name)

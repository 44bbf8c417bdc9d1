"""Running a tutorial in this process, as `python -m tutorials.NAME` would."""

from __future__ import annotations

import sys
from types import ModuleType
from unittest import mock


def run(module: ModuleType, *flags: str) -> None:
    """Calls its `main` with these flags."""
    with mock.patch.object(sys, "argv", [module.__name__, *flags]):
        module.main()

"""Objects by their dotted names."""

from __future__ import annotations

import importlib
from typing import Any


def find(name: str) -> Any:
    """The object of a dotted name; where a module and a function share one, the module."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        parent, _, last = name.rpartition(".")
        return getattr(find(parent), last)

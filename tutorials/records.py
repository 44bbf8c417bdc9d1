"""Results that are made once, and kept with the settings that made them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import common

Record = dict[str, Any]


def kept(path: Path, settings: Mapping[str, Any], make: Callable[[], Record]) -> Record:
    """The record in a file, whole or not there; made if it is not.

    Raises:
        ValueError: if it was made with other settings.
    """
    if not path.exists():
        record = {**make(), "settings": dict(settings)}
        path.parent.mkdir(parents=True, exist_ok=True)
        common.write_json(path, record)
    record = json.loads(path.read_text())
    for name, value in settings.items():
        if record["settings"].get(name) != value:
            raise ValueError(
                f"{path} was made with --{name} {record['settings'].get(name)}, not {value}; "
                "name another --savedir"
            )
    return record


def missing() -> Record:
    """Instead of making one.

    Raises:
        FileNotFoundError: always.
    """
    raise FileNotFoundError("--savedir lacks results of these flags; run --mode train first")

"""Results that are made once and kept with the settings that made them, one file for many."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tfbdl.whole_file import write_whole

try:
    import fcntl
except ImportError:  # not on Windows, where one process at a time may write
    fcntl = None  # type: ignore[assignment]

Record = dict[str, Any]


class RecordFile:
    """Records in a file, a JSON object a line, in the order of their keys.

    A record is added as soon as it is made, so that a run that is stopped goes on behind the last.
    Several processes may add to one file: each takes the lock of the folder, reads what there is,
    and puts a whole file in its place.

    Args:
        path: the path of the file, `.jsonl`.
        keys: names of the entries that tell a record from the others.
    """

    def __init__(self, path: Path, *keys: str) -> None:
        self.path, self.keys = path, keys

    def records(self, settings: Mapping[str, Any] | None = None) -> list[Record]:
        """All that are there.

        Args:
            settings: flags that all are to be made with, if given.

        Raises:
            ValueError: if a line is no record, two records have one key, or one was made with other
                settings.
        """
        return [self._made_with(settings or {}, record) for record in self._read().values()]

    def kept(
        self,
        key: Mapping[str, Any],
        settings: Mapping[str, Any],
        make: Callable[[], Record] | None = None,
    ) -> Record:
        """The record of a key; if it is not there, it is made and added.

        Args:
            key: a value for each of `keys`.
            settings: flags that the record depends on.
            make: gives its numbers; None if it has to be there.

        Raises:
            FileNotFoundError: if it is not there, and `make` is None.
            ValueError: if it was made with other settings, or the file is damaged.
        """
        record = self.get(key, settings)
        if record is not None:
            return record
        if make is None:
            raise FileNotFoundError(
                f"{self.path} lacks results of these flags; run --mode train first"
            )
        added = self._added({**key, **make(), "settings": dict(settings)})
        return self._made_with(settings, added)

    def get(self, key: Mapping[str, Any], settings: Mapping[str, Any]) -> Record | None:
        """The record of a key, as in `kept`; None if it is not there.

        Raises:
            ValueError: if it was made with other settings, or the file is damaged.
        """
        record = self._read().get(self._of(key))
        return record and self._made_with(settings, record)

    def _made_with(self, settings: Mapping[str, Any], record: Record) -> Record:
        for name, value in settings.items():
            made_with = record["settings"].get(name)
            if made_with != value:
                raise ValueError(
                    f"{self.path}: {self._words(record)} was made with --{name} {made_with}, not "
                    f"{value}; name another --savedir"
                )
        return record

    def _added(self, record: Record) -> Record:
        """The record as it is in the file now; the first of those that processes add."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(self.path.parent):
            records = self._read()
            records.setdefault(self._of(record), record)
            lines = [json.dumps(records[key]) + "\n" for key in sorted(records)]
            write_whole(self.path, lambda file: file.write("".join(lines).encode()))
        return self._read()[self._of(record)]

    def _read(self) -> dict[tuple[Any, ...], Record]:
        records: dict[tuple[Any, ...], Record] = {}
        if not self.path.exists():
            return records
        for number, line in enumerate(self.path.read_text().splitlines(), start=1):
            try:
                record = json.loads(line)
                key = self._of(record)
            except (ValueError, KeyError, TypeError):
                raise ValueError(
                    f"{self.path}, line {number}, is no record with {', '.join(self.keys)}; "
                    "remove the line, and it is made again"
                ) from None
            if key in records:
                raise ValueError(
                    f"{self.path}, line {number}, is a second record of {self._words(record)}; "
                    "remove one"
                )
            records[key] = record
        return records

    def _of(self, record: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(record[name] for name in self.keys)

    def _words(self, record: Record) -> str:
        return ", ".join(f"{name} {record[name]}" for name in self.keys)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Waits until no other process has the folder; an end by any means lets it go."""
    if fcntl is None:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)

"""Folders that may be read and not written, where all that writes files must say so in one line.

python -m soak.folders FOLDER     # one look at each kind of file, without a superuser's rights
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import keras

from soak.files import FILES, Kind, contents
from soak.kills import PATIENCE

WITHOUT_RIGHTS = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--")
"""What lets even root respect the permissions of its own folders (util-linux)."""


def unwritable() -> str:
    """Each kind of file into a folder without the right to write.

    Raises:
        AssertionError: if one is written, gives anything but one line, or changes what was there.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "soak.folders", folder]
        if os.geteuid() == 0:
            if shutil.which(WITHOUT_RIGHTS[0]) is None:
                return "root, and no setpriv on this machine"
            command = [*WITHOUT_RIGHTS, *command]
        process = subprocess.run(
            command,
            cwd=Path(__file__).parents[1],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    if process.returncode:
        raise AssertionError(process.stderr[-3000:])
    return process.stdout.strip().splitlines()[-1]


def _look(folder: Path, kinds: Mapping[str, Kind]) -> Counter[str]:
    actual: Counter[str] = Counter()
    for name, kind in kinds.items():
        own = folder / name.replace(" ", "_")
        own.mkdir()
        kind.write(own)
        before = contents(own)
        for path in (own, *(p for p in own.rglob("*") if p.is_dir())):
            path.chmod(0o555)
        try:
            kind.write(own)
        except kind.error as error:
            if "\n" in str(error):
                raise AssertionError(f"{name}: {error!r} has not one line") from error
            actual["one line"] += 1
        else:
            raise AssertionError(f"{name} is written where nobody may write")
        if contents(own) != before:
            raise AssertionError(f"{name}: what was there is not what was there")
    return actual


if __name__ == "__main__":
    keras.utils.set_random_seed(1)
    print(dict(_look(Path(sys.argv[1]), FILES)))

"""ArviZ, which one process at a time imports.

It notes in a file of the user that it has warned today, and of two processes that find the note of
another day at once, one fails.
"""

import fcntl
import tempfile
import warnings
from pathlib import Path

with Path(tempfile.gettempdir(), "tfbdl_arviz.lock").open("w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import arviz

__all__ = ["arviz"]

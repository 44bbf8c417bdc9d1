"""One package at one work: a round for each line that is read, its seconds in a line of JSON.

    python benchmarks/peers/worker.py PEER WORK SAMPLES
    python benchmarks/peers/worker.py PEER WORK:FILE SAMPLES

`with_PEER.py` has a function of the name of the work, or of a work and its file, which builds and
compiles it, and returns a function that does a round and says in a dictionary what it did: "units",
and for chains "samples", an array that is kept in the file SAMPLES, outside of the seconds.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time

import numpy as np


def main() -> None:
    """Reads lines until there are no more."""
    peer, work, samples = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what packages print goes to stderr

    def answer(seconds: float, units: float, **more: np.ndarray) -> None:
        if more:
            np.save(samples, more["samples"])
        print(json.dumps({"seconds": seconds, "units": units}), file=answers)

    started = time.perf_counter()
    name, *file = work.split(":", 1)
    run = getattr(importlib.import_module(f"with_{peer}"), name)(*file)
    done = run()
    answer(time.perf_counter() - started, **done)
    for _ in sys.stdin:
        started = time.perf_counter()
        done = run()
        answer(time.perf_counter() - started, **done)


if __name__ == "__main__":
    main()

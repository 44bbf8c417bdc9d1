"""What `import tfbdl` adds to `import tensorflow, keras`.

    python benchmarks/startup.py

Processes that take turns; medians in seconds of the clock, after a first round that fills the
caches of the file system.
"""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np

ROUNDS = 15
PROGRAMS = ("import tensorflow, keras", "import tensorflow, keras, tfbdl")


def seconds(program: str) -> float:
    """The seconds of a process that runs it."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", program], stderr=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


def main() -> None:
    """Prints the medians and their difference."""
    rounds = [[seconds(program) for program in PROGRAMS] for _ in range(ROUNDS + 1)][1:]
    without, with_it = np.array(rounds).T
    low, median, high = np.percentile(with_it - without, [10, 50, 90])
    for program, of in zip(PROGRAMS, (without, with_it), strict=True):
        print(f"{program}: {np.median(of):.2f} s")
    print(f"difference: median {median:.2f} s (10 % to 90 %: {low:.2f} to {high:.2f})")


if __name__ == "__main__":
    main()

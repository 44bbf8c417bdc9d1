"""This package and its peers at the same work, in one go.

    python benchmarks/bench.py                                 # or: make bench
    python benchmarks/bench.py --works bbb_one --peers tfbdl numpyro --rounds 10
    python benchmarks/bench.py --peers tfbdl --before ../older     # beside a checkout of before

Each peer has an environment of its own, in `.venv-bench/`, made here from `peers/constraints.txt`.
For each work all packages start, compile, and then take turns, a round each, so that a machine
whose speed drifts does not decide; ratios are of the rounds of one turn. A package that cannot be
installed, or fails, is shown as such. The works are in `peers/work.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
import venv
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
ROOT = HERE.parent
PEERS = HERE / "peers"
sys.path.insert(0, str(PEERS))

import report  # noqa: E402
import work  # noqa: E402

PACKAGES: dict[str, tuple[str, ...]] = {
    "tfbdl": ("tfbdl",),
    "adam": ("tfbdl",),
    "parts": ("tensorflow",),
    "keras": ("keras",),
    "torch": ("torch", "numpy"),
    "numpyro": ("numpyro",),
    "bayesian_torch": ("bayesian-torch", "torch", "numpy"),
    "blitz": ("blitz-bayesian-pytorch", "torch", "numpy"),
    "torch_uncertainty": (
        "torch-uncertainty[cpu,distribution,experiments,image,others]",
        "torch",
        "numpy",
    ),
    "tfp": ("tensorflow-probability", "tensorflow", "tf_keras"),
    "posteriors": ("posteriors", "torch", "numpy"),
    "blackjax": ("blackjax",),
    "ivon": ("ivon-opt", "torch", "numpy"),
    "vbll": ("vbll", "torch", "numpy"),
    "laplace_torch": ("laplace-torch", "torch", "torchvision", "numpy"),
    "pythae": ("pythae", "torch", "numpy"),
}
"""What each is, and what is installed with it."""
INSTALLED = ("tfbdl", "adam", "parts", "keras")
"""Peers that run where this does."""
BEFORE = "before"
"""This package in another checkout."""
FEWEST = 3
"""Rounds, however long they take."""


class Failed(Exception):
    """A package that does not install or run; the reason, in a line."""


def python_of(peer: str) -> Path:
    """The interpreter of a peer, whose environment is made if there is none.

    Raises:
        Failed: if it cannot be.
    """
    if peer in INSTALLED:
        return Path(sys.executable)
    folder = ROOT / ".venv-bench" / peer
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        print(f"installing {peer}", flush=True)
        venv.create(folder, with_pip=True, clear=True)
        pip = [python, "-m", "pip", "install", "--quiet", "-c", PEERS / "constraints.txt"]
        process = subprocess.run(
            [*pip, *PACKAGES[peer]], capture_output=True, text=True, check=False
        )
        if process.returncode:
            raise Failed("does not install: " + last_line(process.stderr))
        (folder / "complete").touch()
    return python


def version_of(peer: str) -> str:
    """What is installed of a peer."""
    name = PACKAGES[peer][0].partition("[")[0]
    code = f"from importlib.metadata import version; print(version({name!r}))"
    return f"{name} {subprocess.check_output([python_of(peer), '-c', code], text=True).strip()}"


def commit_of(checkout: Path) -> str:
    """What is checked out there."""
    command = ["git", "-C", checkout, "describe", "--always", "--dirty"]
    return f"tfbdl {subprocess.check_output(command, text=True).strip()}"


def environment(visible: str | None, checkout: Path = ROOT) -> dict[str, str]:
    """Variables of a process that finds a checkout, and these GPUs (None: what we see)."""
    chosen = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    return {**os.environ, "PYTHONPATH": str(checkout), **chosen}


def last_line(text: str) -> str:
    """The last line of what a program has written, without markup."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:120].replace("|", "/") if lines else "no output"


class Worker:
    """A package that waits for its turn at one work.

    Args:
        peer: one of `PACKAGES`.
        name: the name of the work.
        log: file for what the package prints.
        visible: GPUs as `CUDA_VISIBLE_DEVICES` has them, by default none; None for those that this
            process sees.
        checkout: the checkout whose script puts the package to the work, and whose `tfbdl` it
            finds.

    Raises:
        Failed: if it cannot be installed or does not run.
    """

    def __init__(
        self,
        peer: str,
        name: str,
        log: Path,
        visible: str | None = "",
        checkout: Path = ROOT,
    ) -> None:
        self._name, self._log, self._samples = name, log.open("w"), log.with_suffix(".npy")
        self._process = subprocess.Popen(
            [python_of(peer), peers_of(checkout) / "worker.py", peer, name, self._samples],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=environment(visible, checkout),
        )
        self.first = self._answer()["seconds"]
        self.version = version_of(peer) if checkout == ROOT else commit_of(checkout)

    def round(self) -> dict[str, float]:
        """What a round took, and did."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self._answer()

    def samples(self) -> np.ndarray:
        """The samples of the last round."""
        return np.load(self._samples)

    def close(self) -> None:
        """Ends the process."""
        with self._process:  # closes what leads to it
            self._process.kill()
        self._log.close()
        self._samples.unlink(missing_ok=True)

    def _answer(self) -> dict[str, float]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self.close()
            raise Failed("fails: " + last_line(Path(self._log.name).read_text()))
        return json.loads(line)


def peers_of(checkout: Path) -> Path:
    """The folder of scripts that put packages to work."""
    return checkout / "benchmarks" / "peers"


def has(peer: str, name: str, checkout: Path = ROOT) -> bool:
    """Whether a package is put to this work."""
    source = (peers_of(checkout) / f"with_{peer}.py").read_text()
    return f"\ndef {name}(" in source or f"\n{name} =" in source or f" = {name} =" in source


def measured(
    name: str, checkouts: dict[str, Path], rounds: int, minutes: float, logs: Path
) -> dict[str, Any]:
    """All rounds of all packages at one work; a reason where there are none."""
    rounds_of: dict[str, Any] = {}
    workers: dict[str, Worker] = {}
    for peer, checkout in checkouts.items():
        package = "tfbdl" if peer == BEFORE else peer
        log = logs / f"{name}_{peer}.log"
        try:
            workers[peer] = Worker(package, name, log, checkout=checkout)
        except Failed as failed:
            rounds_of[peer] = str(failed)
    rows: dict[str, list[dict[str, float]]] = {peer: [] for peer in workers}
    end = time.monotonic() + 60 * minutes
    for turn in range(rounds):
        if turn >= FEWEST and time.monotonic() > end:
            break
        for peer, worker in workers.items():
            rows[peer].append(worker.round())
    for peer, worker in workers.items():
        columns = {column: [row[column] for row in rows[peer]] for column in ("seconds", "units")}
        rounds_of[peer] = {**columns, "first": worker.first, "version": worker.version}
        worker.close()
    return rounds_of


def machine() -> dict[str, Any]:
    """The machine on which it ran."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": names[0] if names else platform.processor(),
        "cores": os.cpu_count(),
        "memory_GB": round(memory / 1e9, 1),
        "system": platform.system(),
        "python": platform.python_version(),
    }


def main() -> None:
    """Measures, and writes records, table and figure; a work that has a record is left as it is."""
    parser = argparse.ArgumentParser(
        description="This package and its peers at the same work.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--works", nargs="+", choices=list(work.TITLES), default=list(work.TITLES))
    parser.add_argument("--peers", nargs="+", choices=list(PACKAGES), default=list(PACKAGES))
    parser.add_argument("--before", type=Path, help="a checkout of this package, a peer too")
    parser.add_argument("--rounds", type=int, default=20, help="of each package at each work")
    parser.add_argument("--minutes", type=float, default=3.0, help="of a work, after compilation")
    parser.add_argument(
        "--savedir", type=Path, default=ROOT / "runs" / "benchmarks", help="output folder"
    )
    args = parser.parse_args()
    logs = args.savedir / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    for name in args.works:
        path = args.savedir / f"{name}.json"
        if path.exists():
            continue
        print(f"==> {work.TITLES[name]}", flush=True)
        checkouts = {peer: ROOT for peer in args.peers if has(peer, name)}
        if args.before and has("tfbdl", name, args.before):
            checkouts[BEFORE] = args.before
        rows = measured(name, checkouts, args.rounds, args.minutes, logs)
        record = {"machine": machine(), "rounds": args.rounds, "peers": rows}
        path.write_text(json.dumps(record, indent=1) + "\n")
    records = {
        name: json.loads((args.savedir / f"{name}.json").read_text())
        for name in work.TITLES
        if (args.savedir / f"{name}.json").exists()
    }
    works = {name: record["peers"] for name, record in records.items()}
    text = "\n".join([*report.preamble(records), *report.table(works)])
    (args.savedir / "benchmarks.md").write_text(text)
    report.figure(works).savefig(args.savedir / "benchmarks.png", dpi=110)
    print(text)


if __name__ == "__main__":
    main()

"""The package under other versions of Python and of what it needs, the lowest and the newest.

python benchmarks/soak/versions.py                        # all, into results/soak/versions.md
python benchmarks/soak/versions.py --pythons 3.12 --tests tests      # one, with every test

Each has an environment of its own, made by uv, in a folder whose name has blanks and letters
beyond ASCII, with a fresh clone of this checkout: some 2 GB and 20 minutes each on two cores. A
Python that is not found here is fetched by uv where there is a network for it, and named as missing
otherwise. What has been done with this commit is not done again.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
REPORT = ROOT / "results" / "soak" / "versions.md"
WHERE = ROOT / "runs" / "versions"
PYTHONS = ("3.10", "3.12", "3.13")
RESOLUTIONS = {"lowest": "lowest-direct", "newest": "highest"}
SHOWN = ("tensorflow", "keras", "tensorflow-probability", "numpy", "scipy")
MINUTES = 90
TESTS = [
    "tests/test_keras_private.py",
    "tests/test_graphs.py",
    "tests/test_graphs_given_back.py",
    "tests/test_calls.py",
    "tests/test_programs_of_models.py",
    "tests/test_whole_file.py",
    "tests/test_run_folder.py",
    "tests/test_cli_log.py",
    "tests/test_cli_model.py",
    "tests/test_convert.py",
    "tests/test_convert_inside.py",
    "tests/test_copying.py",
    "tests/serving",
    "tests/test_random.py",
    "tests/layers/test_batch_ensemble_wrapper.py",
    "tests/layers/test_bayes_conv.py",
    "tests/layers/test_bayes_einsum_dense.py",
    "tests/layers/test_contract.py",
    "tests/layers/test_saving.py",
    "tests/layers/test_bayes_recurrent.py",
    "tests/likelihoods/test_likelihoods.py",
    "tests/likelihoods/test_of_shape.py",
    "tests/priors/test_every_prior.py",
    "tests/training/test_callbacks.py",
    "tests/training/test_loop.py",
    "tests/training/test_checkpoint.py",
    "tests/training/test_resume.py",
    "tests/predictive/test_predict.py",
    "tests/data",
    "tests/inference/test_empirical_bayes.py",
    "tests/inference/test_energy.py",
    "tests/inference/test_laplace_continual.py",
    "tests/inference/test_map.py",
    "tests/inference/test_log_posterior.py",
    "tests/plots",
]
"""Tests that use most of Keras, TensorFlow and Python's own library."""


def main() -> None:
    """Makes the environments one after the other, and the report after each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pythons", nargs="+", default=PYTHONS)
    parser.add_argument("--resolutions", nargs="+", choices=RESOLUTIONS, default=[*RESOLUTIONS])
    parser.add_argument("--tests", nargs="+", default=TESTS)
    parser.add_argument("--again", action="store_true", help="also what has been done already")
    args = parser.parse_args()
    kept = REPORT.with_suffix(".json")
    rows = json.loads(kept.read_text()) if kept.exists() else {}
    for python in args.pythons:
        for resolution in args.resolutions:
            name = f"{python} {resolution}"
            done = rows.get(name, {}).get("commit") == commit() and "failed" not in str(rows[name])
            if done and not args.again:
                continue
            rows[name] = row(python, resolution, args.tests)
            print(name, rows[name], flush=True)
            REPORT.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(rows, indent=1) + "\n")
            REPORT.write_text(report(rows))
    if "failed" in json.dumps(rows):
        raise SystemExit(f"not all is well; see {REPORT}")


def row(python: str, resolution: str, tests: list[str]) -> dict[str, Any]:
    """What is installed, and what of it works."""
    begun, folder = time.monotonic(), WHERE / f"töst dir ü {python} {resolution}"
    shutil.rmtree(folder, ignore_errors=True)
    actual: dict[str, Any] = {"commit": commit()}
    try:
        actual["installed"] = install(python, resolution, folder)
    except (subprocess.SubprocessError, OSError) as error:
        reason = getattr(error, "stderr", None) or str(error)
        missing = "No interpreter found" in reason or "managed Python" in reason
        actual["installed"] = "not on this machine" if missing else f"failed: {reason[-300:]}"
        return actual
    actual["tests"] = tested(folder, tests)
    actual["demo"] = shown(folder)
    actual["minutes"] = round((time.monotonic() - begun) / 60)
    shutil.rmtree(folder / ".venv")
    return actual


def install(python: str, resolution: str, folder: Path) -> dict[str, str]:
    """A clone with its environment; gives the versions of what matters most.

    The lowest versions are those of what the package itself needs, for which there are wheels.
    """
    run("git", "clone", "--quiet", ROOT, folder, cwd=ROOT)
    run(*uv(), "venv", "--quiet", "--python", interpreter(python), ".venv", cwd=folder)
    run(
        *(*uv(), "pip", "compile", "--quiet", "--resolution", RESOLUTIONS[resolution]),
        *("--only-binary", ":all:", "--python", ".venv", "pyproject.toml"),
        *("--output-file", "versions.txt"),
        cwd=folder,
    )
    direct = ("tensorflow", "keras", "tensorflow-probability", "tf-keras", "numpy", "scipy")
    direct += ("matplotlib", "scikit-learn", "rich")
    lines = (folder / "versions.txt").read_text().splitlines()
    chosen = [line for line in lines if line.partition("==")[0] in direct]
    (folder / "constraints of it.txt").write_text("\n".join(chosen) + "\n")
    run(
        *(*uv(), "pip", "install", "--quiet", "--python", ".venv"),
        *("--constraint", "constraints of it.txt", "--editable", ".[test]"),
        cwd=folder,
    )
    return {name: version for name, version in (c.split("==") for c in chosen) if name in SHOWN}


def tested(folder: Path, tests: list[str]) -> str:
    """How many tests passed, and which did not."""
    command = [str(folder / ".venv" / "bin" / "python"), "-m", "pytest", *tests]
    process = subprocess.run(
        [*command, "-o", "addopts=", "-q", "--strict-markers", "--numprocesses", "2"],
        cwd=folder,
        env=own_environment(),
        capture_output=True,
        text=True,
        timeout=60 * MINUTES,
        check=False,
    )
    (folder / "tests.log").write_text(process.stdout + process.stderr)
    if process.returncode:
        names = re.findall(r"^(?:FAILED|ERROR|SUBFAILED\S*) (\S+)", process.stdout, re.MULTILINE)
        return (
            f"failed: {', '.join(dict.fromkeys(names)) or (process.stdout + process.stderr)[-300:]}"
        )
    return process.stdout.strip().splitlines()[-1].partition(" in ")[0]


def shown(folder: Path) -> str:
    """Whether the tour of the tutorials runs, as `make demo` does."""
    process = subprocess.run(
        [str(folder / ".venv" / "bin" / "python"), "-m", "tutorials.demo", "--quick"],
        cwd=folder,
        env=own_environment(),
        capture_output=True,
        text=True,
        timeout=60 * MINUTES,
        check=False,
    )
    return f"failed: {process.stderr[-300:]}" if process.returncode else "runs"


def interpreter(python: str) -> str:
    """A path that runs, of this version; else the version itself, for uv to find or to fetch."""
    known = sorted(Path.home().glob(f".pyenv/versions/{python}.*/bin/python"))
    for path in (shutil.which(f"python{python}"), *map(str, known)):
        if path and not subprocess.run([path, "-V"], capture_output=True, check=False).returncode:
            return path
    return python


def uv() -> list[str]:
    """The command, which is installed beside this Python where there is none."""
    own = Path(sys.executable).with_name("uv")
    actual = shutil.which("uv") or (str(own) if own.exists() else None)
    if actual is None:
        tool = WHERE / "uv"
        if not (tool / "bin" / "uv").exists():
            run(sys.executable, "-m", "venv", tool, cwd=ROOT)
            run(tool / "bin" / "python", "-m", "pip", "install", "--quiet", "uv", cwd=ROOT)
        actual = str(tool / "bin" / "uv")
    return [actual]


def run(*command: Any, cwd: Path) -> None:
    """Runs it; a failure has what it said."""
    subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=own_environment(),
        capture_output=True,
        text=True,
        check=True,
    )


def own_environment() -> dict[str, str]:
    """Variables without those by which Python would find another checkout."""
    return {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "PYTHONPATH")}


def commit() -> str:
    """The checkout's commit that is cloned."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout[:-1]


def report(rows: dict[str, dict[str, Any]]) -> str:
    """The table, and what it is of."""
    lines = [
        "# Other versions",
        "",
        "Made by `python benchmarks/soak/versions.py`: for each Python the lowest versions that "
        "`pyproject.toml` allows and that there are wheels for, and the newest. Each was "
        "installed into a clone of its own in a folder named like `töst dir ü 3.12 newest`; "
        "the tests are those that use most of Keras, TensorFlow and Python's own library, and "
        "the tour is `tutorials/demo.py --quick`.",
        "",
        f"| Python | of | {' | '.join(SHOWN)} | tests | tour | minutes | commit |",
        f"|{'---|' * (len(SHOWN) + 6)}",
    ]
    for name, actual in rows.items():
        python, resolution = name.split()
        installed = actual["installed"]
        if isinstance(installed, str):
            cells = [installed, *[""] * (len(SHOWN) + 2)]
        else:
            cells = [installed.get(package, "") for package in SHOWN]
            cells += [actual["tests"], actual["demo"], str(actual["minutes"])]
        lines.append(f"| {' | '.join([python, resolution, *cells, actual['commit']])} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()

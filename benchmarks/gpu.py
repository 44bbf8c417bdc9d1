"""The package on a GPU: where its networks lie, what they give, and how long, beside the CPU.

    python benchmarks/gpu.py                  # or: make gpu
    python benchmarks/gpu.py --works bbb_one vae --rounds 5

The lectures' networks are trained on either device from the same seeds; then the works of
`bench.py` are timed, a round on each in turns. The report in `--savedir` can be sent as it is. It
ends with an error where there is no GPU, or where some weight does not lie on it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("TFBDL_QUIET", "1")

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE / "peers"))

import bench  # noqa: E402
import report  # noqa: E402
import work  # noqa: E402

DEVICES = {"CPU": "", "GPU": None}
"""What `CUDA_VISIBLE_DEVICES` is: nothing, or what it is already."""


def placement(visible: str | None) -> dict[str, Any]:
    """What `placement.py` prints on a device."""
    process = subprocess.run(
        [sys.executable, HERE / "placement.py"],
        env=bench.environment(visible),
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode:
        raise SystemExit(f"placement.py fails: {bench.last_line(process.stderr)}")
    return json.loads(process.stdout)


def timed(name: str, devices: list[str], rounds: int, logs: Path) -> dict[str, Any]:
    """Seconds per unit of a work, of rounds on each device in turns; a reason if there are none."""
    workers, rows = {}, {}
    for device in devices:
        log = logs / f"{name}_{device}.log"
        try:
            workers[device] = bench.Worker("tfbdl", name, log, DEVICES[device])
        except bench.Failed as failed:
            rows[device] = str(failed)
    turns: dict[str, list[dict[str, float]]] = {device: [] for device in workers}
    for _ in range(rounds):
        for device, worker in workers.items():
            turns[device].append(worker.round())
    for device, worker in workers.items():
        columns = {key: [turn[key] for turn in turns[device]] for key in ("seconds", "units")}
        rows[device] = report.per_unit(columns)
        worker.close()
    return rows


def written(placements: dict[str, dict[str, Any]], times: dict[str, dict[str, Any]]) -> str:
    """The report."""
    last = placements[list(placements)[-1]]
    gpus = [gpu.get("device_name", "unknown") for gpu in last["gpus"]]
    facts = {
        **bench.machine(),
        "GPUs": ", ".join(gpus) or "none",
        "TensorFlow is built with CUDA": last["built_with_cuda"],
        **last["build"],
        **last["versions"],
    }
    lines = ["# tfbdl on a GPU", "", *(f"- {name}: {value}" for name, value in facts.items()), ""]
    lines += ["## Where weights are, and what networks give", ""]
    lines += [
        "| network | weights not on the device | " + " | ".join(placements) + " | differ by |"
    ]
    lines += ["|---" * (3 + len(placements)) + "|"]
    for name, on in last["networks"].items():
        values = [f"{of['networks'][name]['value']:.6g}" for of in placements.values()]
        values[0] = f"{on['column']} {values[0]}"
        cells = [name, ", ".join(on["elsewhere"]) or "none", *values, difference(placements, name)]
        lines.append(f"| {' | '.join(cells)} |")
    if last["peak_GB"] is not None:
        lines += ["", f"Peak memory of the GPU: {last['peak_GB']:.2f} GB."]
    lines += ["", "## Times", "", "Medians, in ms; ratios of the rounds of one turn.", ""]
    lines += ["| work | a | " + " | ".join(placements) + " | CPU / GPU (10 % to 90 %) |"]
    lines += ["|---" * (3 + len(placements)) + "|"]
    for name, rows in times.items():
        shown = [
            rows[device]
            if isinstance(rows[device], str)
            else f"{1e3 * np.median(rows[device]):.3g}"
            for device in placements
        ]
        lines.append(
            f"| {work.TITLES[name]} | {work.UNITS[name]} | {' | '.join(shown)} | {ratio(rows)} |"
        )
    return "\n".join([*lines, ""])


def difference(placements: dict[str, dict[str, Any]], name: str) -> str:
    """The largest difference between probabilities of the devices, if it gives some."""
    given = [
        np.array(of["networks"][name]["p"])
        for of in placements.values()
        if "p" in of["networks"][name]
    ]
    return f"{np.abs(given[0] - given[-1]).max():.1e}" if len(given) > 1 else ""


def ratio(rows: dict[str, Any]) -> str:
    """CPU by GPU, round by round."""
    if not all(isinstance(rows.get(device), np.ndarray) for device in DEVICES):
        return ""
    low, middle, high = np.percentile(rows["CPU"] / rows["GPU"], [10, 50, 90])
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def main() -> None:
    """Looks, times and writes."""
    parser = argparse.ArgumentParser(
        description="The package on a GPU beside the CPU.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--works", nargs="*", choices=list(work.TITLES), default=list(work.TITLES))
    parser.add_argument("--rounds", type=int, default=10, help="of each work on each device")
    parser.add_argument("--savedir", type=Path, default=ROOT / "runs" / "gpu", help="output folder")
    args = parser.parse_args()
    args.savedir.mkdir(parents=True, exist_ok=True)
    placements = {device: placement(visible) for device, visible in DEVICES.items()}
    if not placements["GPU"]["gpus"]:
        del placements["GPU"]
    times = {}
    for name in args.works:
        print(f"==> {work.TITLES[name]}", flush=True)
        times[name] = timed(name, list(placements), args.rounds, args.savedir)
    text = written(placements, times)
    (args.savedir / "report.md").write_text(text)
    print(text)
    if "GPU" not in placements:
        raise SystemExit(
            "TensorFlow sees no GPU; pip install 'tensorflow[and-cuda]', and look whether "
            "nvidia-smi lists one"
        )
    lost = {
        n: on["elsewhere"] for n, on in placements["GPU"]["networks"].items() if on["elsewhere"]
    }
    if lost:
        raise SystemExit(f"weights that are not on the GPU: {lost}")


if __name__ == "__main__":
    main()

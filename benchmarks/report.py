"""What the rounds of `bench.py` say: a table and a figure."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).parent / "peers"))

import work

NEWER = ("batch_ensemble", "vbll", "ivon", "ivon_resnet")
SAMPLERS = ("sgld", "sghmc", "sghmc_resnet")
SINGLE = ("bbb_local", "bbb_flipout", "bbb_one", "bbb_wide", *SAMPLERS, *NEWER)
FLOORS = {
    "adam": ("single weights in tfbdl.train", SINGLE),
    "parts": ("sum of the parts", SINGLE),
    "keras": ("single weights", SINGLE),
    "torch": ("single weights", SINGLE),
}
"""What is less than the work of others: floors, not rivals; and at which works."""


def per_unit(rows: dict[str, Any]) -> np.ndarray:
    """Seconds per unit, of each round."""
    return np.array(rows["seconds"]) / np.array(rows["units"])


def is_floor(peer: str, name: str) -> bool:
    """Whether a package does less than the others at this work."""
    return peer in FLOORS and name in FLOORS[peer][1]


def label(peer: str, name: str) -> str:
    """The name of a row."""
    return f"{peer}, {FLOORS[peer][0]}" if is_floor(peer, name) else peer


def preamble(records: dict[str, Any]) -> list[str]:
    """The machine, and the packages."""
    machines = {json.dumps(record["machine"]): record["machine"] for record in records.values()}
    rows = [rows for record in records.values() for rows in record["peers"].values()]
    versions = sorted({row["version"] for row in rows if isinstance(row, dict)})
    lines = [", ".join(f"{k} {v}" for k, v in machine.items()) for machine in machines.values()]
    return [*lines, "", ", ".join(versions), ""]


def table(works: dict[str, Any]) -> list[str]:
    """Medians, and the median and spread of the ratios to this package, round by round."""
    lines = []
    for name, peers in works.items():
        unit = work.UNITS[name]
        lines += [f"**{work.TITLES[name]}**", ""]
        lines += [
            f"| | ms a {unit} | times this package's | first round (s) |",
            "|---|---|---|---|",
        ]
        for peer, rows in peers.items():
            if isinstance(rows, str):
                lines.append(f"| {label(peer, name)} | {rows} | | |")
                continue
            seconds = per_unit(rows)
            cells = [f"{1e3 * np.median(seconds):.3g}", "", f"{rows['first']:.1f}"]
            if isinstance(peers.get("tfbdl"), dict):
                low, middle, high = np.percentile(seconds / per_unit(peers["tfbdl"]), [10, 50, 90])
                cells[1] = f"{middle:.2f} ({low:.2f} to {high:.2f})"
            lines.append(f"| {label(peer, name)} | {' | '.join(cells)} |")
        lines.append("")
    return lines


def figure(works: dict[str, Any]) -> Figure:
    """The ratios of all works."""
    names = [name for name, peers in works.items() if isinstance(peers.get("tfbdl"), dict)]
    figure, ax = plt.subplots(figsize=(10, 1.2 + 0.5 * len(names)), layout="constrained")
    points: dict[str, Any] = {}
    colours: dict[str, Any] = {}
    for place, name in enumerate(names):
        own = per_unit(works[name]["tfbdl"])
        for peer, rows in works[name].items():
            if peer == "tfbdl" or isinstance(rows, str):
                continue
            ratio = per_unit(rows) / own
            colour = colours.setdefault(peer, plt.get_cmap("tab20")(len(colours)))
            ax.plot(np.percentile(ratio, [10, 90]), [place, place], color=colour, alpha=0.5)
            marker = "|" if is_floor(peer, name) else "o"
            (point,) = ax.plot(np.median(ratio), place, marker, color=colour, label=peer)
            points.setdefault(peer, point)
    points["tfbdl"] = ax.axvline(1.0, color="black", linewidth=1, label="tfbdl")
    ax.set_yticks(range(len(names)), [work.TITLES[name] for name in names], fontsize=8)
    ax.set(xscale="log", xlabel="time in units of this package's (bars: floors, which do less)")
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.grid(axis="x", alpha=0.3)
    ax.legend(handles=list(points.values()), fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    return figure

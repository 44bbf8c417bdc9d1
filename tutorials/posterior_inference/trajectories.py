r"""What Hamiltonian Monte Carlo loses by Euler's method, on N(0, I_d).

    python -m tutorials.posterior_inference.trajectories

The slides move weights and velocity by v += h grad log p(w), w += h v; whether w moves by the old
velocity or the new one depends on the slide. Neither is the leapfrog,

    v += h/2 grad log p(w),    w += h v,    v += h/2 grad log p(w),

which keeps volume and returns to where it came from if v is turned round: both are what the test
min(1, exp(H(w, v) - H(w', v'))) needs to keep p. By the old velocity the energy grows in each step,
and volume with it; by the new one volume is kept, but not the way back.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TypeAlias

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from tutorials import commands, run_files

State: TypeAlias = tuple[np.ndarray, np.ndarray]
Step: TypeAlias = Callable[[np.ndarray, np.ndarray, float], State]

SETTINGS = {1: (15, 0.1), 10: (8, 0.2), 100: (15, 0.1)}
"""Steps of a trajectory and their size, by dimension."""
SHOWN = (31, 0.2)


def leapfrog(w: np.ndarray, v: np.ndarray, h: float) -> State:
    v = v - h / 2 * w
    w = w + h * v
    return w, v - h / 2 * w


def new_velocity(w: np.ndarray, v: np.ndarray, h: float) -> State:
    """Semi-implicit Euler."""
    v = v - h * w
    return w + h * v, v


def old_velocity(w: np.ndarray, v: np.ndarray, h: float) -> State:
    """Explicit Euler, as the slide is written."""
    return w + h * v, v - h * w


METHODS: dict[str, Step] = {
    "leapfrog": leapfrog,
    "Euler, new velocity": new_velocity,
    "Euler, old velocity": old_velocity,
}


def energy(w: np.ndarray, v: np.ndarray) -> np.ndarray:
    """H = 1/2 |w|^2 + 1/2 |v|^2, over the last axis."""
    return 0.5 * (np.sum(w**2, -1) + np.sum(v**2, -1))


def chains(step: Step, d: int, args: argparse.Namespace) -> dict[str, float]:
    """Acceptance, and the variance of a weight with its standard error; both exact: 1."""
    generator = np.random.default_rng(args.seed)
    steps, h = SETTINGS[d]
    w = generator.standard_normal((args.chains, d))
    accepted, squares = [], []
    for _ in range(args.samples):
        v = generator.standard_normal(w.shape)
        w_new, v_new = w, v
        for _ in range(steps):
            w_new, v_new = step(w_new, v_new, h)
        ratio = energy(w, v) - energy(w_new, v_new)
        take = np.log(generator.random(len(w))) < ratio
        w = np.where(take[:, None], w_new, w)
        accepted.append(take.mean())
        squares.append(np.mean(w**2, -1))
    by_chain = np.mean(squares[args.samples // 5 :], 0)
    return {
        "acceptance": float(np.mean(accepted)),
        "variance": float(by_chain.mean()),
        "standard error": float(by_chain.std(ddof=1) / len(by_chain) ** 0.5),
    }


def figure(rows: dict[str, dict[str, float]]) -> Figure:
    """Trajectories, their energy, and what chains make of them."""
    drawn, (plane, over, of_chains) = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
    steps, h = SHOWN
    for i, (name, step) in enumerate(METHODS.items()):
        path = [(np.array([1.0]), np.array([0.0]))]
        for _ in range(steps):
            path.append(step(*path[-1], h))
        w, v = (np.array(part)[:, 0] for part in zip(*path, strict=True))
        plane.plot(w, v, f"C{i}.-", markersize=4, linewidth=0.8, label=name)
        over.plot(0.5 * (w**2 + v**2) - 0.5, f"C{i}.-", label=name)
        places = np.arange(len(SETTINGS)) + 0.26 * (i - 1)
        acceptances = [100 * rows[f"{name}, d = {d}"]["acceptance"] for d in SETTINGS]
        of_chains.bar(places, acceptances, 0.24, color=f"C{i}", label=name)
        for place, d, height in zip(places, SETTINGS, acceptances, strict=True):
            row = rows[f"{name}, d = {d}"]
            text = f"{row['variance']:.2f}" if height > 0.5 else "stuck"
            of_chains.text(place, height + 1, text, ha="center", fontsize=8)
    circle = np.linspace(0, 2 * np.pi, 200)
    plane.plot(np.cos(circle), np.sin(circle), "k:", linewidth=1)
    plane.set(
        title=f"{steps} steps of {h}; dotted: equal energy",
        xlabel="w",
        ylabel="v",
        aspect="equal",
    )
    over.legend(fontsize=8, loc="upper left")
    over.set(title="energy gained on the way", xlabel="step", ylabel="H - H at the start")
    of_chains.set(
        title="chains; above bars: the variance (truth: 1)",
        ylabel="trajectories accepted, percent",
        xlabel="dimension",
        ylim=(0, 110),
    )
    of_chains.set_xticks(range(len(SETTINGS)), [f"d = {d}" for d in SETTINGS])
    return drawn


def main_trajectories(args: argparse.Namespace) -> None:
    args.savedir.mkdir(parents=True, exist_ok=True)
    rows = {
        f"{name}, d = {d}": chains(step, d, args)
        for d in SETTINGS
        for name, step in METHODS.items()
    }
    for name, row in rows.items():
        cells = ", ".join(f"{column} {value:.4f}" for column, value in row.items())
        print(f"test: {name}: {cells}", flush=True)
    run_files.write_metrics(args, trajectories=rows)
    run_files.write_figure(figure(rows), args.savedir / "trajectories.png")


def parser() -> argparse.ArgumentParser:
    parser = commands.parser("posterior_inference.trajectories", "Leapfrog and Euler's method.")
    parser.add_argument("--chains", type=int, default=200, help="number of chains")
    parser.add_argument("--samples", type=int, default=2000, help="trajectories of a chain")
    return parser


def main() -> None:
    commands.run(parser(), main_trajectories)


if __name__ == "__main__":
    main()

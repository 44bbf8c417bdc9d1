"""How many effective samples of f chains draw a second, in this package and in BlackJAX.

    python benchmarks/effective_samples.py                             # or: make bench
    python benchmarks/effective_samples.py --posteriors curve --kernels nuts mclmc

Each kernel is warmed up here, once. Both packages then go on from where its chains are, with its
step sizes and metric, and take turns, a round each, in an environment of their own. What counts is
the values f(x) at 50 inputs, which are the same for networks that differ by a symmetry alone:
their effective samples over all chains, by seconds, and how far their means and standard deviations
are from those of all chains that end in a Metropolis test.
"""

from __future__ import annotations

import os

os.environ.setdefault("TFBDL_QUIET", "1")

import tfbdl  # noqa: F401  # isort: skip  (before anything that imports TensorFlow)

import argparse
import itertools
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE / "peers"))

import bench  # noqa: E402
import with_tfbdl  # noqa: E402
import work  # noqa: E402
from compiled_chains import warmed_up  # noqa: E402

from tfbdl.data import uci  # noqa: E402
from tfbdl.inference import ess, rhat  # noqa: E402
from tfbdl.inference.initial_points import initial_points  # noqa: E402
from tutorials.uci.split import Split  # noqa: E402

PACKAGES = ("tfbdl", "blackjax")
TITLES = {
    "curve": "46 parameters, N = 100",
    "concrete": "concrete data, 8-50-1, N = 927",
    "images": "784-50-10 on 1,000 images",
}
KERNELS = {
    "nuts": "NUTS",
    "nuts_diagonal": "NUTS, diagonal metric",
    "mams": "MAMS",
    "mams_diagonal": "MAMS, diagonal metric",
    "mclmc": "MCLMC",
    "mclmc_diagonal": "MCLMC, diagonal metric",
}
UNADJUSTED = ("mclmc", "mclmc_diagonal")
POINTS = 50
"""Inputs at which functions are looked at."""
NUM_CHAINS, NUM_WARMUP = 4, 1000


def data(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The data of a posterior, and inputs for its functions."""
    if name == "curve":
        x, y = work.curve()
        return x, y, x[:: len(x) // POINTS]
    if name == "concrete":
        split = Split.of(uci("concrete", 0))
        return split.x, split.y, split.x_test[:POINTS]
    x, y = work.images(1000)
    return x, y, np.random.default_rng(1).random((POINTS, x.shape[1]), dtype=np.float32)


def warm_up(name: str, kernel: str, path: Path) -> None:
    """Writes the file that chains of all packages go on from."""
    x, y, _ = data(name)
    target = with_tfbdl.posterior(name, x, y)
    made = with_tfbdl.KERNELS[kernel].for_priors(target.priors or ())
    theta = initial_points(target, "prior", NUM_CHAINS, jitter=0.0, seed=0)
    begun = time.process_time()
    theta, tuning = warmed_up(target, made, theta, NUM_WARMUP)
    print(
        f"{name}, {kernel}: warm-up {time.process_time() - begun:.0f} s of a processor", flush=True
    )
    np.savez(
        path,
        name=name,
        kernel=kernel,
        length=with_tfbdl.length_of(made),
        x=x,
        y=y,
        theta=theta,
        step_size=tuning.step_size,
        scale=tuning.scale,
    )


def functions(name: str, theta: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The first output of the network at x, shape (S, C, N), in float64."""
    sizes, activation, use_bias = work.POSTERIORS[name]
    activate = {"tanh": np.tanh, "relu": lambda f: np.maximum(f, 0.0)}[activation]
    theta, f = theta.astype(np.float64), x
    at = 0
    for layer, (rows, columns) in enumerate(itertools.pairwise(sizes)):
        kernel = theta[..., at : at + rows * columns].reshape(*theta.shape[:-1], rows, columns)
        at += rows * columns
        f = (activate(f) if layer else f) @ kernel
        if use_bias:
            f += theta[..., None, at : at + columns]
            at += columns
    return f[..., 0]


def measured(name: str, kernel: str, minutes: float, folder: Path) -> dict[str, Any]:
    """Seconds, gradients and functions of all packages' chains."""
    path, inputs = folder / f"{name}_{kernel}.npz", data(name)[-1]
    if not path.exists():
        warm_up(name, kernel, path)
    workers = {
        peer: bench.Worker(peer, f"chains:{path}", folder / f"{name}_{kernel}_{peer}.log")
        for peer in PACKAGES
    }
    rounds: dict[str, list[dict[str, float]]] = {peer: [] for peer in workers}
    drawn: dict[str, list[np.ndarray]] = {peer: [] for peer in workers}
    end = time.monotonic() + 60 * minutes
    while len(rounds[PACKAGES[-1]]) < bench.FEWEST or time.monotonic() < end:
        for peer, worker in workers.items():
            rounds[peer].append(worker.round())
            drawn[peer].append(functions(name, worker.samples(), inputs))
    for worker in workers.values():
        worker.close()
    return {
        peer: {
            "version": workers[peer].version,
            "seconds": [row["seconds"] for row in rounds[peer]],
            "gradients": [row["units"] for row in rounds[peer]],
            "f": np.concatenate(drawn[peer]),
        }
        for peer in workers
    }


def summary(of: dict[str, Any]) -> dict[str, Any]:
    """What is kept of a package's chains."""
    f = of.pop("f")
    effective = np.asarray(ess(f))
    return {
        **of,
        "effective": effective.tolist(),
        "rhat": float(np.max(rhat(f))),
        "mean": f.mean(axis=(0, 1)).tolist(),
        "stddev": f.std(axis=(0, 1)).tolist(),
    }


def table(records: dict[str, Any]) -> list[str]:
    """Effective samples by seconds and gradients, and the bias."""
    lines = []
    for name in work.POSTERIORS:
        of = {key: rows for key, rows in records.items() if key.split(", ")[0] == name}
        if not of:
            continue
        exact = reference(of)
        lines += [
            f"**{TITLES[name]}**",
            "",
            "| | effective samples of f a second | the least | of 1,000 gradients | us a gradient "
            "| R-hat | error of means (sd) | of log sd |",
            "|---" * 8 + "|",
        ]
        for key, row in of.items():
            _, kernel, peer = key.split(", ")
            effective, seconds = np.array(row["effective"]), sum(row["seconds"])
            gradients = sum(row["gradients"])
            errors = bias(row, exact)
            cells = [
                f"{np.median(effective) / seconds:.3g}",
                f"{effective.min() / seconds:.3g}",
                f"{1e3 * np.median(effective) / gradients:.3g}",
                f"{1e6 * seconds / gradients:.3g}",
                f"{row['rhat']:.3f}",
                *(f"{error:.3f} ({noise:.3f})" for error, noise in errors),
            ]
            lines.append(f"| {KERNELS[kernel]}, {peer} | {' | '.join(cells)} |")
        lines.append("")
    return lines


def reference(of: dict[str, Any]) -> dict[str, np.ndarray]:
    """Moments of functions over all chains with a Metropolis test, weighted by what they say."""
    adjusted = [row for key, row in of.items() if key.split(", ")[1] not in UNADJUSTED]
    weights = np.array([row["effective"] for row in adjusted])
    weights /= weights.sum(axis=0)
    means = np.array([row["mean"] for row in adjusted])
    squares = np.array([row["stddev"] for row in adjusted]) ** 2 + means**2
    mean = np.sum(weights * means, axis=0)
    total = np.sum([row["effective"] for row in adjusted], axis=0)
    stddev = np.sqrt(np.sum(weights * squares, axis=0) - mean**2)
    return {"mean": mean, "stddev": stddev, "effective": total}


def bias(row: dict[str, Any], exact: dict[str, np.ndarray]) -> list[tuple[float, float]]:
    """Errors of means and of log standard deviations, and what chance alone would make of them.

    Roots of mean squares over inputs. A mean of n effective samples of a normal has the variance
    sd^2 / n, a log standard deviation 1 / 2n.
    """
    mean = (np.array(row["mean"]) - exact["mean"]) / exact["stddev"]
    stddev = np.log(np.array(row["stddev"]) / exact["stddev"])
    noise = np.mean(1.0 / np.array(row["effective"]) + 1.0 / exact["effective"])
    root = [float(np.sqrt(np.mean(error**2))) for error in (mean, stddev)]
    return [(root[0], float(np.sqrt(noise))), (root[1], float(np.sqrt(noise / 2)))]


def main() -> None:
    """Measures what has no record yet, and writes records and table."""
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--posteriors", nargs="+", choices=list(TITLES), default=list(TITLES))
    parser.add_argument("--kernels", nargs="+", choices=list(KERNELS), default=list(KERNELS))
    parser.add_argument("--minutes", type=float, default=2.0, help="of all packages, by a kernel")
    parser.add_argument(
        "--savedir", type=Path, default=bench.ROOT / "runs" / "effective_samples", help="output"
    )
    args = parser.parse_args()
    args.savedir.mkdir(parents=True, exist_ok=True)
    path = args.savedir / "records.json"
    records = json.loads(path.read_text()) if path.exists() else {}
    for name, kernel in itertools.product(args.posteriors, args.kernels):
        if f"{name}, {kernel}, {PACKAGES[0]}" in records:
            continue
        for peer, of in measured(name, kernel, args.minutes, args.savedir).items():
            records[f"{name}, {kernel}, {peer}"] = summary(of)
        path.write_text(json.dumps(records, indent=1) + "\n")
    machine = ", ".join(f"{k} {v}" for k, v in bench.machine().items())
    text = "\n".join([machine, "", *table(records)])
    (args.savedir / "effective_samples.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()

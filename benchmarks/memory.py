"""Peak memory and CPU seconds of large networks, each case in a process of its own.

    python benchmarks/memory.py                    # writes results/memory/README.md
    python benchmarks/memory.py --cases "1,000 classes" --packages tfbdl

The memory is the most that the process held, imports within it; the seconds are those of all its
threads, and of the clock. Peers have the cases that they know (`peers/memory_of_*.py`), in their
environments of `bench.py`, with a limit of memory and of time.
"""

from __future__ import annotations

import os

os.environ.setdefault("TFBDL_QUIET", "1")

import tfbdl  # isort: skip  (before anything that imports TensorFlow)

import argparse
import json
import platform
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers as L

from tfbdl.inference import SWAG, Laplace

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE / "peers"))

import bench  # noqa: E402
from measured import Steps, measured  # noqa: E402

RNG = np.random.default_rng(0)
GIGABYTES, MINUTES = 16.0, 10.0
"""Gigabytes of addresses of a peer's process, and minutes of a processor, for a case."""
PEERS = ("laplace_torch", "torch_uncertainty")
PASSIVE = {"OMP_WAIT_POLICY": "passive"}
"""Threads of PyTorch that wait are not counted as work."""


def classes(structure: str) -> Callable[[Steps], None]:
    """Laplace over 10,000 examples of 2,048 given features and 1,000 classes."""

    def case(steps: Steps) -> None:
        x = RNG.standard_normal((10_000, 2048), dtype=np.float32)
        y = RNG.integers(0, 1000, len(x))
        model = keras.Sequential([keras.Input((2048,)), L.Dense(1000)])
        laplace = Laplace(model, "categorical", hessian_structure=structure)
        with measured(steps, "fit to 10,000"):
            laplace.fit(x, y)
        x = RNG.standard_normal((10_000, 2048), dtype=np.float32)
        with measured(steps, "predict 10,000"):
            tfbdl.predict(laplace, x, verbose=0)

    return case


def u_net(side: int = 128, num_classes: int = 20) -> keras.Model:
    """A U-Net of three scales with a class for each pixel."""

    def block(h: Any, units: int) -> Any:
        h = L.Conv2D(units, 3, padding="same", use_bias=False)(h)
        return L.ReLU()(L.BatchNormalization()(h))

    inputs = keras.Input((side, side, 3))
    wide = block(inputs, 32)
    middle = block(L.MaxPooling2D()(wide), 64)
    deep = block(L.MaxPooling2D()(middle), 128)
    up = L.Conv2DTranspose(64, 3, strides=2, padding="same")(deep)
    up = block(L.Concatenate()([up, middle]), 64)
    up = L.Conv2DTranspose(32, 3, strides=2, padding="same")(up)
    up = block(L.Concatenate()([up, wide]), 32)
    return keras.Model(inputs, L.Conv2D(num_classes, 1, name="head")(up), name="u_net")


def pixels(structure: str) -> Callable[[Steps], None]:
    """Laplace of the last layer of a U-Net with outputs of 128 x 128 x 20."""

    def case(steps: Steps) -> None:
        x = RNG.standard_normal((32, 128, 128, 3), dtype=np.float32)
        y = RNG.integers(0, 20, x.shape[:-1])
        laplace = Laplace(u_net(), "categorical", hessian_structure=structure)
        with measured(steps, "fit to 32"):
            laplace.fit(x, y)
        with measured(steps, "predict 8"):
            tfbdl.predict(laplace, x[:8], verbose=0)

    return case


def last_layers(steps: Steps) -> None:
    """A hundred last layers of a ResNet50."""
    body = keras.applications.ResNet50(
        include_top=False, weights=None, input_shape=(64, 64, 3), pooling="avg"
    )
    model = keras.Model(body.input, L.Dense(100)(body.output))
    x = RNG.standard_normal((64, 64, 64, 3), dtype=np.float32)
    y = RNG.integers(0, 100, len(x))
    with measured(steps, "the network"):
        model(x[:1])
    with measured(steps, "fit of the last layer to 64"):
        laplace = Laplace(model, "categorical", hessian_structure="kron").fit(x, y)
    with measured(steps, "ensemble(100)"):
        ensemble = laplace.ensemble(100)
    with measured(steps, "predict 64 by all 100"):
        tfbdl.predict(ensemble, x, verbose=0)


def dense_25_million() -> keras.Model:
    """A network of 25 million weights."""
    widths = [2500, 5000, 2000]
    model = keras.Sequential([keras.Input((1000,)), *(L.Dense(w, "relu") for w in widths)])
    model.compile(keras.optimizers.SGD(1e-3), "mse")
    return model


def path_of_25_million(steps: Steps) -> None:
    """SWAG of 25 million weights at rank 20, beside the training alone."""
    model = dense_25_million()
    x = RNG.standard_normal((200, 1000), dtype=np.float32)
    y = RNG.standard_normal((200, 2000), dtype=np.float32)
    with measured(steps, "train, 2 epochs"):
        tfbdl.train(model, x, y, epochs=2, verbose=0)
    swag = SWAG(model, rank=20)
    with measured(steps, "SWAG.fit, 24 epochs, rank 20"):
        swag.fit(x, y, epochs=24, verbose=0)


CASES: dict[str, Callable[[Steps], None]] = {
    "1,000 classes of 2,048 features, Kronecker": classes("kron"),
    "1,000 classes of 2,048 features, diagonal": classes("diag"),
    "U-Net of 128 x 128 x 20, Kronecker": pixels("kron"),
    "U-Net of 128 x 128 x 20, diagonal": pixels("diag"),
    "U-Net of 128 x 128 x 20, full": pixels("full"),
    "100 last layers of a ResNet50": last_layers,
    "SWAG of 25 million weights": path_of_25_million,
}


def in_a_process(name: str) -> Steps:
    """The steps of a case."""
    command = [sys.executable, __file__, "--alone", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def by_peer(peer: str, name: str) -> Steps:
    """The steps of a case in a peer, none if it has no such case; a step not done says why."""
    script = HERE / "peers" / f"memory_of_{peer}.py"
    command = [bench.python_of(peer), script, name, str(GIGABYTES), str(MINUTES)]
    environment = {**bench.environment(""), **PASSIVE}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    lines, ended = done.stdout.splitlines(), f"ends: {bench.last_line(done.stderr)}"
    if done.returncode == -signal.SIGXCPU:
        ended = f"not done after {MINUTES:.3g} minutes of a processor"
    rows = {row["step"]: row for row in map(json.loads, lines)}
    if done.returncode and not rows:
        raise RuntimeError(f"{peer}: {name}: {done.stderr[-2000:]}")
    for row in rows.values():
        if row.keys() == {"step"}:
            row["fails"] = ended
    return list(rows.values())


def versions(packages: list[str]) -> dict[str, str]:
    """What it was measured with."""
    peers = [bench.version_of(peer).rsplit(" ", 1) for peer in packages if peer in PEERS]
    own = {
        "tfbdl": tfbdl.__version__,
        "TensorFlow": tf.__version__,
        "Keras": keras.__version__,
        "Python": platform.python_version(),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
    }
    return {"command": "python benchmarks/memory.py", **own, **dict(peers)}


def row(case: str, package: str, step: dict[str, Any]) -> str:
    """A line of the table."""
    if "fails" in step:
        cells = [step["fails"][:240].replace("|", "/"), "", ""]
    else:
        cells = [f"{step['gigabytes']:.2f}", f"{step['cpu_seconds']:.0f}", f"{step['seconds']:.0f}"]
    return f"| {' | '.join([case, package, step['step'], *cells])} |"


def report(measured_with: dict[str, str], results: dict[str, dict[str, Steps]]) -> str:
    """A page with a table."""
    rows = [
        row(case, package, step)
        for case, packages in results.items()
        for package, steps in packages.items()
        for step in steps
    ]
    known = dict(measured_with)
    return "\n".join(
        [
            "# Memory of large networks",
            "",
            f"`{known.pop('command')}`: " + ", ".join(f"{k} {v}" for k, v in known.items()) + ". "
            "The peak is the most memory that the process held by the end of the step, 0.75 GB of "
            "imports and steps that failed within it; other work may have run beside it.",
            "",
            f"Peers may ask for {GIGABYTES:.0f} GB and take {MINUTES:.0f} minutes of a processor "
            "for a case. laplace-torch's fits have the backend `BackPackGGN`; it has no ensemble "
            "of last layers, but draws them for each batch, and no SWAG. TorchUncertainty's "
            "`LaplaceApprox` is a wrapper of it, and its SWAG holds one member.",
            "",
            "| case | package | step | peak, GB | CPU seconds | seconds |",
            "|---|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--cases", nargs="*", default=[], help="words in the names of those to run")
    packages = ["tfbdl", *PEERS]
    p.add_argument("--packages", nargs="+", choices=packages, default=packages)
    p.add_argument("--alone", help=argparse.SUPPRESS)
    p.add_argument("--savedir", type=Path, default=ROOT / "results" / "memory")
    return p


def main(argv: list[str] | None = None) -> None:
    """Runs cases and writes the page."""
    args = parser().parse_args(argv)
    if args.alone:
        steps: Steps = []
        CASES[args.alone](steps)
        print(json.dumps(steps))
        return
    args.savedir.mkdir(parents=True, exist_ok=True)
    file = args.savedir / "memory.json"
    record = json.loads(file.read_text()) if file.exists() else {"measured with": {}, "cases": {}}
    results = record["cases"]
    known = {**record["measured with"], **versions(args.packages)}
    for name in CASES:
        if args.cases and not any(word in name for word in args.cases):
            continue
        for package in args.packages:
            steps = in_a_process(name) if package == "tfbdl" else by_peer(package, name)
            if steps:
                results.setdefault(name, {})[package] = steps
                print(f"{name}, {package}", *steps, sep="\n  ", flush=True)
                done = {case: results[case] for case in CASES if case in results}
                kept = {"measured with": known, "cases": done}
                file.write_text(json.dumps(kept, indent=1) + "\n")
                (args.savedir / "README.md").write_text(report(known, done))


if __name__ == "__main__":
    main()

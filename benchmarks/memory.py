"""Peak memory and CPU seconds of large networks, each case in a process of its own.

    python benchmarks/memory.py                    # writes results/memory/README.md
    python benchmarks/memory.py --cases "1,000 classes"

The memory is the most that the process held, TensorFlow's import within it; the seconds are those
of all its threads, and of the clock.
"""

from __future__ import annotations

import os

os.environ.setdefault("TFBDL_QUIET", "1")

import tfbdl  # isort: skip  (before anything that imports TensorFlow)

import argparse
import json
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers as L

from tfbdl.inference import SWAG, Laplace

ROOT = Path(__file__).parents[1]
Steps = list[dict[str, Any]]
RNG = np.random.default_rng(0)


@contextmanager
def measured(steps: Steps, name: str) -> Iterator[None]:
    """Adds a step, with its seconds and the most memory that the process has held by its end."""
    clock, cpu = time.perf_counter(), time.process_time()
    yield
    clock, cpu = time.perf_counter() - clock, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    steps.append({"step": name, "seconds": clock, "cpu_seconds": cpu, "gigabytes": peak})


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


def versions() -> dict[str, str]:
    """What it was measured with."""
    return {
        "command": "python benchmarks/memory.py",
        "tfbdl": tfbdl.__version__,
        "TensorFlow": tf.__version__,
        "Keras": keras.__version__,
        "Python": platform.python_version(),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
    }


def report(results: dict[str, Steps]) -> str:
    """A page with a table."""
    rows = [
        f"| {name} | {s['step']} | {s['gigabytes']:.2f} | {s['cpu_seconds']:.0f} "
        f"| {s['seconds']:.0f} |"
        for name, steps in results.items()
        for s in steps
    ]
    known = versions()
    return "\n".join(
        [
            "# Memory of large networks",
            "",
            f"`{known.pop('command')}`: " + ", ".join(f"{k} {v}" for k, v in known.items()) + ". "
            "The peak is the most memory that the process held by the end of the step, 0.75 GB of "
            "imports within it; other work may have run beside it.",
            "",
            "| case | step | peak, GB | CPU seconds | seconds |",
            "|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--cases", nargs="*", default=[], help="words in the names of those to run")
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
    kept = args.cases and file.exists()
    results = json.loads(file.read_text())["cases"] if kept else {}
    for name in CASES:
        if not args.cases or any(word in name for word in args.cases):
            results[name] = in_a_process(name)
            print(name, *results[name], sep="\n  ", flush=True)
    results = {name: results[name] for name in CASES if name in results}
    file.write_text(json.dumps({"measured with": versions(), "cases": results}, indent=1) + "\n")
    (args.savedir / "README.md").write_text(report(results))


if __name__ == "__main__":
    main()

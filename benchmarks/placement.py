"""Where the tutorials' networks lie on the device that there is, and what they give: JSON.

    CUDA_VISIBLE_DEVICES= python benchmarks/placement.py       # the CPU

The same seeds everywhere: what differs from device to device is how they round.
"""

from __future__ import annotations

import os

os.environ.setdefault("TFBDL_QUIET", "1")

import tfbdl  # isort: skip  (before anything that imports TensorFlow)

import importlib.metadata
import json
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

sys.path.insert(0, str(Path(__file__).parent / "peers"))

import work

from tfbdl import layers
from tfbdl.likelihoods import Categorical
from tfbdl.models import VAE

N = 1000
PACKAGES = ("tfbdl", "tensorflow", "keras", "tensorflow-probability")


def networks() -> dict[str, keras.Model]:
    """The networks of the lectures, untrained."""
    dense, dropout = keras.layers.Dense, layers.MCDropout

    def classifier(*stack: keras.layers.Layer) -> keras.Model:
        network = keras.Sequential([keras.Input((784,)), *stack])
        network.compile(keras.optimizers.Adam(1e-3), Categorical())
        return network

    def concrete(units: int, activation: str | None = None) -> keras.layers.Layer:
        return layers.ConcreteDropout(dense(units, activation), num_data=N)

    def bayes(units: int, activation: str | None = None) -> keras.layers.Layer:
        return layers.BayesDense(units, activation, num_data=N)

    keras.utils.set_random_seed(0)
    vae = VAE(seed=0)
    vae.compile(keras.optimizers.Adam(1e-3))
    return {
        "VAE": vae,
        "MC dropout": classifier(dense(500, "relu"), dropout(0.5), dense(10)),
        "Concrete dropout": classifier(concrete(500, "relu"), concrete(10)),
        "Variational dropout": classifier(
            dense(500, "relu"), layers.VariationalDropout(10, num_data=N)
        ),
        "Bayes by Backprop": classifier(bayes(500, "relu"), bayes(10)),
    }


def tried(network: keras.Model, kind: str) -> dict[str, Any]:
    """Trains it for two epochs, and asks it.

    Args:
        network: compiled.
        kind: "GPU" or "CPU": where all floating variables should be.
    """
    x, y = work.images(N)
    arrays = (x,) if isinstance(network, VAE) else (x, y)
    history = tfbdl.train(network, *arrays, epochs=2, batch_size=100, seed=0, verbose=0)
    column, values = next(iter(history.items()))
    variables = [*network.variables, *network.optimizer.variables]
    answers: dict[str, Any] = {"column": column, "value": float(values[-1])}
    answers["elsewhere"] = [
        v.path for v in variables if "float" in v.dtype and f":{kind}:" not in v.value.device
    ]
    if not isinstance(network, VAE):
        answers["p"] = np.asarray(tfbdl.predict(network, x[:100], 20, seed=0).mean).tolist()
    return answers


def main() -> None:
    """Prints what there is and what was found."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what packages print goes to stderr
    gpus = tf.config.list_physical_devices("GPU")
    kind = "GPU" if gpus else "CPU"
    results = {name: tried(network, kind) for name, network in networks().items()}
    memory = tf.config.experimental.get_memory_info("GPU:0")["peak"] if gpus else None
    actual = {
        "built_with_cuda": tf.test.is_built_with_cuda(),
        "build": {k: str(v) for k, v in tf.sysconfig.get_build_info().items() if "version" in k},
        "gpus": [tf.config.experimental.get_device_details(gpu) for gpu in gpus],
        "peak_GB": None if memory is None else memory / 1e9,
        "versions": {name: importlib.metadata.version(name) for name in PACKAGES},
        "networks": results,
    }
    print(json.dumps(actual, default=str), file=answers)


if __name__ == "__main__":
    main()

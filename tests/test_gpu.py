"""The report of `make gpu`, as far as a machine without one can tell."""

import subprocess
import sys
from pathlib import Path

import gpu
import keras
import numpy as np
import placement
import pytest
import tensorflow as tf

import tfbdl
from tfbdl import layers
from tfbdl.likelihoods import Categorical

KIND = "GPU" if tf.config.list_physical_devices("GPU") else "CPU"


def network() -> keras.Model:
    keras.utils.set_random_seed(0)
    stack = [keras.Input((784,)), layers.MCDropout(0.5, seed=0), keras.layers.Dense(10)]
    model = keras.Sequential(stack)
    model.compile(keras.optimizers.Adam(1e-3), Categorical())
    return model


def test_weights_that_are_elsewhere_are_named() -> None:
    """Each weight is on the device that there is, and on no other."""
    assert placement.tried(network(), KIND)["elsewhere"] == []
    model = network()
    elsewhere = placement.tried(model, "TPU")["elsewhere"]
    assert len(model.trainable_variables) == 2
    assert {v.path for v in model.trainable_variables} <= {*elsewhere}


def test_numbers_are_those_of_a_training() -> None:
    model = network()
    x, y = placement.work.images(placement.N)
    loss = tfbdl.train(model, x, y, epochs=2, batch_size=100, seed=0, verbose=0)["loss"][-1]
    placed = placement.tried(network(), KIND)
    assert (placed["column"], placed["value"]) == ("loss", pytest.approx(loss, rel=1e-6))
    expected = tfbdl.predict(model, x[:100], 20, seed=0).mean
    np.testing.assert_allclose(placed["p"], expected, rtol=1e-5)


def test_the_report_says_how_far_devices_differ() -> None:
    one = {"column": "loss", "value": 2.5, "elsewhere": [], "p": [[0.25, 0.75]]}
    two = {"column": "loss", "value": 2.25, "elsewhere": ["a/kernel"], "p": [[0.5, 0.5]]}
    facts = {"built_with_cuda": True, "build": {}, "versions": {}}
    cpu = {**facts, "gpus": [], "peak_GB": None, "networks": {"net": one}}
    name = {"device_name": "A card"}
    card = {**facts, "gpus": [name], "peak_GB": 1.5, "networks": {"net": two}}
    times = {"vae": {"CPU": np.array([2.0, 4.0, 6.0]), "GPU": np.array([1.0, 1.0, 1.0])}}
    text = gpu.written({"CPU": cpu, "GPU": card}, times)
    assert "- GPUs: A card\n" in text
    assert "| net | a/kernel | loss 2.5 | 2.25 | 2.5e-01 |" in text
    assert "Peak memory of the GPU: 1.50 GB." in text
    assert "| epoch | 4e+03 | 1e+03 | 4.00 (2.40 to 5.60) |" in text
    failed = gpu.written({"CPU": cpu, "GPU": card}, {"vae": {**times["vae"], "GPU": "fails: no"}})
    assert "| epoch | 4e+03 | fails: no |  |" in failed
    alone = gpu.written({"CPU": cpu}, {"vae": {"CPU": times["vae"]["CPU"]}})
    assert "- GPUs: none\n" in alone
    assert "| net | none | loss 2.5 |  |" in alone


@pytest.mark.skipif(KIND == "GPU", reason="has a GPU")
def test_without_a_gpu_it_says_so(tmp_path: Path) -> None:
    command = [sys.executable, gpu.__file__, "--works", "--savedir", str(tmp_path)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 1
    assert process.stderr.splitlines()[-1].startswith("TensorFlow sees no GPU; pip install")
    assert "- GPUs: none" in (tmp_path / "report.md").read_text()

"""Networks whose `fit` is timed: those of the papers, and the same ones with random weights."""

from typing import Any

import keras
import numpy as np
import pytest
from plain_networks import NETWORKS

import tfbdl

WEIGHTS = {
    "784-500-500-10": 785 * 500 + 501 * 500 + 501 * 10,
    "LeNet-5": 61_706,
    "ResNet-20": 269_722,
    "transformer": 1000 * 64 + 2 * (4 * 65 * 64 + 65 * 256 + 257 * 64 + 256) + 128 + 650,
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_and_its_random_one(name: str) -> None:
    made = NETWORKS[name]()
    trainable = made.model.trainable_variables
    assert sum(int(np.prod(v.shape)) for v in trainable) == WEIGHTS[name]
    x = made.inputs(2)
    drawn = tfbdl.to_bayesian(made.model, num_data=2)
    np.testing.assert_allclose(drawn(x), made.model(x), 1e-4, 1e-4)
    means: list[Any] = [v for v in drawn.trainable_variables if "rho" not in v.name]
    assert sum(int(np.prod(v.shape)) for v in means) == WEIGHTS[name]
    kept = [v.shape for v in drawn.trainable_variables if "rho" in v.name]
    norms = keras.layers.BatchNormalization, keras.layers.LayerNormalization
    plain = [w for a in made.model.layers if isinstance(a, norms) for w in a.trainable_weights]
    of_norms = sum(int(np.prod(v.shape)) for v in plain)
    assert sum(int(np.prod(shape)) for shape in kept) == WEIGHTS[name] - of_norms

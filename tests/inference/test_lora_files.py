"""Files of posteriors over networks with LoRA, whose factors Keras merges when it writes them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

import keras
import keras.layers as L
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

import tfbdl
from tfbdl import inference
from tfbdl.likelihoods import Normal

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3)).astype("float32")
Y = X[:, :1] * 2


def adapted(optimizer: Any = None) -> keras.Model:
    """A network with factors away from zero, and a scale that is not Keras' own."""
    model = keras.Sequential([keras.Input((3,)), L.Dense(4, "tanh"), L.Dense(1)])
    hidden, rng = model.layers[0], np.random.default_rng(1)
    hidden.enable_lora(2, 3.0)
    for v in (hidden.lora_kernel_a, hidden.lora_kernel_b):
        v.assign(rng.normal(size=v.shape))
    model.compile(optimizer or keras.optimizers.SGD(1e-3), Normal(0.3))
    return model


def sgmcmc() -> Any:
    return inference.SGMCMC(adapted(tfbdl.optimizers.SGLD(1e-4, num_data=30)))


FITTED: dict[str, Callable[[], Any]] = {
    "laplace": lambda: inference.Laplace(adapted(), subset_of_weights="lora").fit(X, Y),
    "map": lambda: inference.MAP(adapted(), prior=1.0, tolerance=10.0, dtype="float32").fit(X, Y),
    "mcmc": lambda: inference.MCMC(
        adapted(), prior=1.0, kernel="hmc", num_samples=5, num_warmup=30, num_chains=1
    ).fit(X, Y),
    "swag": lambda: inference.SWAG(adapted(), rank=2).fit(X, Y, epochs=3, verbose=0),
    "deep ensemble": lambda: inference.DeepEnsemble(adapted(), 2).fit(X, Y, epochs=1, verbose=0),
    "neural linear": lambda: inference.NeuralLinear(adapted(), sigma_noise=0.3).fit(X, Y),
    "sgmcmc": lambda: sgmcmc().fit(X, Y, epochs=3, verbose=0),
}


class LoraFilesTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(*FITTED)
    def test_file_gives_the_same_functions(self, name: str) -> None:
        posterior = FITTED[name]()
        before = [np.asarray(v) for v in posterior.model.weights] if name != "deep ensemble" else []
        with tempfile.TemporaryDirectory() as folder:
            posterior.save(f"{folder}/posterior.keras")
            loaded = tfbdl.load(f"{folder}/posterior.keras")
        for one, other in ((posterior, loaded), (posterior.ensemble(2), loaded.ensemble(2))):
            a, b = (tfbdl.predict(p, X, 2, seed=1, verbose=0) for p in (one, other))
            self.assertAllClose(a.mean, b.mean, 1e-6, 1e-6)
            self.assertAllClose(a.stddev, b.stddev, 1e-6, 1e-6)
        if before:
            for was, saved, again in zip(
                before, posterior.model.weights, loaded.model.weights, strict=True
            ):
                self.assertAllEqual(was, saved)
                self.assertAllEqual(was, again)


if __name__ == "__main__":
    tf.test.main()

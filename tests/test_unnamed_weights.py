"""Weights that a layer gives no name, which Keras numbers through all models of a process."""

import tempfile
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

import tfbdl
from tfbdl.flat_model import FlatModel
from tfbdl.models import WeightEnsemble

RNG = np.random.default_rng(0)
N, D, CLASSES = 9, 3, 2
X = RNG.normal(size=(N, D)).astype("float32")
Y = np.arange(N) % CLASSES


@keras.saving.register_keras_serializable("test_unnamed_weights")
class Scales(keras.layers.Layer):
    """A dozen of scales, of which each has another effect."""

    def build(self, shape: Any) -> None:
        self.scales = [self.add_weight(shape=shape[1:], initializer="ones") for _ in range(12)]

    def call(self, x: Any) -> Any:
        for number, scale in enumerate(self.scales):
            x = x * scale + 0.1 * number
        return x


def network() -> keras.Model:
    stack = [keras.Input((D,)), Scales(name="scales"), keras.layers.Dropout(0.5, name="drop")]
    model = keras.Sequential([*stack, keras.layers.Dense(CLASSES, name="head")])
    for variable in model.get_layer("scales").weights:
        variable.assign(RNG.uniform(0.5, 1.5, variable.shape))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss)
    return model


def reloaded(model: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.keras"
        model.save(path)
        return keras.models.load_model(path)


CONVERSIONS = {
    "to_mc_dropout": tfbdl.to_mc_dropout,
    "to_bayesian": lambda model: tfbdl.to_bayesian(model, num_data=N),
}


class UnnamedWeightsTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(*CONVERSIONS)
    def test_conversions(self, name: str) -> None:
        """They are what they were, also from a file, which draws as they do."""
        model = network()
        converted = CONVERSIONS[name](model)
        self.assertAllClose(model(X), converted(X), 1e-6, 1e-6)
        drawn = [tfbdl.predict(m, X, 3, seed=1).mean for m in (converted, reloaded(converted))]
        self.assertAllClose(*drawn, 1e-6, 1e-6)

    def test_an_ensemble(self) -> None:
        models = [network(), network()]
        ensemble = WeightEnsemble.of(models)
        expected = np.mean([model(X) for model in models], axis=0)
        for one in (ensemble, reloaded(ensemble)):
            self.assertAllClose(expected, tfbdl.predict(one, X, 2).mean, 1e-5, 1e-5)

    def test_a_wrapper(self) -> None:
        wrapped = tfbdl.layers.BayesWrapper(Scales(), num_data=N)
        model = keras.Sequential([keras.Input((D,)), wrapped])
        self.assertLen(wrapped.random_weights, 12)
        drawn = [tfbdl.predict(m, X, 3, seed=1).mean for m in (model, reloaded(model))]
        self.assertAllClose(*drawn, 1e-6, 1e-6)

    def test_names_of_weights(self) -> None:
        names = ["scales/variable", *(f"scales/variable_{i}" for i in range(1, 12))]
        for model in (network(), network()):
            self.assertEqual(list(FlatModel(model).shapes)[:12], names)


if __name__ == "__main__":
    tf.test.main()

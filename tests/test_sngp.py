"""Networks converted to SNGP: what is exchanged, and what they say far from the data."""

import tempfile
from typing import Any

import keras
import keras.layers as L
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

import tfbdl
from tfbdl import metrics
from tfbdl.layers import BoundedSpectralNormalization, RandomFeatureGP
from tfbdl.likelihoods import Bernoulli, Categorical, Normal

N = 200


def two_moons(number: int, seed: int) -> Any:
    """Two half circles, of noise 0.1, standardised as they stand; and the class of each point."""
    rng = np.random.default_rng(seed)
    angle, y = np.pi * rng.random(number), np.arange(number) % 2
    upper = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    x = np.where(y[:, None] == 0, upper, [1.0, 0.5] - upper) - [0.5, 0.25]
    return (x + 0.1 * rng.normal(size=x.shape)).astype("float32"), y


def residual(classes: int = 2, loss: Any = None) -> Any:
    """Layers x + g(x), as the paper's for the moons."""
    x = inputs = keras.Input((2,))
    x = L.Dense(32, name="first")(x)
    for i in range(3):
        x = x + L.Dense(32, "relu", name=f"block_{i}")(x)
    model = keras.Model(inputs, L.Dense(classes, name="head")(x))
    model.compile(keras.optimizers.Adam(3e-3), loss or Categorical(), jit_compile=False)
    return model


class TwoMoonsTest(tf.test.TestCase):
    def test_unsure_far_from_the_data(self) -> None:
        """Where a network with a Dense last layer is sure."""
        keras.utils.set_random_seed(0)
        x, y = two_moons(N, 0)
        sngp = tfbdl.to_sngp(residual(), num_data=N, num_features=256, seed=1)
        plain = residual()
        for model in (sngp, plain):
            tfbdl.train(model, x, y, epochs=60, batch_size=50, verbose=0)
        x_test, y_test = two_moons(N, 1)
        angle = 2 * np.pi * np.arange(N) / N
        ring = (4.0 * np.stack([np.cos(angle), np.sin(angle)], axis=1)).astype("float32")
        near = tfbdl.predict(sngp, x_test, 100, seed=0, verbose=0)
        far = tfbdl.predict(sngp, ring, 100, seed=0, verbose=0)
        self.assertGreater(np.mean(near.mean.argmax(-1) == y_test), 0.97)
        self.assertGreater(np.mean(plain(x_test).numpy().argmax(-1) == y_test), 0.97)
        of_plain = [tfbdl.predict(plain, at, 0, verbose=0).entropy for at in (x_test, ring)]
        self.assertGreater(metrics.auroc(near.entropy, far.entropy), 0.95)
        self.assertLess(metrics.auroc(*of_plain), 0.8)
        body = keras.Model(sngp.input, sngp.layers[-2].output)
        head = sngp.get_layer("head")
        variances = [
            float(np.mean(head.variance(body(scale * ring)))) for scale in (0.25, 0.5, 1.0, 2.0)
        ]
        self.assertEqual(variances, sorted(variances))
        self.assertGreater(variances[-1], 0.7)  # of the prior's 1
        shown = tf.nn.softmax(sngp(ring)).numpy()  # by mean-field logits
        self.assertAllClose(shown, far.mean, atol=0.12)


class ConversionTest(tf.test.TestCase, parameterized.TestCase):
    def test_what_is_exchanged(self) -> None:
        """The last layer, and those with kernels before it, whose weights stay."""
        stack = [
            L.Conv2D(4, 3),
            L.BatchNormalization(),
            L.ReLU(),
            L.Flatten(),
            L.Dense(6),
            L.ReLU(),
        ]
        model = keras.Sequential([keras.Input((6, 6, 2)), *stack, L.Dense(3, name="head")])
        model.compile("adam", Categorical(), metrics=["accuracy"])
        sngp = tfbdl.to_sngp(model, num_data=50, num_features=16, norm_bound=6.0, ridge=2.0, seed=3)
        kinds = [type(layer) for layer in sngp.layers]
        bounded = BoundedSpectralNormalization
        of_stack = [bounded, *map(type, stack[1:4]), bounded, L.ReLU, RandomFeatureGP]
        self.assertEqual(kinds, of_stack)
        self.assertEqual([a.name for a in sngp.layers], [b.name for b in model.layers])
        for old, new in zip(model.layers[:-1], sngp.layers, strict=False):
            inner = getattr(new, "layer", new)
            for v, w in zip(old.weights, inner.weights, strict=True):
                self.assertAllEqual(v, w)
        config = sngp.layers[-1].get_config()
        self.assertEqual((config["ridge"], config["num_data"], config["seed"]), (2.0, 50, 3))
        self.assertEqual(sngp.layers[0].norm_bound, 6.0)
        self.assertIsInstance(sngp.loss, Categorical)

    def test_layers_are_chosen(self) -> None:
        for chosen, expected in (
            ({"layers": "block_.*"}, ["block_0", "block_1", "block_2"]),
            ({"skip": ["first", "block_1"]}, ["block_0", "block_2"]),
            ({"norm_bound": None}, []),
        ):
            sngp = tfbdl.to_sngp(residual(), num_data=N, num_features=8, **chosen)
            bounded = [x.name for x in sngp.layers if isinstance(x, BoundedSpectralNormalization)]
            self.assertEqual(bounded, expected)
            self.assertIsInstance(sngp.layers[-1], RandomFeatureGP)

    @parameterized.parameters(
        (Categorical(), 2, "categorical"),
        (keras.losses.SparseCategoricalCrossentropy(from_logits=True), 2, "categorical"),
        (Bernoulli(), 1, "bernoulli"),
        (Normal(0.3), 1, "normal"),
    )
    def test_the_loss_says_what_outputs_are(self, loss: Any, units: int, expected: str) -> None:
        sngp = tfbdl.to_sngp(residual(units, loss), num_data=N, num_features=8)
        head = sngp.layers[-1]
        self.assertEqual(head.likelihood, expected)
        if expected == "normal":
            self.assertEqual(head.noise_scale, 0.3)
        given = tfbdl.to_sngp(residual(units, "mse"), num_data=N, num_features=8, likelihood=loss)
        self.assertEqual(given.layers[-1].likelihood, expected)

    def test_files_and_exports(self) -> None:
        x, y = two_moons(N, 0)
        sngp = tfbdl.to_sngp(residual(), num_data=N, num_features=16)
        sngp.fit(x, y, epochs=2, verbose=0)
        expected = tfbdl.predict(sngp, x, 20, seed=1, verbose=0)
        with tempfile.TemporaryDirectory() as folder:
            sngp.save(f"{folder}/m.keras")
            loaded = tfbdl.load(f"{folder}/m.keras")
            actual = tfbdl.predict(loaded, x, 20, seed=1, verbose=0)
            self.assertAllClose(actual.mean, expected.mean, 1e-6)
            self.assertAllClose(loaded(x), sngp(x), 1e-6)
            tfbdl.export(sngp, f"{folder}/served", num_samples=20, seed=1)
            served = tf.saved_model.load(f"{folder}/served")
            self.assertAllClose(served.serve(x)["mean"], expected.mean, 1e-4)

    def test_refusals(self) -> None:
        def refused(model: Any, message: str, **arguments: Any) -> None:
            with self.assertRaisesRegex(ValueError, message):
                tfbdl.to_sngp(model, **{"num_data": N, "num_features": 8, **arguments})

        softmax = keras.Sequential([keras.Input((2,)), L.Dense(2, "softmax")])
        softmax.compile("sgd", Categorical())
        refused(softmax, "^layer='dense.*has an activation")
        refused(residual(2, "mse"), "^likelihood=None: the loss of model=.* is no likelihood")
        refused(residual(2, Normal("predicted")), "must be Categorical.. or Bernoulli")
        inputs = keras.Input((2,))
        both = keras.Model(inputs, [L.Dense(1)(inputs), L.Dense(1)(inputs)])
        refused(both, "last layer with weights one Dense; it has Dense, Dense")
        refused(keras.Sequential([L.Dense(2)]), "it has none that is known")
        refused(residual(), "^norm_bound=-1 must", norm_bound=-1)
        refused(residual(), "^num_data=0 must", num_data=0)
        adapted = residual()
        adapted.get_layer("first").enable_lora(2)
        refused(adapted, "layer='first' .* is quantized or has LoRA")


if __name__ == "__main__":
    tf.test.main()

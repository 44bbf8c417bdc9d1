"""Mixed precision: the posterior and its KL stay in float32, and little accuracy is lost."""

import tempfile
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized
from sklearn.datasets import load_digits

import tfbdl

X, Y = load_digits(return_X_y=True)
X = (X / 16).astype("float32")
N = 1000
TEST = slice(N, None)


def classifier(policy: str, estimator: str = "flipout") -> Any:
    keras.utils.set_random_seed(1)
    layers = [
        tfbdl.layers.BayesDense(
            units, activation, num_data=N, estimator=estimator, dtype=policy, seed=i
        )
        for i, (units, activation) in enumerate([(50, "relu"), (10, None)])
    ]
    model = keras.Sequential([keras.Input((64,)), *layers])
    model.compile(
        keras.optimizers.Adam(0.01), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    return model


class MixedPrecisionTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters("mixed_bfloat16", "mixed_float16")
    def test_posterior_and_kl_are_in_single_precision(self, policy: str) -> None:
        half, single = classifier(policy), classifier("float32")
        half.set_weights(single.get_weights())
        for model in (half, single):
            model(X[:2], training=True)
        self.assertEqual(half.layers[0].compute_dtype, policy.removeprefix("mixed_"))
        for layer in half.layers:
            for weight in (layer.kernel, layer.bias):
                self.assertEqual((weight.mu.dtype, weight.rho.dtype), ("float32", "float32"))
        for a, b in zip(half.losses, single.losses, strict=True):
            self.assertEqual(a.dtype, tf.float32)
            self.assertAllClose(a, b, 1e-6)

    def test_accuracy(self) -> None:
        """Digits that were held out, within two standard errors of a difference."""
        accuracy = {}
        for policy in ("mixed_bfloat16", "float32"):
            model = classifier(policy)
            tfbdl.train(model, X[:N], Y[:N], epochs=60, batch_size=100, verbose=0)
            probs = tfbdl.predict(model, X[TEST], 50, seed=0, verbose=0).mean
            accuracy[policy] = np.mean(np.argmax(probs, axis=1) == Y[TEST])
        expected = accuracy["float32"]
        self.assertGreater(expected, 0.9)
        error = np.sqrt(2 * expected * (1 - expected) / len(Y[TEST]))
        self.assertLess(abs(accuracy["mixed_bfloat16"] - expected), 2 * error, accuracy)

    @parameterized.product(scaled=(False, True), kind=("bayesian", "plain"), by=("train", "fit"))
    def test_overflow(self, scaled: Any, kind: Any, by: Any) -> None:
        """Beyond 65504 nothing is silent: scaled losses leave the weights, an error the file."""
        model = classifier("mixed_float16")
        if kind == "plain":
            layers = [keras.layers.Dense(units, dtype="mixed_float16") for units in (50, 10)]
            model = keras.Sequential([keras.Input((64,)), *layers])
        optimizer = keras.optimizers.Adam(0.01)
        model.compile(
            keras.optimizers.LossScaleOptimizer(optimizer) if scaled else optimizer,
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            auto_scale_loss=False,
        )
        folder = Path(self.enter_context(tempfile.TemporaryDirectory()))
        x, y = X[:200] * 1e6, Y[:200]
        if by == "fit":
            logger = tfbdl.TrainLogger(folder / "train.log")
            model.fit(x, y, epochs=2, verbose=0, callbacks=[logger])
            self.assertAllEqual(tfbdl.read_log(folder / "train.log").metrics["loss"], [np.nan] * 2)
        else:
            with self.assertRaisesRegex(tfbdl.TrainingError, "not finite at epoch 1, step 1;"):
                tfbdl.train(model, x, y, epochs=2, verbose=0, savedir=folder)
            with np.load(folder / "checkpoint.npz") as kept:
                floats = [kept[name] for name in kept.files if kept[name].dtype.kind == "f"]
            self.assertTrue(all(np.isfinite(a).all() for a in floats))
        self.assertEqual(all(np.isfinite(w).all() for w in model.get_weights()), scaled)

    def test_losses_that_were_scaled_too_far(self) -> None:
        """Steps whose gradients overflow are left out until the scale is low enough."""
        model = classifier("mixed_float16")
        model.compile(
            keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.01), 2.0**30),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        )
        tfbdl.train(model, X[:N], Y[:N], epochs=10, verbose=0)
        self.assertLess(float(model.optimizer.dynamic_scale), 2.0**30)
        self.assertTrue(all(np.isfinite(w).all() for w in model.get_weights()))
        accuracy = np.mean(np.argmax(model.predict(X[TEST], verbose=0), axis=1) == Y[TEST])
        self.assertGreater(accuracy, 0.8)

    @parameterized.parameters(("float16", 1e4), ("float32", 1e25))
    def test_statistics_that_overflow(self, policy: str, scale: Any) -> None:
        """Losses of normalised batches are finite, and predictions by infinite variances too."""
        normalize = keras.layers.BatchNormalization(dtype=policy)
        model = keras.Sequential([keras.Input((64,)), normalize, keras.layers.Dense(10)])
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        with self.assertRaisesRegex(tfbdl.TrainingError, "^loss or weights are not finite"):
            tfbdl.train(model, X[:N] * scale, Y[:N], epochs=1, verbose=0)

    def test_weights_that_are_infinite_from_the_start(self) -> None:
        """As masks are."""

        class Mask(keras.layers.Layer):
            def build(self, shape: Any) -> None:
                self.mask = self.add_weight(
                    shape=shape[-1:],
                    initializer=keras.initializers.Constant(np.inf),
                    trainable=False,
                )

            def call(self, x: Any) -> Any:
                return keras.ops.minimum(x, self.mask)

        model = keras.Sequential([keras.Input((64,)), Mask(), keras.layers.Dense(10)])
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        tfbdl.train(model, X[:N], Y[:N], epochs=1, verbose=0)


if __name__ == "__main__":
    tf.test.main()

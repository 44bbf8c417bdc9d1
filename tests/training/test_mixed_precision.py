"""Mixed precision: the posterior and its KL stay in float32, and little accuracy is lost."""

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


def classifier(policy, estimator="flipout"):
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
    def test_posterior_and_kl_are_in_single_precision(self, policy):
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

    def test_accuracy(self):
        """On digits that were held out, within two standard errors of a difference."""
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


if __name__ == "__main__":
    tf.test.main()

"""Deep ensembles and SWAG: what they train, the moments of the path, and the law of the draws."""

import tempfile

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

import tfbdl
from tfbdl.inference import SWAG, DeepEnsemble, PosteriorSamples

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3)).astype("float32")
Y = (X[:, :1] - 0.5 * X[:, 1:2] + RNG.normal(0, 0.3, (40, 1))).astype("float32")


def build():
    hidden = keras.layers.Dense(4, "tanh")
    model = keras.Sequential([keras.Input((3,)), hidden, keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.1), tfbdl.likelihoods.Normal(0.3))
    return model


def build_normalised():
    layers = [keras.layers.Dense(4), keras.layers.BatchNormalization(), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((3,)), *layers])
    model.compile(keras.optimizers.SGD(0.05), tfbdl.likelihoods.Normal(0.3))
    return model


class DeepEnsembleTest(tf.test.TestCase):
    def test_members_are_trained_alike_from_different_starts(self):
        found = DeepEnsemble(build, 3, seed=5).fit(X, Y, epochs=2, batch_size=10, verbose=0)
        for k, member in enumerate(found.members):
            keras.utils.set_random_seed(5 + k)
            alone = build()
            tfbdl.train(alone, X, Y, epochs=2, batch_size=10, seed=5 + k, verbose=0)
            for a, b in zip(alone.get_weights(), member.get_weights(), strict=True):
                self.assertAllClose(a, b, 1e-6)
        kernels = [member.get_weights()[0] for member in found.members]
        self.assertGreater(np.abs(kernels[0] - kernels[1]).max(), 0.01)
        outputs = np.stack([member(X) for member in found.members])
        prediction = tfbdl.predict(found.ensemble(), X)
        self.assertAllClose(prediction.mean, outputs.mean(axis=0), 1e-5, 1e-6)
        self.assertAllClose(prediction.epistemic_stddev, outputs.std(axis=0), 1e-4, 1e-6)

    def test_a_stopped_call_goes_on(self):
        with tempfile.TemporaryDirectory() as folder:
            arguments = {"batch_size": 10, "verbose": 0}
            DeepEnsemble(build, 1, seed=1).fit(X, Y, epochs=1, savedir=folder, **arguments)
            resumed = DeepEnsemble(build, 2, seed=1)
            resumed.fit(X, Y, epochs=3, savedir=folder, **arguments)
        whole = DeepEnsemble(build, 2, seed=1).fit(X, Y, epochs=3, **arguments)
        self.assertAllClose(resumed.ensemble().members, whole.ensemble().members, 1e-6)

    def test_refusals(self):
        with self.assertRaisesRegex(ValueError, "^num_members=0 must be a positive integer$"):
            DeepEnsemble(build, 0)
        with self.assertRaisesRegex(ValueError, "^members is empty; call fit first$"):
            DeepEnsemble(build).ensemble()


def path_of(model, epochs=12):
    path = PosteriorSamples(2)
    tfbdl.train(model, X, Y, epochs=epochs, batch_size=5, callbacks=[path], verbose=0)
    return path


class SWAGTest(tf.test.TestCase, parameterized.TestCase):
    def test_moments_of_the_path(self):
        path = path_of(build())
        thetas = np.asarray(path.ensemble().members, np.float64)
        swag = SWAG(path, rank=4)
        self.assertAllClose(swag.mean, thetas.mean(axis=0), 1e-12)
        self.assertAllClose(swag.variance, (thetas**2).mean(0) - thetas.mean(0) ** 2, 1e-6, 1e-9)
        by_hand = [thetas[i] - thetas[: i + 1].mean(axis=0) for i in range(6, 10)]
        self.assertAllClose(swag.deviations, by_hand, 1e-9)

    @parameterized.parameters(0.5**0.5, 1.0)
    def test_law_of_the_draws(self, scale):
        """Their mean and covariance, scale^2 (diag(var) + D D^T / (K - 1))."""
        swag = SWAG(path_of(build()), rank=5, scale=scale)
        draws = swag.sample(40_000, seed=3)
        d = swag.deviations
        expected = scale**2 * (np.diag(swag.variance) + d.T @ d / 4)
        error = np.sqrt(np.diag(expected) / len(draws))
        self.assertLess(np.max(np.abs(draws.mean(axis=0) - swag.mean) / error), 5)
        got = np.cov(draws.T)
        error = np.sqrt((np.outer(*[np.diag(expected)] * 2) + expected**2) / len(draws))
        self.assertLess(np.max(np.abs(got - expected) / error), 5)

    def test_predictions_are_those_of_the_draws(self):
        model = build()
        swag = SWAG(path_of(model))
        found = tfbdl.predict(swag.ensemble(7, seed=2), X, return_samples=True)
        flat = tfbdl.flat_model.FlatModel(model)
        for theta, outputs in zip(swag.sample(7, seed=2), found.samples, strict=True):
            expected = flat(tf.constant(theta, tf.float32), X)
            self.assertAllClose(outputs, expected, 1e-4, 1e-5)

    def test_statistics_of_batch_normalization_are_taken_anew(self):
        """The moments of each draw's own activations: means over the batches of x."""
        model = build_normalised()
        swag = SWAG(path_of(model))
        before = model.get_weights()
        ensemble = swag.ensemble(3, x=X, batch_size=20, seed=1)
        for a, b in zip(before, model.get_weights(), strict=True):
            self.assertAllEqual(a, b)
        for theta, state in zip(swag.sample(3, seed=1), ensemble.states.numpy(), strict=True):
            w, b = theta[:12].reshape(3, 4), theta[12:16]
            h = (X @ w + b).reshape(2, 20, 4)
            self.assertAllClose(state[:4], h.mean(axis=1).mean(axis=0), 1e-4, 1e-5)
            self.assertAllClose(state[4:], h.var(axis=1).mean(axis=0), 1e-4, 1e-5)
        self.assertEqual(model.layers[1].momentum, 0.99)
        with self.assertRaisesRegex(ValueError, "^x=None: layer='batch_normalization"):
            swag.ensemble(3)

    def test_refusals(self):
        path = path_of(build(), epochs=3)
        with self.assertRaisesRegex(ValueError, "^path has 1 samples; keep at least 2$"):
            SWAG(path)
        for name, wrong in (("rank", 1), ("rank", 0), ("scale", 0.0)):
            with self.assertRaisesRegex(ValueError, f"^{name}={wrong}"):
                SWAG(path, **{name: wrong})


if __name__ == "__main__":
    tf.test.main()

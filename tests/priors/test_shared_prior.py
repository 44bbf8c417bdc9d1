"""One prior object given to several layers is one prior, in files as well."""

import copy

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

import tfbdl
from tfbdl import likelihoods, priors
from tfbdl.layers import BayesDense

N, D = 12, 4
X = np.random.default_rng(0).normal(size=(N, D)).astype("float32")
PRIORS = {
    "normal": lambda: priors.Normal(0.5, trainable=True),
    "fan_in": lambda: priors.Normal("fan_in", trainable=True),
    "laplace": lambda: priors.Laplace(0.5, trainable=True),
    "scale_mixture": lambda: priors.ScaleMixture(trainable=True),
    "matrix_normal": lambda: priors.MatrixNormal(np.eye(D), np.eye(D), trainable=True),
    "horseshoe": priors.Horseshoe,
    "ard": priors.ARD,
}
NAMES = tuple(PRIORS)


def model_of(prior):
    """Two layers whose kernels, and for most priors biases, have one prior."""
    layers = [BayesDense(D, num_data=N, prior=prior, seed=i, name=f"layer_{i}") for i in range(2)]
    model = keras.Sequential([keras.Input((D,)), *layers])
    model.compile(keras.optimizers.SGD(1e-3), likelihoods.Normal(1.0))
    return model


def through_file(model, folder):
    model.save(f"{folder}/model.keras")
    return keras.models.load_model(f"{folder}/model.keras", safe_mode=True)


class SharedPriorTest(tf.test.TestCase, parameterized.TestCase):
    def assert_shared(self, model):
        first, second = model.layers
        self.assertIs(first.prior, second.prior)
        self.assertIs(first.kernel.prior, second.kernel.prior)
        ids = [id(v) for v in model.trainable_variables]
        self.assertLen(set(ids), len(ids))
        self.assertLen(ids, 8 + len(first.prior.trainable_variables))
        self.assertNotEmpty(first.prior.trainable_variables)

    @parameterized.parameters(*NAMES)
    def test_variables_are_counted_once(self, name):
        self.assert_shared(model_of(PRIORS[name]()))

    @parameterized.parameters(*(name for name in NAMES if name != "scale_mixture"))
    def test_kl_of_the_scales_is_counted_once(self, name):
        """The losses are the KL of the four weights and that of the prior's own posterior."""
        prior = PRIORS[name]()
        model = model_of(prior)
        weights = [q for layer in model.layers for q in (layer.kernel, layer.bias)]
        kl = prior.kl() + tf.add_n([q.exact_kl() for q in weights])
        for training in (False, True):
            model(X, training=training)
            self.assertAllClose(sum(model.losses), kl / N, 1e-5)

    @parameterized.parameters(*NAMES)
    def test_file(self, name):
        """Shared again, also after a second time; training goes on for one prior."""
        model = model_of(PRIORS[name]())
        rng = np.random.default_rng(0)
        for variable in model.trainable_variables:
            variable.assign(variable + rng.normal(0, 0.1, variable.shape))
        loaded = through_file(through_file(model, self.get_temp_dir()), self.get_temp_dir())
        self.assert_shared(loaded)
        for training in (False, True):
            self.assertAllEqual(model(X, training=training), loaded(X, training=training))
            self.assertAllEqual(model.losses, loaded.losses)
        for each in (model, loaded):
            tfbdl.train(each, X, X, epochs=2, verbose=0)
        for a, b in zip(model.layers, loaded.layers, strict=True):
            for v, w in zip(a.prior.variables, b.prior.variables, strict=True):
                self.assertAllClose(v, w, 1e-6)
        self.assertIs(loaded.layers[0].prior, loaded.layers[1].prior)

    @parameterized.parameters(*NAMES)
    def test_weights_file(self, name):
        model, other = (model_of(PRIORS[name]()) for _ in range(2))
        for variable in model.layers[0].prior.trainable_variables:
            variable.assign_add(tf.fill(variable.shape, 0.3))
        path = f"{self.get_temp_dir()}/model.weights.h5"
        model.save_weights(path)
        other.load_weights(path)
        pairs = zip(model.layers[1].prior.variables, other.layers[1].prior.variables, strict=True)
        for v, w in pairs:
            self.assertAllEqual(v, w)
        self.assertAllEqual(model(X), other(X))

    def test_copy(self):
        model = model_of(priors.Horseshoe())
        copied = copy.deepcopy(model)
        self.assert_shared(copied)
        self.assertIsNot(copied.layers[0].prior, model.layers[0].prior)

    def test_prior_of_kernels_and_another_of_biases(self):
        """Each is shared with its like."""
        kernel, bias = priors.Normal(0.5, trainable=True), priors.Laplace(2.0, trainable=True)
        layers = [BayesDense(D, num_data=N, prior=kernel, bias_prior=bias) for _ in range(2)]
        model = keras.Sequential([keras.Input((D,)), *layers])
        loaded = through_file(model, self.get_temp_dir())
        a, b = loaded.layers
        self.assertIs(a.prior, b.prior)
        self.assertIs(a.bias_prior, b.bias_prior)
        self.assertIsNot(a.prior, a.bias_prior)
        self.assertLen(loaded.trainable_variables, 8 + 2)

    def test_empirical_bayes_pools_the_layers(self):
        """The optimum of a shared scale is the root mean square over all weights of both."""
        prior = priors.Normal(2.0, trainable=True)
        model = model_of(prior)
        weights = [q for layer in model.layers for q in (layer.kernel, layer.bias)]
        for q in weights:
            q.mu.trainable = q.rho.trainable = False
        model.compile(keras.optimizers.SGD(0.1), lambda y, f: 0.0 * f)
        tfbdl.train(model, X, X, epochs=100, verbose=0)
        second_moments = [np.ravel(np.square(q.mean) + np.square(q.stddev)) for q in weights]
        expected = np.sqrt(np.mean(np.concatenate(second_moments)))
        self.assertAllClose(prior.scale, expected, 1e-4)


if __name__ == "__main__":
    tf.test.main()

"""One prior object given to several layers is one prior, in files as well."""

import copy
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import two_replicas
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


def model_of(prior: Any) -> Any:
    """Two layers whose kernels, and for most priors biases, have one prior."""
    layers = [BayesDense(D, num_data=N, prior=prior, seed=i, name=f"layer_{i}") for i in range(2)]
    model = keras.Sequential([keras.Input((D,)), *layers])
    model.compile(keras.optimizers.SGD(1e-3), likelihoods.Normal(1.0))
    return model


@keras.saving.register_keras_serializable(package="test_shared_prior")
class OffTarget(priors.Normal):
    """A prior of a user's own, with a KL of its own."""

    def kl(self) -> Any:
        return tf.square(self.scale - 3.0)


HIERARCHIES = {
    "ard": priors.ARD,
    "horseshoe": priors.Horseshoe,
    "of a user": lambda: OffTarget(0.5, trainable=True),
}


def dense(prior: Any, **kwargs: Any) -> Any:
    return BayesDense(D, **{"num_data": N, "prior": prior, "seed": 1, **kwargs})


def total_kl(model: Any, prior: Any) -> Any:
    """KL of all weights, and once that of the prior."""
    layers = [v for v in model._flatten_layers() if isinstance(v, BayesDense)]
    return prior.kl() + tf.add_n([q.exact_kl() for v in layers for q in v.random_weights])


def through_file(model: Any, folder: Any) -> Any:
    model.save(f"{folder}/model.keras")
    return keras.models.load_model(f"{folder}/model.keras", safe_mode=True)


class SharedPriorTest(tf.test.TestCase, parameterized.TestCase):
    def assert_shared(self, model: Any) -> None:
        first, second = model.layers
        self.assertIs(first.prior, second.prior)
        self.assertIs(first.kernel.prior, second.kernel.prior)
        ids = [id(v) for v in model.trainable_variables]
        self.assertLen(set(ids), len(ids))
        self.assertLen(ids, 8 + len(first.prior.trainable_variables))
        self.assertNotEmpty(first.prior.trainable_variables)

    @parameterized.parameters(*NAMES)
    def test_variables_are_counted_once(self, name: str) -> None:
        self.assert_shared(model_of(PRIORS[name]()))

    @parameterized.parameters(*(name for name in NAMES if name != "scale_mixture"))
    def test_kl_of_the_scales_is_counted_once(self, name: str) -> None:
        """The losses are the KL of the four weights and that of the prior's own posterior."""
        prior = PRIORS[name]()
        model = model_of(prior)
        weights = [q for layer in model.layers for q in (layer.kernel, layer.bias)]
        kl = prior.kl() + tf.add_n([q.exact_kl() for q in weights])
        for training in (False, True):
            model(X, training=training)
            self.assertAllClose(sum(model.losses), kl / N, 1e-5)

    @parameterized.parameters(*NAMES)
    def test_file(self, name: str) -> None:
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
    def test_weights_file(self, name: str) -> None:
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

    def test_copy(self) -> None:
        model = model_of(priors.Horseshoe())
        copied = copy.deepcopy(model)
        self.assert_shared(copied)
        self.assertIsNot(copied.layers[0].prior, model.layers[0].prior)

    def test_prior_of_kernels_and_another_of_biases(self) -> None:
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

    def test_empirical_bayes_pools_the_layers(self) -> None:
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


class KLOfThePriorTest(tf.test.TestCase, parameterized.TestCase):
    """Each model counts it once, whatever else the prior governs."""

    def assert_counted_once(self, model: Any, prior: Any, x: Any = X) -> None:
        expected = total_kl(model, prior) / N
        for training in (False, True):
            model(x, training=training)
            self.assertAllClose(sum(model.losses), expected, 1e-5)

    @parameterized.parameters(*HIERARCHIES)
    def test_two_models(self, name: str) -> None:
        prior = HIERARCHIES[name]()
        first, second = model_of(prior), model_of(prior)
        second.set_weights(first.get_weights())
        for model in (first, second, first):
            self.assert_counted_once(model, prior)
        bounds = [tfbdl.elbo(model, X, X, 2, seed=0).kl for model in (first, second)]
        self.assertAllClose(bounds, [float(total_kl(first, prior)) / N] * 2, 1e-5)

    @parameterized.parameters(*HIERARCHIES)
    def test_training_of_two_models(self, name: str) -> None:
        """Logs and weights of the second are as if there were no first, but for its scales."""
        histories = []
        for other in (False, True):
            prior = HIERARCHIES[name]()
            if other:
                model_of(prior)(X)
            keras.utils.set_random_seed(1)
            model = model_of(prior)
            history = tfbdl.train(model, X, X, epochs=2, batch_size=6, seed=3, verbose=0)
            histories.append(history)
        self.assertAllClose(histories[0]["kl"], histories[1]["kl"], 1e-6)
        self.assertAllClose(histories[0]["loss"], histories[1]["loss"], 1e-6)

    def test_weight_is_that_of_the_model(self) -> None:
        prior = priors.ARD()
        first, second = model_of(prior), model_of(prior)
        tfbdl.set_kl_weight(first, 0.25)
        for model, weight in ((first, 0.25), (second, 1.0), (first, 0.25)):
            model(X, training=True)
            self.assertAllClose(sum(model.losses), weight * total_kl(model, prior) / N, 1e-5)

    def test_columns_of_fit(self) -> None:
        prior = priors.ARD()
        model_of(prior)(X)
        model = model_of(prior)
        model.optimizer.learning_rate = 0.0
        history = model.fit(X, X, callbacks=[tfbdl.ELBOLogger()], verbose=0).history
        self.assertAllClose(history["kl_per_example"], [total_kl(model, prior) / N], 1e-5)

    def test_shared_layer_and_nested_models(self) -> None:
        prior = priors.ARD()
        twice = dense(prior)
        inner = keras.Sequential([keras.Input((D,)), dense(prior)])
        x = keras.Input((D,))
        model = keras.Model(x, dense(prior)(inner(twice(twice(x)))))
        self.assert_counted_once(model, prior)
        self.assert_counted_once(inner, prior)

    def test_kernel_and_bias_of_one_layer(self) -> None:
        prior = OffTarget(0.5, trainable=True)
        model = keras.Sequential([keras.Input((D,)), dense(prior, bias_prior=prior)])
        self.assert_counted_once(model, prior)

    @parameterized.parameters(*HIERARCHIES)
    def test_files(self, name: str) -> None:
        """Also of the second model, and as weights by `tf.train.Checkpoint`."""
        prior = HIERARCHIES[name]()
        _, second = model_of(prior), model_of(prior)
        loaded = through_file(second, self.get_temp_dir())
        other = model_of(HIERARCHIES[name]())
        for variable in second.trainable_variables:
            variable.assign_add(tf.fill(variable.shape, 0.1))
        path = tf.train.Checkpoint(model=second).save(f"{self.get_temp_dir()}/checkpoint")
        tf.train.Checkpoint(model=other).restore(path).assert_consumed()
        for model in (loaded, other):
            self.assert_counted_once(model, model.layers[0].prior)
        self.assertAllEqual(other.losses, (second(X, training=False), second.losses)[1])

    def test_clone(self) -> None:
        """As Keras clones layers one by one, each has a prior of its own, and its KL."""
        model = model_of(priors.ARD())
        clone = keras.models.clone_model(model)
        owned = [layer.prior for layer in clone.layers]
        self.assertIsNot(*owned)
        clone(X)
        expected = total_kl(clone, owned[0]) + owned[1].kl()
        self.assertAllClose(sum(clone.losses), expected / N, 1e-5)

    def test_two_replicas(self) -> None:
        histories, priors_of = [], []
        for scope in (tf.distribute.get_strategy().scope, two_replicas.strategy().scope):
            with scope():
                keras.utils.set_random_seed(1)
                prior = priors.ARD()
                model_of(prior)(X)
                model = model_of(prior)
                for layer in model.layers:
                    layer.kernel.rho.assign(tf.fill((D, D), -20.0))
                    layer.bias.rho.assign(tf.fill((D,), -20.0))
            history = model.fit(X, X, batch_size=6, epochs=2, shuffle=False, verbose=0).history
            histories.append(history["loss"])
            priors_of.append([v.value for v in prior.variables])
        self.assertAllClose(*histories, 1e-4)
        self.assertAllClose(*priors_of, 1e-4)

    def test_prior_predictive_of_a_prior_in_use(self) -> None:
        """Its samples hold no posterior of the scales, so that nothing is added to its loss."""
        prior = priors.ARD(trainable=False)
        model_of(prior)(X)
        layer = dense(prior, posterior="prior", use_bias=False)
        model = keras.Sequential([keras.Input((D,)), layer, keras.layers.Dense(D)])
        model.compile("sgd", likelihoods.Normal(1.0))
        model_of(prior)(X)
        model(X, training=True)
        self.assertAllClose(sum(model.losses), 0.0)
        model_of(prior)(X)
        self.assertEqual(tfbdl.elbo(model, X, X, 2, seed=0).kl, 0.0)
        history = tfbdl.train(model, X, X, epochs=1, verbose=0)
        self.assertAllEqual(history["kl"], [0.0])

    def test_num_data_must_agree(self) -> None:
        prior = priors.ARD()
        layers = [dense(prior, name="first"), dense(prior, num_data=2 * N, name="second")]
        with self.assertRaisesRegex(
            ValueError, "^kernel of layer 'second': num_data=24 .*num_data=12 .*ARD; .*$"
        ):
            keras.Sequential([keras.Input((D,)), *layers])
        fixed = priors.Normal(1.0)
        for num_data in (N, 2 * N):
            dense(fixed, num_data=num_data).build((None, D))


if __name__ == "__main__":
    tf.test.main()

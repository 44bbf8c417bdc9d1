"""Ensembles whose members share weights: kept once, computed once, the same to the last digit."""

import concurrent.futures
import sys
import tempfile
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

import tfbdl
from tfbdl import inference
from tfbdl.models import WeightEnsemble

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3)).astype("float32")
Y = RNG.integers(0, 2, 40)
K = 7


@keras.saving.register_keras_serializable(package="tests")
class Counting(keras.layers.Layer):
    """The identity, which counts how often it is computed."""

    calls = 0

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, x: Any) -> Any:
        def count(values: Any) -> Any:
            Counting.calls += 1
            return values

        y = tf.numpy_function(count, [x], x.dtype, stateful=False)  # else it is not shared
        y.set_shape(x.shape)
        return y


@keras.saving.register_keras_serializable(package="tests")
class Subclassed(keras.Model):
    """A body and a head in a class of its own."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.body = keras.layers.Dense(4, "tanh")
        self.count = Counting()
        self.head = keras.layers.Dense(2, name="head")

    def call(self, x: Any) -> Any:
        return self.head(tf.square(self.count(self.body(x))))


@keras.saving.register_keras_serializable(package="tests")
class Tied(keras.Model):
    """Takes the weights of its last layer elsewhere too, without calling it."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.inner = keras.layers.Dense(2)
        self.head = keras.layers.Dense(2, use_bias=False, name="head")

    def build(self, shape: Any) -> None:
        self.inner.build((None, 2))
        self.head.build((None, 2))

    def call(self, x: Any) -> Any:
        return self.head(self.inner(keras.ops.matmul(x, keras.ops.ones((3, 2)) @ self.head.kernel)))


def sequential() -> keras.Model:
    body = [keras.layers.Dense(4, "tanh"), Counting(), keras.layers.BatchNormalization()]
    return keras.Sequential([keras.Input((3,)), *body, keras.layers.Dense(2, name="head")])


def nested() -> keras.Model:
    """A body in a model, and the head in another with more of the body."""
    inputs = keras.Input((3,))
    body = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, "tanh"), Counting()])
    h = keras.Input((4,))
    head = keras.layers.Dense(2, name="head")(keras.layers.LayerNormalization()(h))
    return keras.Model(inputs, keras.Model(h, head, name="upper")(body(inputs)))


def subclassed() -> keras.Model:
    model = Subclassed()
    model(X[:1])
    return model


def made(make: Any, seed: int = 0) -> keras.Model:
    keras.utils.set_random_seed(seed)
    model = make()
    model.compile("sgd", tfbdl.likelihoods.Categorical())
    return model


def plainly(network: keras.Model, rows: Any) -> np.ndarray:
    """The outputs for each kernel and bias of the last layer, one by one."""
    before, outputs = network.get_weights(), []
    *_, kernel, bias = network.trainable_variables
    for row in rows:
        kernel.assign(np.reshape(row[: -bias.shape[0]], kernel.shape))
        bias.assign(row[-bias.shape[0] :])
        outputs.append(tf.function(lambda x: network(x, training=False))(X))
    network.set_weights(before)
    return np.stack(outputs)


class LastLayersTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(sequential, nested, subclassed)
    def test_features_are_computed_once(self, make: Any) -> None:
        """The outputs are those of the plain way, also when they come out of a file."""
        network = made(make)
        last = [v.path.split("/")[-1] for v in network.trainable_variables[-2:]]
        self.assertEqual(last, ["kernel", "bias"])
        heads = RNG.normal(size=(K, 10)).astype("float32")
        ensemble = WeightEnsemble(network, heads, own_weights=["head"])
        self.assertEqual(ensemble.members.shape, (K, 10))
        expected = plainly(network, heads)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "ensemble.keras"
            ensemble.save(path)
            loaded = tfbdl.load(path)
        network.set_weights([w + 1.0 for w in network.get_weights()])
        for model in (ensemble, loaded):
            Counting.calls = 0
            prediction = tfbdl.predict(model, X, return_samples=True, batch_size=20, verbose=0)
            self.assertEqual(Counting.calls, 1 + 2)  # of the check of x, and of the batches
            self.assertAllClose(prediction.outputs, expected, 1e-6, 1e-6)
            Counting.calls = 0
            self.assertAllClose(model(X), expected.mean(axis=0), 1e-5, 1e-6)
            self.assertEqual(Counting.calls, 1)

    def test_weights_that_are_taken_elsewhere(self) -> None:
        """What depends on them is not shared."""
        model = Tied()
        model(X[:1])
        kernels = RNG.normal(size=(K, 4)).astype("float32")
        ensemble = WeightEnsemble(model, kernels, own_weights=["head"])
        expected = []
        for kernel in kernels:
            model.head.kernel.assign(kernel.reshape(2, 2))
            expected.append(model(X).numpy())
        got = tfbdl.predict(ensemble, X, return_samples=True, verbose=0).outputs
        self.assertAllClose(got, expected, 1e-5, 1e-6)

    @parameterized.parameters("float32", "mixed_bfloat16")
    def test_precision_and_masks(self, policy: Any) -> None:
        """A network that hands a mask down, in half precision too."""
        keras.utils.set_random_seed(0)
        keras.config.set_dtype_policy(policy)
        try:
            stack = [keras.layers.Embedding(5, 4, mask_zero=True), Counting(), keras.layers.LSTM(3)]
            network = keras.Sequential([keras.Input((6,)), *stack, keras.layers.Dense(2)])
            x = RNG.integers(0, 5, (9, 6)).astype("float32")
            heads = RNG.normal(size=(K, 8)).astype("float32")
            ensemble = WeightEnsemble(network, heads, own_weights=[network.layers[-1].name])
            Counting.calls = 0
            got = tfbdl.predict(ensemble, x, return_samples=True, verbose=0).outputs
            self.assertEqual(Counting.calls, 2)
            expected = []
            for head in heads:
                network.layers[-1].set_weights([head[:6].reshape(3, 2), head[6:]])
                expected.append(tf.function(network)(x))
            self.assertAllClose(got, np.stack(expected), 1e-6, 1e-6)
        finally:
            keras.config.set_dtype_policy("float32")


class OfTest(tf.test.TestCase, parameterized.TestCase):
    def test_what_differs_is_found(self) -> None:
        """A kernel of the last layer, and one statistic."""
        models = [made(sequential) for _ in range(3)]
        for model in models[1:]:
            model.layers[-1].kernel.assign(RNG.normal(size=(4, 2)))
        models[2].layers[2].moving_mean.assign([1.0, 2.0, 3.0, 4.0])
        ensemble = WeightEnsemble.of(models)
        self.assertEqual(list(ensemble.shapes), ["head/kernel"])
        self.assertEqual(ensemble.states.shape, (3, 4))
        expected = [model(X, training=False) for model in models]
        got = tfbdl.predict(ensemble, X, return_samples=True, verbose=0).outputs
        self.assertAllClose(got, expected, 1e-6, 1e-6)

    def test_equal_models_share_all(self) -> None:
        ensemble = WeightEnsemble.of([made(sequential) for _ in range(3)])
        self.assertEqual(ensemble.num_functions, 3)
        self.assertEqual(ensemble.members.shape, (3, 0))
        expected = made(sequential)(X, training=False)
        self.assertAllClose(ensemble(X), expected, 1e-6, 1e-6)


class PosteriorsTest(tf.test.TestCase, parameterized.TestCase):
    def sizes(self, model: Any) -> int:
        return sum(int(np.prod(v.shape)) for v in model.variables)

    def test_deep_ensemble_of_heads(self) -> None:
        """Heads over a frozen body: one body, in a file too, and one pass of it."""
        num_heads, of_head, of_body = 20, 10, 4 * 4 + 4 * 4
        network = made(sequential)
        for layer in network.layers[:-1]:
            layer.trainable = False
        network.compile("sgd", tfbdl.likelihoods.Categorical())
        fitted = inference.DeepEnsemble(network, num_heads)
        fitted.fit(X, Y, epochs=1, batch_size=40, verbose=0)
        self.assertEqual(sum(a.size for a in fitted.fitted_arrays().values()), num_heads * of_head)
        self.assertEqual(self.sizes(fitted.ensemble()), num_heads * of_head + of_body)
        self.assertNotAllClose(*fitted.sample(2))
        expected = plainly(network, fitted.sample())
        with tempfile.TemporaryDirectory() as folder:
            fitted.save(Path(folder) / "heads.keras")
            loaded = tfbdl.load(Path(folder) / "heads.keras")
        for posterior in (fitted, loaded):
            Counting.calls = 0
            prediction = tfbdl.predict(posterior, X, return_samples=True, verbose=0)
            self.assertEqual(Counting.calls, 2)
            self.assertAllClose(prediction.outputs, expected, 1e-5, 1e-6)

    def test_laplace_and_neural_linear(self) -> None:
        for posterior in (
            inference.Laplace(made(sequential), pred_type="nn"),
            inference.NeuralLinear(made(sequential), sigma_noise=0.3),
        ):
            y = Y if isinstance(posterior, inference.Laplace) else np.eye(2)[Y]
            posterior.fit(X, y)
            ensemble = posterior.ensemble(50, seed=1)
            rows = posterior.sample(50, seed=1)
            self.assertAllClose(ensemble.members, rows, 1e-6, 1e-6)
            self.assertLess(self.sizes(ensemble), 50 * 10 + 50)
            Counting.calls = 0
            got = tfbdl.predict(ensemble, X, return_samples=True, verbose=0).outputs
            self.assertEqual(Counting.calls, 2)
            self.assertAllClose(got, plainly(posterior.model, rows), 1e-4, 1e-4)

    def test_refusals(self) -> None:
        network = made(sequential)
        for arguments, message in (
            ({"own_weights": ["tail"]}, r"^own_weights=\['tail'\] must be names .* are dense.*/k"),
            ({"own_weights": ["head"], "theta": [1.0]}, r"^theta has shape \(1,\); give \(34,\)$"),
        ):
            with self.assertRaisesRegex(ValueError, message):
                WeightEnsemble(network, np.zeros((2, 10)), **arguments)
        with self.assertRaisesRegex(ValueError, r"^members has shape .* give \(K, 10\)$"):
            WeightEnsemble(network, np.zeros((2, 34)), own_weights=["head"])


class ThreadsTest(tf.test.TestCase):
    def test_two_ensembles_of_one_network_asked_at_once(self) -> None:
        """Each traces the network while others do: none takes another's outputs for its own."""
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        self.addCleanup(sys.setswitchinterval, before)
        body = [keras.layers.Dense(8, "relu") for _ in range(8)]
        layers = [*body, keras.layers.Dense(3, name="last")]
        network = keras.Sequential([keras.Input((3,)), *layers])
        members = RNG.normal(size=(5, 27)).astype("float32")

        def ensembles() -> list[WeightEnsemble]:
            return [WeightEnsemble(network, k * members, own_weights=["last"]) for k in (1, 2)]

        def asked(ensemble: WeightEnsemble) -> Any:
            return tfbdl.predict(ensemble, X, 5, jit_compile=False, verbose=0).mean

        expected = [asked(ensemble) for ensemble in ensembles()]
        for _ in range(3):
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                self.assertAllClose(list(pool.map(asked, ensembles() * 2)), expected * 2)
        self.assertEmpty([layer for layer in network.layers if "call" in vars(layer)])


if __name__ == "__main__":
    tf.test.main()

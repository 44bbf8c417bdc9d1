"""BatchEnsemble: networks that share kernels, held against networks with kernels of their own."""

import tempfile
from typing import Any

import keras
import keras.layers as L
import numpy as np
import tensorflow as tf
import two_replicas
from absl.testing import parameterized

import tfbdl
from tfbdl.keras_private import walk
from tfbdl.layers import BatchEnsembleWrapper, BayesBatchEnsembleWrapper, Exchanged
from tfbdl.models import BatchEnsemble

RNG = np.random.default_rng(0)
K, N = 3, 12
X = RNG.normal(size=(N, 4)).astype("float32")
IMAGES = RNG.normal(size=(N, 6, 6, 2)).astype("float32")
TOKENS = RNG.normal(size=(N, 5, 4)).astype("float32")
Y = np.arange(N) % 3
WEIGHTS = RNG.uniform(0.5, 2.0, N).astype("float32")
CROSSENTROPY = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def dense() -> Any:
    return compiled(keras.Sequential([keras.Input((4,)), L.Dense(5, "tanh"), L.Dense(3)]))


def convolutional() -> Any:
    stack = [L.Conv2D(4, 3), L.BatchNormalization(), L.ReLU(), L.Flatten(), L.Dense(3)]
    return compiled(keras.Sequential([keras.Input((6, 6, 2)), *stack]))


def attentive() -> Any:
    tokens = keras.Input((5, 4))
    mixed = L.MultiHeadAttention(2, 3, name="attention")(tokens, tokens)
    summed = L.GlobalAveragePooling1D()(mixed + tokens)
    return compiled(keras.Model(tokens, L.Dense(3)(summed)))


def compiled(model: Any, loss: Any = CROSSENTROPY) -> Any:
    model.compile(keras.optimizers.SGD(0.1), loss, metrics=["accuracy"], jit_compile=False)
    return model


def wrappers(ensemble: Any) -> list[Any]:
    return [x for x in walk(ensemble.network) if isinstance(x, BatchEnsembleWrapper)]


def moved(ensemble: Any) -> Any:
    """Factors and biases away from where they start."""
    for wrapper in wrappers(ensemble):
        for v in (wrapper.input_factor, wrapper.output_factor, wrapper.bias):
            v.assign(v + RNG.normal(0, 0.3, v.shape))
    return ensemble


def member(build: Any, model: Any, ensemble: Any, k: int) -> Any:
    """A plain network with the weights of a member."""
    plain = build()
    plain.set_weights(model.get_weights())
    kinds = (L.Dense, L.EinsumDense, L.Conv2D)
    own = [x for x in walk(plain) if isinstance(x, kinds)]
    for layer, wrapper in zip(own, wrappers(ensemble), strict=True):
        r, s = np.asarray(wrapper.input_factor[k]), np.asarray(wrapper.output_factor[k])
        axes = layer.kernel.ndim - r.ndim - s.ndim
        outer = np.multiply.outer(r, s).reshape((1,) * axes + r.shape + s.shape)
        layer.kernel.assign(np.asarray(wrapper.layer.kernel) * outer)
        layer.bias.assign(np.reshape(wrapper.bias[k], layer.bias.shape))
    return plain


NETWORKS = parameterized.named_parameters(
    ("dense", dense, X), ("convolutional", convolutional, IMAGES), ("attentive", attentive, TOKENS)
)


class BatchEnsembleTest(tf.test.TestCase, parameterized.TestCase):
    @NETWORKS
    def test_predictions_are_those_of_the_members(self, build: Any, x: Any) -> None:
        model = build()
        ensemble = moved(tfbdl.to_batch_ensemble(model, K))
        self.assertEqual(ensemble.num_functions, K)
        outputs = [member(build, model, ensemble, k)(x) for k in range(K)]
        self.assertAllClose(ensemble(x), np.mean(outputs, 0), 1e-5, 1e-5)
        prediction = tfbdl.predict(ensemble, x, return_samples=True, verbose=0)
        self.assertEqual(prediction.num_samples, K)
        self.assertAllClose(prediction.outputs, outputs, 1e-5, 1e-5)
        p = tf.nn.softmax(outputs).numpy()
        self.assertAllClose(prediction.mean, p.mean(0), 1e-5)
        entropy = -np.sum(p.mean(0) * np.log(p.mean(0)), -1)
        within = -np.sum(p * np.log(p), -1).mean(0)
        self.assertAllClose(prediction.mutual_information, entropy - within, 1e-4, 1e-5)

    @parameterized.parameters((None,), (WEIGHTS,))
    def test_the_loss_is_the_mean_of_the_members_losses(self, weights: Any) -> None:
        """Losses in training, each member by itself; and the gradients are those of that mean."""
        model = dense()
        ensemble = moved(tfbdl.to_batch_ensemble(model, K))
        losses = []
        for k in range(K):
            outputs = member(dense, model, ensemble, k)(X)
            losses.append(CROSSENTROPY(Y, outputs, sample_weight=weights))
        variables = [v.value for v in ensemble.trainable_variables]
        before = [v.numpy() for v in variables]
        with tf.GradientTape() as tape:
            y_pred = ensemble(X, training=True)
            loss = ensemble.compute_loss(X, Y, y_pred, weights)
        self.assertAllClose(loss, np.mean(losses), 1e-6)
        gradients = tape.gradient(loss, variables)
        history = ensemble.fit(
            X, Y, sample_weight=weights, batch_size=N, shuffle=False, verbose=0
        ).history
        self.assertAllClose(history["loss"], [np.mean(losses)], 1e-6)
        for v, old, gradient in zip(variables, before, gradients, strict=True):
            self.assertAllClose(v, old - 0.1 * gradient, 1e-5, 1e-6)

    def test_metrics_are_means_over_members_in_training(self) -> None:
        model = dense()
        ensemble = moved(tfbdl.to_batch_ensemble(model, K))
        members = [member(dense, model, ensemble, k) for k in range(K)]
        accuracies = [m.evaluate(X, Y, verbose=0)[1] for m in members]
        mean = np.mean([m(X) for m in members], 0)
        evaluated = ensemble.evaluate(X, Y, verbose=0)
        of_mean = [float(CROSSENTROPY(Y, mean)), np.mean(mean.argmax(-1) == Y)]
        self.assertAllClose(evaluated, of_mean, 1e-5)
        history = ensemble.fit(X, Y, batch_size=N, verbose=0).history
        self.assertAllClose(history["accuracy"], [np.mean(accuracies)], 1e-6)

    @NETWORKS
    def test_equal_factors_are_the_network_trained_alone(self, build: Any, x: Any) -> None:
        """After two steps, in which kernels alone are trained: K times the network."""
        model = build()
        ensemble = tfbdl.to_batch_ensemble(model, K, initializer="ones")
        ensemble.compile(keras.optimizers.SGD(0.1), CROSSENTROPY, jit_compile=False)
        for wrapper in wrappers(ensemble):
            for v in (wrapper.input_factor, wrapper.output_factor, wrapper.bias):
                v.trainable = False
        for layer in walk(model):
            if getattr(layer, "bias", None) is not None:
                layer.bias.trainable = False
        model.compile(keras.optimizers.SGD(0.1), CROSSENTROPY, jit_compile=False)
        losses = []
        for m in (model, ensemble):
            settings = {"epochs": 2, "batch_size": N, "shuffle": False, "verbose": 0}
            losses.append(m.fit(x, Y, **settings).history["loss"])
        self.assertAllClose(*losses, 1e-6, 1e-6)
        self.assertAllClose(model(x), ensemble(x), 1e-5, 1e-6)
        drawn = tfbdl.predict(ensemble, x, return_samples=True, verbose=0).outputs
        self.assertAllClose(drawn, np.repeat(model(x)[None], K, 0), 1e-5, 1e-6)

    def test_attention(self) -> None:
        ensemble = tfbdl.to_batch_ensemble(attentive(), K, layers="attention/(query|key)")
        self.assertLen(wrappers(ensemble), 2)
        self.assertIsInstance(ensemble.network.get_layer("attention"), Exchanged)

    def test_trained_by_the_package(self) -> None:
        """`tfbdl.train` trains it as Keras does, and the members part."""
        ensemble, other = (tfbdl.to_batch_ensemble(dense(), K) for _ in range(2))
        other.set_weights(ensemble.get_weights())
        tfbdl.train(ensemble, X, Y, epochs=3, batch_size=N, verbose=0)
        other.fit(X, Y, epochs=3, batch_size=N, verbose=0)
        for a, b in zip(ensemble.get_weights(), other.get_weights(), strict=True):
            self.assertAllClose(a, b, 1e-5, 1e-6)
        self.assertGreater(tfbdl.predict(ensemble, X, verbose=0).mutual_information.max(), 0.01)

    def test_several_outputs(self) -> None:
        x = keras.Input((4,))
        outputs = {"a": L.Dense(3, name="a")(x), "b": L.Dense(1, name="b")(x)}
        model = keras.Model(x, outputs)
        model.compile("sgd", {"a": CROSSENTROPY, "b": "mse"}, jit_compile=False)
        ensemble = tfbdl.to_batch_ensemble(model, K, initializer="ones")
        y = {"a": Y, "b": X[:, :1]}
        expected = model.fit(X, y, batch_size=N, verbose=0).history["loss"]
        actual = ensemble.fit(X, y, batch_size=N, verbose=0).history["loss"]
        self.assertAllClose(actual, expected, 1e-6)

    def test_tabm(self) -> None:
        """Random signs in the first layer's inputs, ones elsewhere."""
        first, last = wrappers(tfbdl.to_batch_ensemble(dense(), 8, initializer="tabm"))
        self.assertAllEqual(np.abs(first.input_factor), np.ones((8, 4)))
        self.assertGreater(np.asarray(first.input_factor).std(), 0.5)
        for factor in (first.output_factor, last.input_factor, last.output_factor):
            self.assertAllEqual(factor, np.ones(factor.shape))

    def test_layers_do_not_share_their_starts(self) -> None:
        model = keras.Sequential([keras.Input((4,)), *(L.Dense(4) for _ in range(2))])
        for start in ("random_sign", "near_one", keras.initializers.RandomNormal(1.0, 0.5)):
            a, b = wrappers(tfbdl.to_batch_ensemble(model, 16, initializer=start))
            starts = [a.input_factor, a.output_factor, b.input_factor, b.output_factor]
            for i in range(3):
                self.assertNotAllClose(starts[i], starts[i + 1])

    def test_random_factors(self) -> None:
        """Losses have the factors' KL, a draw is of one member, and predictions have no bound."""
        model = dense()
        ensemble = tfbdl.to_batch_ensemble(model, K, num_data=N, prior="laplace")
        self.assertIsInstance(wrappers(ensemble)[0], BayesBatchEnsembleWrapper)
        ensemble.fit(X, Y, epochs=2, verbose=0)
        self.assertLen(ensemble.losses, 2)
        self.assertGreater(ensemble.num_functions, 10**9)
        outputs = tfbdl.predict(ensemble, X, 6, return_samples=True, verbose=0).outputs
        self.assertEqual(len({o.tobytes() for o in outputs}), 6)
        ensemble(X)
        bound = tfbdl.elbo(ensemble, X, Y, num_samples=5)
        self.assertAllClose(bound.kl, sum(ensemble.losses), 1e-5)

    @parameterized.parameters((attentive, TOKENS, None), (dense, X, N))
    def test_files(self, build: Any, x: Any, num_data: Any) -> None:
        ensemble = tfbdl.to_batch_ensemble(build(), K, num_data=num_data)
        ensemble.fit(x, Y, verbose=0)
        with tempfile.TemporaryDirectory() as folder:
            ensemble.save(f"{folder}/m.keras")
            loaded = tfbdl.load(f"{folder}/m.keras")
            answers = []
            for m in (ensemble, loaded):
                prediction = tfbdl.predict(m, x, 6, seed=1, verbose=0)
                answers.append(prediction.mean)
                m.fit(x, Y, shuffle=False, verbose=0)
            self.assertAllClose(*answers, 1e-6)
            self.assertAllClose(ensemble(x), loaded(x), 1e-5, 1e-6)
            tfbdl.export(ensemble, f"{folder}/served", num_samples=6, seed=1)
            served_model = tf.saved_model.load(f"{folder}/served")
            served = served_model.serve(x)
            expected = tfbdl.predict(ensemble, x, 6, seed=1, verbose=0)
            self.assertAllClose(served["mean"], expected.mean, 1e-5)
            self.assertAllClose(served["entropy"], expected.entropy, 1e-5)

    def test_mixed_precision(self) -> None:
        keras.config.set_dtype_policy("mixed_bfloat16")
        try:
            model = dense()
        finally:
            keras.config.set_dtype_policy("float32")
        ensemble = tfbdl.to_batch_ensemble(model, K, initializer="near_one")
        self.assertEqual(ensemble.fit(X, Y, verbose=0).epoch, [0])
        plain = member(dense, model, ensemble, 1)
        drawn = tfbdl.predict(ensemble, X, return_samples=True, verbose=0).outputs
        self.assertAllClose(drawn[1], plain(X), atol=0.05)

    def test_two_replicas(self) -> None:
        """The step of one device, with half of the examples on each."""
        alone = moved(tfbdl.to_batch_ensemble(dense(), K))
        with two_replicas.strategy().scope():
            shared = tfbdl.to_batch_ensemble(dense(), K)
            shared.set_weights(alone.get_weights())
        losses = []
        for m in (alone, shared):
            losses.append(m.fit(X, Y, epochs=2, batch_size=N, verbose=0).history["loss"])
        self.assertAllClose(*losses, 1e-5)
        for a, b in zip(alone.get_weights(), shared.get_weights(), strict=True):
            self.assertAllClose(a, b, 1e-5, 1e-6)

    def test_refusals(self) -> None:
        model = dense()
        with self.assertRaisesRegex(ValueError, "^num_data=None: prior and posterior are of"):
            tfbdl.to_batch_ensemble(model, prior=1.0)
        with self.assertRaisesRegex(ValueError, "^initializer='zeroes' is not known to Keras"):
            tfbdl.to_batch_ensemble(model, initializer="zeroes")
        model.layers[0].enable_lora(2)
        with self.assertRaisesRegex(ValueError, "is quantized or has LoRA; convert it without"):
            tfbdl.to_batch_ensemble(model)
        network = tfbdl.to_batch_ensemble(dense(), K).network
        for wrong, number in ((model, K), (network, K + 1)):
            with self.assertRaisesRegex(ValueError, "^network=.* holds layers of .* members"):
                BatchEnsemble(wrong, number)


if __name__ == "__main__":
    tf.test.main()

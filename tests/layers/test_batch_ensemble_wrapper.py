"""Factors of rank one: each member is the layer with a kernel of its own, whatever the layer."""

import tempfile
from typing import Any

import keras
import keras.layers as L
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

import tfbdl
from tfbdl.draws import DrawnModel, make_draw
from tfbdl.layers import BatchEnsembleWrapper, BayesBatchEnsembleWrapper

RNG = np.random.default_rng(0)
K = 3
VECTORS = RNG.normal(size=(2 * K, 4)).astype("float32")
TOKENS = RNG.normal(size=(2 * K, 5, 4)).astype("float32")
HEADS = RNG.normal(size=(2 * K, 5, 2, 3)).astype("float32")
IMAGES = RNG.normal(size=(2 * K, 5, 6, 4)).astype("float32")
VOLUMES = RNG.normal(size=(2 * K, 3, 4, 3, 4)).astype("float32")
KINDS = {  # the layer, inputs, and the axes of the kernel that r and s have
    "dense": (lambda: L.Dense(3, "tanh"), VECTORS, "io", "i", "o"),
    "dense of tokens": (lambda: L.Dense(3, use_bias=False), TOKENS, "io", "i", "o"),
    "queries": (
        lambda: L.EinsumDense("abc,cde->abde", (None, 2, 3), bias_axes="de"),
        TOKENS,
        "cde",
        "c",
        "de",
    ),
    "output of heads": (
        lambda: L.EinsumDense("abcd,cde->abe", (None, 4), bias_axes="e"),
        HEADS,
        "cde",
        "cd",
        "e",
    ),
    "any axes": (
        lambda: L.EinsumDense("...x,xy->...y", 3, activation="relu", bias_axes="y"),
        TOKENS,
        "xy",
        "x",
        "y",
    ),
    "bias of one axis": (
        lambda: L.EinsumDense("abc,cde->abde", (None, 2, 3), bias_axes="d"),
        TOKENS,
        "cde",
        "c",
        "de",
    ),
    "Conv1D": (lambda: L.Conv1D(3, 2, 2, "same", activation="tanh"), TOKENS, "hio", "i", "o"),
    "Conv2D": (lambda: L.Conv2D(3, 2, activation="tanh"), IMAGES, "hwio", "i", "o"),
    "Conv3D": (lambda: L.Conv3D(2, 2), VOLUMES, "dhwio", "i", "o"),
    "Conv1DTranspose": (lambda: L.Conv1DTranspose(3, 2), TOKENS, "hoi", "i", "o"),
    "Conv2DTranspose": (lambda: L.Conv2DTranspose(3, 2, 2), IMAGES, "hwoi", "i", "o"),
    "Conv3DTranspose": (lambda: L.Conv3DTranspose(2, 2), VOLUMES, "dhwoi", "i", "o"),
}


def made(layer: Any, x: Any, **arguments: Any) -> Any:
    """The wrapper, with biases away from zero, and a model of it."""
    wrapper = BatchEnsembleWrapper(
        layer, K, input_initializer=normal(1), output_initializer=normal(2), **arguments
    )
    inputs = keras.Input(x.shape[1:])
    model = keras.Model(inputs, wrapper(inputs))
    if wrapper.bias is not None:
        wrapper.bias.assign(RNG.normal(size=wrapper.bias.shape))
    return wrapper, model


def normal(seed: int) -> Any:
    return keras.initializers.RandomNormal(1.0, 0.5, seed=seed)


def member(make: Any, x: Any, wrapper: Any, k: int, names: Any) -> Any:
    """Keras' own layer with the weights of a member."""
    plain = make()
    plain.build(x.shape)
    axes, of_r, of_s = names
    r, s = np.asarray(wrapper.input_factor[k]), np.asarray(wrapper.output_factor[k])
    equation = f"{axes},{of_r},{of_s}->{axes}"
    plain.kernel.assign(np.einsum(equation, np.asarray(wrapper.layer.kernel), r, s))
    if plain.bias is not None:
        plain.bias.assign(np.reshape(wrapper.bias[k], plain.bias.shape))
    return plain


class MembersTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.named_parameters(*((name, *kind) for name, kind in KINDS.items()))
    def test_each_member_is_the_layer_with_its_kernel(self, make: Any, x: Any, *names: Any) -> None:
        wrapper, model = made(make(), x)
        for k in range(K):
            plain = member(make, x, wrapper, k, names)
            self.assertAllClose(model(x)[k::K], plain(x)[k::K], 1e-5, 1e-5)
            self.assertAllClose(model(x, training=True)[k::K], plain(x)[k::K], 1e-5, 1e-5)
            drawn = DrawnModel(model)(x, draw=make_draw(0, k + K))
            self.assertAllClose(drawn, plain(x), 1e-5, 1e-5)

    def test_channels_first(self) -> None:
        wrapper, model = made(L.Conv2D(3, 2, data_format="channels_first"), IMAGES)
        x = np.moveaxis(IMAGES, -1, 1)
        wrapper, model = made(L.Conv2D(3, 2, data_format="channels_first"), x)
        for k in range(K):
            plain = member(lambda: L.Conv2D(3, 2), IMAGES, wrapper, k, ("hwio", "i", "o"))
            expected = np.moveaxis(plain(IMAGES), -1, 1)
            self.assertAllClose(model(x)[k::K], expected[k::K], 1e-5, 1e-5)

    def test_groups(self) -> None:
        """The factors stand outside of the convolution of each group."""
        wrapper, model = made(L.Conv2D(6, 2, groups=2), IMAGES)
        r, s = (np.asarray(w) for w in (wrapper.input_factor, wrapper.output_factor))
        for k in range(K):
            plain = L.Conv2D(6, 2, groups=2)
            plain.build(IMAGES.shape)
            plain.kernel.assign(wrapper.layer.kernel)
            expected = plain(IMAGES * r[k]) * s[k] + np.asarray(wrapper.bias[k])
            self.assertAllClose(model(IMAGES)[k::K], expected[k::K], 1e-5, 1e-5)

    @parameterized.named_parameters(*((name, *kind[:2]) for name, kind in KINDS.items()))
    def test_equal_factors_are_the_layer(self, make: Any, x: Any) -> None:
        """Values and gradients of all weights, those of the kernel as many times as members."""
        wrapper = BatchEnsembleWrapper(
            make(), K, input_initializer="ones", output_initializer="ones"
        )
        plain = make()
        wrapper.build(x.shape)
        plain.build(x.shape)
        plain.kernel.assign(wrapper.layer.kernel)
        some = x[:2]
        with tf.GradientTape() as tape:
            y = wrapper(tf.repeat(some, K, axis=0), training=True)
            loss = tf.reduce_sum(tf.square(y)) / K
        kernel = tape.gradient(loss, wrapper.layer.kernel.value)
        with tf.GradientTape() as tape:
            of_one = plain(some)
            loss = tf.reduce_sum(tf.square(of_one))
        self.assertAllClose(y, np.repeat(of_one, K, axis=0), 1e-6, 1e-6)
        expected = tape.gradient(loss, plain.kernel.value)
        scale = np.abs(expected).max()
        self.assertAllClose(kernel / scale, expected / scale, 1e-6, 1e-6)

    def test_any_number_of_rows(self) -> None:
        _, model = made(L.Dense(3, "tanh"), VECTORS)
        for number in (1, 2, 4):
            self.assertAllClose(model(VECTORS[:number]), model(VECTORS)[:number], 1e-6)

    def test_starts(self) -> None:
        wrapper = BatchEnsembleWrapper(L.Dense(2000), 2)
        wrapper.build((None, 1000))
        signs = np.asarray(wrapper.output_factor)
        self.assertAllEqual(np.abs(signs), np.ones((2, 2000)))
        self.assertLess(abs(signs.mean()), 4 / np.sqrt(signs.size))
        self.assertLess(abs((signs[0] * signs[1]).mean()), 4 / np.sqrt(2000))
        other = BatchEnsembleWrapper(L.Dense(2000), 2)
        other.build((None, 1000))
        self.assertNotAllEqual(other.output_factor, signs)
        wrapper = BatchEnsembleWrapper(L.Dense(2), 2, input_initializer="near_one")
        wrapper.build((None, 5000))
        r = np.asarray(wrapper.input_factor)
        self.assertAllClose([r.mean(), r.std()], [1.0, 0.1], atol=0.005)

    def test_what_the_layer_asks_of_its_outputs_and_bias(self) -> None:
        """Regularizers of outputs and biases go to the wrapper, those of kernels stay."""
        layer = L.Dense(
            3,
            "relu",
            kernel_regularizer=keras.regularizers.L2(0.1),
            bias_regularizer=keras.regularizers.L2(0.2),
            activity_regularizer=keras.regularizers.L2(0.3),
        )
        wrapper, model = made(layer, VECTORS)
        y = model(VECTORS)
        kernel, bias = np.asarray(wrapper.layer.kernel), np.asarray(wrapper.bias)
        expected = 0.1 * np.sum(kernel**2) + 0.2 * np.sum(bias**2)
        plain = L.Activation("linear", activity_regularizer=keras.regularizers.L2(0.3))
        plain(y)
        expected += sum(plain.losses)
        self.assertAllClose(sum(model.losses), expected, 1e-5)

    def test_mixed_precision(self) -> None:
        make, x, *names = KINDS["Conv2D"]
        keras.config.set_dtype_policy("mixed_bfloat16")
        try:
            wrapper, model = made(make(), x)
        finally:
            keras.config.set_dtype_policy("float32")
        self.assertEqual(wrapper.input_factor.dtype, "float32")
        y = model(x)
        self.assertEqual(y.dtype, tf.bfloat16)
        plain = member(make, x, wrapper, 1, names)
        self.assertAllClose(tf.cast(y, tf.float32)[1::K], plain(x)[1::K], atol=0.05)

    def test_files(self) -> None:
        """The activation and the bias of the layer, which the wrapper has taken, are in them."""
        for name in ("dense", "queries", "Conv2D", "dense of tokens"):
            make, x = KINDS[name][:2]
            _, model = made(make(), x)
            with tempfile.TemporaryDirectory() as folder:
                model.save(f"{folder}/m.keras")
                loaded = tfbdl.load(f"{folder}/m.keras")
            self.assertAllEqual(loaded(x), model(x))
            config = loaded.layers[-1].get_config()["layer"]["config"]
            self.assertEqual(config["activation"], make().get_config()["activation"])

    def test_refusals(self) -> None:
        built = L.Dense(3)
        built.build((None, 2))
        for layer in (built, L.Embedding(3, 2), "dense", None):
            with self.assertRaisesRegex(ValueError, "must be one of Dense, .* and not built yet"):
                BatchEnsembleWrapper(layer, 2)
        with self.assertRaisesRegex(ValueError, "^num_members=0 must be"):
            BatchEnsembleWrapper(L.Dense(3), 0)
        with self.assertRaisesRegex(ValueError, "^input_initializer='signs' is not known"):
            BatchEnsembleWrapper(L.Dense(3), 2, input_initializer="signs")
        with self.assertRaisesRegex(
            ValueError, "^bias_prior and bias_.* None: biases are estimated"
        ):
            BayesBatchEnsembleWrapper(L.Dense(3), 2, num_data=3, bias_prior=1.0)  # type: ignore[call-arg]


class BayesTest(tf.test.TestCase):
    def random(self, **arguments: Any) -> Any:
        layer = L.Dense(2, use_bias=False)
        wrapper = BayesBatchEnsembleWrapper(layer, K, num_data=50, seed=1, **arguments)
        inputs = keras.Input((4,))
        model = keras.Model(inputs, wrapper(inputs))
        for q in wrapper.random_weights:
            q.rho.assign(RNG.normal(-1.5, 0.3, q.rho.shape))
        return wrapper, model

    def test_moments_of_draws(self) -> None:
        """The moments of a product of independent normals, of each member."""
        wrapper, model = self.random()
        S = 3000
        x = VECTORS[:2]
        outputs = tfbdl.predict(model, x, K * S, seed=0, return_samples=True, verbose=0).outputs
        W = np.asarray(wrapper.layer.kernel, np.float64)
        (m_r, v_r), (m_s, v_s) = (
            (1.0 + np.asarray(q.mean, np.float64), np.asarray(q.stddev, np.float64) ** 2)
            for q in wrapper.random_weights
        )
        for k in range(K):
            own = outputs[k::K]
            mean = (x * m_r[k]) @ W
            inner = (x**2 * v_r[k]) @ W**2
            variance = (inner + mean**2) * (v_s[k] + m_s[k] ** 2) - (mean * m_s[k]) ** 2
            z = (own.mean(0) - mean * m_s[k]) / np.sqrt(variance / S)
            self.assertLess(np.abs(z).max(), 4)
            self.assertAllClose(own.var(0) / variance, np.ones_like(variance), atol=0.2)
            at_means = model(np.repeat(x, K, axis=0))[k::K]
            self.assertAllClose(at_means, mean * m_s[k], 1e-4, 1e-5)

    def test_the_kl_is_the_mean_over_members(self) -> None:
        wrapper, model = self.random(prior=0.3)
        model(VECTORS)
        of_member = np.zeros(K)
        for q in wrapper.random_weights:
            mu, sigma = np.asarray(q.mean, np.float64), np.asarray(q.stddev, np.float64)
            kl = np.log(0.3 / sigma) + (sigma**2 + mu**2) / (2 * 0.3**2) - 0.5
            of_member += kl.sum(axis=1)
        self.assertAllClose(model.losses, [of_member.mean() / 50], 1e-5)


if __name__ == "__main__":
    tf.test.main()

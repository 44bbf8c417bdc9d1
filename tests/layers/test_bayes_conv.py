"""Convolutions: Keras' own at the mean, the law of their noise, draws, losses, arguments."""

import itertools
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from absl.testing import parameterized

from tfbdl import layers, posteriors, predict, priors
from tfbdl.draws import DrawnModel, make_draw

tfd = tfp.distributions
RNG = np.random.default_rng(0)
ESTIMATORS = ("reparameterization", "flipout", "per_example")
LENGTHS = {1: (7,), 2: (7, 5), 3: (5, 4, 6)}
CONVOLUTIONS = {
    layers.BayesConv1D: keras.layers.Conv1D,
    layers.BayesConv2D: keras.layers.Conv2D,
    layers.BayesConv3D: keras.layers.Conv3D,
}
TRANSPOSED = {
    layers.BayesConv1DTranspose: keras.layers.Conv1DTranspose,
    layers.BayesConv2DTranspose: keras.layers.Conv2DTranspose,
    layers.BayesConv3DTranspose: keras.layers.Conv3DTranspose,
}
PLAIN = {**CONVOLUTIONS, **TRANSPOSED}


def inputs(kind: Any, channels: int = 4, batch: int = 2, data_format: str = "channels_last") -> Any:
    x = RNG.normal(size=(batch, *LENGTHS[kind.rank], channels)).astype("float32")
    return np.moveaxis(x, -1, 1) if data_format == "channels_first" else x


def with_weights(plain: Any, weights: Any, x: Any, swap: Any) -> Any:
    """Keras' layer with the weights given; `swap` where it has filters before channels."""
    if not plain.built:
        plain.build(x.shape)
    kernel, *bias = (np.asarray(w) for w in weights)
    plain.set_weights([np.swapaxes(kernel, -1, -2) if swap else kernel, *bias])
    return plain


def away(layer: Any, x: Any) -> Any:
    """The layer, built, with no parameter where it starts."""
    layer.build(x.shape)
    rng = np.random.default_rng(2)
    for v in layer.trainable_variables:
        v.assign(v + rng.normal(0, 0.5, v.shape))
    return layer


class MeanTest(tf.test.TestCase, parameterized.TestCase):
    """`per_example` computes its convolutions in another way, also at the mean."""

    def check(self, kind: Any, kernel_size: Any, estimator: str, **arguments: Any) -> None:
        bayes, plain = (
            cls(4, kernel_size[: kind.rank], activation="softmax", **arguments, **own)
            for cls, own in ((kind, {"num_data": 10, "estimator": estimator}), (PLAIN[kind], {}))
        )
        x = inputs(kind, data_format=arguments.get("data_format"))
        away(bayes, x)
        with_weights(plain, [q.mean for q in bayes.random_weights], x, kind in TRANSPOSED)
        y, expected = bayes(x), plain(x)
        self.assertAllClose(y, expected, 1e-5, 1e-6, str(arguments))
        for shape in (x.shape, (None, *x.shape[1:])):
            got = bayes.compute_output_shape(shape)
            self.assertEqual(got, tuple(plain.compute_output_shape(shape)), arguments)
        channels = 1 if arguments.get("data_format") == "channels_first" else -1
        unknown = [None] * x.ndim
        unknown[channels] = 4
        self.assertEqual(bayes.compute_output_shape(unknown), tuple(unknown))

    @parameterized.product(
        kind=tuple(CONVOLUTIONS), estimator=("reparameterization", "per_example")
    )
    def test_convolutions(self, kind: Any, estimator: str) -> None:
        paddings = ("valid", "same", *["causal"] * (kind.rank == 1))
        steps: tuple[dict[str, int], ...] = (
            {},
            {"strides": 2},
            {"dilation_rate": 2},
            {"groups": 2, "strides": 2},
        )
        for padding, step in itertools.product(paddings, steps):
            self.check(kind, (3, 2, 2), estimator, padding=padding, **step)

    @parameterized.product(kind=tuple(TRANSPOSED), estimator=("reparameterization", "per_example"))
    def test_transposed(self, kind: Any, estimator: str) -> None:
        steps: tuple[dict[str, int], ...] = (
            {},
            {"strides": 2},
            {"strides": 3},
            {"dilation_rate": 2},
        )
        odd, mixed = (3, 1, 3), (2, 4, 1)
        for padding, step, size in itertools.product(("valid", "same"), steps, (odd, mixed)):
            least = 1 if padding == "same" and size == mixed else 0
            for extra in (None, *range(least, step.get("strides", 1))):
                self.check(kind, size, estimator, padding=padding, output_padding=extra, **step)

    @parameterized.product(kind=tuple(PLAIN), estimator=("reparameterization", "per_example"))
    def test_channels_first(self, kind: Any, estimator: str) -> None:
        """The last axis is not as long as the filters are many, where Keras errs."""
        for padding in ("valid", "same"):
            step = {"padding": padding, "strides": 3}
            self.check(kind, (3, 2, 2), estimator, data_format="channels_first", **step)

    def test_without_a_bias(self) -> None:
        x = inputs(layers.BayesConv2D)
        bayes = away(layers.BayesConv2D(3, 2, num_data=10, use_bias=False), x)
        plain = keras.layers.Conv2D(3, 2, use_bias=False)
        with_weights(plain, [bayes.kernel.mean], x, swap=False)
        self.assertAllClose(bayes(x), plain(x), 1e-6)
        self.assertIsNone(bayes.bias)

    def test_causal_outputs_depend_on_the_past_alone(self) -> None:
        for estimator in ESTIMATORS:
            layer = layers.BayesConv1D(2, 3, padding="causal", num_data=10, estimator=estimator)
            x = inputs(layers.BayesConv1D)
            later = x.copy()
            later[:, 4:] += 1.0
            layer(x)
            outputs = []
            for given in (x, later):
                layer.seed.state.assign([1, 0])
                outputs.append(layer(given, training=True).numpy())
            self.assertAllEqual(outputs[0][:, :4], outputs[1][:, :4])
            self.assertTrue(np.all(outputs[0][:, 4:] != outputs[1][:, 4:]))


class UnitsTest(tf.test.TestCase, parameterized.TestCase):
    """Kernels have channels on axis -2 and filters on axis -1, also the transposed."""

    @parameterized.parameters(*PLAIN)
    def test_axes_and_fan_in(self, kind: Any) -> None:
        layer = kind(
            50, 2, num_data=10, kernel_initializer="he_normal", prior=priors.Normal("fan_in")
        )
        x = inputs(kind, channels=200)
        layer(x)
        fan_in = 200 * 2**kind.rank
        self.assertEqual(tuple(layer.kernel.mean.shape), (*[2] * kind.rank, 200, 50))
        start = np.asarray(layer.kernel.mean, "float64")
        expected = 2.0 / fan_in
        self.assertNear(start.var() / expected, 1.0, 5 * np.sqrt(2 / start.size))
        p = tfd.Normal(0.0, float(1 / np.sqrt(fan_in)))
        got = layer.prior.log_prob(layer.kernel.mean)
        self.assertAllClose(got, p.log_prob(layer.kernel.mean), 1e-5)

    def test_groups_of_channels(self) -> None:
        layer, x = layers.BayesConv2D(6, 3, groups=2, num_data=10), inputs(layers.BayesConv2D)
        away(layer, x)
        self.assertEqual(tuple(layer.kernel.mean.shape), (3, 3, 2, 6))
        mean = layer.kernel.mean, layer.bias.mean
        plain = with_weights(keras.layers.Conv2D(6, 3, groups=2), mean, x, swap=False)
        self.assertAllClose(layer(x), plain(x), 1e-5, 1e-5)


LAWS: dict[str, tuple[Any, dict[str, Any]]] = {
    "causal": (layers.BayesConv1D, {"padding": "causal", "strides": 2}),
    "groups": (layers.BayesConv2D, {"groups": 2, "padding": "same"}),
    "first": (layers.BayesConv2D, {"data_format": "channels_first"}),
    "volume": (layers.BayesConv3D, {}),
    "transposed": (layers.BayesConv2DTranspose, {"strides": 2}),
}


# Laws with estimators; `FEW` where each pair is compiled.
PAIRS = [(name, e) for name in ("causal", "transposed") for e in ESTIMATORS]
PAIRS += [("groups", "flipout"), ("first", "per_example"), ("volume", "reparameterization")]
FEW = [
    ("causal", "per_example"),
    ("groups", "flipout"),
    ("first", "reparameterization"),
    ("volume", "per_example"),
    ("transposed", "flipout"),
]


class LawTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(*PAIRS)
    def test_mean_and_covariance(self, name: str, estimator: str) -> None:
        """Outputs are J w, J from Keras' layer; positions share w, examples as the estimator says.

        So they have the mean J mu and the covariance J diag(sigma^2) J^T, between examples 0 but
        for `reparameterization`.
        """
        kind, arguments = LAWS[name]
        arguments = {"kernel_size": 2, **arguments}
        num, lengths = 4000, {1: (4,), 2: (3, 2), 3: (2, 2, 2)}[kind.rank]
        x = RNG.normal(size=(2, *lengths, 2)).astype("float32")
        if name == "first":
            x = np.moveaxis(x, -1, 1)
        layer = away(kind(2, num_data=10, estimator=estimator, seed=1, **arguments), x)
        mu, sigma = (
            [np.asarray(getattr(q, moment), "float64") for q in layer.random_weights]
            for moment in ("mean", "stddev")
        )
        plain = PLAIN[kind](2, **arguments)

        def outputs_at(weights: Any) -> Any:
            return np.ravel(with_weights(plain, weights, x, kind in TRANSPOSED)(x)).astype(
                "float64"
            )

        columns, variances = [], []
        for which, q in enumerate(mu):
            for index in np.ndindex(q.shape):
                unit = [np.zeros_like(w) for w in mu]
                unit[which][index] = 1.0
                columns.append(outputs_at(unit))
                variances.append(sigma[which][index] ** 2)
        jacobian = np.stack(columns, axis=1)
        covariance = jacobian @ np.diag(variances) @ jacobian.T
        size = len(covariance) // 2
        if estimator != "reparameterization":
            covariance *= np.kron(np.eye(2), np.ones((size, size)))

        @tf.function(jit_compile=True)
        def sampled() -> Any:
            return tf.map_fn(
                lambda _: tf.reshape(layer(x, training=True), [2 * size]),
                tf.range(num),
                fn_output_signature=tf.float32,
            )

        deviation = sampled().numpy().astype("float64") - outputs_at(mu)
        scale = np.sqrt(np.diag(covariance))
        self.assertLess(np.abs(deviation.mean(axis=0) / scale).max(), 5 / np.sqrt(num))
        standard = deviation / scale
        for n in range(2 * size):
            products = standard[:, [n]] * standard
            expected = covariance[n] / scale[n] / scale
            error = products.std(axis=0) / np.sqrt(num)
            self.assertLess(np.max(np.abs(products.mean(axis=0) - expected) / error), 5)

    @parameterized.parameters(*FEW)
    def test_same_eager_in_graphs_and_under_xla(self, name: str, estimator: str) -> None:
        """Outputs and gradients, and outputs where the batch and all lengths are unknown."""
        kind, arguments = LAWS[name]
        x = tf.constant(inputs(kind, data_format=arguments.get("data_format")))
        layer = away(kind(4, 2, num_data=10, estimator=estimator, seed=1, **arguments), x)

        def step() -> Any:
            with tf.GradientTape() as tape:
                y = layer(x, training=True)
                loss = tf.reduce_sum(tf.square(y)) + sum(layer.losses)
            return y, *tape.gradient(loss, [v.value for v in layer.trainable_variables])

        unknown = [4 if n == 4 else None for n in x.shape]
        actual: list[Any] = []
        runs: tuple[Any, ...] = (
            step,
            tf.function(step),
            tf.function(step, jit_compile=True),
            tf.function(
                lambda x=x: (layer(x, training=True),),
                input_signature=[tf.TensorSpec(unknown)],
            ),
        )
        for run in runs:
            layer.seed.state.assign([1, 0])
            actual.append(run(x) if len(actual) == 3 else run())
        for other in actual[1:]:
            for a, b in zip(actual[0], other, strict=False):
                self.assertAllClose(a, b, 1e-4, 1e-4)

    @parameterized.parameters(*ESTIMATORS)
    def test_gradients_against_finite_differences(self, estimator: str) -> None:
        x = RNG.normal(size=(2, 4, 4, 2))
        for kind in (layers.BayesConv2D, layers.BayesConv2DTranspose):
            layer = kind(2, 2, num_data=10, estimator=estimator, seed=1, dtype="float64")
            away(layer, x)

            @tf.function(autograph=False)
            def loss(layer: Any = layer) -> Any:
                layer.seed.state.assign([1, 0])
                return tf.reduce_sum(tf.square(layer(x, training=True))) + sum(layer.losses)

            with tf.GradientTape() as tape:
                value = loss()
            variables = layer.trainable_variables
            gradients = tape.gradient(value, [v.value for v in variables])
            for variable, gradient in zip(variables, gradients, strict=True):
                start = variable.numpy()
                direction = np.random.default_rng(3).normal(size=start.shape)
                slopes = []
                for step in (1e-5, -1e-5):
                    variable.assign(start + step * direction)
                    slopes.append(loss())
                variable.assign(start)
                slope = (slopes[0] - slopes[1]) / 2e-5
                self.assertAllClose(np.sum(gradient * direction), slope, 1e-6)


class DrawTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.product(name=tuple(LAWS), estimator=ESTIMATORS)
    def test_a_draw_is_keras_layer_with_the_weights_drawn(self, name: str, estimator: str) -> None:
        kind, arguments = LAWS[name]
        x = inputs(kind, batch=3, data_format=arguments.get("data_format"))
        layer = away(kind(6, 2, num_data=10, estimator=estimator, **arguments), x)
        drawn = []
        for sample in range(2):
            draw = make_draw(3, sample)
            weights, _kl = layer.weights_at(draw)
            plain = with_weights(PLAIN[kind](6, 2, **arguments), weights, x, kind in TRANSPOSED)
            drawn.append(layer(x, draw=draw))
            self.assertAllClose(drawn[-1], plain(x), 1e-4, 1e-5)
            self.assertAllClose(layer(x[:1], draw=draw), drawn[-1][:1], 1e-5, 1e-5)
        self.assertNotAllClose(*drawn)

    def test_a_network_is_trained_and_drawn(self) -> None:
        """Kernels of edges: the loss falls, and predictions in draws are those of `DrawnModel`."""
        rng = np.random.default_rng(0)
        x = rng.normal(size=(60, 6, 6, 1)).astype("float32")
        x[:30, 2:4] += 2.0
        x[30:, :, 2:4] += 2.0
        y = np.repeat([0, 1], 30)
        model = keras.Sequential(
            [
                keras.Input((6, 6, 1)),
                layers.BayesConv2D(3, 3, activation="relu", num_data=60, estimator="flipout"),
                layers.BayesConv2DTranspose(2, 2, 2, num_data=60, estimator="per_example"),
                keras.layers.Flatten(),
                layers.BayesDense(2, num_data=60),
            ]
        )
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(0.02), loss)
        history = model.fit(x, y, batch_size=20, epochs=15, verbose=0).history["loss"]
        self.assertLess(history[-1], 0.8 * history[0])
        prediction = predict(model, x, 5, seed=3, return_samples=True, verbose=0)
        self.assertGreater(np.mean(np.argmax(prediction.mean, -1) == y), 0.9)
        for sample in range(5):
            drawn = DrawnModel(model)(x, draw=make_draw(3, sample))
            self.assertAllClose(prediction.outputs[sample], drawn, 1e-3, 1e-3)


class PointTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(*PLAIN)
    def test_a_kernel_without_noise_for_each_example(self, kind: Any) -> None:
        """Outputs and gradients are those of one kernel for the batch."""
        x, actual = inputs(kind), []
        for estimator in ("reparameterization", "per_example"):
            start = {"kernel_initializer": keras.initializers.GlorotUniform(1)}
            layer = kind(6, 2, num_data=10, posterior="point", estimator=estimator, **start)
            away(layer, x)
            with tf.GradientTape() as tape:
                y = layer(x, training=True)
                loss = tf.reduce_mean(tf.square(y))
            actual.append([y, *tape.gradient(loss, [v.value for v in layer.trainable_variables])])
        for a, b in zip(*actual, strict=True):
            self.assertAllClose(a, b, 1e-4, 1e-4)


class LossTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.product(name=tuple(LAWS), estimator=ESTIMATORS)
    def test_is_kl_over_num_data(self, name: str, estimator: str) -> None:
        for training, use_bias in ((True, True), (True, False), (False, True)):
            self.check(name, estimator, training, use_bias)

    def check(self, name: str, estimator: str, training: Any, use_bias: bool) -> None:
        kind, arguments = LAWS[name]
        layer = kind(
            4, 2, num_data=37, prior=0.5, estimator=estimator, use_bias=use_bias, **arguments
        )
        x = inputs(kind, data_format=arguments.get("data_format"))
        for _ in range(2):
            layer(x, training=training)
        expected = 0.0
        for q in layer.random_weights:
            mu, rho = (v.numpy().astype("float64") for v in (q.mu, q.rho))
            p = tfd.Normal(tf.constant(0.0, tf.float64), 0.5)
            expected += np.sum(tfd.kl_divergence(tfd.Normal(mu, np.logaddexp(0, rho)), p))
        self.assertLen(layer.random_weights, 1 + use_bias)
        self.assertAllClose(layer.losses, [expected / 37], 1e-5)

    def test_a_shared_layer_costs_once(self) -> None:
        layer = layers.BayesConv2D(2, 3, padding="same", num_data=10)
        x = keras.Input((5, 5, 2))
        model = keras.Model(x, layer(layer(x)))
        model(np.ones((1, 5, 5, 2)), training=True)
        once = layers.BayesConv2D(2, 3, padding="same", num_data=10)
        once.build((None, 5, 5, 2))
        once.set_weights(layer.get_weights())
        once(np.ones((1, 5, 5, 2)))
        self.assertAllClose(model.losses, once.losses, 1e-6)


class PrecisionTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.product(pair=FEW, policy=("mixed_float16", "mixed_bfloat16"))
    def test_mixed(self, pair: Any, policy: str) -> None:
        name, estimator = pair
        kind, arguments = LAWS[name]
        x = inputs(kind, data_format=arguments.get("data_format"))
        wide, half = (
            kind(4, 2, num_data=10, seed=1, estimator=estimator, dtype=p, **arguments)
            for p in ("float32", policy)
        )
        wide(x), half(x)
        half.set_weights(wide.get_weights())
        for training in (False, True):
            y = half(x, training=training)
            self.assertEqual(y.dtype, policy.removeprefix("mixed_"))
            tolerance = 1e-2 if policy == "mixed_float16" else 0.1
            expected = wide(x, training=training)
            self.assertAllClose(tf.cast(y, tf.float32), expected, tolerance, tolerance)
            self.assertEqual(half.losses[0].dtype, tf.float32)
            self.assertAllClose(half.losses, wide.losses, 1e-6)


class ArgumentsTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(*PLAIN)
    def test_local_reparameterization_is_refused(self, kind: Any) -> None:
        """Positions share weights: their outputs are not independent."""
        message = "^estimator='local_reparameterization' .* share weights .* use 'flipout'$"
        with self.assertRaisesRegex(ValueError, message):
            kind(2, 3, num_data=10, estimator="local_reparameterization")

    @parameterized.parameters(*PLAIN)
    def test_posterior_must_fit_the_estimator(self, kind: Any) -> None:
        with self.assertRaisesRegex(ValueError, "^estimator='flipout' needs"):
            kind(2, 3, num_data=10, estimator="flipout", posterior=posteriors.LowRankNormal(2))

    @parameterized.product(kind=tuple(PLAIN), num_data=(0, True, None))
    def test_num_data_is_checked(self, kind: Any, num_data: int) -> None:
        with self.assertRaisesRegex(ValueError, "^num_data=.* must be a positive integer"):
            kind(2, 3, num_data=num_data)
        with self.assertRaisesRegex(TypeError, "num_data"):
            kind(2, 3)

    @parameterized.parameters(
        ("filters", 0, "^filters=0 must be a positive integer$"),
        ("kernel_size", 0, "^kernel_size=0 must be an integer, or 2 of them, of at least 1$"),
        ("kernel_size", (3,), r"^kernel_size=\(3,\) must be an integer, or 2 of them"),
        ("kernel_size", 2.5, "^kernel_size=2.5 must be an integer"),
        ("strides", (1, -1), r"^strides=\(1, -1\) must be"),
        ("strides", "two", "^strides='two' must be"),
        ("dilation_rate", 0, "^dilation_rate=0 must be"),
        ("padding", "causal", "^padding='causal' is unknown; choose one of: same, valid$"),
        ("padding", None, "^padding=None is unknown"),
        ("data_format", "last", "^data_format='last' is unknown; choose one of: channels_first"),
        ("groups", 3, "^groups=3 must divide filters=4$"),
        ("groups", 0, "^groups=0 must be a positive integer$"),
        ("prior", "mystery", "^prior='mystery' is unknown"),
        ("estimator", "mystery", "^estimator='mystery' is unknown"),
    )
    def test_ranges(self, name: str, value: Any, message: str) -> None:
        with self.assertRaisesRegex(ValueError, message):
            layers.BayesConv2D(**{"filters": 4, "kernel_size": 3, "num_data": 10, name: value})

    @parameterized.parameters(
        ({"output_padding": 2, "strides": 2}, "^output_padding=2 must be below strides="),
        ({"output_padding": -1}, "^output_padding=-1 must be an integer"),
        ({"output_padding": 0, "padding": "same"}, "^output_padding=0 of 0 .* odd kernel_size"),
        ({"strides": 2, "dilation_rate": 2}, "^strides=.* do not go together"),
    )
    def test_ranges_of_transposed(self, arguments: Any, message: str) -> None:
        with self.assertRaisesRegex(ValueError, message):
            layers.BayesConv2DTranspose(4, 2, num_data=10, **arguments)

    def test_inputs(self) -> None:
        with self.assertRaisesRegex(ValueError, "must have known channels, on axis 3$"):
            layers.BayesConv2D(4, 3, num_data=10).build((None, 8, 8, None))
        with self.assertRaisesRegex(ValueError, "^groups=2 must divide the 3 channels"):
            layers.BayesConv2D(4, 3, groups=2, num_data=10).build((None, 8, 8, 3))
        with self.assertRaisesRegex(ValueError, "zero or negative"):
            layers.BayesConv2D(4, 3, num_data=10).build((None, 2, 2, 3))
        with self.assertRaisesRegex(ValueError, "incompatible"):
            layers.BayesConv2D(4, 3, num_data=10)(np.ones((2, 8, 3)))

    def test_kernel_and_bias_may_have_priors_of_their_own(self) -> None:
        shared = priors.Normal(0.5)
        layer = layers.BayesConv2D(4, 3, num_data=10, prior=shared, bias_prior=3.0)
        layer(inputs(layers.BayesConv2D))
        self.assertIs(layer.kernel.prior, shared)
        self.assertAllClose(layer.bias.prior.scale, 3.0)

    def test_format_is_that_of_keras_by_default(self) -> None:
        before = keras.config.image_data_format()
        keras.config.set_image_data_format("channels_first")
        try:
            layer = layers.BayesConv2D(4, 3, num_data=10)
        finally:
            keras.config.set_image_data_format(before)
        self.assertEqual(layer.get_config()["data_format"], "channels_first")


if __name__ == "__main__":
    tf.test.main()

"""BayesLSTM and BayesGRU: Keras' layers at the mean and in draws, one sample for all steps."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from absl.testing import parameterized

from tfbdl import kl_term, layers, posteriors, predict, priors
from tfbdl.draws import DrawnModel, make_draw

tfd = tfp.distributions
RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 5, 4)).astype("float32")
MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [0, 1, 0, 1, 0]], bool)
PLAIN: dict[Any, Any] = {layers.BayesLSTM: keras.layers.LSTM, layers.BayesGRU: keras.layers.GRU}
KINDS = tuple(PLAIN)


def own(kind: Any) -> Any:
    """Arguments that only one of the two has."""
    if kind is layers.BayesLSTM:
        return ({}, {"unit_forget_bias": False})
    return ({}, {"reset_after": False})


def away(layer: Any, x: Any = X) -> Any:
    """The layer, built, with no parameter where it starts."""
    layer.build(x.shape)
    rng = np.random.default_rng(2)
    for v in layer.trainable_variables:
        v.assign(v + rng.normal(0, 0.3, v.shape))
    return layer


def plain_layer(kind: Any, weights: Any, x: Any = X, **arguments: Any) -> Any:
    layer = PLAIN[kind](6, **arguments)
    layer.build(x.shape)
    layer.set_weights([np.asarray(w) for w in weights])
    return layer


def means(layer: Any) -> Any:
    return [q.mean for q in layer.random_weights]


class SameAsKerasTest(tf.test.TestCase, parameterized.TestCase):
    ARGUMENTS: tuple[Any, ...] = (
        {},
        {"return_sequences": True},
        {"return_state": True, "go_backwards": True},
        {"return_sequences": True, "return_state": True, "unroll": True},
        {"return_sequences": True, "go_backwards": True, "use_bias": False},
        {"activation": "relu", "recurrent_activation": "hard_sigmoid", "return_state": True},
        {"activation": None, "return_sequences": True, "zero_output_for_mask": True},
        {"dropout": 0.3, "recurrent_dropout": 0.2, "return_sequences": True},
    )

    def assert_same(self, a: Any, b: Any) -> None:
        keras.tree.map_structure(lambda a, b: self.assertAllClose(a, b, 1e-5, 1e-6), a, b)

    @parameterized.product(kind=KINDS, arguments=ARGUMENTS)
    def test_at_the_mean_and_in_draws(self, kind: Any, arguments: Any) -> None:
        """Layers with and without a mask, and from an initial state."""
        num_states = 2 if kind is layers.BayesLSTM else 1
        states = [RNG.normal(size=(3, 6)).astype("float32") for _ in range(num_states)]
        draw = make_draw(1, 2)
        for extra in own(kind):
            layer = away(kind(6, num_data=10, **arguments, **extra))
            at_mean = plain_layer(kind, means(layer), **arguments, **extra)
            drawn = plain_layer(kind, layer.weights_at(draw)[0], **arguments, **extra)
            for call in ({}, {"mask": MASK}, {"mask": MASK, "initial_state": states}):
                self.assert_same(layer(X, **call), at_mean(X, **call))
                self.assert_same(layer(X, draw=draw, **call), drawn(X, **call))
            self.assertEqual(
                layer.compute_output_shape(X.shape), at_mean.compute_output_shape(X.shape)
            )
            self.assertNotAllClose(layer.weights_at(draw)[0][1], means(layer)[1])

    @parameterized.parameters(*KINDS)
    def test_stateful(self, kind: Any) -> None:
        layer = away(kind(6, num_data=10, stateful=True))
        plain = plain_layer(kind, means(layer), stateful=True)
        for _ in range(3):
            self.assert_same(layer(X), plain(X))
        first = layer(X).numpy()
        layer.reset_state(), plain.reset_state()
        self.assert_same(layer(X), plain(X))
        self.assertNotAllClose(layer(X), first)
        with self.assertRaisesRegex(ValueError, "batch size"):
            layer(X[:2])

    @parameterized.parameters(*KINDS)
    def test_start(self, kind: Any) -> None:
        """The means start where Keras' weights do."""
        for extra in own(kind):
            start = {"recurrent_initializer": "ones", "bias_initializer": "ones", **extra}
            layer = kind(6, num_data=10, kernel_initializer="ones", **start)
            layer.build(X.shape)
            plain = PLAIN[kind](6, kernel_initializer="ones", **start)
            plain.build(X.shape)
            self.assert_same(means(layer), [v.value for v in plain.weights])
            zeros = kind(6, num_data=10, bias_initializer="zeros", **extra)
            zeros.build(X.shape)
            plain = PLAIN[kind](6, bias_initializer="zeros", **extra)
            plain.build(X.shape)
            self.assertAllEqual(zeros.bias.mean, plain.weights[2].value)
            w = zeros.recurrent_kernel.mean
            self.assertAllClose(w @ tf.transpose(w), np.eye(6), atol=1e-5)

    @parameterized.product(kind=KINDS, merge_mode=("concat", "sum", None))
    def test_bidirectional(self, kind: Any, merge_mode: Any) -> None:
        draw = make_draw(1, 2)
        layer = keras.layers.Bidirectional(
            kind(6, num_data=10, return_sequences=True), merge_mode=merge_mode
        )
        away(layer)
        plain = keras.layers.Bidirectional(
            PLAIN[kind](6, return_sequences=True), merge_mode=merge_mode
        )
        plain.build(X.shape)
        directions = (layer.forward_layer, layer.backward_layer)
        for weights, call in (
            ([means(v) for v in directions], {}),
            ([v.weights_at(draw)[0] for v in directions], {"draw": draw}),
        ):
            plain.set_weights([np.asarray(w) for both in weights for w in both])
            x = keras.Input((5, 4))
            model = keras.Model(x, layer(keras.layers.Masking()(x)))
            data = np.where(MASK[..., None], X, 0.0)
            got = DrawnModel(model)(data, **call) if call else model(data)
            self.assert_same(got, plain(data, mask=MASK))
        self.assertLen(model.losses, 2)


class SampleTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(*KINDS)
    def test_training_has_one_sample_for_all_steps_and_examples(self, kind: Any) -> None:
        """Keras' layer with the weights of the same noise."""
        layer = away(kind(6, num_data=10, return_sequences=True))
        for step in range(2):
            layer.seed.state.assign([1, step])
            weights, _kl = layer.sampled_weights()
            layer.seed.state.assign([1, step])
            y = layer(X, training=True, mask=MASK)
            plain = plain_layer(kind, weights, return_sequences=True)
            self.assertAllClose(y, plain(X, mask=MASK), 1e-5, 1e-6)
            for w, mean in zip(weights, means(layer), strict=True):
                self.assertTrue(np.all(w != mean))

    @parameterized.parameters(*KINDS)
    def test_equal_sequences_have_equal_outputs(self, kind: Any) -> None:
        layer = away(kind(6, num_data=10))
        same = np.repeat(X[:1], 4, axis=0)
        for call in ({"training": True}, {"draw": make_draw(0, 1)}):
            y = layer(same, **call).numpy()
            self.assertAllEqual(y, np.repeat(y[:1], 4, axis=0))

    @parameterized.parameters(*KINDS)
    def test_weights_have_independent_noise(self, kind: Any) -> None:
        """Weights of one layer, and those of both directions though they have one seed."""
        layer = keras.layers.Bidirectional(kind(100, num_data=10, seed=7))
        layer.build((None, 5, 100))
        pairs = [(layer.forward_layer, layer.backward_layer)]
        for sample in (lambda v: v.sampled_weights(), lambda v: v.weights_at(make_draw(0, 1))):
            noise = []
            for direction in pairs[0]:
                for w, q in zip(sample(direction)[0], direction.random_weights, strict=True):
                    noise.append(np.ravel((w - q.mean) / q.stddev)[:300])
            off = np.corrcoef(noise)[~np.eye(6, dtype=bool)]
            self.assertLess(np.abs(off).max(), 5 / np.sqrt(300))

    @parameterized.product(kind=KINDS, policy=("mixed_float16", "mixed_bfloat16"))
    def test_mixed_precision(self, kind: Any, policy: str) -> None:
        wide, half = (kind(6, num_data=10, seed=1, dtype=p) for p in ("float32", policy))
        away(wide), away(half)
        half.set_weights(wide.get_weights())
        for training in (False, True):
            y = half(X, training=training)
            self.assertEqual(y.dtype, policy.removeprefix("mixed_"))
            tolerance = 1e-2 if policy == "mixed_float16" else 0.1
            expected = wide(X, training=training)
            self.assertAllClose(tf.cast(y, tf.float32), expected, tolerance, tolerance)
            self.assertEqual(half.losses[0].dtype, tf.float32)
            self.assertAllClose(half.losses, wide.losses, 1e-6)

    @parameterized.product(kind=KINDS, dropout=(0.0, 0.3))
    def test_same_eager_in_graphs_and_under_xla(self, kind: Any, dropout: Any) -> None:
        """Outputs and gradients, and outputs where batch and steps are unknown."""
        layer = away(kind(6, num_data=10, dropout=dropout, recurrent_dropout=dropout))
        x, mask = tf.constant(X), tf.constant(MASK)

        def step() -> Any:
            with tf.GradientTape() as tape:
                y = layer(x, training=True, mask=mask)
                loss = tf.reduce_sum(tf.square(y)) + sum(layer.losses)
            return y, *tape.gradient(loss, [v.value for v in layer.trainable_variables])

        @tf.function(input_signature=[tf.TensorSpec([None, None, 4])])
        def unknown(x: Any) -> Any:
            return (layer(x, training=True, mask=mask),)

        actual = []
        for run in (step, tf.function(step), tf.function(step, jit_compile=True)):
            layer.seed.state.assign([1, 0])
            actual.append(run())
        layer.seed.state.assign([1, 0])
        actual.append(unknown(x))
        for other in actual[1:]:
            for a, b in zip(actual[0], other, strict=False):
                self.assertAllClose(a, b, 1e-4, 1e-5)

    @parameterized.parameters(*KINDS)
    def test_gradients_against_finite_differences(self, kind: Any) -> None:
        layer = away(kind(3, num_data=10, seed=1, dtype="float64"), X)

        def loss() -> Any:
            layer.seed.state.assign([1, 0])
            return tf.reduce_sum(tf.square(layer(X, training=True))) + sum(layer.losses)

        with tf.GradientTape() as tape:
            value = loss()
        variables = layer.trainable_variables
        gradients = tape.gradient(value, [v.value for v in variables])
        self.assertLen(gradients, 6)
        for variable, gradient in zip(variables, gradients, strict=True):
            start = variable.numpy()
            direction = np.random.default_rng(3).normal(size=start.shape)
            slopes = []
            for h in (1e-5, -1e-5):
                variable.assign(start + h * direction)
                slopes.append(loss())
            variable.assign(start)
            self.assertAllClose(np.sum(gradient * direction), (slopes[0] - slopes[1]) / 2e-5, 1e-6)


class PriorsTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.product(kind=KINDS, training=(True, False))
    def test_kl_over_num_data(self, kind: Any, training: Any) -> None:
        scales = {"prior": 0.5, "recurrent_prior": 2.0, "bias_prior": 3.0}
        layer = away(kind(6, num_data=37, **scales))
        for _ in range(2):
            layer(X, training=training)
        expected = 0.0
        for q, scale in zip(layer.random_weights, (0.5, 2.0, 3.0), strict=True):
            mu, rho = (v.numpy().astype("float64") for v in (q.mu, q.rho))
            p = tfd.Normal(tf.constant(0.0, tf.float64), scale)
            expected += np.sum(tfd.kl_divergence(tfd.Normal(mu, np.logaddexp(0, rho)), p))
        self.assertAllClose(layer.losses, [expected / 37], 1e-5)
        self.assertAllClose(kl_term.terms(layer)["kl"], expected, 1e-5)

    @parameterized.parameters(*KINDS)
    def test_a_shared_layer_costs_once(self, kind: Any) -> None:
        layer = kind(4, num_data=10, return_sequences=True)
        x = keras.Input((5, 4))
        model = keras.Model(x, layer(layer(x)))
        model(X, training=True)
        kl = sum(float(q.kl(tf.constant(0, tf.int64))) for q in layer.random_weights)
        self.assertAllClose(model.losses, [kl / 10], 1e-5)

    @parameterized.parameters(*KINDS)
    def test_recurrent_kernel_has_a_prior_like_the_kernels(self, kind: Any) -> None:
        """It has hyper-parameters of its own, since its shape may differ."""
        layer = kind(6, num_data=10, prior=priors.Normal(0.5, trainable=True))
        layer.build(X.shape)
        self.assertIs(layer.kernel.prior, layer.prior)
        self.assertIs(layer.recurrent_kernel.prior, layer.recurrent_prior)
        layer.prior.variables[0].assign(np.log(2.0))
        self.assertAllClose((layer.prior.scale, layer.recurrent_prior.scale), (2.0, 0.5))
        fan_in = away(kind(6, num_data=10, prior=priors.Normal("fan_in")))
        for q, width in ((fan_in.kernel, 4), (fan_in.recurrent_kernel, 6)):
            p = tfd.Normal(0.0, float(1 / np.sqrt(width)))
            self.assertAllClose(q.prior.log_prob(q.mean), p.log_prob(q.mean), 1e-5)

    @parameterized.parameters(*KINDS)
    def test_families_of_their_own(self, kind: Any) -> None:
        layer = away(
            kind(
                6,
                num_data=10,
                recurrent_prior="laplace",
                recurrent_posterior="point",
                bias_posterior=posteriors.MeanFieldNormal(keras.initializers.Constant(-4.0)),
            )
        )
        kinds = [type(q).__name__ for q in layer.random_weights]
        self.assertEqual(kinds, ["MeanFieldNormal", "PointMass", "MeanFieldNormal"])
        self.assertIsInstance(layer.recurrent_kernel.prior, priors.Laplace)
        again = kind.from_config(layer.get_config())
        self.assertEqual(again.get_config(), layer.get_config())


class TrainingTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(*KINDS)
    def test_learns_a_sum_and_is_drawn(self, kind: Any) -> None:
        """Whether the first input of a sequence was positive: the state must carry it."""
        keras.utils.set_random_seed(0)
        rng = np.random.default_rng(0)
        x = rng.normal(size=(200, 3, 2)).astype("float32")
        y = (x[:, 0, 0] > 0).astype("int32")
        model = keras.Sequential(
            [
                keras.Input((None, 2)),
                kind(8, num_data=200),
                layers.BayesDense(2, num_data=200),
            ]
        )
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(0.03), loss, jit_compile=True)
        history = model.fit(x, y, batch_size=50, epochs=40, verbose=0).history["loss"]
        self.assertLess(history[-1], 0.7 * history[0])
        prediction = predict(model, x, 5, seed=3, return_samples=True, verbose=0)
        self.assertGreater(np.mean(np.argmax(prediction.mean, -1) == y), 0.85)
        for sample in range(5):
            drawn = DrawnModel(model)(x, draw=make_draw(3, sample))
            self.assertAllClose(prediction.outputs[sample], drawn, 1e-3, 1e-3)


class ArgumentsTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.product(
        kind=KINDS, estimator=("flipout", "local_reparameterization", "per_example")
    )
    def test_other_estimators_are_refused(self, kind: Any, estimator: str) -> None:
        message = f"^estimator='{estimator}' does not hold for {kind.__name__}, .* use 'repara"
        with self.assertRaisesRegex(ValueError, message):
            kind(3, num_data=10, estimator=estimator)
        kind(3, num_data=10, estimator="reparameterization")

    @parameterized.product(kind=KINDS, num_data=(0, True, None))
    def test_num_data_is_checked(self, kind: Any, num_data: int) -> None:
        with self.assertRaisesRegex(ValueError, "^num_data=.* must be a positive integer"):
            kind(3, num_data=num_data)
        with self.assertRaisesRegex(TypeError, "num_data"):
            kind(3)

    @parameterized.parameters(
        ("units", 0, "^units=0 must be a positive integer$"),
        ("dropout", 1.0, r"^dropout=1.0 must be in \[0, 1\)$"),
        ("recurrent_dropout", -0.1, r"^recurrent_dropout=-0.1 must be in"),
        ("recurrent_prior", "mystery", "^recurrent_prior='mystery' is unknown"),
        ("recurrent_posterior", "mystery", "^recurrent_posterior='mystery' is unknown"),
    )
    def test_ranges(self, name: str, value: Any, message: str) -> None:
        for kind in KINDS:
            with self.assertRaisesRegex(ValueError, message):
                kind(**{"units": 3, "num_data": 10, name: value})

    def test_posterior_must_go_with_the_recurrent_prior(self) -> None:
        with self.assertRaisesRegex(ValueError, "^prior=Normal does not go with multiplicative"):
            layers.BayesLSTM(3, num_data=10, recurrent_posterior="multiplicative")

    def test_inputs(self) -> None:
        with self.assertRaisesRegex(ValueError, "known last dimension"):
            layers.BayesLSTM(3, num_data=10).build((None, 5, None))
        with self.assertRaisesRegex(ValueError, "incompatible"):
            layers.BayesLSTM(3, num_data=10)(X[0])


if __name__ == "__main__":
    tf.test.main()

"""`predict` against loops over the same draws, and against posteriors known in closed form."""

import io
import os
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import keras
import numpy as np
import scipy.optimize
import scipy.special
import scipy.stats
import tensorflow as tf
import two_replicas
from absl.testing import parameterized

import tfbdl
from tfbdl import layers, likelihoods
from tfbdl.draws import DrawnModel, make_draw
from tfbdl.predictive import bar
from tfbdl.predictive.functions import DRAWS_PER_CALL, Functions

RNG = np.random.default_rng(0)
N, D, C = 23, 4, 3
X = RNG.normal(size=(N, D)).astype("float32")
LABELS = RNG.integers(0, C, N)
Y = RNG.normal(size=(N, 1)).astype("float32")
S = DRAWS_PER_CALL + 7


def classifier(compiled: bool = True) -> Any:
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((D,)),
            keras.layers.Dense(8, "tanh"),
            keras.layers.BatchNormalization(),
            layers.MCDropout(0.5),
            keras.layers.Dropout(0.5),
            layers.BayesDense(C, num_data=N),
        ]
    )
    if compiled:
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def linear(scale: float = 0.5, units: int = 1) -> Any:
    """f(x) = x w + b with (w, b) normal: the predictive distribution is known."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((D,)), layers.BayesDense(units, num_data=N, seed=3)])
    model.layers[0].bias.mu.assign(RNG.normal(size=units))
    model.compile("sgd", likelihoods.Normal(scale))
    return model


def epistemic_variance(model: Any) -> Any:
    layer = model.layers[0]
    kernel, bias = (np.asarray(q.stddev, np.float64) ** 2 for q in (layer.kernel, layer.bias))
    return X.astype(np.float64) ** 2 @ kernel + bias


def drawn(model: Any, seed: int, num_samples: Any = S) -> Any:
    """The outputs of the draws one by one, as `predict` should have them."""
    sampler = DrawnModel(model)
    function = tf.function(lambda s: sampler(X, draw=make_draw(seed, s)))
    return np.array([function(tf.constant(s)) for s in range(num_samples)], np.float64)


class MomentsTest(tf.test.TestCase, parameterized.TestCase):
    def test_classes(self) -> None:
        model = classifier()
        p = scipy.special.softmax(drawn(model, seed=5), axis=-1)
        got = tfbdl.predict(model, X, S, seed=5)
        mean = p.mean(0)
        entropy = -np.sum(mean * np.log(mean), axis=-1)
        expected_entropy = -np.sum(p * np.log(p), axis=-1).mean(0)
        self.assertAllClose(got.mean, mean, 1e-4, 1e-5)
        self.assertAllClose(got.epistemic_variance, p.var(0), 1e-3, 1e-5)
        self.assertAllClose(got.aleatoric_variance, (p * (1 - p)).mean(0), 1e-3, 1e-5)
        self.assertAllClose(got.stddev**2, mean * (1 - mean), 1e-3, 1e-5)
        self.assertAllClose(got.entropy, entropy, 1e-4, 1e-5)
        self.assertAllClose(got.expected_entropy, expected_entropy, 1e-4, 1e-5)
        self.assertAllClose(got.mutual_information, entropy - expected_entropy, 1e-2, 1e-5)
        self.assertGreater(np.min(got.mutual_information), 1e-3)
        self.assertEqual((got.num_samples, got.outputs), (S, None))

    def test_regression(self) -> None:
        """Law of total variance, within standard errors of the known posterior."""
        model, num_samples = linear(scale=0.5), 4000
        got = tfbdl.predict(model, X, num_samples, seed=1)
        variance = epistemic_variance(model)
        mean = model.predict(X, verbose=0)
        error = np.sqrt(variance / num_samples)
        self.assertLess(np.max(np.abs(got.mean - mean) / error), 5)
        ratio = got.epistemic_variance / variance
        self.assertLess(np.max(np.abs(ratio - 1)), 5 * np.sqrt(2 / num_samples))
        self.assertAllClose(got.aleatoric_stddev, np.full((N, 1), 0.5), 1e-6)
        self.assertAllClose(got.stddev, np.sqrt(got.epistemic_variance + 0.25), 1e-5)

    def test_predicted_noise(self) -> None:
        model = linear(scale="predicted", units=2)
        loc, raw = np.split(drawn(model, seed=2), 2, axis=-1)
        scale = np.log1p(np.exp(raw)) + 1e-6
        got = tfbdl.predict(model, X, S, seed=2)
        self.assertAllClose(got.mean, loc.mean(0), 1e-4, 1e-5)
        self.assertAllClose(got.epistemic_variance, loc.var(0), 1e-3, 1e-5)
        self.assertAllClose(got.aleatoric_variance, (scale**2).mean(0), 1e-4)

    def test_without_a_likelihood(self) -> None:
        model = classifier(compiled=False)
        outputs = drawn(model, seed=5)
        got = tfbdl.predict(model, X, S, seed=5)
        self.assertAllClose(got.mean, outputs.mean(0), 1e-4, 1e-4)
        self.assertAllClose(got.stddev, outputs.std(0), 1e-3, 1e-4)
        for name in ("entropy", "mutual_information", "aleatoric_stddev"):
            with self.assertRaisesRegex(ValueError, "needs p.* give predict a likelihood$"):
                getattr(got, name)
        given = tfbdl.predict(model, X, S, seed=5, likelihood=likelihoods.Categorical())
        self.assertAllClose(given.mean, tfbdl.predict(classifier(), X, S, seed=5).mean, 1e-5)

    def test_mean_weights(self) -> None:
        for model in (classifier(), linear()):
            got = tfbdl.predict(model, X, 0)
            outputs = model.predict(X, verbose=0)
            self.assertAllClose(got.mean, model.loss and got.likelihood.mean(outputs), 1e-5, 1e-6)
            self.assertAllEqual(got.epistemic_variance, np.zeros_like(got.mean))

    def test_yes_or_no(self) -> None:
        model = linear(units=1)
        likelihood = likelihoods.Bernoulli()
        p = scipy.special.expit(drawn(model, seed=4))[..., 0]

        def entropy(p: Any) -> Any:
            return -p * np.log(p) - (1 - p) * np.log(1 - p)

        got = tfbdl.predict(model, X, S, seed=4, likelihood=likelihood)
        self.assertAllClose(got.entropy, entropy(p.mean(0)), 1e-4)
        information = entropy(p.mean(0)) - entropy(p).mean(0)
        self.assertAllClose(got.mutual_information, information, 1e-2, 1e-5)

    def test_many_draws_lose_no_digits(self) -> None:
        """A large mean beside a small spread."""
        model = linear()
        model.layers[0].bias.mu.assign([3000.0])
        got = tfbdl.predict(model, X, 1000, seed=1)
        expected = drawn(model, 1, 1000).std(0)
        self.assertAllClose(got.epistemic_stddev, expected, 1e-2)


class FunctionsTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(1, 5, 22, 23, 100, None)
    def test_batches_do_not_matter(self, batch_size: Any) -> None:
        model = classifier()
        whole = tfbdl.predict(model, X, 12, seed=3, batch_size=N, return_samples=True)
        got = tfbdl.predict(model, X, 12, seed=3, batch_size=batch_size, return_samples=True)
        for name in ("mean", "epistemic_variance", "aleatoric_variance", "outputs"):
            self.assertAllClose(getattr(got, name), getattr(whole, name), 1e-4, 1e-5, name)
        self.assertEqual(got.mean.shape, (N, C))
        self.assertEqual(got.outputs.shape, (12, N, C))

    def test_kept_functions(self) -> None:
        model = classifier()
        outputs = drawn(model, seed=3)
        got = tfbdl.predict(model, X, S, seed=3, return_samples=True)
        self.assertAllClose(got.outputs, outputs, 1e-4, 1e-4)
        p = scipy.special.softmax(outputs, axis=-1)
        self.assertAllClose(got.samples, p, 1e-4, 1e-5)
        self.assertAllClose(got.mean, p.mean(0), 1e-4, 1e-5)

    def test_what_comes_before_the_first_draw_is_computed_once(self) -> None:
        """XLA makes of it a loop that has only products behind the dropout."""
        stack = [keras.layers.Dense(7, "relu"), layers.MCDropout(0.5), keras.layers.Dense(C)]
        model = keras.Sequential([keras.Input((D,)), *stack])
        functions = Functions.of(model, likelihoods.Categorical())
        functions.check(X)
        compiled = tf.function(functions._moments, autograph=False, jit_compile=True)
        arguments = (tf.constant(X), tf.constant(0), tf.constant([[0, 50]]))
        code = compiled.experimental_get_compiler_ir(*arguments)(stage="optimized_hlo")
        body, entry = (part.count(f"f32[{N},7]{{1,0}} dot(") for part in code.split("\nENTRY"))
        self.assertEqual((body, entry), (0, 1))
        self.assertIn(f"f32[{N},{C}]{{1,0}} dot(", code.split("\nENTRY")[0])

    @parameterized.parameters("_moments", "_moments_and_outputs", "_log_probs")
    def test_all_draws_have_one_program(self, name: str) -> None:
        """The numbers of draws are no constants of what XLA compiles."""
        model = classifier()
        functions = Functions.of(model, likelihoods.Categorical())
        functions.check(X)
        static = () if name == "_moments" else (50,)
        of = (X, LABELS) if name == "_log_probs" else (X,)
        compiled = tf.function(
            lambda *tensors: getattr(functions, name)(*tensors, *static),
            autograph=False,
            jit_compile=True,
        )

        def program(start: Any) -> Any:
            own = tf.constant([[start, start + 50]])
            tensors = (*map(tf.constant, of), tf.constant(0), own)
            return compiled.experimental_get_compiler_ir(*tensors)(stage="hlo")

        self.assertEqual(program(0), program(150))

    def test_a_draw_is_a_function(self) -> None:
        x = np.concatenate([X, X[::-1]])
        got = tfbdl.predict(classifier(), x, 20, seed=1, batch_size=10, return_samples=True)
        self.assertAllClose(got.outputs[:, :N], got.outputs[:, N:][:, ::-1], 1e-5, 1e-6)

    def test_seeds(self) -> None:
        model = classifier()
        first = tfbdl.predict(model, X, 5, seed=1).mean
        self.assertAllEqual(tfbdl.predict(model, X, 5, seed=1).mean, first)
        self.assertNotAllClose(tfbdl.predict(model, X, 5, seed=2).mean, first)
        self.assertNotAllClose(tfbdl.predict(model, X, 5).mean, tfbdl.predict(model, X, 5).mean)
        keras.utils.set_random_seed(9)
        a = tfbdl.predict(model, X, 5).mean
        keras.utils.set_random_seed(9)
        self.assertAllEqual(tfbdl.predict(model, X, 5).mean, a)

    def test_a_second_call_compiles_nothing_and_is_not_stale(self) -> None:
        model = linear()
        before = tfbdl.predict(model, X, 5, seed=1, batch_size=10).mean
        functions = Functions.of(model, model.loss)
        compiled = dict(functions.programs._made)
        self.assertLen(compiled, 1)
        model.layers[0].bias.mu.assign_add([1.0])
        after = tfbdl.predict(model, X[:10], 250, seed=1, batch_size=10)
        self.assertEqual(functions.programs._made, compiled)
        again = tfbdl.predict(model, X, 5, seed=1, batch_size=10).mean
        self.assertAllClose(again, before + 1.0, 1e-5)
        self.assertEqual(after.mean.shape, (10, 1))

    def test_a_changed_model_is_compiled_anew(self) -> None:
        model = keras.Sequential([keras.Input((D,)), layers.MCDropout(0.5)])
        spread = tfbdl.predict(model, X, S, seed=1).epistemic_stddev
        self.assertAllClose(spread, np.abs(X), rtol=0.3)
        model.layers[0].rate = 0.0
        self.assertAllEqual(tfbdl.predict(model, X, S, seed=1).epistemic_stddev, 0.0 * X)
        model.add(keras.layers.Dense(2))
        self.assertAllClose(tfbdl.predict(model, X, S, seed=1).mean, model(X), 1e-4, 1e-5)

    def test_the_model_is_left_as_it_was(self) -> None:
        model = classifier()
        before = model.get_weights()
        tfbdl.predict(model, X, 5)
        for a, b in zip(before, model.get_weights(), strict=True):
            self.assertAllEqual(a, b)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.keras"
            model.save(path)
            loaded = keras.models.load_model(path)
        self.assertAllEqual(
            tfbdl.predict(loaded, X, 5, seed=2).mean, tfbdl.predict(model, X, 5, seed=2).mean
        )


class InputsTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(False, True)
    def test_data_sets(self, targets: Any) -> None:
        model = classifier()
        arrays = (X, LABELS) if targets else X
        dataset = tf.data.Dataset.from_tensor_slices(arrays).batch(7)
        got = tfbdl.predict(model, dataset, 5, seed=1)
        self.assertAllClose(got.mean, tfbdl.predict(model, X, 5, seed=1).mean, 1e-4, 1e-5)

    def test_a_generator_of_unknown_length(self) -> None:
        model = classifier()
        dataset = tf.data.Dataset.from_generator(
            lambda: (X[i : i + 5] for i in range(0, N, 5)),
            output_signature=tf.TensorSpec((None, D), tf.float32),
        )
        got = tfbdl.predict(model, dataset, 5, seed=1)
        self.assertAllClose(got.mean, tfbdl.predict(model, X, 5, seed=1).mean, 1e-4, 1e-5)

    def test_structures(self) -> None:
        a, b = keras.Input((2,), name="a"), keras.Input((2,), name="b")
        h = keras.layers.Concatenate()([a, b])
        model = keras.Model({"a": a, "b": b}, layers.BayesDense(2, num_data=N, seed=1)(h))
        got = tfbdl.predict(model, {"a": X[:, :2], "b": X[:, 2:]}, 5, seed=1, batch_size=6)
        whole = model({"a": X[:, :2], "b": X[:, 2:]}, training=False)
        self.assertEqual(got.mean.shape, (N, 2))
        self.assertLess(np.max(np.abs(got.mean - whole)), 2.0)
        with self.assertRaisesRegex(ValueError, r"^x has arrays of \[22, 23\] examples"):
            tfbdl.predict(model, {"a": X[:, :2], "b": X[1:, 2:]}, 5)

    def test_other_types(self) -> None:
        model = linear()
        expected = tfbdl.predict(model, np.round(X), 3, seed=1).mean
        for dtype in ("float64", "int64", "int8"):
            x = np.round(X).astype(dtype)
            self.assertAllClose(tfbdl.predict(model, x, 3, seed=1).mean, expected, 1e-5)

    def test_numbers_of_numpy(self) -> None:
        model = classifier()
        expected = tfbdl.predict(model, X, 5, seed=1, batch_size=7).mean
        five, one, seven = (np.int64(v) for v in (5, 1, 7))
        got = tfbdl.predict(model, X, five, seed=one, batch_size=seven).mean
        self.assertAllEqual(got, expected)

    def test_kept_outputs_have_one_precision(self) -> None:
        model = keras.Sequential([keras.Input((D,)), layers.MCDropout(0.5, dtype="float16")])
        for num_samples in (0, 2):
            prediction = tfbdl.predict(model, X, num_samples, return_samples=True)
            self.assertEqual(prediction.samples.dtype, np.float32)

    def test_a_vae(self) -> None:
        vae = tfbdl.models.VAE(2, (5,))
        x = RNG.random((10, 6)).astype("float32")
        vae(x)
        got = tfbdl.predict(vae, x, 50, seed=1)
        draws = [DrawnModel(vae)(x, draw=make_draw(1, s)) for s in range(50)]
        self.assertAllClose(got.mean, np.mean(draws, axis=0), 1e-4, 1e-5)
        self.assertAllClose(got.stddev, np.std(draws, axis=0), 1e-3, 1e-5)

    def test_two_replicas(self) -> None:
        """A model made under a strategy draws the functions of one that was not."""
        single = linear()
        with two_replicas.strategy().scope():
            double = linear()
        for a, b in zip(double.variables, single.variables, strict=True):
            a.assign(b.value)
        expected = tfbdl.predict(single, X, 5, seed=1)
        got = tfbdl.predict(double, X, 5, seed=1)
        self.assertAllClose(got.mean, expected.mean, 1e-4, 1e-5)
        self.assertAllClose(got.epistemic_variance, expected.epistemic_variance, 1e-4, 1e-5)


class BarTest(tf.test.TestCase):
    def screen(self, patience: Any, verbose: int = 1) -> Any:
        """What a terminal gets to see of a prediction in six calls."""
        screen = io.StringIO()
        with (
            mock.patch.object(screen, "isatty", return_value=True),
            mock.patch("sys.stderr", screen),
            mock.patch.object(bar, "PATIENCE", patience),
            mock.patch.dict(os.environ, {"TERM": "xterm"}),
        ):
            tfbdl.predict(linear(), X, 2 * DRAWS_PER_CALL, batch_size=10, verbose=verbose)
        return screen.getvalue()

    def test_long_runs_show_a_bar_and_take_it_away(self) -> None:
        shown = self.screen(patience=-1.0)
        self.assertIn("predict", shown)
        self.assertIn("100%", shown)
        self.assertTrue(shown.endswith(("\x1b[2K", "\r\x1b[1A\x1b[2K")), repr(shown[-40:]))

    def test_short_and_silent_runs_show_nothing(self) -> None:
        self.assertEqual(self.screen(patience=100.0), "")
        self.assertEqual(self.screen(patience=-1.0, verbose=0), "")


class IntervalTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(0.5, 0.9, 0.999)
    def test_mixture_quantiles(self, level: Any) -> None:
        """Against a root finder on the mixture's distribution function."""
        model = linear(0.1)
        outputs = drawn(model, seed=1, num_samples=30)
        got = tfbdl.predict(model, X, 30, seed=1, return_samples=True).interval(level)
        for end, q in zip(got, (0.5 - level / 2, 0.5 + level / 2), strict=True):
            for i in range(0, N, 7):
                mixture = scipy.stats.norm(outputs[:, i, 0], 0.1)
                root = scipy.optimize.brentq(lambda y, m=mixture, q=q: m.cdf(y).mean() - q, -30, 30)
                self.assertAllClose(end[i, 0], root, 1e-3, 1e-3)

    @parameterized.parameters(0.02, 0.5, 0.7)
    def test_quantile(self, q: Any) -> None:
        """Where a share q of the mixture is below; without functions, of a normal law."""
        model = linear(0.1)
        outputs = drawn(model, seed=1, num_samples=30)
        kept = tfbdl.predict(model, X, 30, seed=1, return_samples=True)
        below = scipy.stats.norm(outputs[..., 0], 0.1).cdf(kept.quantile(q)[:, 0]).mean(axis=0)
        self.assertAllClose(below, np.full(N, q), 1e-3)
        moments = tfbdl.predict(model, X, 30, seed=1)
        expected = scipy.stats.norm(moments.mean, moments.stddev).ppf(q)
        self.assertAllClose(moments.quantile(q), expected, 1e-5)

    def test_cdf_of_the_mixture(self) -> None:
        """The mean of SciPy's over functions; without them, of a normal law; q at quantiles."""
        model, y = linear(0.1), np.linspace(-1, 1, N)
        outputs = drawn(model, seed=1, num_samples=30)
        kept = tfbdl.predict(model, X, 30, seed=1, return_samples=True)
        expected = scipy.stats.norm(outputs[..., 0], 0.1).cdf(y).mean(axis=0)
        for given in (y, y[:, None]):
            self.assertAllClose(kept.cdf(given)[:, 0], expected, 1e-4, 1e-5)
        for q in (0.01, 0.3, 0.9):
            self.assertAllClose(kept.cdf(kept.quantile(q)), np.full((N, 1), q), 1e-4)
        moments = tfbdl.predict(model, X, 30, seed=1)
        expected = scipy.stats.norm(moments.mean[:, 0], moments.stddev[:, 0]).cdf(y)
        self.assertAllClose(moments.cdf(y)[:, 0], expected, 1e-6)
        unknown = tfbdl.predict(classifier(compiled=False), X, S, seed=1, return_samples=True)
        middle = np.median(unknown.outputs, axis=0)
        self.assertAllClose(unknown.cdf(middle + 1e-5), np.full(middle.shape, 0.5), 0, 0.51 / S)
        for given, message in (
            (y[:2], "^y has shape .2,.; these outputs describe"),
            (y * np.nan, "^y is not finite"),
        ):
            with self.assertRaisesRegex(ValueError, message):
                kept.cdf(given)
        with self.assertRaisesRegex(ValueError, "^cdf is for real y, not for Categorical$"):
            tfbdl.predict(classifier(), X, 2).cdf(y)

    @parameterized.parameters(0, 1, -0.1, 95, None)
    def test_quantile_is_of_a_probability(self, q: Any) -> None:
        with self.assertRaisesRegex(ValueError, r"^q=.* must be in \(0, 1\)$"):
            tfbdl.predict(linear(), X, 2).quantile(q)

    def test_mixture_of_noises_that_vary(self) -> None:
        """As above, for 5 points, each of 40 functions with a noise of its own."""
        outputs = np.random.default_rng(0).normal(size=(40, 5, 2)).astype("float32")
        loc, scale = outputs[..., 0], np.log1p(np.exp(outputs[..., 1].astype("float64"))) + 1e-6
        got = tfbdl.Prediction(
            mean=loc.mean(0)[:, None],
            aleatoric_variance=np.mean(scale**2, axis=0)[:, None],
            epistemic_variance=loc.var(0)[:, None],
            expected_entropy=None,
            num_samples=40,
            likelihood=likelihoods.Normal("predicted"),
            outputs=outputs,
        ).interval(0.9)
        for end, q in zip(got, (0.05, 0.95), strict=True):
            for i in range(5):
                mixture = scipy.stats.norm(loc[:, i], scale[:, i])
                root = scipy.optimize.brentq(lambda y, m=mixture, q=q: m.cdf(y).mean() - q, -30, 30)
                self.assertAllClose(end[i, 0], root, 1e-4, 1e-4)

    def test_normal_where_functions_are_not_kept(self) -> None:
        model = linear(0.5)
        got = tfbdl.predict(model, X, 4000, seed=1)
        low, high = got.interval(0.9)
        mean = model.predict(X, verbose=0)
        stddev = np.sqrt(epistemic_variance(model) + 0.25)
        self.assertAllClose(low, mean - 1.644854 * stddev, 0, 0.1)
        self.assertAllClose(high, mean + 1.644854 * stddev, 0, 0.1)

    def test_without_a_likelihood_it_is_that_of_functions(self) -> None:
        model = classifier(compiled=False)
        got = tfbdl.predict(model, X, S, seed=1, return_samples=True)
        self.assertAllClose(got.interval(0.8)[0], np.quantile(got.outputs, 0.1, axis=0), 1e-5)

    @parameterized.parameters(0, 1, -0.1, 95, None)
    def test_level(self, level: Any) -> None:
        with self.assertRaisesRegex(ValueError, r"^level=.* must be in \(0, 1\)$"):
            tfbdl.predict(linear(), X, 2).interval(level)

    def test_classes_have_none(self) -> None:
        with self.assertRaisesRegex(ValueError, "^interval is for real y, not for Categorical$"):
            tfbdl.predict(classifier(), X, 2).interval()
        with self.assertRaisesRegex(ValueError, "^quantile is for real y, not for Categorical$"):
            tfbdl.predict(classifier(), X, 2).quantile(0.5)

    def test_repr_is_short(self) -> None:
        of_line = repr(tfbdl.predict(linear(), X, 2))
        self.assertEqual(of_line, f"<Prediction of shape ({N}, 1), 2 functions, Normal>")


class BoundTest(tf.test.TestCase):
    def test_log_prob(self) -> None:
        model = linear(0.5)
        outputs = drawn(model, seed=6)
        logs = scipy.stats.norm(outputs, 0.5).logpdf(Y)[..., 0]
        expected = scipy.special.logsumexp(logs, axis=0) - np.log(S)
        got = tfbdl.predict(model, X, S, seed=6, return_samples=True).log_prob(Y)
        self.assertAllClose(got, expected, 1e-4)
        density = tfbdl.log_predictive_density(model, X, Y, S, seed=6, batch_size=5)
        self.assertAllClose(density, expected, 1e-4)

    def test_log_prob_of_classes(self) -> None:
        model = classifier()
        got = tfbdl.predict(model, X, S, seed=6, return_samples=True)
        expected = np.log(got.mean[np.arange(N), LABELS])
        self.assertAllClose(got.log_prob(LABELS), expected, 1e-4)

    def test_elbo_is_that_of_the_linear_model(self) -> None:
        """E_q[log N(y; f, s^2)] = log N(y; E f, s^2) - Var f / (2 s^2), within standard errors."""
        model, num_samples = linear(0.5), 4000
        variance = epistemic_variance(model)
        mean = model.predict(X, verbose=0)
        expected = np.mean(scipy.stats.norm(mean, 0.5).logpdf(Y) - variance / (2 * 0.25))
        model(X)
        kl = float(model.layers[0].kl_term.per_example)
        got = tfbdl.elbo(model, X, Y, num_samples, seed=1, batch_size=9)
        logs = scipy.stats.norm(drawn(model, 1, 500), 0.5).logpdf(Y)[..., 0].mean(axis=1)
        self.assertLess(abs(got.log_likelihood - expected), 5 * logs.std() / np.sqrt(num_samples))
        self.assertAllClose(got.kl, kl, 1e-5)
        self.assertAllClose(got.elbo, got.log_likelihood - got.kl, 1e-9)

    def test_double_precision(self) -> None:
        x = keras.Input((D,), dtype="float64")
        model = keras.Model(x, layers.BayesDense(1, num_data=N, seed=3, dtype="float64")(x))
        single = linear()
        for q, w in zip(
            model.layers[1].random_weights, single.layers[0].random_weights, strict=True
        ):
            q.mu.assign(w.mu)
            q.rho.assign(w.rho)
        elbo = tfbdl.elbo(model, X, Y, 2000, seed=1, likelihood=single.loss)
        self.assertAllClose(elbo, tfbdl.elbo(single, X, Y, 2000, seed=1), rtol=2e-2)

    def test_annealing_is_left_out(self) -> None:
        model = linear()
        expected = tfbdl.elbo(model, X, Y, 3, seed=1)
        model.layers[0].kl_term.weight.assign(0.0)
        self.assertAllClose(tfbdl.elbo(model, X, Y, 3, seed=1), expected)

    def test_no_likelihood(self) -> None:
        with self.assertRaisesRegex(ValueError, "^likelihood=None: the model was not compiled"):
            tfbdl.elbo(classifier(compiled=False), X, LABELS)

    def test_sparse_inputs(self) -> None:
        sparse, model = tf.sparse.from_dense(X), linear()
        posterior = tfbdl.inference.Laplace(tfbdl.to_deterministic(model)).fit(X, Y)
        for asked in (model, posterior):
            with self.assertRaisesRegex(ValueError, "^x is a SparseTensor, .* tf.sparse.to_dense"):
                tfbdl.predict(asked, sparse)

    def test_functions_were_not_kept(self) -> None:
        got = tfbdl.predict(linear(), X, 2)
        with self.assertRaisesRegex(ValueError, "call predict with return_samples=True$"):
            got.log_prob(Y)
        with self.assertRaisesRegex(ValueError, "call predict with return_samples=True$"):
            _ = got.samples


if __name__ == "__main__":
    tf.test.main()

"""Every likelihood against SciPy, in shapes that invite broadcasting mistakes."""

import tempfile
from pathlib import Path
from typing import Any

import keras
import numpy as np
import scipy.special
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp
from absl.testing import parameterized

import tfbdl
from tfbdl import likelihoods

RNG = np.random.default_rng(0)
B, D, C = 7, 3, 5
OUTPUTS = RNG.normal(0, 2, (B, D)).astype("float32")
RAW = RNG.normal(0, 1, (B, D)).astype("float32")
SCALE = np.log1p(np.exp(RAW.astype(np.float64))) + 1e-6
SMALL = np.log1p(np.exp(RAW.astype(np.float64) - 1.5)) + 1e-6
PREDICTED = np.concatenate([OUTPUTS, RAW], axis=-1)
M = scipy.special.expit(OUTPUTS.astype(np.float64))
LOGITS = RNG.normal(0, 2, (B, C)).astype("float32")
P = scipy.special.softmax(LOGITS.astype(np.float64), axis=-1)
Y = RNG.normal(0, 2, (B, D)).astype("float32")
COUNTS = RNG.poisson(3, (B, D))
LABELS = RNG.integers(0, C, B)


def student(scale: Any) -> Any:
    return scipy.stats.t(5.0, OUTPUTS.astype(np.float64), scale)


# name: likelihood, outputs, y, SciPy's distribution of the elements of y
ELEMENTWISE = {
    "normal": (
        likelihoods.Normal(0.3),
        OUTPUTS,
        Y,
        scipy.stats.norm(OUTPUTS.astype(np.float64), 0.3),
    ),
    "normal predicted": (
        likelihoods.Normal("predicted"),
        PREDICTED,
        Y,
        scipy.stats.norm(OUTPUTS.astype(np.float64), SCALE),
    ),
    "student": (likelihoods.StudentT(5.0, 0.7), OUTPUTS, Y, student(0.7)),
    "student predicted": (likelihoods.StudentT(5.0, "predicted"), PREDICTED, Y, student(SCALE)),
    "log normal": (
        likelihoods.LogNormal(0.3),
        OUTPUTS,
        np.exp(Y),
        scipy.stats.lognorm(0.3, scale=np.exp(OUTPUTS.astype(np.float64))),
    ),
    "log normal predicted": (
        likelihoods.LogNormal("predicted"),
        np.concatenate([OUTPUTS, RAW - 1.5], axis=-1),
        np.exp(Y),
        scipy.stats.lognorm(SMALL, scale=np.exp(OUTPUTS.astype(np.float64))),
    ),
    "bernoulli": (
        likelihoods.Bernoulli(),
        OUTPUTS,
        (Y > 0).astype("int64"),
        scipy.stats.bernoulli(scipy.special.expit(OUTPUTS.astype(np.float64))),
    ),
    "bernoulli of probabilities": (
        likelihoods.Bernoulli(from_logits=False),
        scipy.special.expit(OUTPUTS),
        (Y > 0).astype("int64"),
        scipy.stats.bernoulli(scipy.special.expit(OUTPUTS.astype(np.float64))),
    ),
    "poisson": (
        likelihoods.Poisson(),
        OUTPUTS,
        COUNTS,
        scipy.stats.poisson(np.exp(OUTPUTS.astype(np.float64))),
    ),
    "negative binomial predicted": (
        likelihoods.NegativeBinomial(),
        PREDICTED,
        COUNTS,
        scipy.stats.nbinom(SCALE, SCALE / (SCALE + np.exp(OUTPUTS.astype(np.float64)))),
    ),
    "gamma": (
        likelihoods.Gamma(0.7),
        OUTPUTS,
        np.exp(Y),
        scipy.stats.gamma(0.7, scale=np.exp(OUTPUTS.astype(np.float64)) / 0.7),
    ),
    "gamma predicted": (
        likelihoods.Gamma(),
        PREDICTED,
        np.exp(Y),
        scipy.stats.gamma(SCALE, scale=np.exp(OUTPUTS.astype(np.float64)) / SCALE),
    ),
    "beta predicted": (
        likelihoods.Beta(),
        PREDICTED,
        scipy.special.expit(Y),
        scipy.stats.beta(M * SCALE, (1 - M) * SCALE),
    ),
}
WITHOUT_CDF = ("negative binomial predicted", "gamma", "gamma predicted", "beta predicted")


class ElementwiseTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.named_parameters((name, name) for name in ELEMENTWISE)
    def test_against_scipy(self, name: str) -> None:
        likelihood, outputs, y, reference = ELEMENTWISE[name]
        log = getattr(reference, "logpdf", None) or reference.logpmf
        if isinstance(reference.dist, scipy.stats.rv_discrete):
            log = reference.logpmf
        log_prob = np.sum(log(y), axis=-1)
        self.assertAllClose(likelihood.log_prob(y, outputs), log_prob, 2e-5, 2e-5)
        self.assertAllClose(likelihood.mean(outputs), reference.mean(), 1e-5, 1e-5)
        self.assertAllClose(likelihood.variance(outputs), reference.var(), 1e-4, 1e-5)
        if name not in WITHOUT_CDF:
            self.assertAllClose(likelihood.cdf(y, outputs), reference.cdf(y), 1e-4, 1e-5)
        self.assertAllClose(likelihood(y, outputs), -np.mean(log_prob), 2e-5)

    @parameterized.named_parameters((name, name) for name in ELEMENTWISE)
    def test_entropy(self, name: str) -> None:
        """The sums or integrals of -p log p."""
        likelihood, outputs, _, reference = ELEMENTWISE[name]
        if name == "negative binomial predicted":
            self.assertFalse(likelihood.has_entropy)
            return
        if isinstance(reference.dist, scipy.stats.rv_discrete):
            k = np.arange(2 if "bernoulli" in name else 3000).reshape(-1, 1, 1)
            log_p = reference.logpmf(k)
            p = np.exp(log_p)
            expected = -np.sum(np.where(p > 0, p * log_p, 0.0), axis=0)
        else:
            expected = reference.entropy()
        self.assertAllClose(likelihood.entropy(outputs), np.sum(expected, axis=-1), 2e-5, 2e-5)

    @parameterized.named_parameters((name, name) for name in ELEMENTWISE)
    def test_an_axis_of_length_one_is_not_broadcast(self, name: str) -> None:
        likelihood, outputs, y, _ = ELEMENTWISE[name]
        first = outputs[:, :: outputs.shape[1] // 2] if "predicted" in name else outputs[:, :1]
        if "predicted" in name:
            first = np.stack([outputs[:, 0], outputs[:, D]], axis=-1)
        expected = likelihood.log_prob(y[:, :1], first)
        self.assertAllClose(likelihood.log_prob(y[:, 0], first), expected)
        self.assertEqual(expected.shape, (B,))
        with self.assertRaisesRegex(ValueError, r"^y has shape \(7, 2\); these outputs describe"):
            likelihood.log_prob(y[:, :2], outputs)

    def test_several_axes_are_one_example(self) -> None:
        outputs = np.stack([OUTPUTS, 2 * OUTPUTS], axis=1)
        y = np.stack([Y, Y], axis=1)
        got = likelihoods.Normal(0.5).log_prob(y, outputs)
        expected = np.sum(scipy.stats.norm(outputs, 0.5).logpdf(y), axis=(1, 2))
        self.assertAllClose(got, expected, 1e-5)

    @parameterized.named_parameters((name, name) for name in ELEMENTWISE)
    def test_samples_have_the_mean_and_the_variance(self, name: str) -> None:
        likelihood, outputs, _, reference = ELEMENTWISE[name]
        num = 20_000
        many = tf.repeat(outputs[None], num, axis=0)
        y = likelihood.sample(tf.constant(123, tf.int64), many).numpy().astype(np.float64)
        self.assertEqual(y.shape, (num, B, D))
        error = np.sqrt(reference.var() / num) + 1e-9
        self.assertLess(np.max(np.abs(y.mean(0) - reference.mean()) / error), 5)
        spread = np.maximum(((y - y.mean(0)) ** 2).std(0) / np.sqrt(num), 1e-9)
        self.assertLess(np.max(np.abs(y.var(0) - reference.var()) / spread), 6)
        again = likelihood.sample(tf.constant(123, tf.int64), many)
        self.assertAllEqual(again, y)
        for other in (124, -123, 123 + 2**32):
            self.assertNotAllClose(likelihood.sample(tf.constant(other, tf.int64), many), y)

    def test_samples_of_classes(self) -> None:
        logits = tf.repeat(LOGITS[None], 20_000, axis=0)
        y = likelihoods.Categorical().sample(tf.constant(123, tf.int64), logits).numpy()
        shares = np.stack([(y == c).mean(0) for c in range(C)], axis=-1)
        error = np.sqrt(P * (1 - P) / 20_000) + 1e-9
        self.assertLess(np.max(np.abs(shares - P) / error), 5)

    def test_half_precision_is_computed_in_single(self) -> None:
        for name, (likelihood, outputs, y, _) in ELEMENTWISE.items():
            half = tf.cast(outputs, tf.float16)
            got = likelihood.log_prob(y, half)
            self.assertEqual(got.dtype, tf.float32, name)
            self.assertAllClose(got, likelihood.log_prob(y, tf.cast(half, tf.float32)), 1e-5)

    def test_gradients_are_finite_far_out(self) -> None:
        for name, (likelihood, outputs, y, _) in ELEMENTWISE.items():
            if "probabilities" in name:
                continue
            for value in (-60.0, 60.0):
                x = tf.fill(outputs.shape, tf.constant(value))
                with tf.GradientTape() as tape:
                    tape.watch(x)
                    log_prob = likelihood.log_prob(y, x)
                self.assertAllInRange(log_prob, -np.inf, 1e6)
                self.assertTrue(np.isfinite(log_prob).all(), f"{name} {value}")
                self.assertTrue(np.isfinite(tape.gradient(log_prob, x)).all(), f"{name} {value}")


class PoissonEntropyTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(1e-6, 0.1, 1.0, 10.0, 29.9, 30.1, 100.0, 1e4)
    def test_any_rate(self, rate: Any) -> None:
        k = np.arange(int(rate + 50 * np.sqrt(rate) + 50))
        log_p = scipy.stats.poisson(rate).logpmf(k)
        p = np.exp(log_p)
        expected = -np.sum(np.where(p > 0, p * log_p, 0.0))
        got = likelihoods.Poisson().entropy(tf.fill([1, 1], tf.cast(np.log(rate), tf.float32)))
        self.assertAllClose(got, [expected], 2e-5, 1e-7)


class CategoricalTest(tf.test.TestCase, parameterized.TestCase):
    def test_against_numpy(self) -> None:
        expected = np.log(P[np.arange(B), LABELS])
        one_hot = np.eye(C)[LABELS]
        for likelihood, outputs in (
            (likelihoods.Categorical(), LOGITS),
            (likelihoods.Categorical(from_logits=False), P.astype("float32")),
        ):
            for y in (LABELS, LABELS[:, None], one_hot, LABELS.astype("float32")):
                self.assertAllClose(likelihood.log_prob(y, outputs), expected, 1e-5)
            self.assertAllClose(likelihood.mean(outputs), P, 1e-5)
            self.assertAllClose(likelihood.variance(outputs), P * (1 - P), 1e-5)
            entropy = -np.sum(P * np.log(P), axis=-1)
            self.assertAllClose(likelihood.entropy(outputs), entropy, 1e-5)
            self.assertAllClose(likelihood.entropy_of_mean(tf.constant(P)), entropy, 1e-5)

    def test_is_keras_cross_entropy(self) -> None:
        keras_loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self.assertAllClose(likelihoods.Categorical()(LABELS, LOGITS), keras_loss(LABELS, LOGITS))

    def test_sequences(self) -> None:
        logits, labels = RNG.normal(size=(B, 4, C)), RNG.integers(0, C, (B, 4))
        p = scipy.special.softmax(logits, axis=-1)
        rows, steps = np.indices((B, 4))
        expected = np.sum(np.log(p[rows, steps, labels]), axis=1)
        self.assertAllClose(likelihoods.Categorical().log_prob(labels, logits), expected, 1e-6)

    def test_sure_predictions(self) -> None:
        logits = tf.constant([[200.0, 0.0, -200.0]])
        likelihood = likelihoods.Categorical()
        self.assertAllClose(likelihood.log_prob([2], logits), [-400.0])
        self.assertAllClose(likelihood.entropy(logits), [0.0])
        certain = likelihoods.Categorical(from_logits=False)
        self.assertAllClose(certain.entropy(tf.constant([[1.0, 0.0, 0.0]])), [0.0])
        self.assertAllClose(likelihood.entropy_of_mean(tf.constant([[1.0, 0.0, 0.0]])), [0.0])

    def test_labels_that_do_not_fit(self) -> None:
        with self.assertRaisesRegex(ValueError, r"^y has shape \(6,\); outputs of shape \(7, 5\)"):
            likelihoods.Categorical().log_prob(LABELS[:6], LOGITS)

    def test_outputs_are_checked(self) -> None:
        likelihood = likelihoods.Categorical(from_logits=False)
        likelihood.check(tf.constant(P, tf.float16))
        with self.assertRaisesRegex(ValueError, "^outputs leave .* look like logits"):
            likelihood.check(LOGITS)
        with self.assertRaisesRegex(ValueError, "^outputs do not sum to one"):
            likelihood.check(tf.constant(0.9 * P, tf.float32))
        likelihoods.Categorical().check(LOGITS)
        likelihoods.Categorical().check(tf.zeros((B, C)))
        with self.assertRaisesRegex(ValueError, "^outputs sum to one .* use from_logits=False$"):
            likelihoods.Categorical().check(tf.constant(P, tf.float16))
        with self.assertRaisesRegex(ValueError, "^outputs leave .* look like logits"):
            likelihoods.Bernoulli(from_logits=False).check(OUTPUTS)
        for from_logits in (False, True):
            with self.assertRaisesRegex(ValueError, "^outputs have one class, .* use Bernoulli$"):
                likelihoods.Categorical(from_logits).check(OUTPUTS[:, :1])


class SilentlyWrongTest(tf.test.TestCase, parameterized.TestCase):
    """What XLA would compute with in silence."""

    @parameterized.parameters(-1, C, C + 100)
    def test_a_label_that_is_no_class_has_no_probability(self, label: Any) -> None:
        y = tf.constant(np.r_[LABELS[:-1], label])
        likelihood = likelihoods.Categorical()
        compiled = tf.function(likelihood.log_prob, jit_compile=True)
        got = compiled(y, tf.constant(LOGITS))
        self.assertAllClose(got[:-1], likelihood.log_prob(LABELS[:-1], LOGITS[:-1]), 1e-5)
        self.assertTrue(np.isnan(got[-1]))

    def test_a_negative_probability_has_no_logarithm(self) -> None:
        log_prob = likelihoods.Categorical(from_logits=False).log_prob(LABELS, LOGITS)
        self.assertAllEqual(np.isnan(log_prob), (LOGITS < 0).any(axis=-1))

    @parameterized.product(
        family=[("softmax", likelihoods.Categorical), ("sigmoid", likelihoods.Bernoulli)],
        jit_compile=[False, True],
    )
    def test_probabilities_are_not_trained_as_logits(self, family: Any, jit_compile: Any) -> None:
        activation, kind = family
        y = np.eye(C)[LABELS]
        model = keras.Sequential([keras.Input((D,)), keras.layers.Dense(C, activation)])
        model.compile("sgd", kind(), jit_compile=jit_compile)
        with self.assertRaisesRegex(ValueError, f"but outputs end in {activation}: "):
            model.fit(OUTPUTS, y, verbose=0)
        model.compile("sgd", kind(from_logits=False), jit_compile=jit_compile)
        loss = model.evaluate(OUTPUTS, y, verbose=0)
        p = model.predict(OUTPUTS, verbose=0).astype(np.float64)
        logs = np.log(p) if activation == "softmax" else y * np.log(p) + (1 - y) * np.log1p(-p)
        if activation == "softmax":
            logs *= y
        self.assertAllClose(loss, -logs.sum(-1).mean(), 1e-5)

    @parameterized.parameters("mixed_float16", "float64")
    def test_nor_are_those_of_another_precision(self, dtype: Any) -> None:
        model = keras.Sequential([keras.Input((D,)), keras.layers.Dense(C, "sigmoid", dtype=dtype)])
        model.compile("sgd", likelihoods.Bernoulli())
        with self.assertRaisesRegex(ValueError, "but outputs end in sigmoid: "):
            model.fit(OUTPUTS, np.eye(C)[LABELS], verbose=0)


class Joint(likelihoods.Likelihood):
    """The elements of y are not independent."""

    def distribution(self, outputs: Any) -> Any:
        root = np.array([[1.0, 0.0], [0.8, 0.6]], np.float32)
        return tfp.distributions.MultivariateNormalTriL(outputs, root)


class JointLawTest(tf.test.TestCase):
    def test_against_scipy(self) -> None:
        mean, y = OUTPUTS[:, :2], Y[:, :2]
        covariance = [[1.0, 0.8], [0.8, 1.0]]
        law = scipy.stats.multivariate_normal(np.zeros(2), covariance)
        self.assertAllClose(Joint().log_prob(y, mean), law.logpdf(y - mean), 1e-5)
        self.assertAllClose(Joint().entropy(mean), [law.entropy()] * B, 1e-6)
        Joint().check_targets(y, mean[:1])
        with self.assertRaisesRegex(ValueError, r"^y has shape \(7, 3\); these outputs describe"):
            Joint().check_targets(Y, mean[:1])


class TargetsOfSeveralRanksTest(tf.test.TestCase, parameterized.TestCase):
    """Keras' graphs forget the rank of targets that come with one axis more and one less."""

    @parameterized.parameters(
        (likelihoods.Normal(0.3), 1, Y[:, :1]),
        (likelihoods.Normal("predicted"), 2, Y[:, :1]),
        (likelihoods.StudentT(), 1, Y[:, :1]),
        (likelihoods.Bernoulli(), 1, np.float32(Y[:, :1] > 0)),
        (likelihoods.ContinuousBernoulli(), 1, np.float32(Y[:, :1] > 0)),
        (likelihoods.Poisson(), 1, COUNTS[:, :1]),
        (likelihoods.Categorical(), C, LABELS[:, None]),
    )
    def test_the_loss_is_the_same(self, likelihood: Any, units: int, y: Any) -> None:
        model = keras.Sequential([keras.Input((D,)), keras.layers.Dense(units)])
        model.compile("sgd", likelihood)
        expected = likelihood(y, model(OUTPUTS))
        for targets in (y, y[:, 0], y, y[:, 0]):
            loss = model.evaluate(OUTPUTS, targets, verbose=0)
            self.assertAllClose(loss, expected, 1e-5)


class ArgumentsTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(0, -1.0, "learned", None, True, float("inf"))
    def test_scale(self, scale: Any) -> None:
        for family in (likelihoods.Normal, likelihoods.StudentT):
            with self.assertRaisesRegex(ValueError, "^scale=.* positive number or 'predicted'$"):
                family(scale=scale)
        with self.assertRaisesRegex(ValueError, "^shape=.* positive number or 'predicted'$"):
            likelihoods.Gamma(scale)

    @parameterized.parameters(0, 2, -1.0, "a", True)
    def test_df(self, df: Any) -> None:
        with self.assertRaisesRegex(ValueError, "^df=.* must be > 2"):
            likelihoods.StudentT(df)

    def test_predicted_needs_two_halves(self) -> None:
        with self.assertRaisesRegex(ValueError, r"^outputs has shape \(7, 3\); Normal\('pred"):
            likelihoods.Normal("predicted").log_prob(Y, OUTPUTS)


class OfLossTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(
        (keras.losses.SparseCategoricalCrossentropy(from_logits=True), "Categorical", True),
        (keras.losses.CategoricalCrossentropy(), "Categorical", False),
        (keras.losses.BinaryCrossentropy(from_logits=True), "Bernoulli", True),
        ("sparse_categorical_crossentropy", "Categorical", False),
        ("categorical_crossentropy", "Categorical", False),
        ("binary_crossentropy", "Bernoulli", False),
        (keras.losses.sparse_categorical_crossentropy, "Categorical", False),
    )
    def test_cross_entropies(self, loss: Any, family: Any, from_logits: Any) -> None:
        actual = likelihoods.of_loss(loss)
        self.assertEqual((type(actual).__name__, actual.from_logits), (family, from_logits))

    @parameterized.parameters(
        "mse",
        None,
        [["mse", "mse"]],
        lambda y, p: y - p,
        keras.losses.CategoricalCrossentropy(axis=1),
    )
    def test_others_are_none(self, loss: Any) -> None:
        self.assertIsNone(likelihoods.of_loss(loss))

    def test_our_own(self) -> None:
        likelihood = likelihoods.Normal(0.2)
        self.assertIs(likelihoods.of_loss(likelihood), likelihood)


class TrainingTest(tf.test.TestCase, parameterized.TestCase):
    def test_loss_is_the_negative_elbo_per_example(self) -> None:
        model = keras.Sequential([keras.Input((2,)), tfbdl.layers.BayesDense(D, num_data=B)])
        model.compile("sgd", likelihoods.Normal(0.5))
        x = RNG.normal(size=(B, 2)).astype("float32")
        loss = model.evaluate(x, Y, batch_size=3, verbose=0)
        mean = model(x).numpy().astype(np.float64)
        expected = -np.mean(np.sum(scipy.stats.norm(mean, 0.5).logpdf(Y), axis=-1))
        kl = float(model.layers[0].kl_term.per_example)
        self.assertAllClose(loss, expected + kl, 1e-5)

    def test_learned_scale_finds_the_noise(self) -> None:
        x = RNG.normal(size=(4000, 1)).astype("float32")
        y = 2 * x + 0.3 * RNG.normal(size=x.shape).astype("float32")
        scale = tfbdl.layers.LearnedScale(initial_scale=2.0)
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1), scale])
        self.assertAllClose(scale.scale, [2.0], 1e-5)
        model.compile(keras.optimizers.Adam(0.05), likelihoods.Normal("predicted"))
        model.fit(x, y, epochs=15, batch_size=200, verbose=0)
        residual = np.std(y - model.predict(x, verbose=0)[:, :1])
        self.assertAllClose(scale.scale, [residual], 0.05)
        self.assertAllClose(scale.scale, [0.3], 0.1)

    @parameterized.named_parameters((name, name) for name in ELEMENTWISE)
    def test_reads_as_the_call_that_makes_it(self, name: str) -> None:
        likelihood = ELEMENTWISE[name][0]
        again = eval(repr(likelihood), vars(likelihoods))
        self.assertEqual(again.get_config(), {**likelihood.get_config(), "name": again.name})

    @parameterized.named_parameters((name, name) for name in ELEMENTWISE)
    def test_is_saved_with_the_model(self, name: str) -> None:
        likelihood, outputs, y, _ = ELEMENTWISE[name]
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(outputs.shape[-1])])
        model.compile("sgd", likelihood)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.keras"
            model.save(path)
            loaded = keras.models.load_model(path)
        self.assertIsInstance(loaded.loss, type(likelihood))
        self.assertEqual(loaded.loss.get_config(), likelihood.get_config())
        self.assertAllClose(loaded.loss(y, outputs), likelihood(y, outputs))

    @parameterized.parameters(0.0, -1.0, "a", None, True)
    def test_initial_scale_is_checked(self, initial_scale: Any) -> None:
        with self.assertRaisesRegex(ValueError, "^initial_scale=.* must be a positive number$"):
            tfbdl.layers.LearnedScale(initial_scale)


if __name__ == "__main__":
    tf.test.main()

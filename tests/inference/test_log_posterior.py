"""The log posterior of a Keras model: by hand in float64, in chunks, in chains, its symmetries."""

from typing import Any

import keras
import numpy as np
import scipy.special
import scipy.stats
import tensorflow as tf
from absl.testing import parameterized

from tfbdl import layers, likelihoods, priors
from tfbdl.inference import MCMC, LogPosterior

RNG = np.random.default_rng(0)
N = 12
X = RNG.normal(size=(N, 3))
Y = RNG.normal(size=(N, 1))
CLASSES = RNG.integers(0, 4, N)


def log_grey(y: Any, f: Any) -> Any:
    """exp(f y) over [0, 1], normalised."""
    return f * y - np.log(np.expm1(f) / f)


POISSON = RNG.poisson(2.0, (N, 1)), lambda y, f: scipy.stats.poisson.logpmf(y, np.exp(f))
STUDENT = Y, lambda y, f: scipy.stats.t.logpdf(y, 5.0, f, 0.6)
GREY = RNG.uniform(size=(N, 1)), log_grey
BINARY = (
    RNG.integers(0, 2, (N, 1)),
    lambda y, f: scipy.stats.bernoulli.logpmf(y, scipy.special.expit(f)),
)


def network(
    activation: str = "tanh", units: Any = (5,), outputs: int = 1, **kwargs: Any
) -> keras.Model:
    keras.utils.set_random_seed(0)
    hidden = [keras.layers.Dense(u, activation, **kwargs) for u in units]
    return keras.Sequential([keras.Input((3,)), *hidden, keras.layers.Dense(outputs, **kwargs)])


def regression(**kwargs: Any) -> Any:
    arguments = {"prior": 0.7, "dtype": "float64", **kwargs}
    return LogPosterior(network(), likelihood=likelihoods.Normal(0.3), x=X, y=Y, **arguments)


def by_hand(theta: Any) -> Any:
    """Log posterior of `regression`, and its gradient, in NumPy."""
    w1, b1 = theta[:15].reshape(3, 5), theta[15:20]
    w2, b2 = theta[20:25].reshape(5, 1), theta[25:]
    h = np.tanh(X @ w1 + b1)
    error = Y - h @ w2 - b2
    value = scipy.stats.norm.logpdf(error, scale=0.3).sum()
    value += scipy.stats.norm.logpdf(theta, scale=0.7).sum()
    d_output = error / 0.09
    d_h = d_output @ w2.T * (1 - h**2)
    parts = [X.T @ d_h, d_h.sum(0), h.T @ d_output, d_output.sum(0)]
    return value, np.concatenate([p.ravel() for p in parts]) - theta / 0.49


def value_and_gradient(target: Any, theta: Any) -> Any:
    theta = tf.constant(theta, target.dtype)
    with tf.GradientTape() as tape:
        tape.watch(theta)
        value = target(theta)
    return value.numpy(), tape.gradient(value, theta).numpy()


class ValueTest(tf.test.TestCase, parameterized.TestCase):
    THETA = RNG.normal(size=26)

    @parameterized.parameters(None, 1, 5, 12, 100)
    def test_value_and_gradient_by_hand(self, batch_size: Any) -> None:
        target = regression(batch_size=batch_size)
        value, gradient = value_and_gradient(target, self.THETA)
        expected, slope = by_hand(self.THETA)
        self.assertAllClose(value, expected, 1e-13)
        self.assertAllClose(gradient, slope, 1e-12, 1e-12)

    @parameterized.product(batch_size=(None, 5), jit_compile=(False, True))
    def test_chains(self, batch_size: Any, jit_compile: Any) -> None:
        target = regression(batch_size=batch_size)
        thetas = RNG.normal(size=(4, 26))
        compiled = tf.function(lambda t: value_and_slope(target, t), jit_compile=jit_compile)
        values, gradients = compiled(tf.constant(thetas))
        for theta, value, gradient in zip(thetas, values, gradients, strict=True):
            expected, slope = by_hand(theta)
            self.assertAllClose(value, expected, 1e-12)
            self.assertAllClose(gradient, slope, 1e-11, 1e-11)

    def test_eager_calls_trace_nothing(self) -> None:
        """`vectorized_map` would do so at each, and TensorFlow would warn of it."""
        target, thetas = regression(), RNG.normal(size=(3, 26))
        with self.assertNoLogs("tensorflow", "WARNING"):
            for _ in range(8):
                values, gradients = value_and_slope(target, tf.constant(thetas))
        for theta, value, gradient in zip(thetas, values, gradients, strict=True):
            expected, slope = by_hand(theta)
            self.assertAllClose(value, expected, 1e-12)
            self.assertAllClose(gradient, slope, 1e-11, 1e-11)

    def test_chains_are_no_constant_of_the_compiled_code(self) -> None:
        """XLA would compile again for each value of a constant."""
        target = regression()
        compiled = tf.function(lambda t: value_and_slope(target, t), jit_compile=True)
        code = compiled.experimental_get_compiler_ir(tf.zeros([4, 26], tf.float64))(stage="hlo")
        self.assertRegex(code, r"f64\[4,26\]\S* parameter\(")

    def test_data_set(self) -> None:
        data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(5)
        target = LogPosterior(
            network(), 0.7, data, likelihood=likelihoods.Normal(0.3), dtype="float64"
        )
        self.assertAllEqual(target(target.theta), regression()(target.theta))

    def test_parts_add_up(self) -> None:
        target = regression()
        theta = tf.constant(self.THETA)
        prior = scipy.stats.norm.logpdf(self.THETA, scale=0.7).sum()
        self.assertAllClose(target.log_prior(theta), prior, 1e-13)
        self.assertAllClose(target.log_likelihood(theta), by_hand(self.THETA)[0] - prior, 1e-12)

    def test_theta_starts_at_the_model(self) -> None:
        model = network()
        target = LogPosterior(model, 1.0, X, Y, likelihood=likelihoods.Normal(0.3))
        expected = np.concatenate([np.ravel(v) for v in model.get_weights()])
        self.assertAllEqual(target.theta, expected)
        before = model.get_weights()
        target(target.theta + 1.0)
        for a, b in zip(before, model.get_weights(), strict=True):
            self.assertAllEqual(a, b)

    def test_classes(self) -> None:
        target = LogPosterior(
            network(outputs=4),
            1.0,
            X,
            CLASSES,
            likelihood=likelihoods.Categorical(),
            dtype="float64",
        )
        f = target.flat(target.theta, tf.constant(X)).numpy()
        expected = scipy.special.log_softmax(f, axis=1)[np.arange(N), CLASSES].sum()
        self.assertAllClose(target.log_likelihood(target.theta), expected, 1e-12)

    @parameterized.parameters(
        (likelihoods.Poisson(), POISSON),
        (likelihoods.StudentT(5.0, 0.6), STUDENT),
        (likelihoods.ContinuousBernoulli(), GREY),
        (likelihoods.Bernoulli(), BINARY),
    )
    def test_every_likelihood(self, likelihood: Any, of_scipy: Any) -> None:
        """Value by SciPy, gradient by its central differences."""
        y, log_prob = of_scipy
        target = LogPosterior(network(), 0.7, X, y, likelihood=likelihood, dtype="float64")

        def by_scipy(theta: Any) -> Any:
            f = target.flat(tf.constant(theta), tf.constant(X)).numpy()
            return log_prob(y, f).sum() + scipy.stats.norm.logpdf(theta, scale=0.7).sum()

        value, gradient = value_and_gradient(target, self.THETA)
        self.assertAllClose(value, by_scipy(self.THETA), 1e-12)
        steps = 1e-5 * np.eye(26)
        differences = [(by_scipy(self.THETA + h) - by_scipy(self.THETA - h)) / 2e-5 for h in steps]
        self.assertAllClose(gradient, differences, 1e-7, 1e-7)

    def test_unknown_noise_with_a_prior_of_its_own(self) -> None:
        """The lecture's sigma0 ~ Gamma(1/2, 1), as a density of the unbounded raw scale."""
        keras.utils.set_random_seed(0)
        model = keras.Sequential(
            [keras.Input((3,)), keras.layers.Dense(1), layers.LearnedScale(0.4, name="noise")]
        )
        target = LogPosterior(
            model,
            {"noise": priors.GammaScale(0.5, 1.0), "*": np.sqrt(5.0)},
            X,
            Y,
            likelihood=likelihoods.Normal("predicted"),
            dtype="float64",
        )
        theta = target.theta.numpy()
        w, b, raw = theta[:3], theta[3], theta[4]
        scale = np.logaddexp(0, raw)
        expected = scipy.stats.norm.logpdf(Y[:, 0], X @ w + b, scale + 1e-6).sum()
        expected += scipy.stats.norm.logpdf(theta[:4], scale=np.sqrt(5)).sum()
        expected += scipy.stats.gamma.logpdf(scale, 0.5) + np.log(scipy.special.expit(raw))
        self.assertAllClose(target(target.theta), expected, 1e-10)


def value_and_slope(target: Any, theta: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(theta)
        value = target(theta)
    return value, tape.gradient(value, theta)


class PriorTest(tf.test.TestCase, parameterized.TestCase):
    def log_prior(self, prior: Any) -> Any:
        target = LogPosterior(
            network(), prior, X, Y, likelihood=likelihoods.Normal(), dtype="float64"
        )
        theta = RNG.normal(size=26)
        return float(target.log_prior(tf.constant(theta))), theta, target

    def test_by_layer_and_by_weight(self) -> None:
        model = network()
        first, last = model.layers[0].name, f"{model.layers[1].name}/bias"
        target = LogPosterior(
            model, {first: 0.1, last: "laplace", "*": 2.0}, X, Y, likelihood=likelihoods.Normal()
        )
        theta = RNG.normal(size=26).astype("float32")
        expected = scipy.stats.norm.logpdf(theta[:20], scale=0.1).sum()
        expected += scipy.stats.norm.logpdf(theta[20:25], scale=2.0).sum()
        expected += scipy.stats.laplace.logpdf(theta[25:]).sum()
        self.assertAllClose(target.log_prior(tf.constant(theta)), expected, 1e-5)

    def test_joint_over_all_layers(self) -> None:
        a = RNG.normal(size=(26, 26))
        covariance = a @ a.T + np.eye(26)
        joint = priors.MultivariateNormal(covariance)
        joint.attach((26,))
        got, theta, _ = self.log_prior(joint.log_prob)
        expected = scipy.stats.multivariate_normal.logpdf(theta, cov=covariance)
        self.assertAllClose(got, expected, 1e-5)

    @parameterized.parameters(
        (priors.ARD(), "^prior=ARD has scales with a posterior of their own, .*; take fixed scal"),
        (priors.Horseshoe(trainable=False), "^prior=Horseshoe has scales with a posterior of"),
        (priors.Laplace(trainable=True), "^prior=Laplace is learned by .*; give trainable=False$"),
        ("log_uniform", "^prior=LogUniform is infinite at 0, .*; take 'laplace' or 'student_t'$"),
    )
    def test_no_density_of_the_weights_alone(self, prior: Any, message: str) -> None:
        """What layers learn by their bound stands still here, and would be another prior."""
        with self.assertRaisesRegex(ValueError, message):
            LogPosterior(network(), prior, X, Y, likelihood=likelihoods.Normal())
        named = message.replace("prior=", r"prior\['\*'\]=", 1)
        with self.assertRaisesRegex(ValueError, named):
            LogPosterior(network(), {"*": prior}, X, Y, likelihood=likelihoods.Normal())

    def test_what_is_not_named(self) -> None:
        model = network()
        first = model.layers[0].name
        with self.assertRaisesRegex(ValueError, "^prior names none for the weight '.*kernel'"):
            LogPosterior(model, {first: 1.0}, X, Y, likelihood=likelihoods.Normal())
        with self.assertRaisesRegex(ValueError, "^prior names 'absent'; the weights are "):
            LogPosterior(model, {"absent": 1.0, "*": 1.0}, X, Y, likelihood=likelihoods.Normal())


class SymmetryTest(tf.test.TestCase):
    """Weights that give the same function: the posterior of a network has many equal modes."""

    def target(self, activation: Any) -> Any:
        model = network(activation, units=(6, 5))
        return LogPosterior(model, 1.0, X, Y, likelihood=likelihoods.Normal(), dtype="float64")

    def test_permuted_units(self) -> None:
        target = self.target("tanh")
        w1, b1, w2, b2, w3, b3 = target.flat.unflatten(target.theta + 0.3)
        p, q = RNG.permutation(6), RNG.permutation(5)
        permuted = [
            tf.gather(w1, p, axis=1),
            tf.gather(b1, p),
            tf.gather(tf.gather(w2, p), q, axis=1),
            tf.gather(b2, q),
            tf.gather(w3, q),
            b3,
        ]
        theta = tf.concat([tf.reshape(w, [-1]) for w in permuted], 0)
        self.assertNotAllClose(theta, target.theta + 0.3)
        self.assertAllClose(target(theta), target(target.theta + 0.3), 1e-13)

    def test_scaled_relu_units(self) -> None:
        """The likelihood does not change, and the prior does."""
        target = self.target("relu")
        weights = target.flat.unflatten(target.theta + 0.1)
        c = np.exp(RNG.normal(size=6))
        w1, b1, w2, *rest = weights
        theta = tf.concat(
            [tf.reshape(w, [-1]) for w in (w1 * c, b1 * c, w2 / c[:, None], *rest)], 0
        )
        start = target.theta + 0.1
        self.assertAllClose(target.log_likelihood(theta), target.log_likelihood(start), 1e-13)
        self.assertNotAllClose(target.log_prior(theta), target.log_prior(start), 1e-3)

    def test_mirrored_tanh_units(self) -> None:
        target = self.target("tanh")
        w1, b1, w2, *rest = target.flat.unflatten(target.theta + 0.1)
        signs = np.array([1, -1, -1, 1, -1, 1.0])
        mirrored = (w1 * signs, b1 * signs, w2 * signs[:, None], *rest)
        theta = tf.concat([tf.reshape(w, [-1]) for w in mirrored], 0)
        self.assertAllClose(target(theta), target(target.theta + 0.1), 1e-13)


class Holder(keras.layers.Layer):
    """Makes a layer of its own, of which its config says nothing."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.inner = keras.layers.Dense(1)

    def build(self, shape: Any) -> None:
        self.inner.build(shape)

    def call(self, x: Any) -> Any:
        return self.inner(x)


class Narrow(keras.layers.Layer):
    """Has a weight in float32, whatever it computes in."""

    def build(self, shape: Any) -> None:
        self.scale = self.add_weight(shape=(), dtype="float32", name="scale", autocast=False)

    def call(self, x: Any) -> Any:
        return x[:, :1] * keras.ops.cast(self.scale, x.dtype)


class AnyModelTest(tf.test.TestCase, parameterized.TestCase):
    """Outputs at theta are those of the model with these weights; so are gradients in chains."""

    def conv(self) -> keras.Model:
        return keras.Sequential(
            [
                keras.Input((6, 6, 2)),
                keras.layers.Conv2D(3, 3, activation="relu"),
                keras.layers.BatchNormalization(),
                keras.layers.Dropout(0.5),
                keras.layers.Flatten(),
                keras.layers.Dense(1),
            ]
        )

    def lstm(self) -> keras.Model:
        return keras.Sequential([keras.Input((5, 3)), keras.layers.LSTM(4), keras.layers.Dense(1)])

    def functional(self) -> keras.Model:
        a = keras.Input((3,))
        h = keras.layers.Dense(4, "relu")(a)
        return keras.Model(a, keras.layers.Dense(1)(keras.layers.Concatenate()([a, h])))

    def subclassed(self, name: Any = None) -> Any:
        class Mine(keras.Model):
            def __init__(self) -> None:
                super().__init__()
                self.inner = keras.layers.Dense(4, "tanh", name=name)
                self.outer = keras.layers.Dense(1, name=name)

            def call(self, x: Any) -> Any:
                return self.outer(self.inner(x))

        model = Mine()
        model(np.zeros((1, 3), "float32"))
        return model

    @parameterized.product(
        kind=("conv", "lstm", "functional", "subclassed"), jit_compile=(False, True)
    )
    def test_any_model(self, kind: Any, jit_compile: Any) -> None:
        keras.utils.set_random_seed(1)
        model = getattr(self, kind)()
        shape = {"conv": (6, 6, 2), "lstm": (5, 3)}.get(kind, (3,))
        x = RNG.normal(size=(N, *shape)).astype("float32")
        target = LogPosterior(model, 1.0, x, Y, likelihood=likelihoods.Normal())
        thetas = target.theta + RNG.normal(0, 0.3, (3, target.size)).astype("float32")
        compiled = tf.function(lambda t: value_and_slope(target, t), jit_compile=jit_compile)
        values, gradients = compiled(thetas)
        for theta, value, gradient in zip(thetas, values, gradients, strict=True):
            target.flat.assign(theta)
            f = model(x, training=False).numpy()
            expected = scipy.stats.norm.logpdf(Y, f).sum() + scipy.stats.norm.logpdf(theta).sum()
            self.assertAllClose(value, expected, 1e-5)
            _, slope = value_and_gradient(target, theta)
            self.assertAllClose(gradient, slope, 1e-3, 1e-3)

    def wrapped(self) -> keras.Model:
        inner = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, "tanh")])
        both = keras.layers.Bidirectional(keras.layers.GRU(2, return_sequences=True))
        cells = keras.layers.RNN([keras.layers.GRUCell(2), keras.layers.LSTMCell(2)])
        each = keras.layers.TimeDistributed(inner)
        return keras.Sequential([keras.Input((5, 3)), each, both, cells, Holder(), Holder()])

    @parameterized.parameters(None, 5)
    def test_frozen_layers(self, batch_size: Any) -> None:
        """Chains move the weights that are trained, and the others hold them to their values."""
        model = network()
        model.layers[0].trainable = False
        target = LogPosterior(
            model, 1.0, X, Y, likelihood=likelihoods.Normal(0.3), batch_size=batch_size
        )
        MCMC(target, num_warmup=20, num_samples=5, num_chains=2, seed=0).fit()
        theta = RNG.normal(size=(2, target.size)).astype("float32")
        many = value_and_gradient(target, theta)
        for i in range(2):
            one = value_and_gradient(target, theta[i])
            self.assertAllClose(many[0][i], one[0], 1e-4)
            self.assertAllClose(many[1][i], one[1], 1e-3, 1e-3)

    def test_all_layers_change_their_type(self) -> None:
        """Layers inside of others change too, which have types of their own in the config."""
        keras.utils.set_random_seed(1)
        model = self.wrapped()
        x = RNG.normal(size=(N, 5, 3)).astype("float32")
        target = LogPosterior(model, 1.0, x, Y, likelihood=likelihoods.Normal(), dtype="float64")
        self.assertEqual({v.dtype for v in target.flat.model.trainable_variables}, {"float64"})
        f = target.flat(target.theta, tf.constant(x, tf.float64))
        self.assertEqual(f.dtype, tf.float64)
        self.assertAllClose(f, model(x), 1e-6, 1e-6)
        self.assertEqual(keras.config.dtype_policy().name, "float32")

    def test_whole_numbers_keep_their_type(self) -> None:
        inputs = keras.Input((2,), dtype="int64")
        hashed = keras.layers.Embedding(3, 2)(keras.layers.Hashing(3)(inputs))
        outputs = keras.layers.Dense(1)(keras.layers.Flatten()(hashed))
        model = keras.Model(inputs, outputs)
        x = RNG.integers(0, 100, (N, 2))
        target = LogPosterior(model, 1.0, x, Y, likelihood=likelihoods.Normal(), dtype="float64")
        self.assertAllClose(target.flat(target.theta, tf.constant(x)), model(x), 1e-6, 1e-6)

    def test_a_weight_that_does_not_change_its_type(self) -> None:
        model = keras.Sequential([keras.Input((3,)), Narrow(name="narrow")])
        message = "^dtype='float64': the weight '.*narrow/scale' stays in float32; take"
        with self.assertRaisesRegex(ValueError, message):
            LogPosterior(model, 1.0, X, Y, likelihood=likelihoods.Normal(), dtype="float64")

    @parameterized.parameters(dict, list)
    def test_several_inputs(self, structure: Any) -> None:
        inputs: Any = {"a": keras.Input((3,), name="a"), "b": keras.Input((2,), name="b")}
        arrays: Any = {"a": X, "b": X[:, :2] ** 2}
        joined = keras.layers.Concatenate()(list(inputs.values()))
        if structure is list:
            inputs, arrays = list(inputs.values()), list(arrays.values())
        model = keras.Model(inputs, keras.layers.Dense(1)(joined))
        for batch_size in (None, 5):
            target = LogPosterior(
                model,
                1.0,
                arrays,
                Y,
                likelihood=likelihoods.Normal(),
                batch_size=batch_size,
                dtype="float64",
            )
            theta = np.linspace(-1.0, 1.0, 6)
            f = np.c_[X, X[:, :2] ** 2] @ theta[:5, None] + theta[5]
            expected = scipy.stats.norm.logpdf(Y, f).sum() + scipy.stats.norm.logpdf(theta).sum()
            self.assertAllClose(target(tf.constant([theta, theta])), [expected] * 2, 1e-6)

    def test_layers_of_one_name(self) -> None:
        """A model of a class of its own may have them."""
        target = LogPosterior(
            self.subclassed("same"), {"same": 1.0}, X, Y, likelihood=likelihoods.Normal()
        )
        self.assertEqual(list(target.flat.shapes.values()), [(3, 4), (4,), (4, 1), (1,)])
        self.assertAllClose(target(target.theta), target(target.theta[None])[0])


class RefusalTest(tf.test.TestCase):
    def test_not_built(self) -> None:
        model = keras.Sequential([keras.layers.Dense(1)], name="fresh")
        with self.assertRaisesRegex(ValueError, "^model='fresh' is not built; call it on a batch"):
            LogPosterior(model, 1.0, X, Y, likelihood=likelihoods.Normal())

    def test_random_layers(self) -> None:
        for layer in (layers.BayesDense(1, num_data=3), layers.MCDropout(0.5)):
            model = keras.Sequential([keras.Input((3,)), layer, keras.layers.Dense(1)])
            with self.assertRaisesRegex(ValueError, f"has the random layer '{layer.name}'"):
                LogPosterior(model, 1.0, X, Y, likelihood=likelihoods.Normal())

    def test_dropout_left_on(self) -> None:
        class AlwaysOn(keras.layers.Dropout):
            def call(self, x: Any, training: bool = False) -> Any:
                return super().call(x, training=True)

        model = keras.Sequential(
            [
                keras.Input((3,)),
                keras.layers.Dropout(0.5),
                AlwaysOn(0.5, name="noisy"),
                keras.layers.Dense(1),
            ]
        )
        with self.assertRaisesRegex(ValueError, "random in inference mode in the layer 'noisy'"):
            LogPosterior(model, 1.0, X, Y, likelihood=likelihoods.Normal())

    def test_data_that_do_not_fit(self) -> None:
        with self.assertRaisesRegex(
            ValueError, "^y has 3 examples and x has 12; give one y for each$"
        ):
            LogPosterior(network(), 1.0, X, Y[:3], likelihood=likelihoods.Normal())
        missing = np.where(X > 1, np.nan, X)
        first = int(np.argwhere(X > 1)[0][0])
        with self.assertRaisesRegex(ValueError, f"^x is not finite in example {first}; remove"):
            LogPosterior(network(), 1.0, missing, Y, likelihood=likelihoods.Normal())
        with self.assertRaisesRegex(ValueError, "^y=None: give targets"):
            LogPosterior(network(), 1.0, X, likelihood=likelihoods.Normal())
        labels = np.where(np.arange(N) == 7, 4, CLASSES)
        with self.assertRaisesRegex(ValueError, "^y has the label 4; outputs of 4 classes"):
            LogPosterior(network(outputs=4), 1.0, X, labels, likelihood=likelihoods.Categorical())
        for batch_size in (0, -1, 2.5):
            with self.assertRaisesRegex(ValueError, "^batch_size="):
                regression(batch_size=batch_size)

    def test_arguments(self) -> None:
        with self.assertRaisesRegex(ValueError, "^likelihood='mse' is a loss that gives y no prob"):
            LogPosterior(network(), 1.0, X, Y, likelihood="mse")
        with self.assertRaisesRegex(ValueError, "^dtype='float16' is unknown; choose one of"):
            regression(dtype="float16")
        with self.assertRaisesRegex(ValueError, "^model=<function .* is no keras.Model"):
            LogPosterior(network, 1.0, X, Y, likelihood=likelihoods.Normal())

    def test_a_class_of_its_own_keeps_its_precision(self) -> None:
        model = AnyModelTest().subclassed()
        with self.assertRaisesRegex(
            ValueError, "^dtype='float64': .*own and computes in float32; .*set_dtype"
        ):
            LogPosterior(model, 1.0, X, Y, likelihood=likelihoods.Normal(), dtype="float64")


if __name__ == "__main__":
    tf.test.main()

"""Every prior in a BayesDense: files, training, the prior predictive, the sampled KL."""

from typing import Any

import keras
import numpy as np
import scipy.stats
import tensorflow as tf
from absl.testing import parameterized
from prior_checks import PriorChecks

import tfbdl
from tfbdl import likelihoods, priors
from tfbdl.draws import DrawnModel, make_draw
from tfbdl.layers import BayesDense, BayesGRU

RNG = np.random.default_rng(0)
N, D_IN, UNITS = 24, 4, 3
X = RNG.normal(size=(N, D_IN)).astype("float32")
Y = RNG.normal(size=(N, UNITS)).astype("float32")
ROWS = 0.5 * np.eye(D_IN) + 0.5
COLUMNS = np.diag([1.0, 4.0, 0.25])

PRIORS = {
    "ard": priors.ARD,
    "bernoulli": priors.Bernoulli,
    "flat": priors.Flat,
    "gamma_scale": priors.GammaScale,
    "horseshoe": priors.Horseshoe,
    "horseshoe_inputs": lambda: priors.Horseshoe(0.1, "input"),
    "horseshoe_frozen": lambda: priors.Horseshoe(trainable=False),
    "inverse_gamma_scale": priors.InverseGammaScale,
    "inverse_gamma_scale_gates": lambda: priors.InverseGammaScale(2.0, 0.5, 3),
    "laplace": priors.Laplace,
    "laplace_trainable": lambda: priors.Laplace(0.3, trainable=True),
    "log_uniform": priors.LogUniform,
    "matrix_normal": lambda: priors.MatrixNormal(ROWS, COLUMNS),
    "matrix_normal_trainable": lambda: priors.MatrixNormal(ROWS, COLUMNS, trainable=True),
    "multivariate_normal": lambda: priors.MultivariateNormal(np.kron(ROWS, COLUMNS)),
    "normal": priors.Normal,
    "normal_trainable": lambda: priors.Normal(0.3, trainable=True),
    "normal_fan_in": lambda: priors.Normal("fan_in", trainable=True),
    "scale_mixture": priors.ScaleMixture,
    "scale_mixture_trainable": lambda: priors.ScaleMixture(sigma2=0.1, trainable=True),
    "student_t": priors.StudentT,
    "student_t_trainable": lambda: priors.StudentT(2.0, 0.3, trainable=True),
}
NAMES = tuple(PRIORS)
IMPROPER = ("flat", "log_uniform")
POLICIES = ("float32", "float64", "mixed_bfloat16", "mixed_float16")


def layer_of(name: str, **kwargs: Any) -> Any:
    """A layer with this prior, its parameters away from their start."""
    posterior = {"bernoulli": "relaxed_bernoulli"}.get(name, "mean_field")
    arguments = {"num_data": N, "prior": PRIORS[name](), "posterior": posterior, "seed": 1}
    return BayesDense(UNITS, **{**arguments, **kwargs})


def model_of(name: str, run_eagerly: bool = False) -> Any:
    model = keras.Sequential([keras.Input((D_IN,)), layer_of(name)])
    sgd = keras.optimizers.SGD(1e-3)
    model.compile(sgd, likelihoods.Normal(1.0), run_eagerly=run_eagerly)
    rng = np.random.default_rng(1)
    for variable in model.trainable_variables:
        variable.assign(variable + rng.normal(0, 0.1, variable.shape))
    return model


class NamesTest(tf.test.TestCase):
    def test_every_prior_is_tried(self) -> None:
        """All but those to be derived from, and that of convolutions alone."""
        public = {getattr(priors, name) for name in priors.__all__}
        kinds = {kind for kind in public if isinstance(kind, type)} - {priors.Prior}
        own = {kind for kind in kinds if issubclass(kind, priors.Prior)}
        others = {priors.Hierarchical, priors.KroneckerNormal, priors.SpatialNormal}
        self.assertEqual({type(make()) for make in PRIORS.values()}, own - others)


class ShapeTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(
        (priors.SpatialNormal, r"prior=SpatialNormal .* shape \(4, 3\); use 'normal'"),
        (lambda: priors.MatrixNormal(COLUMNS, COLUMNS), r"row_covariance .* needs \(4, 4\)"),
        (lambda: priors.MultivariateNormal(ROWS), r"covariance .* needs \(12, 12\)"),
        (lambda: priors.InverseGammaScale(groups=2), "groups=2 must divide the last axis .*"),
    )
    def test_what_does_not_fit_is_named(self, make: Any, message: str) -> None:
        """One line names it, with the weight and its layer."""
        layer = BayesDense(UNITS, num_data=N, prior=make(), name="first")
        with self.assertRaisesRegex(ValueError, f"^kernel of layer 'first': {message}$"):
            keras.Sequential([keras.Input((D_IN,)), layer])

    def test_weights_of_one_layer_are_told_apart(self) -> None:
        prior = priors.MatrixNormal(np.eye(D_IN), np.eye(9))
        layer = BayesGRU(UNITS, num_data=N, prior=prior, recurrent_prior=prior, name="first")
        with self.assertRaisesRegex(ValueError, r"^recurrent_kernel of layer 'first': row_cov.*$"):
            layer.build((None, 2, D_IN))


class FileTest(tf.test.TestCase, parameterized.TestCase):
    def assert_same(self, model: Any, other: Any) -> None:
        """Predictions, losses, those of the next training steps, and draws."""
        self.assertLen(other.trainable_variables, len(model.trainable_variables))
        for training in (False, True, True):
            outputs = [m(X, training=training) for m in (model, other)]
            self.assertAllEqual(outputs[0], outputs[1])
            self.assertAllEqual(model.losses, other.losses)
        drawn = [DrawnModel(m)(X, draw=make_draw(0, 1)) for m in (model, other)]
        self.assertAllEqual(drawn[0], drawn[1])

    def through_file(self, model: Any) -> Any:
        path = f"{self.get_temp_dir()}/model.keras"
        model.save(path)
        return keras.models.load_model(path, safe_mode=True)

    @parameterized.parameters(*NAMES)
    def test_keras_file(self, name: str) -> None:
        model = model_of(name, run_eagerly=True)
        loaded = self.through_file(model)
        self.assertEqual(loaded.layers[0].prior.get_config(), model.layers[0].prior.get_config())
        self.assert_same(model, loaded)
        self.assert_same(model, self.through_file(loaded))
        losses = [m.evaluate(X, Y, verbose=0) for m in (model, loaded)]
        self.assertAllEqual(losses[0], losses[1])

    @parameterized.parameters(*NAMES)
    def test_weights_file(self, name: str) -> None:
        model, other = model_of(name), model_of(name)
        for variable in model.trainable_variables:
            variable.assign(1.1 * variable)
        path = f"{self.get_temp_dir()}/model.weights.h5"
        model.save_weights(path)
        other.load_weights(path)
        self.assert_same(model, other)

    @parameterized.parameters(*NAMES)
    def test_checkpoint(self, name: str) -> None:
        model, other = model_of(name), model_of(name)
        for variable in model.trainable_variables:
            variable.assign(1.1 * variable)
        path = tf.train.Checkpoint(model=model).save(f"{self.get_temp_dir()}/checkpoint")
        tf.train.Checkpoint(model=other).restore(path).assert_existing_objects_matched()
        self.assert_same(model, other)

    @parameterized.product(
        name=("horseshoe", "normal_trainable", "matrix_normal_trainable", "student_t"),
        policy=POLICIES[1:],
    )
    def test_precision(self, name: str, policy: str) -> None:
        keras.config.set_dtype_policy(policy)
        try:
            model = keras.Sequential([keras.Input((D_IN,)), layer_of(name)])
            wide = "float64" if policy == "float64" else "float32"
            self.assertEqual({v.dtype for v in model.trainable_variables}, {wide})
            self.assert_same(model, self.through_file(model))
        finally:
            keras.config.set_dtype_policy("float32")

    @parameterized.parameters(*NAMES)
    def test_clone(self, name: str) -> None:
        model = model_of(name)
        cloned = keras.models.clone_model(model)
        cloned.set_weights(model.get_weights())
        self.assert_same(model, cloned)


class TrainingTest(tf.test.TestCase, parameterized.TestCase):
    def assert_moved(self, model: Any, before: Any) -> None:
        """Every trainable variable, those of the prior included, and all finite."""
        for variable, old in zip(model.trainable_variables, before, strict=True):
            self.assertTrue(np.all(np.isfinite(variable)), variable.path)
            self.assertGreater(np.abs(variable.numpy() - old).max(), 0.0, variable.path)

    @parameterized.parameters(*NAMES)
    def test_fit(self, name: str) -> None:
        model = model_of(name)
        before = [v.numpy() for v in model.trainable_variables]
        history = model.fit(X, Y, batch_size=N, verbose=0).history
        self.assertTrue(np.all(np.isfinite(history["loss"])))
        self.assert_moved(model, before)

    @parameterized.parameters(*NAMES)
    def test_train(self, name: str) -> None:
        model = model_of(name)
        before = [v.numpy() for v in model.trainable_variables]
        history = tfbdl.train(model, X, Y, epochs=1, batch_size=N, verbose=0)
        self.assertTrue(np.all(np.isfinite(history["loss"])))
        self.assert_moved(model, before)

    @parameterized.product(
        name=[name for name in NAMES if name != "bernoulli"],
        estimator=("local_reparameterization", "flipout", "per_example"),
    )
    def test_estimators_cost_the_same(self, name: str, estimator: str) -> None:
        """The cost is the same in expectation; exactly where the KL is in closed form."""
        layers = [layer_of(name, estimator=e) for e in ("reparameterization", estimator)]
        for layer in layers:
            layer.build((None, D_IN))
        layers[1].set_weights(layers[0].get_weights())
        costs = []
        for layer in layers:
            layer(X, training=True)
            costs.append(float(sum(layer.losses)))
        exact = layers[0].kernel.exact_kl() is not None
        self.assertAllClose(costs[0], costs[1], *((1e-5, 1e-5) if exact else (0.5, 3.0)))


class PriorPredictiveTest(PriorChecks, tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(*(name for name in NAMES if name not in IMPROPER))
    def test_spread(self, name: str) -> None:
        """Outputs for the unit vectors are the weights: their quantiles, with standard errors."""
        prior = PRIORS[name]()
        model = keras.Sequential(
            [
                keras.Input((D_IN,)),
                BayesDense(UNITS, num_data=1, prior=prior, posterior="prior", use_bias=False),
            ]
        )
        size = 4000
        x = np.eye(D_IN, dtype="float32")
        w = tfbdl.predict(model, x, size, seed=0, return_samples=True, verbose=0).outputs
        self.assertEqual(w.shape, (size, D_IN, UNITS))
        expected = self.simulated(prior, 400_000)
        for at in np.ndindex(D_IN, UNITS):
            draws = w[(slice(None), at[0], at[1])]
            others = expected[at] if expected.ndim > 1 else expected
            for quantile in np.quantile(others, (0.25, 0.5, 0.75, 0.9)):
                share = np.mean(others > quantile)
                error = np.sqrt(share * (1 - share) / size)
                self.assertLessEqual(abs(np.mean(draws > quantile) - share), 5 * error)

    def simulated(self, prior: Any, size: Any) -> Any:
        """Draws by NumPy and SciPy, from the configuration alone."""
        rng, c = np.random.default_rng(5), prior.get_config()
        e = rng.normal(size=size)
        unsoft = lambda s: s + np.log(-np.expm1(-s))  # noqa: E731  (of softplus)
        cauchy = lambda: np.abs(rng.standard_cauchy(size))  # noqa: E731
        return {
            "ARD": lambda: e / np.sqrt(rng.gamma(c["shape"], 1 / c["rate"], size)),
            "Bernoulli": lambda: rng.choice(c["values"], size, p=[1 - c["prob"], c["prob"]]),
            "GammaScale": lambda: unsoft(rng.gamma(c["concentration"], 1 / c["rate"], size)),
            "Horseshoe": lambda: e * cauchy() * cauchy() * c["scale"],
            "InverseGammaScale": lambda: scipy.stats.t(c["df"], 0, c["scale"]).rvs(size, rng),
            "Laplace": lambda: rng.laplace(0, c["scale"], size),
            "MatrixNormal": lambda: self.by_unit(e),
            "MultivariateNormal": lambda: self.by_unit(e),
            "Normal": lambda: (0.5 if c["scale"] == "fan_in" else c["scale"]) * e,
            "ScaleMixture": lambda: (
                e * rng.choice([c["sigma1"], c["sigma2"]], size, p=[c["pi"], 1 - c["pi"]])
            ),
            "StudentT": lambda: c["scale"] * rng.standard_t(c["df"], size),
        }[type(prior).__name__]()

    def by_unit(self, e: Any) -> Any:
        """Columns with variances 1, 4 and 1/4, rows with a variance of 1."""
        return np.sqrt(np.tile(np.diagonal(COLUMNS), (D_IN, 1)))[..., np.newaxis] * e


class SampledKLTest(PriorChecks, tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(
        "horseshoe",
        "inverse_gamma_scale_gates",
        "laplace",
        "matrix_normal",
        "normal",
        "normal_fan_in",
    )
    def test_is_unbiased_and_so_is_its_gradient(self, name: str) -> None:
        """Loss and gradients of a layer in training, against those of the closed form."""
        exact, sampled = layer_of(name), layer_of(name, kl="sample")
        for layer in (exact, sampled):
            layer.build((None, D_IN))
        sampled.set_weights(exact.get_weights())

        def loss_and_gradients(layer: Any) -> Any:
            with tf.GradientTape() as tape:
                layer(X[:1], training=True)
                loss = tf.add_n(layer.losses)
            return loss, *tape.gradient(loss, [v.value for v in layer.trainable_variables])

        @tf.function(jit_compile=True)
        def step() -> Any:
            return loss_and_gradients(sampled)

        samples = zip(*(step() for _ in range(3000)), strict=True)
        for each, expected in zip(samples, loss_and_gradients(exact), strict=True):
            values = np.stack(each).astype(np.float64)
            error = values.std(axis=0) / np.sqrt(len(values))
            difference = np.abs(values.mean(axis=0) - expected)
            self.assertTrue(np.all(difference < 4.5 * error + 1e-5), (difference, error))


if __name__ == "__main__":
    tf.test.main()

"""What holds for every method of inference: one way to fit, to ask, to save."""

import copy
import inspect
import pickle
import tempfile
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

import tfbdl
from tfbdl import inference
from tfbdl.inference import (
    HMC,
    MAP,
    MCMC,
    NUTS,
    SGMCMC,
    SWAG,
    DeepEnsemble,
    Laplace,
    LogPosterior,
    NeuralLinear,
    NotFittedError,
)
from tfbdl.optimizers import SGHMC

RNG = np.random.default_rng(0)
N = 40
X = RNG.normal(size=(N, 2)).astype("float32")
Y = (X[:, :1] - X[:, 1:] ** 2 + 0.3 * RNG.normal(size=(N, 1))).astype("float32")
S = 6


def network(optimizer=None):
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(4, "tanh"), keras.layers.Dense(1)]
    )
    model.compile(optimizer or keras.optimizers.SGD(1e-3), tfbdl.likelihoods.Normal(0.3))
    return model


CHAINS = {"num_warmup": 10, "num_samples": S, "num_chains": 2}
TRAINED = {"epochs": 3, "batch_size": 20, "verbose": 0}
METHODS = {
    "laplace": (lambda: Laplace(network(), prior_precision=2.0), {}),
    "laplace_full": (
        lambda: Laplace(
            network(), subset_of_weights="all", hessian_structure="full", pred_type="nn"
        ),
        {},
    ),
    "laplace_lowrank": (
        lambda: Laplace(
            network(), subset_of_weights="all", hessian_structure="lowrank", rank=5, dtype="float64"
        ),
        {},
    ),
    "laplace_diag": (
        lambda: Laplace(network(), hessian_structure="diag", prior_precision=np.full(5, 3.0)),
        {},
    ),
    "neural_linear": (lambda: NeuralLinear(network()), {}),
    "neural_linear_known": (lambda: NeuralLinear(network(), sigma_noise=0.3), {}),
    "map": (lambda: MAP(network(), 1.0, max_iterations=3000), {}),
    "mcmc": (lambda: MCMC(network(), 1.0, kernel=HMC(step_size=0.01), **CHAINS), {"verbose": 0}),
    "swag": (lambda: SWAG(network(), rank=2), TRAINED),
    "deep_ensemble": (lambda: DeepEnsemble(network(), 3), TRAINED),
    "sgmcmc": (lambda: SGMCMC(network(SGHMC(1e-3, num_data=N, prior=1.0, seed=1))), TRAINED),
}
FITTED = {}


def fitted(name):
    """Each method is fitted once for all tests that only ask."""
    if name not in FITTED:
        make, arguments = METHODS[name]
        FITTED[name] = make().fit(X, Y, **arguments)
    return FITTED[name]


def asked(posterior, seed=3):
    return tfbdl.predict(posterior, X, S, seed=seed, verbose=0)


class MethodTest(tf.test.TestCase, parameterized.TestCase):
    def assert_same_prediction(self, a, b):
        for field in ("mean", "aleatoric_variance", "epistemic_variance", "expected_entropy"):
            self.assertAllClose(getattr(a, field), getattr(b, field), 1e-5, 1e-6, msg=field)

    def test_every_method_is_here(self):
        kinds = {
            value
            for value in vars(inference).values()
            if inspect.isclass(value) and issubclass(value, inference.Method)
        }
        made = {type(make()) for make, _ in METHODS.values()}
        self.assertEqual(kinds - {inference.Method}, made)

    @parameterized.parameters(*METHODS)
    def test_the_constructor_touches_nothing(self, name):
        """Its arguments stand under their names; models and weights are as they were."""
        posterior = METHODS[name][0]()
        model = getattr(posterior, "model", None) or posterior.build_model
        expected = network(model.optimizer)
        for a, b in zip(model.get_weights(), expected.get_weights(), strict=True):
            self.assertAllEqual(a, b)
        self.assertTrue(all(v.regularizer is None for v in model.trainable_variables))
        self.assertFalse(posterior.is_fitted)
        self.assertIn("not fitted", repr(posterior))
        for argument in inspect.signature(type(posterior)).parameters:
            self.assertTrue(hasattr(posterior, argument), argument)

    @parameterized.parameters(*METHODS)
    def test_what_needs_a_fit_says_so(self, name):
        posterior = METHODS[name][0]()
        for question in ("sample", "ensemble", "summary"):
            with self.assertRaisesRegex(NotFittedError, "needs a fitted .*; call fit first"):
                getattr(posterior, question)()
        with self.assertRaises(NotFittedError):
            asked(posterior)
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaises(NotFittedError):
                posterior.save(f"{folder}/p.keras")
            self.assertEmpty(list(Path(folder).iterdir()))

    @parameterized.parameters(*METHODS)
    def test_fit_returns_the_object_and_can_be_asked(self, name):
        posterior = fitted(name)
        self.assertIsInstance(posterior, inference.Method)
        prediction = asked(posterior)
        self.assertEqual(prediction.mean.shape, (N, 1))
        self.assertAllEqual(prediction.mean, asked(posterior).mean)
        draws = posterior.sample(3, seed=1)
        self.assertEqual(draws.shape[0], 3)
        self.assertAllEqual(draws, posterior.sample(3, seed=1))
        text = str(posterior.summary())
        self.assertIn("kernel", text)
        self.assertNotIn("not fitted", repr(posterior))

    @parameterized.parameters(*METHODS)
    def test_an_ensemble_has_the_samples(self, name):
        """Its moments are those of the network at each sample, computed by hand."""
        posterior = fitted(name)
        ensemble = posterior.ensemble(3, seed=5)
        prediction = tfbdl.predict(ensemble, X, 3, return_samples=True, verbose=0)
        outputs = [ensemble(X, draw=tf.constant([0, s], tf.int64)) for s in range(3)]
        self.assertLen(prediction.outputs, min(3, ensemble.num_functions))
        for got, expected in zip(prediction.outputs, outputs, strict=False):
            self.assertAllClose(got, expected, 1e-5, 1e-5)

    @parameterized.parameters(*METHODS)
    def test_saved_pickled_copied(self, name):
        posterior = fitted(name)
        expected = asked(posterior)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "posterior.keras"
            posterior.save(path)
            with self.assertRaises(FileExistsError):
                posterior.save(path)
            others = [tfbdl.load(path), keras.models.load_model(path)]
        others += [pickle.loads(pickle.dumps(posterior)), copy.deepcopy(posterior)]
        for other in others:
            self.assertIs(type(other), type(posterior))
            self.assertTrue(other.is_fitted)
            self.assert_same_prediction(asked(other), expected)
            self.assertAllClose(other.sample(3, seed=2), posterior.sample(3, seed=2), 1e-6)
            self.assertEqual(str(other.summary()).split("\n")[1:], self.lines(posterior))

    def lines(self, posterior):
        return str(posterior.summary()).split("\n")[1:]

    @parameterized.parameters(*METHODS)
    def test_data_sets(self, name):
        """As on arrays, where a method goes through the data once."""
        make, arguments = METHODS[name]
        if "epochs" in arguments:
            self.skipTest("tfbdl.train takes functions of the epoch; see test_loop")
        data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(16)
        on_data = make().fit(data, **arguments)
        self.assert_same_prediction(asked(on_data), asked(fitted(name)))


class FormatTest(tf.test.TestCase):
    def test_a_newer_file_is_refused_in_one_line(self):
        posterior = fitted("laplace")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "newer.keras"
            with tf.test.mock.patch.object(inference.method, "FORMAT", 99):
                posterior.save(path)
            with self.assertRaisesRegex(ValueError, "format 99 of a newer tfbdl") as caught:
                tfbdl.load(path)
        self.assertNotIn("\n", str(caught.exception))

    def test_other_files(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(FileNotFoundError, "is no file"):
                tfbdl.load(f"{folder}/missing.keras")
            path = Path(folder) / "damaged.keras"
            path.write_bytes(b"PK garbage")
            with self.assertRaisesRegex(ValueError, "cannot be loaded"):
                tfbdl.load(path)
            with self.assertRaisesRegex(ValueError, "must end in .keras"):
                fitted("laplace").save(f"{folder}/p.npz")


class DensityTest(tf.test.TestCase, parameterized.TestCase):
    """Chains and searches on any log density."""

    @staticmethod
    def density(theta):
        return -0.5 * tf.reduce_sum(((theta - 2.0) / tf.constant([1.0, 0.5])) ** 2, axis=1)

    def test_mode(self):
        mode = MAP(self.density, initial=np.zeros(2, "float32")).fit()
        self.assertAllClose(mode.theta, [2.0, 2.0], atol=1e-3)

    def test_chains(self):
        chains = MCMC(
            self.density,
            kernel=NUTS(),
            initial=np.zeros(2, "float32"),
            num_warmup=200,
            num_samples=500,
            num_chains=4,
        ).fit(verbose=0)
        found = chains.summary().quantities["theta"]
        error = 5 * found.stddev / np.sqrt(np.minimum(found.ess_bulk, 2000))
        self.assertAllInRange((found.mean - 2.0) / error, -1.0, 1.0)
        self.assertAllClose(found.stddev, [1.0, 0.5], rtol=0.15)

    @parameterized.parameters(MAP, MCMC)
    def test_they_take_no_data_and_make_no_network(self, kind):
        made = kind(self.density, initial=np.zeros(2, "float32"))
        with self.assertRaisesRegex(ValueError, "x and y are for a keras.Model"):
            made.fit(X, Y)
        with self.assertRaisesRegex(ValueError, "prior=1.0 is for a keras.Model"):
            kind(self.density, 1.0)
        with self.assertRaisesRegex(ValueError, "prior=None: a network's weights need one"):
            kind(network())
        with self.assertRaisesRegex(ValueError, "x=None: give inputs"):
            kind(network(), 1.0).fit()

    @parameterized.parameters(MAP, MCMC)
    def test_they_cannot_be_saved(self, kind):
        arguments = {"num_warmup": 5, "num_samples": 5} if kind is MCMC else {}
        made = kind(self.density, initial=np.zeros(2, "float32"), **arguments).fit()
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(ValueError, "model=.* is a function, which no file"):
                made.save(f"{folder}/p.keras")
            self.assertEmpty(list(Path(folder).iterdir()))

    def test_a_log_posterior_is_a_density_with_a_network(self):
        target = LogPosterior(network(), 1.0, X, Y)
        by_density = MCMC(target, kernel=HMC(step_size=0.01), **CHAINS).fit(verbose=0)
        self.assertAllEqual(by_density.theta, fitted("mcmc").theta)
        self.assertAllClose(asked(by_density).mean, asked(fitted("mcmc")).mean, 1e-6)


if __name__ == "__main__":
    tf.test.main()

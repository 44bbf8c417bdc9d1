"""`SGMCMC`: its samples are the snapshots that `WeightSnapshots` keeps of a sampler's weights."""

import tempfile
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized
from arviz_alone import arviz

import tfbdl
from tfbdl import layers
from tfbdl.inference import SGMCMC, WeightSnapshots
from tfbdl.optimizers import SGHMC, SGLD, CyclicalSchedule

RNG = np.random.default_rng(0)
N = 24
X = RNG.normal(size=(N, 3)).astype("float32")
Y = RNG.normal(size=(N, 1)).astype("float32")
FIT = {"batch_size": 8, "verbose": 0}


def network(rate: float = 0.01, kind: Any = SGLD) -> Any:
    keras.utils.set_random_seed(0)
    stack = [keras.layers.Dense(4), keras.layers.BatchNormalization(), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((3,)), *stack])
    model.compile(kind(rate, num_data=N, prior=1.0, seed=1), tfbdl.likelihoods.Normal(0.5))
    return model


def in_order(rows: Any) -> Any:
    """Rows by their first number: without the order in which samples are given."""
    return rows[np.argsort(rows[:, 0])]


class SGMCMCTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.product(kind=(SGLD, SGHMC), on_disk=(False, True))
    def test_samples_are_the_snapshots(self, kind: Any, on_disk: Any) -> None:
        kept = WeightSnapshots(2, 3)
        settings = {"callbacks": [kept], "epochs": 9, **FIT}
        with tempfile.TemporaryDirectory() as folder:
            posterior = SGMCMC(network(kind=kind), start=2, every=3)
            posterior.fit(X, Y, savedir=folder if on_disk else None, **settings)
        self.assertEqual(kept.epochs, [5, 8])
        theta, states = kept.arrays()
        self.assertAllEqual(in_order(posterior.sample()), in_order(theta))
        ensemble = posterior.ensemble(seed=4)
        self.assertAllEqual(ensemble.members, posterior.sample(seed=4))
        self.assertAllEqual(in_order(ensemble.states.numpy()), in_order(states))
        prediction = tfbdl.predict(posterior, X, verbose=0)
        expected = tfbdl.predict(kept.ensemble(), X, verbose=0)
        self.assertEqual(prediction.num_samples, 2)
        self.assertAllClose(prediction.mean, expected.mean, 1e-5, 1e-6)
        self.assertAllClose(prediction.epistemic_variance, expected.epistemic_variance, 1e-4, 1e-7)

    def test_cycles(self) -> None:
        """4 epochs a cycle, 3 steps an epoch; the second half of a cycle samples."""
        kept = WeightSnapshots()
        model = network(CyclicalSchedule(0.1, 12, exploration=0.5))
        posterior = SGMCMC(model).fit(X, Y, epochs=9, callbacks=[kept], **FIT)
        self.assertEqual(kept.epochs, [3, 4, 7, 8])
        self.assertLen(posterior.sample(), 4)

    def test_a_stopped_run_goes_on(self) -> None:
        whole = SGMCMC(network()).fit(X, Y, epochs=6, **FIT)
        with tempfile.TemporaryDirectory() as folder:
            SGMCMC(network()).fit(X, Y, epochs=4, savedir=folder, **FIT)
            resumed = SGMCMC(network())
            for _ in range(2):  # a finished run is left as it is
                resumed.fit(X, Y, epochs=6, savedir=folder, **FIT)
                self.assertAllClose(resumed.sample(), whole.sample(), 1e-6)

    def test_some_of_the_samples(self) -> None:
        posterior = SGMCMC(network()).fit(X, Y, epochs=4, **FIT)
        self.assertAllEqual(posterior.ensemble(2, seed=1).members, posterior.sample(2, seed=1))
        self.assertEqual(posterior.ensemble(100).num_functions, 4)
        self.assertLen(posterior.sample(5), 4)
        for call in (posterior.sample, posterior.ensemble):
            with self.assertRaisesRegex(ValueError, "^num_samples=0 must be a positive integer$"):
                call(0)

    def test_arviz_has_the_samples_in_order(self) -> None:
        """By the weights' paths, as one chain; what ArviZ says of them is what NumPy says."""
        posterior = SGMCMC(network()).fit(X, Y, epochs=5, **FIT)
        given = posterior.to_arviz()
        theta = posterior.fitted_arrays()["theta"]
        model = posterior.model
        start = f"{model.name}/"
        weights = {v.path.removeprefix(start): tuple(v.shape) for v in model.trainable_variables}
        self.assertSameElements(given.posterior.data_vars, weights)
        flat = [given.posterior[path].values for path in weights]
        self.assertEqual([a.shape for a in flat], [(1, 5, *s) for s in weights.values()])
        self.assertAllEqual(np.concatenate([a.reshape(5, -1) for a in flat], axis=1), theta)
        self.assertNotIn("sample_stats", given.groups())
        means = np.sort(arviz.summary(given, kind="stats", round_to=6)["mean"])
        self.assertAllClose(means, np.sort(theta.mean(axis=0)), 1e-5, 1e-5)

    def test_refusals(self) -> None:
        for name, wrong in (("start", -1), ("every", 0), ("seed", "one"), ("jit_compile", "no")):
            with self.assertRaisesRegex(ValueError, f"^{name}='?{wrong}"):
                SGMCMC(network(), **{name: wrong})
        plain = network()
        plain.compile("adam", "mse")
        with self.assertRaisesRegex(ValueError, "^model=.* is compiled with Adam, which finds a"):
            SGMCMC(plain)
        random = keras.Sequential([keras.Input((3,)), layers.BayesDense(1, num_data=9)])
        random.compile(SGLD(0.1, num_data=9), "mse")
        with self.assertRaisesRegex(ValueError, "^model=.* has the random layer"):
            SGMCMC(random)
        posterior = SGMCMC(network(), start=5)
        with self.assertRaisesRegex(ValueError, "^start=5: no epoch has been kept; train longer$"):
            posterior.fit(X, Y, epochs=3, **FIT)
        self.assertFalse(posterior.is_fitted)

    def test_mixed_precision_scales_the_loss(self) -> None:
        """The sampler then stands inside of another optimizer."""
        samples = []
        for scaled in (True, False):
            model = network()
            sampler = SGLD(CyclicalSchedule(0.1, 12, exploration=0.5), num_data=N, seed=1)
            if scaled:
                sampler = keras.optimizers.LossScaleOptimizer(sampler, initial_scale=2.0)
            model.compile(sampler, model.loss)
            samples.append(SGMCMC(model).fit(X, Y, epochs=9, **FIT).sample())
        self.assertLen(samples[0], 4)
        self.assertAllClose(samples[0], samples[1], 1e-5, 1e-6)


if __name__ == "__main__":
    tf.test.main()

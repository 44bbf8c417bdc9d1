"""Mixtures: draws of each posterior in equal shares, MultiSWAG among them, and files."""

import tempfile
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tfbdl
from tfbdl.flat_model import FlatModel
from tfbdl.inference import HMC, MAP, MCMC, SWAG, Laplace, Mixture, NotFittedError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3)).astype("float32")
Y = (X[:, :1] - 0.5 * X[:, 1:2] + RNG.normal(0, 0.3, (40, 1))).astype("float32")
FIT = {"epochs": 8, "batch_size": 10, "verbose": 0}


def network(seed: int, normalised: bool = False, units: int = 4) -> Any:
    keras.utils.set_random_seed(seed)
    middle = [keras.layers.BatchNormalization()] if normalised else []
    stack = [keras.layers.Dense(units, "tanh"), *middle, keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((3,)), *stack])
    model.compile(keras.optimizers.SGD(0.05), tfbdl.likelihoods.Normal(0.3))
    return model


def swag(seed: int, **arguments: Any) -> Any:
    return SWAG(network(seed, **arguments), rank=3, seed=seed, jit_compile=False)


class MixtureTest(tf.test.TestCase):
    def test_multi_swag(self) -> None:
        """Draws have the moments of the SWAG they come from; all together those of the mixture."""
        alone = [swag(k).fit(X, Y, **FIT) for k in range(3)]
        mixture = Mixture([swag(k) for k in range(3)]).fit(X, Y, **FIT)
        draws = np.asarray(mixture.sample(30_000, seed=1), np.float64)
        variances = []
        for k, one in enumerate(alone):
            own = draws[k::3]
            low_rank = one.deviations.T @ one.deviations / (len(one.deviations) - 1)
            covariance = one.scale**2 * (np.diag(one.variance) + low_rank)
            stddev = np.sqrt(np.diag(covariance))
            self.assertAllInRange((own.mean(0) - one.mean) / stddev, -0.045, 0.045)
            scaled = (np.cov(own.T) - covariance) / np.outer(stddev, stddev)
            self.assertAllInRange(scaled, -0.06, 0.06)
            variances.append(stddev**2)
        means = np.stack([one.mean for one in alone])
        total = np.mean(variances, 0) + means.var(0)
        self.assertAllClose(draws.mean(0), means.mean(0), atol=0.05)
        self.assertAllClose(draws.var(0) / total, np.ones_like(total), atol=0.05)
        row = mixture.summary().rows[0]
        self.assertAllClose(row.mean, means[:, :12].mean(), 1e-6)
        self.assertAllClose(row.size, np.sqrt(np.square(means[:, :12]).mean()), 1e-6)

    def test_posteriors_share_no_noise(self) -> None:
        """Two fitted alike, whose draws would be equal if they had the same seed."""
        one, other = (swag(0).fit(X, Y, **FIT) for _ in range(2))
        self.assertAllClose(one.mean, other.mean, 1e-6)
        draws = Mixture([one, other]).sample(2000, seed=1) - one.mean
        correlation = np.corrcoef(draws[::2, 0], draws[1::2, 0])[0, 1]
        self.assertLess(abs(correlation), 0.1)

    def test_predictions_are_those_of_the_networks(self) -> None:
        """Each draw has its statistics; numbers may be such that K does not divide them."""
        mixture = Mixture([swag(k, normalised=True) for k in range(3)]).fit(X, Y, **FIT)
        ensemble = mixture.ensemble(7, seed=2)
        self.assertAllClose(ensemble.members, mixture.sample(7, seed=2), 1e-6)
        self.assertEqual(ensemble.states.shape[0], 7)
        outputs, flat = [], FlatModel(mixture.methods[0].model)
        for k in range(7):
            state = iter(np.split(ensemble.state(k), 2))
            states = [
                tf.constant(next(state), v.dtype) if v.dtype.is_floating else v for v in flat.state
            ]
            outputs.append(flat(tf.constant(ensemble.theta(k)), tf.constant(X), states))
        prediction = tfbdl.predict(mixture, X, 7, seed=2, verbose=0)
        self.assertAllClose(prediction.mean, np.mean(outputs, 0), 1e-4, 1e-5)
        self.assertAllClose(prediction.epistemic_variance, np.var(outputs, 0), 1e-3, 1e-5)

    def test_fitted_posteriors_need_no_fit(self) -> None:
        parts = []
        for k in range(2):
            model = network(k)
            model.fit(X, Y, epochs=3, verbose=0)
            parts.append(Laplace(model, jit_compile=False))
        mixture = Mixture(parts)
        with self.assertRaisesRegex(NotFittedError, "^sample needs a fitted Mixture"):
            mixture.sample(4)
        with self.assertRaisesRegex(ValueError, r"^methods\[0\] is a Laplace, .*fit it by itself"):
            mixture.fit(X, Y, **FIT)
        for part in parts:
            part.fit(X, Y)
        draws = mixture.ensemble(400, seed=0)
        mean = tfbdl.predict(draws, X, 400, verbose=0).mean
        alone = [tfbdl.predict(part, X, verbose=0) for part in parts]
        spread = np.max([p.epistemic_stddev for p in alone], 0)
        expected = np.mean([p.mean for p in alone], 0)
        self.assertAllInRange((mean - expected) / spread, -0.25, 0.25)

    def test_files_and_folders(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            mixture = Mixture([swag(k) for k in range(2)])
            mixture.fit(X, Y, savedir=f"{folder}/run", **FIT)
            logs = sorted(p.parent.name for p in Path(folder).rglob("train.log"))
            self.assertEqual(logs, ["member_0", "member_1"])
            mixture.save(f"{folder}/m.keras")
            loaded = tfbdl.load(f"{folder}/m.keras")
            self.assertAllEqual(loaded.sample(5, seed=3), mixture.sample(5, seed=3))

    def test_refusals(self) -> None:
        for wrong in ([], [network(0)], swag(0), "swag"):
            with self.assertRaisesRegex(ValueError, "^methods=.* must be a list of methods"):
                Mixture(wrong)
        one = network(0)
        with self.assertRaisesRegex(ValueError, r"^methods\[0\] and methods\[1\] are of one"):
            Mixture([SWAG(one), Laplace(one)])
        mixture = Mixture([swag(0), swag(0, units=5)]).fit(X, Y, **FIT)
        with self.assertRaisesRegex(ValueError, "^models differ in the shapes of their weights"):
            mixture.ensemble(2)

    def test_summary_of_chains(self) -> None:
        """A table of weights as that of the others, with the remarks on the chains."""
        short = {"num_warmup": 5, "num_samples": 5, "num_chains": 2, "jit_compile": False}
        chains = MCMC(network(0), 1.0, kernel=HMC(step_size=0.01), **short).fit(X, Y, verbose=0)
        table = Mixture([chains, swag(1).fit(X, Y, **FIT)]).summary()
        of_first = chains.summary().quantities[table.rows[0].path]
        of_other = Mixture([chains]).summary().rows[0]
        self.assertAllClose(of_other.mean, of_first.mean.mean(), 1e-6)
        self.assertAllClose(of_other.stddev, np.median(of_first.stddev), 1e-6)
        self.assertLen(table.rows, 4)
        self.assertRegex(str(table), "0: acceptance .*; step size 0.01")
        self.assertEqual(repr(chains.summary()), str(chains.summary()))

    def test_a_part_with_few_draws_gives_them_again(self) -> None:
        """As the modes that MAPs are: in `sample` as in `ensemble`."""
        modes = [MAP(network(k), 1.0, jit_compile=False).fit(X, Y) for k in range(2)]
        mixture = Mixture(modes)
        members = mixture.sample(5, seed=1)
        self.assertAllEqual(members, mixture.ensemble(5, seed=1).members)
        self.assertAllClose(members, [modes[k].theta for k in (0, 1, 0, 1, 0)], 1e-6)


if __name__ == "__main__":
    tf.test.main()

"""`MCMC` recovers known posteriors, goes on after a kill as if there had been none, and refuses."""

import contextlib
import functools
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import keras
import known_targets
import numpy as np
import scipy.stats
import tensorflow as tf
from absl.testing import parameterized
from two_replicas import strategy

import tfbdl
from tfbdl import priors
from tfbdl.inference import (
    HMC,
    MALA,
    MAMS,
    MCMC,
    NUTS,
    ChEES,
    Flip,
    Langevin,
    LogPosterior,
    NotFittedError,
    RandomWalk,
    SamplingError,
    ess,
)
from tfbdl.inference.mcmc.chains import Chains
from tfbdl.inference.mcmc.progress import Pace
from tfbdl.likelihoods import Bernoulli, ContinuousBernoulli, Normal, Poisson, StudentT

RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 2))
Y = X @ [[0.7], [-1.2]] + 0.5 + RNG.normal(0, 0.4, (20, 1))
PLAIN = functools.partial(MCMC, jit_compile=False)
"""Not compiled by XLA, which takes longer than these runs."""


@functools.cache
def linear(dtype: str = "float64") -> Any:
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    return LogPosterior(model, 1.5, X, Y, likelihood=Normal(0.4), dtype=dtype)


def exact() -> Any:
    """Mean and covariance of the posterior of `linear`."""
    features = np.concatenate([X, np.ones((20, 1))], axis=1)
    covariance = np.linalg.inv(features.T @ features / 0.4**2 + np.eye(3) / 1.5**2)
    return covariance @ features.T @ Y[:, 0] / 0.4**2, covariance


CONJUGATE = {
    "hmc": HMC(),
    "nuts": NUTS(),
    "chees": ChEES(),
    "mams": MAMS(),
    "mala": MALA(),
    "rwmh": RandomWalk(),
    "langevin": Langevin(step_size=0.1),
}


@functools.cache
def sampled(name: str) -> Any:
    thinning = {"rwmh": 8, "langevin": 4}.get(name, 1)
    sizes = {"num_warmup": 500, "num_samples": 150, "num_chains": 32, "thinning": thinning}
    return PLAIN(linear(), kernel=CONJUGATE[name], seed=1, **sizes).fit(verbose=0)


class MomentsTest(tf.test.TestCase):
    def assert_moments(self, theta: Any, mean: Any, covariance: Any) -> None:
        """The moments of samples (S, C, D), within 5 standard errors."""
        centred = theta - mean
        products = centred[..., :, None] * centred[..., None, :]
        for values, expected in ((theta, mean), (products, covariance)):
            size = ess(values, "mean")
            self.assertGreater(np.min(size), 100)
            error = values.std(axis=(0, 1)) / np.sqrt(size)
            self.assertLess(np.max(np.abs(values.mean(axis=(0, 1)) - expected) / error), 5)


class ConjugateTest(MomentsTest, parameterized.TestCase):
    @parameterized.parameters("hmc", "nuts", "mams", "mala", "rwmh", "chees")
    def test_posterior(self, name: str) -> None:
        mean, covariance = exact()
        mcmc = sampled(name)
        self.assert_moments(mcmc.theta, mean, covariance)
        self.assertAllClose(mcmc.draws.log_prob[3], linear()(tf.constant(mcmc.theta[3])), 1e-10)
        f = mcmc.summary(X).quantities["f(x)"]
        halves = 2 * mcmc.theta.shape[1]
        expected = halves / f.ess_bulk  # of R-hat^2 - 1, where all chains agree
        self.assertAllInRange((f.rhat**2 - 1) / expected, -np.inf, 2)

    @parameterized.parameters("hmc", "nuts", "mams", "mala", "rwmh")
    def test_step_size_reaches_its_target(self, name: str) -> None:
        mcmc = sampled(name)
        accepted = mcmc.draws.accept_prob.mean()
        self.assertBetween(accepted - CONJUGATE[name].aim, -0.06, 0.09)
        self.assertLen(np.unique(mcmc.step_size), 32)

    def test_unadjusted_langevin(self) -> None:
        """The discretised dynamics on N(mean, A^-1) have the covariance (A - h/2 A^2)^-1."""
        mean, covariance = exact()
        precision, h = np.linalg.inv(covariance), 0.1**2 / 2
        biased = np.linalg.inv(precision - h / 2 * precision @ precision)
        self.assertGreater(np.max(biased / covariance), 1.2)
        self.assert_moments(sampled("langevin").theta, mean, biased)

    def test_unadjusted_langevin_is_not_thrown_out_while_it_is_tuned(self) -> None:
        """Its first steps are ten times the scale of this density, whose tails hold nobody back."""
        scale, df = 0.01, 5.0

        def density(theta: Any) -> Any:
            return -(df + 1) / 2 * tf.reduce_sum(tf.math.log1p((theta / scale) ** 2 / df), axis=1)

        start = {"initial": np.zeros(20), "jitter": scale, "num_warmup": 300, "num_chains": 20}
        sizes = {"num_samples": 100, "thinning": 5, "seed": 3}
        mcmc = PLAIN(density, kernel="langevin", **sizes, **start).fit(verbose=0)
        self.assertBetween(mcmc.draws.accept_prob.mean(), 0.92, 0.98)
        median = np.median(np.abs(mcmc.theta) / scale, axis=(0, 2))
        self.assertAllClose(median, np.full(20, scipy.stats.t(df).ppf(0.75)), 0.2)

    def test_compiled_in_single_precision(self) -> None:
        mcmc = MCMC(linear("float32"), num_warmup=100, num_samples=100, num_chains=32)
        self.assertEqual(mcmc.fit(verbose=0).theta.dtype, np.float32)
        self.assert_moments(mcmc.theta.astype(np.float64), *exact())


class LikelihoodTest(MomentsTest, parameterized.TestCase):
    @parameterized.parameters(
        (Poisson(), RNG.poisson(2.0, (20, 1))),
        (StudentT(5.0, 0.6), Y),
        (ContinuousBernoulli(), RNG.uniform(size=(20, 1))),
        (Bernoulli(), RNG.integers(0, 2, (20, 1))),
    )
    def test_two_weights_by_integration(self, likelihood: Any, y: Any) -> None:
        """Slope and bias of a linear model, over a grid."""
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        target = LogPosterior(model, 1.0, X[:, :1], y, likelihood=likelihood, dtype="float64")
        axis = np.linspace(-4, 4, 161)
        grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
        p = scipy.special.softmax(tf.function(target)(tf.constant(grid)).numpy())
        mean = p @ grid
        covariance = np.einsum("n,ni,nj->ij", p, grid - mean, grid - mean)
        sizes = {"num_warmup": 200, "num_samples": 150, "num_chains": 16}
        mcmc = PLAIN(target, kernel=HMC(max_leapfrog_steps=30), seed=3, **sizes).fit(verbose=0)
        self.assert_moments(mcmc.theta, mean, covariance)


class FunctionTest(MomentsTest, parameterized.TestCase):
    """A target that is a function, of a correlated normal and a banana."""

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.start = {"initial": np.zeros(5), "jitter": 3.0, "num_warmup": 300, "seed": 2}
        cls.sampled = PLAIN(
            known_targets.both,
            kernel=HMC(mass_matrix="diagonal"),
            num_samples=200,
            num_chains=50,
            **cls.start,
        ).fit(verbose=0)

    def test_moments(self) -> None:
        theta = self.sampled.theta
        standard = known_targets.to_standard(theta.reshape(-1, 5)).reshape(theta.shape)
        self.assert_moments(standard, np.zeros(5), np.eye(5))

    def test_a_run_is_a_function_of_its_seed(self) -> None:
        runs = [
            PLAIN(
                known_targets.gaussian,
                kernel=MALA(step_size=0.5),
                initial=np.zeros(3),
                num_warmup=5,
                **sizes,
            )
            for sizes in (
                {"num_samples": 6, "num_chains": 3, "seed": 4},
                {"num_samples": 6, "num_chains": 3, "seed": 4},
                {"num_samples": 2, "num_chains": 3, "seed": 4, "thinning": 3},
                {"num_samples": 6, "num_chains": 3, "seed": 5},
            )
        ]
        one, same, thin, other = (mcmc.fit(verbose=0).draws for mcmc in runs)
        for actual, expected in zip(same, one, strict=True):
            self.assertAllEqual(actual, expected)
        self.assertAllEqual(thin.theta, one.theta[2::3])
        self.assertAllEqual(thin.log_prob, one.log_prob[2::3])
        mean = one.accept_prob.reshape(2, 3, 3).mean(axis=1)
        self.assertAllClose(thin.accept_prob, mean, 1e-12)
        self.assertAllEqual(thin.num_gradients, np.full((2, 3), 3))
        self.assertLen(np.unique(np.concatenate([one.theta[-1, :, 0], other.theta[-1, :, 0]])), 6)


class StrategyTest(MomentsTest):
    def test_chains_of_all_replicas(self) -> None:
        sizes = {"num_warmup": 150, "num_samples": 100, "num_chains": 32}
        mcmc = PLAIN(linear(), strategy=strategy(), **sizes).fit(verbose=0)
        self.assert_moments(mcmc.theta, *exact())
        for replica in (mcmc.theta[:, :16], mcmc.theta[:, 16:]):
            self.assert_moments(replica, *exact())
        with self.assertRaisesRegex(
            ValueError, "^num_chains=3 must be a multiple of the strategy's 2 replicas$"
        ):
            PLAIN(linear(), strategy=strategy(), num_chains=3)


class FlipTest(tf.test.TestCase):
    def test_binary_weights(self) -> None:
        """Against the enumeration of all 2^4 networks."""
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        rng = np.random.default_rng(1)
        x, y = rng.normal(size=(5, 2)), rng.normal(size=(5, 1))
        prior = {"kernel": priors.Bernoulli(0.3), "bias": priors.Bernoulli(0.6)}
        target = LogPosterior(model, prior, x, y, likelihood=Normal(1.0), dtype="float64")
        sizes = {"num_warmup": 50, "num_samples": 300, "num_chains": 20, "thinning": 3}
        self.assertEqual(Flip().for_priors(target.priors), Flip(values=(-1.0, 1.0)))
        theta = PLAIN(target, kernel="flip", **sizes).fit(verbose=0).theta
        states = np.array(np.meshgrid(*[[-1.0, 1.0]] * 3)).reshape(3, 8).T
        p = scipy.special.softmax(target(tf.constant(states)).numpy())
        is_state = np.all(theta[:, :, None] == states, axis=3).astype(float)
        error = np.sqrt(p * (1 - p) / ess(is_state, "mean"))
        self.assertAllClose(is_state.sum(axis=2), np.ones((300, 20)))
        self.assertLess(np.max(np.abs(is_state.mean(axis=(0, 1)) - p) / error), 5)


class PaceTest(tf.test.TestCase):
    def test_calls_grow_to_a_second(self) -> None:
        """Steps of 0.1 seconds: doubled up to ten, and back when they take longer."""
        pace, counts = Pace(100), []
        with mock.patch("time.monotonic", return_value=0.0) as clock:
            for cost in [0.1] * 8 + [0.5] * 3:
                counts.append(pace.next(left=50))
                clock.return_value += cost * counts[-1]
            self.assertEqual(pace.next(left=1), 1)
        self.assertAllEqual(counts, [1, 2, 4, 8, 10, 10, 10, 10, 10, 2, 2])


class EnsembleTest(tf.test.TestCase):
    def test_predictions_are_means_over_samples(self) -> None:
        mcmc = sampled("hmc")
        outputs = mcmc.outputs(X[:3])
        weights, bias = mcmc.theta[..., :2], mcmc.theta[..., 2:]
        self.assertAllClose(outputs[..., 0], weights @ X[:3].T + bias, 1e-6, 1e-6)
        ensemble = mcmc.ensemble()
        prediction = tfbdl.predict(ensemble, X[:3], num_samples=32 * 150)
        self.assertAllClose(prediction.mean, outputs.mean(axis=(0, 1)), 1e-4, 1e-5)
        self.assertAllClose(prediction.epistemic_stddev, outputs.std(axis=(0, 1)), 1e-3, 1e-5)
        self.assertAllClose(prediction.aleatoric_stddev, np.full((3, 1), 0.4), 1e-6)
        with tempfile.TemporaryDirectory() as folder:
            ensemble.save(Path(folder) / "m.keras")
            loaded = keras.models.load_model(Path(folder) / "m.keras")
        few, same = (tfbdl.predict(m, X[:3], num_samples=50) for m in (ensemble, loaded))
        self.assertAllClose(same.mean, few.mean, 1e-6)
        self.assertAllClose(few.mean, prediction.mean, 0, 0.15)

    def test_refusals(self) -> None:
        mcmc = PLAIN(linear(), num_chains=1)
        for name, ask in (
            ("ensemble", mcmc.ensemble),
            ("sample", mcmc.sample),
            ("summary", mcmc.summary),
            ("to_arviz", mcmc.to_arviz),
            ("outputs", lambda: mcmc.outputs(X)),
            ("theta", lambda: mcmc.theta),
            ("draws", lambda: mcmc.draws),
            ("step_size", lambda: mcmc.step_size),
        ):
            message = f"^{name} needs a fitted MCMC; call fit first$"
            with self.assertRaisesRegex(NotFittedError, message):
                ask()
        mcmc = StuckTest().run_of(RandomWalk(step_size=0.5), num_samples=5)
        for ask in (mcmc.ensemble, lambda: mcmc.outputs(X), lambda: mcmc.summary(X)):
            with self.assertRaisesRegex(ValueError, "^model is a log density, which has no netwo"):
                ask()
        self.assertEqual(mcmc.sample().shape, (10, 3))
        self.assertEqual(mcmc.sample(11).shape, (10, 3))
        for number in (0, 2.5):
            with self.assertRaisesRegex(ValueError, f"^num_samples={number} "):
                mcmc.sample(number)


class SummaryTest(tf.test.TestCase):
    def test_of_weights_and_functions(self) -> None:
        mcmc = sampled("hmc")
        summary = mcmc.summary(X[:3])
        self.assertLen(summary.quantities, 3)
        kernel, bias, f = summary.quantities.values()
        theta = mcmc.theta.reshape(-1, 3)
        self.assertAllClose(kernel.mean[:, 0], theta[:, :2].mean(axis=0), 1e-10)
        self.assertAllClose(bias.stddev, theta[:, 2:].std(axis=0, ddof=1), 1e-10)
        self.assertAllClose(bias.high, np.quantile(theta[:, 2:], 0.95, axis=0), 1e-10)
        self.assertAllClose(f.ess_bulk, ess(mcmc.outputs(X[:3])), 1e-10)
        self.assertEqual(f.rhat.shape, (3, 1))
        self.assertAllClose(summary.accept_prob, mcmc.draws.accept_prob.mean(axis=0))
        self.assertEqual(summary.num_gradients, mcmc.draws.num_gradients.sum())
        lines = str(summary).splitlines()
        self.assertEqual(lines[0], repr(mcmc))
        self.assertRegex(lines[1], "mean +sd +5 % +95 % +ess bulk +ess tail +r hat")
        self.assertStartsWith(lines[2].strip(), next(iter(summary.quantities)) + "[0,0] ")
        self.assertLen(lines, 2 + 3 + 3 + 3)

    def test_divergences_are_told(self) -> None:
        """Steps beyond 2 sd are unstable; a trajectory of one or two may still be accepted."""
        kernel = HMC(step_size=2.2, trajectory_length=4.4, jitter=0.95)
        mcmc = PLAIN(
            lambda theta: -0.5 * tf.reduce_sum(theta**2, axis=1),
            kernel=kernel,
            initial=np.full(2, 0.5),
            num_warmup=0,
            num_samples=200,
        )
        summary = mcmc.fit(verbose=0).summary()
        self.assertBetween(summary.num_divergent, 10, 790)
        self.assertEqual(summary.num_divergent, mcmc.draws.diverging.sum())
        self.assertRegex(str(summary), f"{summary.num_divergent} of 800 samples diverged: take sm")


class StoppedError(Exception):
    """Raised in place of a run."""


def stopped_at_the_start(mcmc: Any) -> Any:
    """What a run is about to be given: the chains, and where they start."""
    given = []

    def stop(chains: Any, position: Any, storage: Any, progress: Any) -> None:
        given.append((chains, position))
        raise StoppedError

    with mock.patch.object(Chains, "to_the_end", stop), contextlib.suppress(StoppedError):
        mcmc.fit(verbose=0)
    return given[0]


def start_of(mcmc: Any) -> Any:
    return stopped_at_the_start(mcmc)[1].state


def kernel_of(mcmc: Any) -> Any:
    return stopped_at_the_start(mcmc)[0]._stepper.kernel


class StartTest(tf.test.TestCase, parameterized.TestCase):
    def test_where_chains_start(self) -> None:
        sizes = {"num_chains": 80, "num_warmup": 0}
        drawn = start_of(PLAIN(linear(), kernel="rwmh", **sizes)).theta
        self.assertGreater(known_targets.p_values(drawn / 1.5).min(), 1e-4)
        at_model = PLAIN(linear(), kernel="rwmh", initial="model", jitter=0.1, **sizes)
        noise = (start_of(at_model).theta - linear().theta) / 0.1
        self.assertGreater(known_targets.p_values(noise).min(), 1e-4)
        points = np.random.default_rng(0).normal(size=(80, 3))
        given = start_of(PLAIN(linear(), kernel="rwmh", initial=points, **sizes))
        self.assertAllEqual(given.theta, points)
        self.assertAllClose(given.log_prob, linear()(tf.constant(points)), 1e-10)

    def test_trajectories_fit_the_prior(self) -> None:
        for kernel, length in (
            (HMC(), np.pi / 2 * 1.5),
            (HMC(mass_matrix="diagonal"), np.pi / 2),
            (HMC(trajectory_length=0.3), 0.3),
        ):
            used = kernel_of(PLAIN(linear(), kernel=kernel))
            self.assertAllClose(used.trajectory_length, length)

    @parameterized.parameters(
        ({"num_warmup": -1}, "^num_warmup=-1 must be at least 0$"),
        ({"num_samples": 0}, "^num_samples=0 must be a positive integer$"),
        ({"thinning": 0}, "^thinning=0 must be a positive integer$"),
        ({"jitter": -1.0}, "^jitter=-1.0 must be at least 0$"),
        ({"kernel": "gibbs"}, "^kernel='gibbs' is unknown; choose one of"),
        ({"initial": "zero"}, "^initial='zero' is unknown; choose 'prior' or 'model', or points$"),
        ({"initial": np.zeros((2, 3))}, "^initial has shape .2, 3.; give .D,., or .4, D. for"),
        ({"initial": np.zeros(2)}, "^initial has 2 weights; the target has 3$"),
        ({"kernel": "flip"}, "^kernel='flip' needs the prior Bernoulli for all weights, not Norm"),
        (
            {"model": known_targets.gaussian},
            "^initial='prior': the target is a function; give points",
        ),
        (
            {"model": known_targets.gaussian, "kernel": "flip"},
            "^kernel='flip' needs the prior Bernoulli for all .* give kernel=Flip.values=",
        ),
        (
            {"initial": [0.0, 1e200, 0.0]},
            "^initial: chain 0 starts at a log density of -?(inf|nan)",
        ),
        ({"initial": [0.0, np.inf, 0.0]}, "^initial is not finite in example 1; remove it"),
    )
    def test_refusals(self, wrong: Any, message: str) -> None:
        with self.assertRaisesRegex(ValueError, message):
            PLAIN(**{"model": linear(), **wrong}).fit(verbose=0)

    def test_discrete_weights_do_not_move_by_gradients(self) -> None:
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        target = LogPosterior(model, priors.Bernoulli(), X, Y, likelihood=Normal(1.0))
        with self.assertRaisesRegex(ValueError, "^kernel=NUTS moves .* take kernel='flip'$"):
            PLAIN(target).fit(verbose=0)

    def test_a_gradient_that_is_not_finite(self) -> None:
        with self.assertRaisesRegex(ValueError, "^initial: chain 1 starts at a gradient of "):
            PLAIN(
                lambda theta: -tf.reduce_sum(tf.sqrt(theta), axis=1),
                kernel="mala",
                initial=[[1.0], [0.0]],
                num_chains=2,
            ).fit(verbose=0)


class StuckTest(tf.test.TestCase):
    def run_of(self, kernel: Any, num_samples: int = 120) -> Any:
        start = {"initial": np.ones(3), "num_warmup": 0, "num_chains": 2}
        chains = PLAIN(known_targets.gaussian, kernel=kernel, num_samples=num_samples, **start)
        return chains.fit(verbose=0)

    def test_all_proposals_rejected(self) -> None:
        with self.assertRaisesRegex(
            SamplingError,
            "^chain 0 rejected all of [0-9]+ proposals at step size 1e.06; take a smaller "
            "step_size, or a longer warm-up that finds it$",
        ):
            self.run_of(RandomWalk(step_size=1e6))

    def test_out_of_the_finite_numbers(self) -> None:
        with self.assertRaisesRegex(
            SamplingError, "^chain 0 left the finite numbers in its first [0-9]+ steps; take a sm"
        ):
            self.run_of(Langevin(step_size=30.0))

    def test_too_few_samples_for_diagnostics(self) -> None:
        mcmc = self.run_of(RandomWalk(step_size=0.5), num_samples=3)
        with self.assertRaisesRegex(
            ValueError, "^num_samples=3 is too few for diagnostics; take at least 4$"
        ):
            mcmc.summary()


if __name__ == "__main__":
    tf.test.main()

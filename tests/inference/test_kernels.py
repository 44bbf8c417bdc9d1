"""Each kernel leaves its density as it is: chains that start from it are still from it."""

from typing import Any

import known_targets
import numpy as np
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp
from absl.testing import parameterized

from tfbdl.inference import HMC, MALA, MAMS, NUTS, ChEES, Flip, Langevin, RandomWalk
from tfbdl.inference.density import value_and_gradient
from tfbdl.inference.mcmc import kernels
from tfbdl.inference.mcmc.kernels.base import one_step

NUM = 4000
ADJUSTED = {
    "hmc": (HMC(trajectory_length=1.5), 0.4),
    "nuts": (NUTS(max_tree_depth=4), 0.4),
    "chees": (ChEES(trajectory_length=3.0), 0.4),
    "mams": (MAMS(trajectory_length=1.5), 0.5),
    "mala": (MALA(), 0.5),
    "rwmh": (RandomWalk(), 0.5),
}
UNLIKELY = 1e-4

SCALES = tf.Variable([1.0, 1.0], dtype=tf.float64)


def normal(theta: Any) -> Any:
    """N(0, SCALES^2) of two weights."""
    return -0.5 * tf.reduce_sum((theta / SCALES) ** 2, axis=1)


def standard_draws(num: Any, size: Any) -> Any:
    return np.random.default_rng(0).normal(size=(num, size))


class StationaryTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(*ADJUSTED)
    def test_draws_stay_draws(self, name: str) -> None:
        kernel, step_size = ADJUSTED[name]
        draws = known_targets.from_standard(standard_draws(NUM, 5))
        scale = [1.0, 1.4, 0.5, 1.0, 0.5]
        state, info = known_targets.walk(
            kernel, known_targets.both, draws, 7, step_size=step_size, scale=scale
        )
        self.assertBetween(info.accept_prob.mean(), 0.2, 0.98)
        moved = np.any(state.theta != draws, axis=1)
        self.assertGreater(moved.mean(), 0.9)
        p = known_targets.p_values(known_targets.to_standard(state.theta))
        self.assertGreater(p.min() * len(p), UNLIKELY)
        value, gradient = value_and_gradient(known_targets.both, tf.constant(state.theta))
        self.assertAllClose(state.log_prob, value, 1e-10)
        if kernel.uses_gradients:
            self.assertAllClose(state.gradient, gradient, 1e-10, 1e-10)

    @parameterized.parameters(*ADJUSTED)
    def test_scales_are_a_change_of_units(self, name: str) -> None:
        """Metric s on N(0, s^2) does what no metric does on N(0, 1)."""
        kernel, step_size = ADJUSTED[name]
        z = standard_draws(20, 2)
        s = np.array([0.1, 3.0])
        plain, info = known_targets.walk(kernel, normal, z, 5, step_size=step_size)
        SCALES.assign(s)
        scaled, same = known_targets.walk(kernel, normal, z * s, 5, step_size=step_size, scale=s)
        SCALES.assign([1.0, 1.0])
        self.assertAllClose(scaled.theta / s, plain.theta, 1e-9, 1e-9)
        self.assertAllClose(same.accept_prob, info.accept_prob, 1e-9)
        self.assertLen(np.unique(plain.theta, axis=0), 20)

    @parameterized.parameters("hmc", "nuts", "chees")
    def test_divergence(self, name: str) -> None:
        draws = known_targets.from_standard(standard_draws(30, 5))
        kernel, _ = ADJUSTED[name]
        state, info = known_targets.walk(kernel, known_targets.both, draws, 1, step_size=50.0)
        self.assertAllEqual(info.diverging, [True] * 30)
        self.assertAllEqual(info.accept_prob, np.zeros(30))
        self.assertAllEqual(state.theta, draws)

    @parameterized.parameters(*ADJUSTED, "langevin")
    def test_the_density_is_asked_as_often_as_reported(self, name: str) -> None:
        """Nothing is computed twice: once at the start, then once a gradient of the slowest."""
        kernel, step_size = {**ADJUSTED, "langevin": (Langevin(), 0.3)}[name]
        asked = []

        def counted(theta: Any) -> Any:
            def look(theta: Any) -> Any:
                asked.append(len(theta))
                return theta

            def through(theta: Any) -> Any:
                return tf.ensure_shape(tf.numpy_function(look, [theta], theta.dtype), theta.shape)

            return normal(tf.grad_pass_through(through)(theta))

        _, info = known_targets.walk(kernel, counted, standard_draws(6, 2), 1, step_size=step_size)
        steps = info.num_gradients.max() if kernel.uses_gradients else 1
        self.assertAllEqual(info.num_gradients.max(), steps if kernel.uses_gradients else 0)
        self.assertAllEqual(asked, [6] * (1 + steps))


class HMCTest(tf.test.TestCase):
    """The trajectories of `tfp.mcmc.HamiltonianMonteCarlo`, given our steps and scales."""

    STEP = tf.constant([0.05, 0.03], tf.float64)
    START = HMC().init(known_targets.banana, tf.constant(standard_draws(6, 2)), seed=[0, 0])

    def go(self, steps: Any, step: Any) -> Any:
        kernel = tfp.mcmc.HamiltonianMonteCarlo(known_targets.banana, step, steps)
        return one_step(kernel, self.START, tf.constant([1, 2]))[1]

    def test_reversible(self) -> None:
        there = self.go(40, self.STEP)
        self.assertGreater(np.abs(there.proposed_state - self.START.theta).max(), 0.5)
        integrator = tfp.mcmc.internal.leapfrog_integrator.SimpleLeapfrogIntegrator(
            known_targets.banana, [self.STEP], num_steps=40
        )
        (p,) = there.proposed_results.final_momentum
        back, theta, _, _ = integrator([-p], [there.proposed_state])
        self.assertAllClose(theta[0], self.START.theta, 1e-12, 1e-12)
        self.assertAllClose(back[0], -there.proposed_results.initial_momentum[0], 1e-12, 1e-12)

    def test_energy_error_falls_with_the_square_of_the_step(self) -> None:
        errors = []
        for n in (1, 2, 4):
            results = self.go(25 * n, self.STEP / n)
            proposed = results.proposed_results
            start, end = proposed.initial_momentum[0], proposed.final_momentum[0]
            kinetic = 0.5 * np.sum(end.numpy() ** 2 - start.numpy() ** 2, axis=1)
            potential = self.START.log_prob - known_targets.banana(results.proposed_state)
            self.assertAllClose(-results.log_accept_ratio, kinetic + potential, 1e-9, 1e-12)
            errors.append(kinetic + potential.numpy())
        self.assertAllClose(errors[0] / errors[1], np.full(6, 4.0), 0.02)
        self.assertAllClose(errors[1] / errors[2], np.full(6, 4.0), 0.005)

    def test_number_of_leapfrog_steps(self) -> None:
        for length, step, expected in (
            (1.0, [0.3, 0.5], 4),
            (0.5, [3.0, 2.0], 1),
            (100.0, [0.01, 9.0], 50),
        ):
            kernel = HMC(trajectory_length=length, jitter=0.0, max_leapfrog_steps=50)
            seed = tf.constant([0, 1])
            self.assertAllEqual(kernel.num_leapfrog_steps(seed, tf.constant(step)), expected)

    def test_lengths_are_uniform(self) -> None:
        kernel = HMC(trajectory_length=10.0, jitter=0.5)
        seeds = tf.constant([[i, 7] for i in range(500)])
        one = tf.constant([1.0])
        number = tf.function(lambda seed: kernel.num_leapfrog_steps(seed, one), autograph=False)
        steps = [number(seed).numpy() for seed in seeds]
        counts = np.bincount(steps, minlength=16)
        self.assertEqual(counts[:6].sum(), 0)
        self.assertGreater(scipy.stats.chisquare(counts[6:16]).pvalue, UNLIKELY)

    def test_one_length_never_leaves_a_normal_of_that_period(self) -> None:
        """Why lengths are jittered: after 2 pi every trajectory on N(0, 1) is where it began."""
        start = standard_draws(500, 2) + 3.0
        length = 2 * np.pi
        for jitter, stays in ((0.0, True), (0.5, False)):
            kernel = HMC(trajectory_length=length, jitter=jitter)
            state, _ = known_targets.walk(kernel, normal, start, 10, step_size=length / 200)
            self.assertEqual(np.abs(state.theta - start).max() < 0.1, stays)


class LangevinTest(tf.test.TestCase):
    VARIANCES = np.array([1.0, 0.3])
    STEP = 0.8

    def setUp(self) -> None:
        super().setUp()
        SCALES.assign(np.sqrt(self.VARIANCES))
        self.addCleanup(SCALES.assign, [1.0, 1.0])

    def test_stationary_covariance_of_the_discretised_dynamics(self) -> None:
        """theta' = (1 - h / s^2) theta + sqrt(2 h) xi, h = step^2 / 2; not the density."""
        h = self.STEP**2 / 2
        contraction = 1 - h / self.VARIANCES
        biased = 2 * h / (1 - contraction**2)
        self.assertAllClose(biased, self.VARIANCES / (1 - self.STEP**2 / 4 / self.VARIANCES))
        far = np.full((NUM, 2), 5.0)
        for start, steps in ((standard_draws(NUM, 2) * np.sqrt(biased), 20), (far, 60)):
            state, _ = known_targets.walk(Langevin(), normal, start, steps, step_size=self.STEP)
            self.assertGreater(
                known_targets.p_values(state.theta / np.sqrt(biased)).min(), UNLIKELY
            )
            wrong = state.theta / np.sqrt(self.VARIANCES)
            self.assertLess(known_targets.p_values(wrong).min(), UNLIKELY)

    def test_proposals_and_acceptance_are_those_of_mala(self) -> None:
        """Against the ratio of proposal densities."""
        start = standard_draws(50, 2)
        proposal, info = known_targets.walk(Langevin(), normal, start, 1, step_size=self.STEP)
        h = self.STEP**2 / 2

        def log_q(to: Any, origin: Any) -> Any:
            mean = origin - h * origin / self.VARIANCES
            return scipy.stats.norm.logpdf(to, mean, np.sqrt(2 * h)).sum(axis=1)

        ratio = (normal(proposal.theta) - normal(start)).numpy()
        ratio += log_q(start, proposal.theta) - log_q(proposal.theta, start)
        self.assertAllClose(info.accept_prob, np.exp(np.minimum(ratio, 0)), 1e-10)
        _, adjusted = known_targets.walk(MALA(), normal, start, 1, step_size=self.STEP)
        self.assertBetween(adjusted.accept_prob.mean(), 0.2, 0.99)

    def test_a_proposal_out_of_the_finite_numbers_counts_as_rejected(self) -> None:
        state, info = known_targets.walk(
            Langevin(), normal, np.array([[1e200, 0.0]]), 1, step_size=self.STEP
        )
        self.assertFalse(np.isfinite(state.log_prob[0]))
        self.assertAllEqual(info.accept_prob, [0.0])


class FlipTest(tf.test.TestCase, parameterized.TestCase):
    SCORES = np.array([0.5, -1.0, 0.3])

    @classmethod
    def density(cls, w: Any) -> Any:
        """Binary weights with an interaction of all three."""
        scores = tf.constant(cls.SCORES, w.dtype)
        return tf.reduce_sum(w * scores, axis=1) + 0.7 * tf.reduce_prod(w, axis=1)

    @parameterized.parameters(1, 2)
    def test_draws_stay_draws(self, num_flips: Any) -> None:
        states = np.array(np.meshgrid(*[[-1.0, 1.0]] * 3)).reshape(3, 8).T
        p = np.exp(self.density(tf.constant(states)).numpy())
        p /= p.sum()
        draws = states[np.random.default_rng(0).choice(8, NUM, p=p)]
        kernel = Flip(num_flips=num_flips, values=(-1.0, 1.0))
        state, info = known_targets.walk(kernel, self.density, draws, 9)
        self.assertAllEqual(info.num_gradients, np.zeros(NUM))
        moved = np.any(state.theta != draws, axis=1)
        self.assertGreater(moved.mean(), 0.5)
        values = np.array([np.all(state.theta == s, axis=1).sum() for s in states])
        self.assertEqual(values.sum(), NUM)
        self.assertGreater(scipy.stats.chisquare(values, p * NUM).pvalue, UNLIKELY)

    def test_every_weight_turns_as_often(self) -> None:
        kernel = Flip(values=(0.0, 2.0))
        state, _ = known_targets.walk(kernel, lambda w: 0.0 * w[:, 0], np.zeros((NUM, 5)), 1)
        self.assertAllEqual(state.theta.sum(axis=1), np.full(NUM, 2.0))
        turned = (state.theta > 0).sum(axis=0)
        self.assertGreater(scipy.stats.chisquare(turned).pvalue, UNLIKELY)


class SettingsTest(tf.test.TestCase, parameterized.TestCase):
    def test_names(self) -> None:
        self.assertEqual(kernels.get("nuts"), NUTS())
        self.assertIs(kernels.get(kernel := HMC(jitter=0.1)), kernel)
        with self.assertRaisesRegex(
            ValueError, "^kernel='gibbs' is unknown; choose one of: (.*, )?chees, .*nuts"
        ):
            kernels.get("gibbs")

    @parameterized.parameters(
        (HMC, "step_size", 0.0),
        (HMC, "step_size", float("nan")),
        (HMC, "trajectory_length", -1.0),
        (HMC, "jitter", 1.0),
        (HMC, "max_leapfrog_steps", 0),
        (NUTS, "target_accept", 1.0),
        (NUTS, "max_tree_depth", 2.5),
        (MALA, "mass_matrix", "dense"),
        (Flip, "num_flips", 0),
        (Flip, "values", (1.0, 1.0)),
    )
    def test_refusals(self, kernel: Any, name: str, value: Any) -> None:
        with self.assertRaisesRegex(ValueError, f"^{name}="):
            kernel(**{name: value})

    def test_no_gradient(self) -> None:
        with self.assertRaisesRegex(ValueError, "^target has no gradient; use kernel='rwmh'"):
            HMC().init(lambda theta: tf.stop_gradient(theta[:, 0]), tf.zeros([2, 1]), seed=[0, 0])


if __name__ == "__main__":
    tf.test.main()

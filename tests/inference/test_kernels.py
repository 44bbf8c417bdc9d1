"""Each kernel leaves its density as it is: chains that start from it are still from it."""

import chains
import numpy as np
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp
from absl.testing import parameterized

from tfbdl.inference import HMC, MALA, NUTS, Flip, Langevin, RandomWalk, kernels
from tfbdl.inference.kernels.hmc import energy_error, leapfrog, trajectory
from tfbdl.inference.kernels.noise import Noise

NUM = 4000
ADJUSTED = {
    "hmc": (HMC(trajectory_length=1.5), 0.4),
    "hmc_of_one_length": (HMC(trajectory_length=1.5, jitter=0.0), 0.5),
    "nuts": (NUTS(), 0.4),
    "nuts_cut_short": (NUTS(max_tree_depth=2), 0.3),
    "mala": (MALA(), 0.7),
    "rwmh": (RandomWalk(), 0.8),
}
UNLIKELY = 1e-4


class StationaryTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.product(name=list(ADJUSTED), density=("gaussian", "banana"))
    def test_draws_stay_draws(self, name, density):
        kernel, step_size = ADJUSTED[name]
        draws = getattr(chains, f"{density}_draws")(np.random.default_rng(0), NUM)
        standard = chains.whitened if density == "gaussian" else chains.straightened
        state, info = chains.walk(kernel, getattr(chains, density), draws, 7, step_size=step_size)
        self.assertBetween(info.accept_prob.mean(), 0.2, 0.99)
        moved = np.any(state.theta != draws, axis=1)
        self.assertGreater(moved.mean(), 0.9)
        p = chains.p_values(standard(state.theta))
        self.assertGreater(p.min() * len(p), UNLIKELY)

    def test_the_test_sees_what_is_wrong(self):
        """Unadjusted, the same step is not stationary."""
        draws = chains.gaussian_draws(np.random.default_rng(0), NUM)
        state, _ = chains.walk(Langevin(), chains.gaussian, draws, 30, step_size=0.7)
        self.assertLess(chains.p_values(chains.whitened(state.theta)).min(), UNLIKELY)

    @parameterized.parameters(*ADJUSTED)
    def test_scales_are_a_change_of_units(self, name):
        """Metric s on N(0, s^2) does what no metric does on N(0, 1)."""
        kernel, step_size = ADJUSTED[name]
        s = np.array([0.1, 3.0])
        z = np.random.default_rng(1).normal(size=(20, 2))

        def of_scale(s):
            return lambda theta: -0.5 * tf.reduce_sum((theta / s) ** 2, axis=1)

        plain, info = chains.walk(kernel, of_scale(1.0), z, 5, step_size=step_size)
        scaled, same = chains.walk(kernel, of_scale(s), z * s, 5, step_size=step_size, scale=s)
        self.assertAllClose(scaled.theta / s, plain.theta, 1e-9, 1e-9)
        self.assertAllClose(same.accept_prob, info.accept_prob, 1e-9)

    @parameterized.parameters(*ADJUSTED, "langevin", "flip")
    def test_a_chain_is_the_same_beside_others(self, name):
        kernel, step_size = {
            **ADJUSTED,
            "langevin": (Langevin(), 0.3),
            "flip": (Flip(values=(-1.0, 1.0)), 1.0),
        }[name]
        draws = np.sign(chains.gaussian_draws(np.random.default_rng(0), 5))
        all_five, _ = chains.walk(kernel, chains.gaussian, draws, 6, step_size=step_size)
        two, _ = chains.walk(kernel, chains.gaussian, draws[:2], 6, step_size=step_size)
        self.assertAllClose(two.theta, all_five.theta[:2], 1e-10)
        self.assertGreater(len(np.unique(all_five.theta, axis=0)), 1)


class LeapfrogTest(tf.test.TestCase):
    rng = np.random.default_rng(0)
    theta = tf.constant(rng.normal(size=(6, 2)))
    z = tf.constant(rng.normal(size=(6, 2)))

    def go(self, z, steps, step, state=None):
        state = HMC().init(chains.banana, self.theta) if state is None else state
        steps = tf.fill([6], steps) if np.ndim(steps) == 0 else tf.constant(steps)
        return trajectory(chains.banana, state, z, tf.constant([[step]], tf.float64), steps)

    def test_reversible(self):
        state, z = self.go(self.z, 40, 0.05)
        self.assertGreater(np.abs(state.theta - self.theta).max(), 0.5)
        back, z = self.go(-z, 40, 0.05, state)
        self.assertAllClose(back.theta, self.theta, 1e-12, 1e-12)
        self.assertAllClose(z, -self.z, 1e-12, 1e-12)

    def test_energy_error_falls_with_the_square_of_the_step(self):
        start = HMC().init(chains.banana, self.theta)
        errors = []
        for steps in (50, 100, 200):
            state, z = self.go(self.z, steps, 1.0 / steps)
            kinetic = 0.5 * np.sum(z.numpy() ** 2 - self.z.numpy() ** 2, axis=1)
            by_hand = kinetic - (chains.banana(state.theta) - chains.banana(self.theta)).numpy()
            error = energy_error(start, self.z, state, z).numpy()
            self.assertAllClose(error, by_hand, 1e-9, 1e-12)
            errors.append(error)
        self.assertAllClose(errors[0] / errors[1], np.full(6, 4.0), 0.02)
        self.assertAllClose(errors[1] / errors[2], np.full(6, 4.0), 0.005)

    def test_volume_is_kept(self):
        """The Jacobian of a step has determinant 1."""

        def flow(point):
            theta, z = point[None, :2], point[None, 2:]
            state = HMC().init(chains.banana, theta)
            state, z = leapfrog(chains.banana, state, z, tf.constant(0.3, tf.float64))
            return tf.concat([state.theta[0], z[0]], 0)

        point = tf.constant([0.3, -0.2, 0.8, 1.1], tf.float64)
        h = 1e-5
        columns = [(flow(point + h * e) - flow(point - h * e)) / (2 * h) for e in np.eye(4)]
        self.assertAllClose(np.linalg.det(np.stack(columns)), 1.0, 1e-8)

    def test_as_in_tensorflow_probability(self):
        integrator = tfp.mcmc.internal.leapfrog_integrator.SimpleLeapfrogIntegrator(
            chains.banana, [tf.constant(0.1, tf.float64)], num_steps=13
        )
        z, theta, log_prob, _ = integrator([self.z], [self.theta])
        state, end = self.go(self.z, 13, 0.1)
        self.assertAllClose(state.theta, theta[0], 1e-13)
        self.assertAllClose(end, z[0], 1e-13)
        self.assertAllClose(state.log_prob, log_prob, 1e-13)

    def test_chains_stop_where_theirs_ends(self):
        together, z = self.go(self.z, [1, 2, 3, 5, 8, 13], 0.1)
        for chain, steps in enumerate([1, 2, 3, 5, 8, 13]):
            alone, z_alone = self.go(self.z, steps, 0.1)
            self.assertAllEqual(together.theta[chain], alone.theta[chain])
            self.assertAllEqual(z[chain], z_alone[chain])


class HMCTest(tf.test.TestCase):
    def test_number_of_leapfrog_steps(self):
        theta = np.random.default_rng(0).normal(size=(4, 2))
        for length, step, expected in ((1.0, 0.3, 4), (0.5, 2.0, 1), (100.0, 0.01, 50)):
            kernel = HMC(trajectory_length=length, jitter=0.0, max_leapfrog_steps=50)
            _, info = chains.walk(kernel, chains.banana, theta, 1, step_size=step)
            self.assertAllEqual(info.num_gradients, [expected] * 4)

    def test_lengths_are_uniform_and_shared(self):
        kernel = HMC(trajectory_length=10.0, jitter=0.5, step_size=1.0)
        steps = []
        for i in range(400):
            uniform = Noise.at(0, i, tf.range(3)).fold_in(1).shared_uniform(tf.float64)
            steps.append(kernel._num_steps(uniform, tf.ones([3], tf.float64)).numpy())
        steps = np.array(steps)
        self.assertAllEqual(steps[:, 0], steps[:, 2])
        counts = np.bincount(steps[:, 0], minlength=16)
        self.assertEqual(counts[:6].sum(), 0)
        self.assertGreater(scipy.stats.chisquare(counts[6:16]).pvalue, UNLIKELY)

    def test_one_length_never_leaves_a_normal_of_that_period(self):
        """Why lengths are jittered: after 2 pi every trajectory on N(0, 1) is where it began."""
        start = np.random.default_rng(0).normal(size=(500, 1)) + 3.0

        def normal(theta):
            return -0.5 * theta[:, 0] ** 2

        length = 2 * np.pi
        for jitter, stays in ((0.0, True), (0.5, False)):
            kernel = HMC(trajectory_length=length, jitter=jitter)
            state, _ = chains.walk(kernel, normal, start, 10, step_size=length / 200)
            self.assertEqual(np.abs(state.theta - start).max() < 0.1, stays)

    def test_divergence(self):
        theta = np.random.default_rng(0).normal(size=(3, 2))
        kernel = HMC(trajectory_length=50.0)
        state, info = chains.walk(kernel, chains.banana, theta, 1, step_size=5.0)
        self.assertAllEqual(info.diverging, [True] * 3)
        self.assertAllEqual(info.accept_prob, np.zeros(3))
        self.assertAllEqual(state.theta, theta)


class LangevinTest(tf.test.TestCase):
    VARIANCES = np.array([1.0, 0.3])
    STEP = 0.8

    def density(self, theta):
        return -0.5 * tf.reduce_sum(theta**2 / tf.constant(self.VARIANCES, theta.dtype), axis=1)

    def test_stationary_covariance_of_the_discretised_dynamics(self):
        """theta' = (1 - h / s^2) theta + sqrt(2 h) xi, with h = step^2 / 2."""
        h = self.STEP**2 / 2
        contraction = 1 - h / self.VARIANCES
        biased = 2 * h / (1 - contraction**2)
        self.assertAllClose(biased, self.VARIANCES / (1 - self.STEP**2 / 4 / self.VARIANCES))
        start = np.random.default_rng(0).normal(size=(NUM, 2)) * np.sqrt(biased)
        state, _ = chains.walk(Langevin(), self.density, start, 20, step_size=self.STEP)
        self.assertGreater(chains.p_values(state.theta / np.sqrt(biased)).min(), UNLIKELY)
        self.assertLess(chains.p_values(state.theta / np.sqrt(self.VARIANCES)).min(), UNLIKELY)

    def test_it_forgets_its_start(self):
        start = np.full((NUM, 2), 5.0)
        state, _ = chains.walk(Langevin(), self.density, start, 60, step_size=self.STEP)
        biased = self.VARIANCES / (1 - self.STEP**2 / 4 / self.VARIANCES)
        self.assertGreater(chains.p_values(state.theta / np.sqrt(biased)).min(), UNLIKELY)

    def test_proposals_and_acceptance_are_those_of_mala(self):
        """Against TensorFlow Probability's ratio of proposal densities."""
        start = np.random.default_rng(0).normal(size=(50, 2))
        proposal, info = chains.walk(Langevin(), self.density, start, 1, step_size=self.STEP)
        h = self.STEP**2 / 2

        def log_q(to, origin):
            mean = origin - h * origin / self.VARIANCES
            return scipy.stats.norm.logpdf(to, mean, np.sqrt(2 * h)).sum(axis=1)

        ratio = (self.density(proposal.theta) - self.density(start)).numpy()
        ratio += log_q(start, proposal.theta) - log_q(proposal.theta, start)
        self.assertAllClose(info.accept_prob, np.exp(np.minimum(ratio, 0)), 1e-10)
        adjusted, same = chains.walk(MALA(), self.density, start, 1, step_size=self.STEP)
        self.assertAllClose(same.accept_prob, info.accept_prob, 1e-12)
        accepted = np.all(adjusted.theta == proposal.theta, axis=1)
        self.assertAllEqual(accepted | np.all(adjusted.theta == start, axis=1), [True] * 50)
        self.assertBetween(accepted.mean(), 0.2, 0.99)


class FlipTest(tf.test.TestCase, parameterized.TestCase):
    SCORES = np.array([0.5, -1.0, 0.3])

    def density(self, w):
        """Binary weights with an interaction of all three."""
        scores = tf.constant(self.SCORES, w.dtype)
        return tf.reduce_sum(w * scores, axis=1) + 0.7 * tf.reduce_prod(w, axis=1)

    @parameterized.parameters(1, 2)
    def test_draws_stay_draws(self, num_flips):
        states = np.array(np.meshgrid(*[[-1.0, 1.0]] * 3)).reshape(3, 8).T
        p = np.exp(self.density(tf.constant(states)).numpy())
        p /= p.sum()
        draws = states[np.random.default_rng(0).choice(8, NUM, p=p)]
        kernel = Flip(num_flips=num_flips, values=(-1.0, 1.0))
        state, _ = chains.walk(kernel, self.density, draws, 9, step_size=1.0)
        moved = np.any(state.theta != draws, axis=1)
        self.assertGreater(moved.mean(), 0.5)
        found = np.array([np.all(state.theta == s, axis=1).sum() for s in states])
        self.assertEqual(found.sum(), NUM)
        self.assertGreater(scipy.stats.chisquare(found, p * NUM).pvalue, UNLIKELY)

    def test_every_weight_turns_as_often(self):
        start = np.full((NUM, 5), 0.0)
        kernel = Flip(values=(0.0, 2.0))
        state, _ = chains.walk(kernel, lambda w: 0.0 * w[:, 0], start, 1, step_size=1.0)
        self.assertAllEqual(state.theta.sum(axis=1), np.full(NUM, 2.0))
        turned = (state.theta > 0).sum(axis=0)
        self.assertGreater(scipy.stats.chisquare(turned).pvalue, UNLIKELY)


class SettingsTest(tf.test.TestCase, parameterized.TestCase):
    def test_names(self):
        self.assertEqual(kernels.get("nuts"), NUTS())
        self.assertIs(kernels.get(kernel := HMC(jitter=0.1)), kernel)
        with self.assertRaisesRegex(
            ValueError, "^kernel='gibbs' is unknown; choose one of: flip, hmc, langevin, mala, "
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
    def test_refusals(self, kernel, name, value):
        with self.assertRaisesRegex(ValueError, f"^{name}="):
            kernel(**{name: value})

    def test_no_gradient(self):
        with self.assertRaisesRegex(ValueError, "^target has no gradient; use kernel='rwmh'"):
            HMC().init(lambda theta: tf.stop_gradient(theta[:, 0]), tf.zeros([2, 1]))


class NoiseTest(tf.test.TestCase):
    def test_steps_purposes_and_chains_differ(self):
        values = []
        for seed in (0, 1):
            for step in (0, 1):
                for purpose in (0, 1, 5):
                    noise = Noise.at(seed, step, tf.range(4)).fold_in(purpose)
                    values.append(noise.normal(3, tf.float64).numpy())
        values = np.array(values).ravel()
        self.assertLen(np.unique(values), len(values))

    def test_law(self):
        z = Noise.at(3, 5, tf.range(2000)).normal(5, tf.float64).numpy()
        self.assertGreater(chains.p_values(z).min(), UNLIKELY)
        u = Noise.at(3, 6, tf.range(2000)).uniform(2, tf.float64).numpy()
        self.assertGreater(scipy.stats.kstest(u.ravel(), "uniform").pvalue, UNLIKELY)


if __name__ == "__main__":
    tf.test.main()

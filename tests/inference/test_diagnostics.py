"""R-hat and effective sample sizes: against ArviZ, known truths, and TensorFlow Probability."""

from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from absl.testing import parameterized

from tfbdl.inference import ess, rhat


def samples(kind: Any) -> Any:
    rng = np.random.RandomState(0)
    if kind == "slow":
        return rng.standard_normal((101, 4)).cumsum(axis=0) * 0.1 + rng.standard_normal((101, 4))
    if kind == "ties":
        return np.round(np.sin(np.arange(60) ** 1.5).reshape(20, 3), 1)
    return np.array([[0.3, 1.1], [-0.2, 0.7], [0.9, -1.4], [0.1, 0.4]])


def autoregressive(phi: Any, num_samples: int, num: Any) -> Any:
    """`num` times four chains x' = phi x + noise, of variance 1."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(num_samples, 4, num))
    for t in range(1, num_samples):
        x[t] = phi * x[t - 1] + np.sqrt(1 - phi**2) * x[t]
    return x


class DiagnosticsTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(
        ("slow", 1.179575, 16.736682, 52.556041, 16.659806),
        ("ties", 1.004199, 94.660575, 60.0, 77.140401),
        ("few", 1.119825, 7.22472, 7.22472, 7.22472),
    )
    def test_as_in_arviz(self, kind: Any, *expected: Any) -> None:
        """Numbers of ArviZ 0.21."""
        x = samples(kind)
        values = [rhat(x), *(ess(x, kind) for kind in ("bulk", "tail", "mean"))]
        self.assertAllClose(values, expected, 1e-6)

    @parameterized.parameters((0.5, 500, 0.05), (-0.5, 500, 0.15), (0.9, 1000, 0.1))
    def test_size_of_an_autoregressive_process(
        self, phi: Any, num_samples: int, tolerance: Any
    ) -> None:
        """S C (1 - phi) / (1 + phi)."""
        true = 4 * num_samples * (1 - phi) / (1 + phi)
        actual = ess(autoregressive(phi, num_samples, 100), "mean")
        self.assertAllClose(actual.mean(), true, tolerance)

    def test_rhat_of_values_is_that_of_tensorflow_probability(self) -> None:
        """TFP's is (m + 1) / m R^2 - (n - 1) / (m n), for m halves of n samples."""
        x = autoregressive(0.5, 50, 3)
        m, n = 8, 25
        theirs = tfp.mcmc.potential_scale_reduction(x, split_chains=True)
        halves = np.concatenate([x[:25], x[25:]], axis=1)
        between = n * halves.mean(axis=0).var(axis=0, ddof=1)
        within = halves.var(axis=0, ddof=1).mean(axis=0)
        squared = (between / within + n - 1) / n
        self.assertAllClose(theirs, (m + 1) / m * squared - (n - 1) / (m * n), 1e-10)
        self.assertAllClose(rhat(x), np.sqrt(squared), 0.02)

    def test_what_only_ranks_see(self) -> None:
        rng = np.random.default_rng(0)
        x = rng.normal(size=(2000, 4))
        self.assertLess(rhat(x), 1.01)
        wider = x * [1, 1, 1, 3]
        shifted = rng.standard_cauchy(size=(2000, 4)) + np.array([0, 0, 0, 5])
        for wrong in (wider, shifted):
            self.assertGreater(rhat(wrong), 1.1)
            theirs = tfp.mcmc.potential_scale_reduction(wrong, split_chains=True)
            self.assertLess(np.sqrt(theirs), 1.01)

    def test_short_slow_chains_are_worth_little(self) -> None:
        x = autoregressive(0.95, 100, 300)
        true = 4 * 100 * 0.05 / 1.95
        theirs = tfp.mcmc.effective_sample_size(
            np.concatenate([x[:50], x[50:]], axis=1),
            filter_beyond_positive_pairs=True,
            cross_chain_dims=1,
        ).numpy()
        ours = ess(x, "mean")
        self.assertLess(np.mean(ours), 1.3 * true)
        self.assertGreater(np.mean(theirs), 1.6 * true)

    def test_what_has_no_distribution(self) -> None:
        constant = np.ones((10, 2))
        self.assertEqual(ess(constant), 20)
        self.assertTrue(np.isnan(rhat(constant)))
        for broken in (np.inf, np.nan):
            x = np.random.default_rng(0).normal(size=(10, 2))
            x[3, 1] = broken
            self.assertTrue(np.isnan(ess(x)))
            self.assertTrue(np.isnan(rhat(x)))

    def test_refusals(self) -> None:
        with self.assertRaisesRegex(
            ValueError, "^num_samples=3 is too few for diagnostics; take at least 4$"
        ):
            rhat(np.zeros((3, 4)))
        with self.assertRaisesRegex(ValueError, "^kind='all' is unknown; choose one of: bulk"):
            ess(np.zeros((9, 4)), "all")


if __name__ == "__main__":
    tf.test.main()

"""What warm-up learns, step by step, against NumPy and the papers' formulae."""

from typing import Any

import numpy as np
import tensorflow as tf
from absl.testing import parameterized

from tfbdl.inference import HMC, Flip
from tfbdl.inference.mcmc.adaptation import Adaptation, windows

NUM_WARMUP = 200
STARTS, ENDS = 75, [100, 150]
SCALES = np.array([0.3, 2.0])


def learned(kernel: Any, accept_prob: Any, theta: Any) -> Any:
    """The step size and scale after each step that accepted and led there."""
    adaptation = Adaptation(kernel, NUM_WARMUP)

    @tf.function(autograph=False)
    def run(accept_prob: Any, theta: Any) -> Any:
        def step(tuning: Any, step_: Any) -> Any:
            return adaptation.update(tuning, *step_)

        inputs = (tf.range(theta.shape[0]), theta, accept_prob)
        return tf.scan(step, inputs, adaptation.init(theta[0]))

    tuning = run(tf.constant(accept_prob), tf.constant(theta))
    return tuning.step_size.numpy(), tuning.scale.numpy()


class AdaptationTest(tf.test.TestCase, parameterized.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        rng = np.random.default_rng(0)
        cls.accept_prob = rng.uniform(0.5, 1.0, (NUM_WARMUP + 10, 3))
        cls.theta = 10 + rng.normal(size=(NUM_WARMUP + 10, 3, 2)) * SCALES
        kernel = HMC(mass_matrix="diagonal", target_accept=0.7)
        cls.step_size, cls.scale = learned(kernel, cls.accept_prob, cls.theta)

    def test_scales_are_of_each_window(self) -> None:
        """Drawn to 1e-3, as in Stan."""
        self.assertAllEqual(self.scale[: ENDS[0] - 1], np.ones((ENDS[0] - 1, 3, 2)))
        for start, end in zip([STARTS, ENDS[0]], ENDS, strict=True):
            variance = self.theta[start:end].var(axis=0, ddof=1)
            n = end - start
            expected = np.sqrt(n / (n + 5) * variance + 5e-3 / (n + 5))
            self.assertAllClose(self.scale[end - 1], expected, 1e-10)
        self.assertAllEqual(self.scale[ENDS[-1] :], np.broadcast_to(self.scale[-1], (60, 3, 2)))

    def test_scales_beside_large_means(self) -> None:
        """The scales are those of the draws as float32 holds them."""
        rng = np.random.default_rng(1)
        noise = rng.normal(size=(NUM_WARMUP, 3, 2)) * [0.02, 0.3]
        theta = (np.array([1e4, 1e6]) + noise).astype("float32")
        kernel = HMC(mass_matrix="diagonal")
        _, scale = learned(kernel, self.accept_prob[:NUM_WARMUP].astype("float32"), theta)
        last = theta[ENDS[0] : ENDS[1]].astype(np.float64)
        n = len(last)
        expected = np.sqrt(n / (n + 5) * last.var(axis=0, ddof=1) + 5e-3 / (n + 5))
        self.assertEqual(scale.dtype, np.float32)
        self.assertAllClose(scale[-1], expected, 1e-5, 0)

    def test_step_sizes_are_by_dual_averaging(self) -> None:
        """Hoffman and Gelman 2014, algorithm 5, begun anew after each window."""
        step, h_bar, t = np.full(3, 0.1), 0.0, 0
        mu, log_bar = np.log(10 * step), np.log(step)
        for i in range(NUM_WARMUP):
            t += 1
            h_bar = (1 - 1 / (t + 10)) * h_bar + (0.7 - self.accept_prob[i]) / (t + 10)
            log_step = mu - np.sqrt(t) / 0.05 * h_bar
            log_bar = t**-0.75 * log_step + (1 - t**-0.75) * log_bar
            step = np.exp(log_bar if i == NUM_WARMUP - 1 else log_step)
            self.assertAllClose(self.step_size[i], step, 1e-9)
            if i + 1 in ENDS:
                mu, log_bar, h_bar, t = np.log(10 * step), np.log(step), 0.0, 0
        last = np.broadcast_to(self.step_size[-1], (10, 3))
        self.assertAllEqual(self.step_size[NUM_WARMUP:], last)

    def test_what_is_given_stays(self) -> None:
        step_size, scale = learned(HMC(step_size=0.3), self.accept_prob[:5], self.theta[:5])
        self.assertAllClose(step_size, np.full((5, 3), 0.3))
        self.assertAllEqual(scale, np.ones((5, 3, 1)))
        step_size, _ = learned(Flip(), self.accept_prob[:5], self.theta[:5])
        self.assertAllEqual(step_size, np.ones((5, 3)))

    @parameterized.parameters(
        (1000, 75, [100, 150, 250, 450, 950]),  # as in Stan
        (200, 75, [100, 150]),
        (150, 75, [100]),
        (100, 15, [90]),
        (20, 3, [18]),
        (19, 0, []),
        (0, 0, []),
    )
    def test_windows(self, num_warmup: Any, start: Any, ends: Any) -> None:
        self.assertEqual(windows(num_warmup), (start, ends))


if __name__ == "__main__":
    tf.test.main()

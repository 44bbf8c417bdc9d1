"""Simulation-based calibration: under data of the prior, ranks in the posterior are uniform."""

from typing import Any

import keras
import numpy as np
import scipy.stats
import tensorflow as tf

from tfbdl import priors
from tfbdl.flat_model import FlatModel
from tfbdl.inference import HMC, MCMC
from tfbdl.likelihoods import Normal


class CalibrationTest(tf.test.TestCase):
    def test_ranks_are_uniform(self) -> None:
        """Simulation-based calibration (Talts et al. 2018): one data set a chain.

        Where weights, outputs and noise are drawn from the prior, their rank among the samples of
        their posterior is uniform on 0 .. S.
        """
        num, s = 500, 15
        hidden = keras.layers.Dense(2, "tanh", dtype="float64")
        layers = [hidden, keras.layers.Dense(1, dtype="float64")]
        flat = FlatModel(keras.Sequential([keras.Input((1,), dtype="float64"), *layers]))
        rng = np.random.default_rng(0)
        x = tf.constant(np.linspace(-2, 2, 6)[:, None])
        true = rng.normal(size=(num, flat.size))

        def outputs(theta: Any) -> Any:
            return tf.vectorized_map(lambda one: flat(one, x), theta)

        f = outputs(tf.constant(true)).numpy()
        y = tf.constant(f + rng.normal(0, 0.5, f.shape))

        def log_joint(theta: Any) -> Any:
            fit = Normal(0.5).log_prob(y, outputs(theta))
            return fit + tf.reduce_sum(priors.Normal(1.0).log_prob(theta), axis=1)

        mcmc = MCMC(
            log_joint,
            kernel=HMC(trajectory_length=1.5),
            initial=rng.normal(size=true.shape),
            num_warmup=150,
            num_samples=s,
            num_chains=num,
            thinning=8,
            jit_compile=False,
        ).fit(verbose=0)
        of_f = np.stack([outputs(tf.constant(theta)).numpy()[:, :2, 0] for theta in mcmc.theta])
        quantities = np.concatenate([mcmc.theta, of_f], axis=2)
        ranks = np.sum(quantities < np.concatenate([true, f[:, :2, 0]], axis=1), axis=0)
        p = [scipy.stats.chisquare(np.bincount(r, minlength=s + 1)).pvalue for r in ranks.T]
        self.assertGreater(np.min(p) * len(p), 1e-3)


if __name__ == "__main__":
    tf.test.main()

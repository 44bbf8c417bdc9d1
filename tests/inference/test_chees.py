"""ChEES-HMC: what it learns, against TensorFlow Probability, and what it draws."""

from typing import Any

import keras
import known_targets
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import tfbdl
from tfbdl.inference import HMC, MCMC, ChEES, DeepEnsemble
from tfbdl.inference.mcmc.kernels.chees import _slope


def test_slope_is_that_of_the_criterion() -> None:
    """The criterion of TensorFlow Probability has this slope by automatic differentiation."""
    rng = np.random.default_rng(0)
    before, after, velocity = (tf.constant(a) for a in rng.normal(size=(3, 6, 4)))
    accept_prob = tf.constant([0.9, 0.3, 0.0, 1.0, 0.7, 0.5], tf.float64)
    move = tf.zeros([6], tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(move)
        there = after + move[:, None] * velocity
        value = tfp.experimental.mcmc.chees_criterion(before, there, accept_prob, 1.0)
    each = tape.gradient(value, move)
    expected = tf.reduce_sum(each * accept_prob) / tf.reduce_sum(accept_prob)
    slope = _slope(before, after, velocity, accept_prob)
    np.testing.assert_allclose(slope, expected, rtol=1e-9)


@pytest.mark.parametrize("mass_matrix", ["identity", "diagonal"])
def test_moments_of_an_ill_conditioned_normal(mass_matrix: str) -> None:
    """Standard deviations from 0.1 to 3, in fewer gradients than short trajectories need."""
    scales = tf.constant(np.geomspace(0.1, 3.0, 8))

    def normal(theta: Any) -> Any:
        return -0.5 * tf.reduce_sum((theta / scales) ** 2, axis=1)

    settings = {"initial": np.zeros(8), "jitter": 0.1, "num_chains": 16}
    chees = MCMC(normal, kernel=ChEES(mass_matrix=mass_matrix), num_warmup=400, **settings)
    summary = chees.fit(verbose=0).summary().quantities["theta"]
    error = summary.stddev / np.sqrt(summary.ess_bulk)
    assert np.all(np.abs(summary.mean) < 5 * error)
    np.testing.assert_allclose(summary.stddev, scales, rtol=0.06)
    assert summary.rhat.max() < 1.01
    assert summary.ess_bulk.min() > 1500


def test_length_is_learned() -> None:
    """T for N(0, I) with u uniform settles in one place, wherever below it begins."""

    def normal(theta: Any) -> Any:
        return -0.5 * tf.reduce_sum(theta**2, axis=1)

    lengths = []
    for first in (0.1, 1.0):
        kernel = ChEES(trajectory_length=first, step_size=0.2, num_adaptation=400)
        start = np.random.default_rng(0).normal(size=(32, 10)).astype("float32")
        state, _ = known_targets.walk(kernel, normal, start, 500, step_size=0.2)
        assert np.ptp(state.length) == 0.0
        lengths.append(state.length[0])
    np.testing.assert_allclose(*lengths, rtol=0.35)
    assert 1.0 < lengths[0] < 8.0


def test_length_stands_still_after_warm_up() -> None:
    start = known_targets.from_standard(np.random.default_rng(0).normal(size=(8, 5)))
    kernel = ChEES(trajectory_length=1.5).for_warmup(4)
    lengths = [
        known_targets.walk(kernel, known_targets.both, start, n, step_size=0.3)[0].length[0]
        for n in (0, 2, 4, 6)
    ]
    assert len(set(lengths[:3])) == 3
    assert lengths[2] == lengths[3]


def test_one_chain_is_refused() -> None:
    with pytest.raises(ValueError, match="kernel=ChEES learns from differences between chains"):
        MCMC(known_targets.gaussian, kernel="chees", num_chains=1, initial=np.zeros(3)).fit(
            verbose=0
        )


def test_chains_start_from_an_ensemble(tmp_path: Any) -> None:
    """They begin at its members, the first again where chains are more; and at other posteriors."""
    x = np.linspace(-1, 1, 20)[:, None].astype("float32")

    def build() -> Any:
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(2), keras.layers.Dense(1)])
        model.compile(keras.optimizers.Adam(0.05), tfbdl.likelihoods.Normal(0.3))
        return model

    ensemble = DeepEnsemble(build, 2).fit(x, 2 * x, epochs=5, batch_size=20, verbose=0)
    still = HMC(step_size=1e-9, trajectory_length=1e-9)
    short = {"prior": 1.0, "kernel": still, "num_warmup": 0, "num_samples": 4, "num_chains": 3}
    chains = MCMC(ensemble.network(), initial=ensemble, **short).fit(x, 2 * x, verbose=0)
    members = ensemble.sample()
    np.testing.assert_allclose(chains.theta[0], members[[0, 1, 0]], atol=1e-5)
    chains.save(tmp_path / "chains.keras")
    loaded = tfbdl.load(tmp_path / "chains.keras")
    np.testing.assert_allclose(loaded.initial, members[[0, 1, 0]])
    laplace = tfbdl.inference.Laplace(build(), subset_of_weights="all").fit(x, 2 * x)
    chains = MCMC(build(), initial=laplace, **short).fit(x, 2 * x, verbose=0)
    np.testing.assert_allclose(chains.theta[0], laplace.sample(3), atol=1e-5)
    with pytest.raises(tfbdl.inference.NotFittedError):
        MCMC(build(), initial=DeepEnsemble(build, 2), **short)

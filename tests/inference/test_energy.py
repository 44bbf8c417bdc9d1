"""The energy of draws, and the fraction of missing information, against ArviZ."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from arviz_alone import arviz
from known_targets import gaussian

import tfbdl
from tfbdl.inference import HMC, MALA, MCLMC, MCMC, NUTS, RandomWalk, bfmi

FEW_STEPS = {"num_warmup": 100, "num_samples": 300, "num_chains": 3}


@pytest.mark.parametrize("shape", [(4, 1), (200, 3)])
def test_bfmi_is_that_of_arviz(shape: Any) -> None:
    rng = np.random.default_rng(0)
    energy = np.cumsum(rng.normal(size=shape), axis=0) + rng.normal(size=shape)
    np.testing.assert_allclose(bfmi(energy), arviz.bfmi(energy.T), rtol=1e-12)
    assert np.isnan(bfmi(np.ones(shape))).all()
    with pytest.raises(ValueError, match=r"energy has shape \(3, 2\); give \(S, C\), at least 4"):
        bfmi(np.ones((3, 2)))


@pytest.mark.parametrize("kernel", [NUTS(), HMC(), MALA()])
def test_energy_of_draws(kernel: Any) -> None:
    """Minus the log density, and a kinetic energy of the law chi^2 / 2 with D = 3."""
    mcmc = MCMC(gaussian, kernel=kernel, initial=np.ones(3), **FEW_STEPS).fit(verbose=0)
    kinetic = mcmc.draws.energy + mcmc.draws.log_prob
    assert kinetic.min() > 0
    assert kinetic.mean() == pytest.approx(1.5, abs=0.25)
    assert kinetic.var() == pytest.approx(1.5, abs=0.6)
    summary = mcmc.summary()
    statistics = mcmc.to_arviz()
    np.testing.assert_allclose(summary.bfmi, arviz.bfmi(statistics), rtol=1e-5)
    assert "E-BFMI" in str(summary)


def test_energy_is_conserved_along_a_trajectory() -> None:
    """Small steps keep it as at the start, with the momentum that is drawn there."""
    kernel = HMC(step_size=1e-3, trajectory_length=0.5, jitter=0.0)
    target = tf.function(gaussian)
    theta = tf.constant(np.ones((4, 3)))
    state = kernel.init(target, theta, tf.constant([0, 1]))
    small = HMC(step_size=1e-3, trajectory_length=1e-3, jitter=0.0)
    scale, step = tf.ones((4, 3), tf.float64), tf.fill([4], tf.constant(1e-3, tf.float64))
    long = kernel.step(target, state, tf.constant([2, 3]), step, scale)[1].energy
    short = small.step(target, state, tf.constant([2, 3]), step, scale)[1].energy
    np.testing.assert_allclose(long, short, rtol=1e-5)


def test_funnel_is_told(tmp_path: Any) -> None:
    """Energies of a funnel move slowly; they are saved; other kernels have none."""

    def funnel(theta: Any) -> Any:
        v = theta[:, :1]
        rest = -0.5 * tf.reduce_sum(theta[:, 1:] ** 2 * tf.exp(-v) + v, axis=1)
        return -0.5 * (v[:, 0] / 3) ** 2 + rest

    start = np.random.default_rng(0).normal(size=(3, 30)) * 0.3
    slow = MCMC(funnel, kernel=NUTS(max_tree_depth=6), initial=start, **FEW_STEPS).fit(verbose=0)
    assert slow.summary().bfmi.min() < 0.3
    assert "below 0.3 tails are explored slowly" in str(slow.summary())
    for kernel in (RandomWalk(), MCLMC()):
        other = MCMC(gaussian, kernel=kernel, initial=np.ones(3), **FEW_STEPS).fit(verbose=0)
        assert np.isnan(other.summary().bfmi).all()
        assert "E-BFMI" not in str(other.summary())


def test_energy_is_saved(tmp_path: Any) -> None:
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    x = np.linspace(-1, 1, 20)[:, None]
    settings = {"prior": 1.0, "likelihood": tfbdl.likelihoods.Normal(0.3)}
    mcmc = MCMC(model, num_warmup=20, num_samples=20, **settings).fit(x, 2 * x, verbose=0)
    mcmc.save(tmp_path / "chains.keras")
    loaded = tfbdl.load(tmp_path / "chains.keras")
    np.testing.assert_array_equal(loaded.draws.energy, mcmc.draws.energy)
    np.testing.assert_array_equal(loaded.summary().bfmi, mcmc.summary().bfmi)
    folder = MCMC(model, num_warmup=20, num_samples=20, **settings)
    folder.fit(x, 2 * x, savedir=tmp_path / "run", verbose=0)
    np.testing.assert_array_equal(folder.draws.energy, mcmc.draws.energy)

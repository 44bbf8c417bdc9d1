"""The mixture of normal laws against TensorFlow Probability, and what it refuses."""

from typing import Any

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp

from tfbdl import likelihoods

B, D, K = 5, 2, 3
RNG = np.random.default_rng(0)
LOGITS, LOC, RAW = (RNG.normal(0, s, (B, 4, D, K)) for s in (1.0, 2.0, 1.0))
OUTPUTS = np.concatenate([part.reshape(B, 4, D * K) for part in (LOGITS, LOC, RAW)], axis=-1)
Y = RNG.normal(0, 2, (B, 4, D))
MIXTURE = likelihoods.NormalMixture(K)


def reference() -> Any:
    tfd = tfp.distributions
    components = tfd.Normal(LOC, np.log1p(np.exp(RAW)) + 1e-6)
    return tfd.MixtureSameFamily(tfd.Categorical(logits=LOGITS), components)


def test_against_tensorflow_probability() -> None:
    law, outputs = reference(), tf.constant(OUTPUTS)
    expected = tf.reduce_sum(law.log_prob(Y), axis=[1, 2])
    np.testing.assert_allclose(MIXTURE.log_prob(Y, outputs), expected, 1e-12)
    np.testing.assert_allclose(MIXTURE.mean(outputs), law.mean(), 1e-12)
    np.testing.assert_allclose(MIXTURE.variance(outputs), law.variance(), 1e-12)
    np.testing.assert_allclose(MIXTURE.cdf(Y, outputs), law.cdf(Y), 1e-12)
    assert not MIXTURE.has_entropy


def test_one_component_is_normal() -> None:
    outputs, y = tf.constant(RNG.normal(size=(B, 3 * D))), RNG.normal(size=(B, D))
    normal = likelihoods.Normal("predicted").log_prob(y, outputs[:, D:])
    np.testing.assert_allclose(likelihoods.NormalMixture(1).log_prob(y, outputs), normal, 1e-12)


def test_samples_follow_the_law() -> None:
    num = 20_000
    many = tf.repeat(tf.constant(OUTPUTS[:1, :1], tf.float32), num, axis=0)
    y = MIXTURE.sample(tf.constant(3, tf.int64), many).numpy()
    assert y.shape == (num, 1, D)
    for d in range(D):
        one = np.concatenate([part[0, 0, d] for part in (LOGITS, LOC, RAW)])
        cdf = lambda t, one=one: MIXTURE.cdf(t[:, None], np.tile(one, (len(t), 1)))[:, 0].numpy()  # noqa: E731
        assert scipy.stats.kstest(y[:, 0, d].astype(float), cdf).pvalue > 1e-3
    assert abs(np.corrcoef(y[:, 0].T)[0, 1]) < 5 / np.sqrt(num)


@pytest.mark.parametrize("num", [0, -1, 2.5, "a", None, True])
def test_number_of_components(num: Any) -> None:
    with pytest.raises(ValueError, match=r"^num_components=.* must be a positive integer"):
        likelihoods.NormalMixture(num)


def test_columns_that_do_not_fit() -> None:
    message = (
        r"^outputs has shape \(5, 8\); NormalMixture\(3\) needs a last axis of a multiple of 9"
    )
    with pytest.raises(ValueError, match=message):
        MIXTURE.check(tf.zeros([5, 8]))
    with pytest.raises(
        ValueError, match=r"^y has shape \(5, 3\); these outputs describe \(5, 1\)$"
    ):
        MIXTURE.check_targets(np.zeros([5, 3]), tf.zeros([5, 9]))
    with pytest.raises(ValueError, match=r"^y is not finite in example 0; remove it"):
        MIXTURE.check_targets(np.full([5, 1], np.inf), tf.zeros([5, 9]))

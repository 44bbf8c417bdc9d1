"""BayesEinsumDense: the mean function, the loss KL / N, what it draws, shapes, arguments."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp

from tfbdl.layers import BayesDense, BayesEinsumDense

tfd = tfp.distributions
RNG = np.random.default_rng(0)
X = RNG.normal(size=(5, 3, 4)).astype("float32")
HEADS = ("abc,cde->abde", (None, 2, 6), "de")
"""Inputs of three positions and four features into two heads of six each."""


def layer_of(equation: str, shape: Any, bias_axes: Any, **kwargs: Any) -> BayesEinsumDense:
    bias = keras.initializers.RandomNormal(seed=1)
    settings = {"num_data": 10, "seed": 0, "bias_initializer": bias, **kwargs}
    return BayesEinsumDense(equation, shape, bias_axes=bias_axes, **settings)


@pytest.mark.parametrize(
    "axes",
    [
        HEADS,
        ("abc,cd->abd", (3, 6), None),
        ("abc,cd->abd", (3, 6), "d"),
        ("...x,xy->...y", 6, "y"),
        ("abc,bce->ae", 6, "e"),
    ],
    ids=str,
)
def test_inference_is_the_layer_at_the_mean(axes: Any) -> None:
    equation, shape, bias_axes = axes
    layer = layer_of(*axes, activation="tanh")
    y = layer(X)
    plain = keras.layers.EinsumDense(equation, shape, "tanh", bias_axes)
    plain.build(X.shape)
    plain.set_weights([q.mu.numpy() for q in (layer.kernel, layer.bias) if q is not None])
    np.testing.assert_allclose(y, plain(X), rtol=1e-6, atol=1e-6)
    for batch in (5, None):
        given = (batch, *X.shape[1:])
        assert layer.compute_output_shape(given) == (batch, *plain.compute_output_shape(given)[1:])


def test_loss_is_the_kl_by_tfp_over_num_data() -> None:
    layer = layer_of(*HEADS, prior=0.5, bias_prior=2.0)
    layer(X)
    kl = 0.0
    for q, scale in ((layer.kernel, 0.5), (layer.bias, 2.0)):
        mu, rho = (v.numpy().astype(np.float64) for v in (q.mu, q.rho))
        p = tfd.Normal(tf.constant(0.0, tf.float64), scale)
        kl += float(tf.reduce_sum(tfd.kl_divergence(tfd.Normal(mu, np.logaddexp(0, rho)), p)))
    np.testing.assert_allclose(sum(layer.losses), kl / 10, rtol=1e-5)


def test_what_it_draws_has_the_moments_of_its_weights() -> None:
    """One output of a layer without activation is normal, of the variance of x' w + b."""
    layer = layer_of(*HEADS)
    layer(X)
    drawn = np.array([layer(X, training=True)[0, 0, 1, 2] for _ in range(300)])
    sigma, of_bias = (np.logaddexp(0, q.rho.numpy()) for q in (layer.kernel, layer.bias))
    variance = (X[0, 0] ** 2 * sigma[:, 1, 2] ** 2).sum() + of_bias[1, 2] ** 2
    mean = X[0, 0] @ layer.kernel.mu.numpy()[:, 1, 2] + layer.bias.mu.numpy()[1, 2]
    z = (drawn - mean) / np.sqrt(variance)
    assert scipy.stats.kstest(z, "norm").pvalue > 1e-3


def test_it_draws_what_the_dense_layer_draws() -> None:
    """The weights are those of one, of equal seed, in training too."""
    einsum = layer_of("abc,cd->abd", (3, 6), "d")
    dense = BayesDense(6, num_data=10, seed=0)
    einsum.build(X.shape)
    dense.build(X.shape)
    dense.set_weights(einsum.get_weights())
    np.testing.assert_allclose(
        einsum(X, training=True), dense(X, training=True), rtol=1e-5, atol=1e-5
    )


def test_initializers_scale_by_the_features_they_join() -> None:
    """As those of Keras' layer of this version do, of whatever axes that counts."""
    initializer = keras.initializers.HeNormal(seed=3)
    layer = layer_of(*HEADS, kernel_initializer=initializer)
    plain = keras.layers.EinsumDense(
        *HEADS[:2], bias_axes=HEADS[2], kernel_initializer=keras.initializers.HeNormal(seed=3)
    )
    layer.build(X.shape)
    plain.build(X.shape)
    np.testing.assert_allclose(layer.kernel.mu, plain.kernel, rtol=1e-6)


def test_is_saved_and_loaded(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input(X.shape[1:]), layer_of(*HEADS, activation="relu")])
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again(X, training=True), model(X, training=True))
    assert again.layers[0].get_config() == model.layers[0].get_config()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"equation": "abc,cde"}, "equation='abc,cde'"),
        ({"output_shape": 0}, "output_shape=0"),
        ({"bias_axes": "z"}, "does not fit inputs of shape"),
        ({"bias_axes": None, "bias_prior": 1.0}, "bias_prior and bias_posterior must be None"),
        ({"estimator": "flipout"}, "Flipout does not hold"),
    ],
    ids=str,
)
def test_what_does_not_hold_is_refused(changed: dict[str, Any], message: str) -> None:
    arguments = dict(zip(("equation", "output_shape", "bias_axes"), HEADS, strict=True))
    with pytest.raises(ValueError, match=message):
        BayesEinsumDense(**{**arguments, "num_data": 10, **changed}).build(X.shape)

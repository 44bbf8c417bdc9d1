"""Posteriors asked as models are: densities of data, and SavedModels."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

import tfbdl
from tfbdl.inference import MCMC, DeepEnsemble, Laplace, NeuralLinear
from tfbdl.likelihoods import Normal

RNG = np.random.default_rng(0)
X = RNG.normal(size=(11, 2)).astype("float32")
Y = (X @ [[1.0], [-0.5]] + 0.3 * RNG.normal(size=(11, 1))).astype("float32")


def network() -> Any:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.1), Normal(0.3))
    return model


def chains() -> Any:
    return MCMC(network(), 1.0, num_warmup=50, num_samples=20).fit(X, Y, verbose=0)


@pytest.mark.parametrize("as_set", [False, True])
def test_density_of_a_mixture_of_functions(as_set: Any) -> None:
    posterior = chains()
    theta = posterior.ensemble(80, seed=4).members.numpy()
    f = X @ theta[:, :2, None] + theta[:, 2:, None]
    expected = np.log(np.mean(scipy.stats.norm(f, 0.3).pdf(Y), axis=0))[:, 0]
    data = (tf.data.Dataset.from_tensor_slices((X, Y)).batch(4), None) if as_set else (X, Y)
    got = tfbdl.log_predictive_density(posterior, *data, num_samples=80, seed=4)
    np.testing.assert_allclose(got, expected, 1e-4)


def test_density_in_closed_form() -> None:
    posterior = NeuralLinear(network(), sigma_noise=0.3).fit(X, Y)
    mean, covariance = posterior.function_moments(X)
    expected = scipy.stats.norm(mean, np.sqrt(covariance[:, :, 0] + 0.09)).logpdf(Y)[:, 0]
    got = tfbdl.log_predictive_density(posterior, X, Y, batch_size=3)
    np.testing.assert_allclose(got, expected, 1e-5)
    prediction = tfbdl.predict(posterior, X)
    law = scipy.stats.norm(mean, np.sqrt(covariance[:, :, 0] + 0.09))
    np.testing.assert_allclose(prediction.cdf(Y), law.cdf(Y), 1e-5)
    np.testing.assert_allclose(prediction.quantile(0.2), law.ppf(0.2), 1e-5)


def test_the_likelihood_is_the_posteriors_own() -> None:
    with pytest.raises(ValueError, match=r"^likelihood is for a keras"):
        tfbdl.log_predictive_density(chains(), X, Y, likelihood=Normal(1.0))


def test_export(tmp_path: Path) -> None:
    posterior = DeepEnsemble(network, 3).fit(X, Y, epochs=2, verbose=0)
    tfbdl.export(posterior, tmp_path / "served")
    answer = tf.saved_model.load(tmp_path / "served").signatures["serving_default"](x=X)
    prediction = tfbdl.predict(posterior, X, 3, seed=0)
    np.testing.assert_allclose(answer["mean"], prediction.mean, 1e-5, 1e-6)
    np.testing.assert_allclose(answer["stddev"], prediction.stddev, 1e-5)


def test_export_of_what_predicts_by_moments_is_refused(tmp_path: Path) -> None:
    posterior = Laplace(network()).fit(X, Y)
    with pytest.raises(ValueError, match=r"^pred_type='glm' knows moments"):
        tfbdl.export(posterior, tmp_path / "served")
    drawn = Laplace(network(), pred_type="nn").fit(X, Y)
    tfbdl.export(drawn, tmp_path / "drawn", 5)
    served = tf.saved_model.load(tmp_path / "drawn").signatures["serving_default"](x=X)["mean"]
    np.testing.assert_allclose(served, tfbdl.predict(drawn, X, 5, seed=0).mean, 1e-4, 1e-6)

"""`predict` returns numbers, or says in one line what is none, where, and why."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_probability import distributions as tfd

import tfbdl
from tfbdl import likelihoods
from tfbdl.inference import Laplace
from tfbdl.layers import BayesDense, MCDropout

X = np.linspace(-1, 1, 7, dtype="float32")[:, None]


def identity(*layers: Any, loss: Any = None) -> Any:
    """f(x) = x, behind which are the given layers."""
    model = keras.Sequential([keras.Input((1,)), MCDropout(0.5, seed=1), *layers])
    model.compile("sgd", loss)
    return model


def bayesian(units: int = 1, loss: Any = None) -> Any:
    model = keras.Sequential([keras.Input((1,)), BayesDense(units, num_data=10, seed=1)])
    model.compile("sgd", loss)
    return model


def refused(
    message: str, model: Any, x: Any = X, call: Any = tfbdl.predict, **arguments: Any
) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        call(model, x, **arguments)
    assert "\n" not in str(caught.value)


WAYS = pytest.mark.parametrize(
    "arguments",
    [{"num_samples": 0}, {"num_samples": 8}, {"num_samples": 8, "return_samples": True}],
    ids=["mean weights", "draws", "samples"],
)


class TestPoisson:
    @WAYS
    def test_small_rates(self, arguments: Any) -> None:
        """The entropy of log rates below -88 was NaN."""
        x = np.array([[-90.0], [-1e3], [-1e4], [-3e37]], "float32")
        prediction = tfbdl.predict(identity(loss=likelihoods.Poisson()), x, seed=0, **arguments)
        if arguments["num_samples"] == 0:
            np.testing.assert_array_equal(prediction.mean, 0.0)
            np.testing.assert_allclose(prediction.expected_entropy, 0.0, atol=1e-30)
        for values in (prediction.mean, prediction.stddev, prediction.expected_entropy):
            assert np.isfinite(values).all()

    @WAYS
    @pytest.mark.parametrize("log_rate", [95.0, 300.0, 1e30])
    def test_rates_beyond_float32(self, log_rate: Any, arguments: Any) -> None:
        x = np.where(np.arange(7)[:, None] == 4, np.float32(log_rate), X)
        refused(
            r"^mean is (inf|nan) for example 4: Poisson overflows at outputs so large; bound ",
            identity(loss=likelihoods.Poisson()),
            x,
            seed=3,
            batch_size=2,
            **arguments,
        )

    def test_variances_of_rates_that_fit(self) -> None:
        """The mean fits into float32, the squares of its deviations do not."""
        x = np.full((2, 1), 24.0, "float32")
        model = identity(loss=likelihoods.Poisson())
        message = "^epistemic_variance is inf for example 0: Poisson overflows at outputs so large"
        refused(message, model, x, num_samples=10, seed=0)


class TestNormal:
    def test_predicted_scales_beyond_float32(self) -> None:
        columns = keras.layers.Dense(2, use_bias=False)
        model = identity(columns, loss=likelihoods.Normal("predicted"))
        columns.set_weights([np.array([[1.0, 1e20]])])
        refused("^aleatoric_variance is inf for example 4: Normal overflows", model, num_samples=0)

    @WAYS
    def test_outputs_beyond_float32(self, arguments: Any) -> None:
        dense = keras.layers.Dense(1, use_bias=False)
        model = identity(dense, loss="mse")
        dense.set_weights([np.array([[3e38]])])
        message = "^mean is -?(inf|nan) for example 0: the outputs of the model overflow; scale x"
        refused(message, model, 10 * X, seed=2, **arguments)


class TestWeights:
    """The mean weights are finite; their deviations, or some far weight, are not."""

    @pytest.mark.parametrize("loss", ["mse", likelihoods.Normal()])
    def test_the_weight_is_named(self, loss: Any) -> None:
        model = bayesian(loss=loss)
        model.layers[0].kernel.rho.assign([[np.nan]])
        message = r"^mean is nan for example \d: weight=\S*kernel/rho of the model is not finite; "
        refused(message, model, num_samples=3)
        refused(message, model, num_samples=3, return_samples=True)

    def test_in_the_bound(self) -> None:
        model = bayesian(loss=likelihoods.Normal())
        model.layers[0].kernel.rho.assign([[np.nan]])
        for call in (tfbdl.elbo, tfbdl.log_predictive_density):
            refused(
                r"^log_prob is nan for example \d: weight=\S*kernel/rho of the model is not finite",
                model,
                call=call,
                y=X,
                num_samples=3,
            )


@keras.saving.register_keras_serializable(package="tests")
class HeavyTails(likelihoods.Likelihood):
    """Student's t of two degrees of freedom: a mean, but an infinite variance."""

    def distribution(self, outputs: Any) -> Any:
        return tfd.StudentT(2.0, outputs, 1.0)


class TestOwnLaws:
    @WAYS
    def test_an_infinite_variance_is_a_variance(self, arguments: Any) -> None:
        prediction = tfbdl.predict(bayesian(loss=HeavyTails()), X, seed=0, **arguments)
        np.testing.assert_array_equal(prediction.aleatoric_variance, np.inf)
        np.testing.assert_array_equal(prediction.stddev, np.inf)
        assert np.isfinite(prediction.mean).all()
        assert np.isfinite(prediction.epistemic_variance).all()


class TestLaplace:
    def test_rates_beyond_float32(self) -> None:
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        model.set_weights([np.array([[1.0]]), np.zeros(1)])
        of_all = {"subset_of_weights": "all", "hessian_structure": "diag"}
        laplace = Laplace(model, likelihoods.Poisson(), **of_all).fit(X, 0 * X)
        x = np.array([[1.0], [200.0]], "float32")
        message = "^mean is inf for example 1: Poisson overflows at outputs so large"
        refused(message, laplace, x)


def test_mean_weights_of_an_ensemble_are_as_before() -> None:
    prediction = tfbdl.predict(bayesian(loss=likelihoods.Normal(0.5)), X, 20, seed=0)
    np.testing.assert_allclose(prediction.aleatoric_variance, 0.25, 1e-6)
    entropy = tf.math.log(0.5) + 0.5 * np.log(2 * np.pi * np.e)
    np.testing.assert_allclose(prediction.expected_entropy, entropy, 1e-6)


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__]))

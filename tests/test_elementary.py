"""Elementary functions against NumPy and SciPy in float64, eager, in a graph, and under XLA."""

from typing import Any

import numpy as np
import pytest
import scipy.special
import tensorflow as tf

from tfbdl.elementary import log, log_of_softplus, normal_quantile, softplus
from tfbdl.graphs import has_loops

COMPILED = pytest.mark.parametrize("compiled", [None, False, True], ids=["eager", "graph", "XLA"])


def call(function: Any, x: Any, compiled: Any, *others: Any) -> Any:
    if compiled is not None:
        function = tf.function(function, jit_compile=compiled)
    return function(*map(tf.constant, (x, *others))).numpy()


def slope(function: Any) -> Any:
    """The gradient of three times a function."""

    def gradient(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = 3.0 * function(x)
        return tape.gradient(y, x)

    return gradient


def relative_error(actual: Any, true: Any) -> Any:
    return np.max(np.abs(actual.astype(np.float64) - true) / np.abs(true))


class TestSoftplus:
    @COMPILED
    def test_is_log_of_one_plus_exp(self, compiled: Any) -> None:
        x = np.concatenate([np.linspace(-87, 90, 1_000_001), [0.0, -1e-6, 1e-6]]).astype(np.float32)
        true = np.logaddexp(0.0, x.astype(np.float64))
        assert relative_error(call(softplus, x, compiled), true) < 3e-7

    @COMPILED
    def test_holds_at_the_ends_of_float32(self, compiled: Any) -> None:
        x = np.array([-np.inf, -200.0, 3e38, np.inf, np.nan], np.float32)
        np.testing.assert_array_equal(
            call(softplus, x, compiled), np.array([0.0, 0.0, 3e38, np.inf, np.nan], np.float32)
        )

    @COMPILED
    def test_gradient_is_the_sigmoid(self, compiled: Any) -> None:
        x = np.linspace(-80, 80, 10_001).astype(np.float32)
        true = 3.0 * scipy.special.expit(x.astype(np.float64))
        assert relative_error(call(slope(softplus), x, compiled), true) < 1e-6

    def test_has_a_second_derivative(self) -> None:
        x = tf.linspace(-5.0, 5.0, 101)
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = softplus(x)
            first = inner.gradient(y, x)
        s = scipy.special.expit(x.numpy().astype(np.float64))
        np.testing.assert_allclose(outer.gradient(first, x), s * (1 - s), rtol=1e-5)

    def test_in_float64_is_exact_to_float64(self) -> None:
        x = np.linspace(-700, 700, 10_001)
        assert relative_error(call(softplus, x, False), np.logaddexp(0.0, x)) < 1e-14


def log_softplus(x: Any) -> Any:
    return log_of_softplus(x, softplus(x))


class TestLogOfSoftplus:
    """Logarithms in floating point of its own: log log(1 + exp(x)) is x where exp(x) is small."""

    X = np.concatenate([np.linspace(-110, 90, 200_001), [-1e30, -200.0, -87.34, -87.33, 0.0, 1e30]])

    @COMPILED
    def test_is_the_logarithm_also_where_softplus_underflows(self, compiled: Any) -> None:
        x = self.X.astype(np.float32)
        wide = x.astype(np.float64)
        true = np.where(wide < -40.0, wide, np.log(np.logaddexp(0.0, np.maximum(wide, -40.0))))
        error = np.abs(call(log_softplus, x, compiled) - true) / np.maximum(1.0, np.abs(true))
        assert error.max() < 5e-7

    @COMPILED
    def test_gradient_tends_to_one(self, compiled: Any) -> None:
        x = self.X.astype(np.float32)
        wide = x.astype(np.float64)
        held = np.maximum(wide, -40.0)
        ratio = scipy.special.expit(held) / np.logaddexp(0.0, held)
        true = 3.0 * np.where(wide < -40.0, 1.0, ratio)
        assert relative_error(call(slope(log_softplus), x, compiled), true) < 1e-6

    @COMPILED
    def test_no_number_stays_none(self, compiled: Any) -> None:
        x = np.array([np.nan, np.inf], np.float32)
        np.testing.assert_array_equal(call(log_softplus, x, compiled), x)

    def test_in_float64_is_exact_to_float64(self) -> None:
        x = np.linspace(-700, 700, 10_001)
        true = np.log(np.logaddexp(0.0, x))
        np.testing.assert_allclose(call(log_softplus, x, False), true, rtol=1e-13)


class TestLog:
    @COMPILED
    def test_is_the_logarithm(self, compiled: Any) -> None:
        powers = np.exp(np.linspace(-87.3, 88.7, 1_000_001))
        near_one = 1.0 + np.linspace(-0.3, 0.5, 100_001)
        x = np.concatenate([powers, near_one, [2.0**-126, 3.4e38, 0.5, 1.0, 2.0]]).astype("float32")
        true = np.log(x.astype(np.float64))
        error = np.abs(call(log, x, compiled) - true) / np.maximum(1.0, np.abs(true))
        assert error.max() < 2e-7
        small = np.abs(true) < 0.3
        assert (error[small] <= 3e-7 * np.abs(true[small])).all()

    @COMPILED
    def test_holds_at_the_ends_of_float32(self, compiled: Any) -> None:
        x = np.array([0.0, -0.0, -1.0, -np.inf, np.inf, np.nan], np.float32)
        true = np.array([-np.inf, -np.inf, np.nan, np.nan, np.inf, np.nan], np.float32)
        np.testing.assert_array_equal(call(log, x, compiled), true)

    @COMPILED
    def test_gradient_is_the_reciprocal(self, compiled: Any) -> None:
        x = np.exp(np.linspace(-80, 80, 10_001)).astype(np.float32)
        assert relative_error(call(slope(log), x, compiled), 3.0 / x.astype(np.float64)) < 1e-6

    def test_in_float64_is_exact_to_float64(self) -> None:
        x = np.exp(np.linspace(-700, 700, 10_001))
        np.testing.assert_allclose(call(log, x, False), np.log(x), rtol=1e-14)


class TestNormalQuantile:
    @COMPILED
    def test_undoes_the_distribution_function(self, compiled: Any) -> None:
        """Down to the smallest tails of uniform noise."""
        small = np.concatenate([(np.arange(100_000) + 0.5) * 2.0**-32, np.geomspace(1e-5, 0.4)])
        small = small.astype(np.float32)
        rest = (1.0 - small.astype(np.float64)).astype(np.float32)
        true = scipy.special.ndtri(small.astype(np.float64))
        assert relative_error(call(normal_quantile, small, compiled, rest), true) < 4e-7
        assert relative_error(call(normal_quantile, rest, compiled, small), -true) < 4e-7

    @COMPILED
    def test_of_the_centre(self, compiled: Any) -> None:
        """Where the difference of the probabilities counts, which float32 holds exactly."""
        below = np.linspace(0.1, 0.9, 100_000).astype(np.float32)
        x = 2.0 * below.astype(np.float64) - 1.0
        true = np.sqrt(2.0) * scipy.special.erfinv(x)
        above = (0.5 - 0.5 * x).astype(np.float32)
        exact = above == 0.5 - 0.5 * x
        assert exact.mean() > 0.3
        actual = call(normal_quantile, below[exact], compiled, above[exact])
        assert relative_error(actual, true[exact]) < 4e-7

    def test_of_nothing_is_nothing(self) -> None:
        half = np.full(1, 0.5, np.float32)
        np.testing.assert_array_equal(call(normal_quantile, half, True, half), [0.0])

    def test_in_float64_is_as_exact_as_that_of_tensorflow(self) -> None:
        x = np.linspace(-0.999, 0.999, 10_000)
        true = np.sqrt(2.0) * scipy.special.erfinv(x)
        actual = call(normal_quantile, 0.5 + 0.5 * x, False, 0.5 - 0.5 * x)
        assert relative_error(actual, true) < 1e-11


@pytest.mark.parametrize(
    "function", [softplus, log, log_softplus, lambda x: normal_quantile(x, 1.0 - x)]
)
def test_is_vectorised(function: Any) -> None:
    """For all rows at once, with what it gives for each."""
    x = tf.constant(np.linspace(0.01, 0.99, 12, dtype=np.float32).reshape(4, 3))
    mapped = tf.function(lambda x: tf.vectorized_map(function, x)).get_concrete_function(x)
    assert not has_loops(mapped.graph)
    np.testing.assert_array_equal(mapped(x), function(x))

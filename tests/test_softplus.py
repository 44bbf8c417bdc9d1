"""Softplus against NumPy in float64, eager, in a graph, and under XLA."""

import numpy as np
import pytest
import scipy.special
import tensorflow as tf

from tfbdl.softplus import softplus

COMPILED = pytest.mark.parametrize("compiled", [None, False, True], ids=["eager", "graph", "XLA"])


def call(function, x, compiled):
    if compiled is not None:
        function = tf.function(function, jit_compile=compiled)
    return function(tf.constant(x)).numpy()


def relative_error(found, true):
    return np.max(np.abs(found.astype(np.float64) - true) / np.abs(true))


class TestSoftplus:
    @COMPILED
    def test_is_log_of_one_plus_exp(self, compiled):
        x = np.concatenate([np.linspace(-87, 90, 1_000_001), [0.0, -1e-6, 1e-6]]).astype(np.float32)
        true = np.logaddexp(0.0, x.astype(np.float64))
        assert relative_error(call(softplus, x, compiled), true) < 3e-7

    @COMPILED
    def test_holds_at_the_ends_of_float32(self, compiled):
        x = np.array([-np.inf, -200.0, 3e38, np.inf, np.nan], np.float32)
        np.testing.assert_array_equal(
            call(softplus, x, compiled), np.array([0.0, 0.0, 3e38, np.inf, np.nan], np.float32)
        )

    @COMPILED
    def test_gradient_is_the_sigmoid(self, compiled):
        def gradient(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = 3.0 * softplus(x)
            return tape.gradient(y, x)

        x = np.linspace(-80, 80, 10_001).astype(np.float32)
        true = 3.0 * scipy.special.expit(x.astype(np.float64))
        assert relative_error(call(gradient, x, compiled), true) < 1e-6

    def test_has_a_second_derivative(self):
        x = tf.linspace(-5.0, 5.0, 101)
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = softplus(x)
            first = inner.gradient(y, x)
        s = scipy.special.expit(x.numpy().astype(np.float64))
        np.testing.assert_allclose(outer.gradient(first, x), s * (1 - s), rtol=1e-5)

    def test_in_float64_is_exact_to_float64(self):
        x = np.linspace(-700, 700, 10_001)
        assert relative_error(call(softplus, x, False), np.logaddexp(0.0, x)) < 1e-14

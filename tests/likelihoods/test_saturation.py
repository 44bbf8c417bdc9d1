"""Where a probability has been rounded to 0 or 1, and what is outside of [0, 1]."""

from typing import Any

import keras
import numpy as np
import pytest
import scipy.special
import tensorflow as tf

from tfbdl import likelihoods

TINY = {"float32": np.finfo("float32").tiny, "float64": np.finfo("float64").tiny}
COMPILED = pytest.mark.parametrize("compiled", [None, False, True], ids=["eager", "graph", "XLA"])


def loss_and_slopes(likelihood: Any, y: Any, outputs: Any, compiled: Any = None) -> Any:
    def step(y: Any, outputs: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(outputs)
            loss = likelihood(y, outputs)
        return loss, tape.gradient(loss, outputs)

    if compiled is not None:
        step = tf.function(step, jit_compile=compiled)
    return [np.asarray(v, np.float64) for v in step(tf.constant(y), tf.constant(outputs))]


class TestImpossible:
    """What happens had the probability 0: the loss is large, and its gradient leads out."""

    @COMPILED
    @pytest.mark.parametrize("dtype", TINY)
    @pytest.mark.parametrize(("y", "p"), [(1.0, 0.0), (1.0, -0.0), (0.0, 1.0)])
    def test_bernoulli(self, y: Any, p: Any, dtype: Any, compiled: Any) -> None:
        likelihood = likelihoods.Bernoulli(from_logits=False, dtype=dtype)
        y, p = np.full((2, 3), y, dtype), np.full((2, 3), p, dtype)
        loss, slopes = loss_and_slopes(likelihood, y, p, compiled)
        np.testing.assert_allclose(loss, -3 * np.log(TINY[dtype]), 1e-5)
        assert np.isfinite(slopes).all()
        assert (np.sign(slopes) == np.where(y == 1, -1, 1)).all()
        assert (np.abs(slopes) > 1e15).all()

    @COMPILED
    @pytest.mark.parametrize("dtype", TINY)
    def test_categorical(self, dtype: Any, compiled: Any) -> None:
        likelihood = likelihoods.Categorical(from_logits=False, dtype=dtype)
        p = np.array([[1, 0, 0], [0, 0.5, 0.5]], dtype)
        for y in ([1, 0], np.eye(3)[[1, 0]]):
            loss, slopes = loss_and_slopes(likelihood, y, p, compiled)
            np.testing.assert_allclose(loss, -np.log(TINY[dtype]), 1e-5)
            assert np.isfinite(slopes).all()
            assert (slopes[[0, 1], [1, 0]] < -1e15).all()

    @pytest.mark.parametrize("likelihood", ["bernoulli", "categorical"])
    def test_certain_and_right(self, likelihood: Any) -> None:
        """Gradients of what is exactly right are those of less sure predictions."""
        law: Any
        y: Any
        p: Any
        if likelihood == "bernoulli":
            law, y, p = likelihoods.Bernoulli(from_logits=False), [[1.0], [0.0]], [[1.0], [0.0]]
            expected = [[-0.5], [0.5]]
        else:
            law, y, p = likelihoods.Categorical(from_logits=False), [0, 1], np.eye(2)
            expected = [[0.0, 0.5], [0.5, 0.0]]
        loss, slopes = loss_and_slopes(law, y, np.asarray(p, np.float32))
        assert loss == 0.0
        np.testing.assert_allclose(slopes, expected)

    def test_keras_scale_of_gradients_leaves_them_finite(self) -> None:
        """Loss scaling multiplies gradients by 2^15 and more."""
        p = tf.constant([[0.0], [1e-30], [1.0]])
        with tf.GradientTape() as tape:
            tape.watch(p)
            loss = 2.0**15 * likelihoods.Bernoulli(from_logits=False)([[1.0], [0.0], [1.0]], p)
        assert np.isfinite(tape.gradient(loss, p)).all()


class TestOutside:
    @COMPILED
    @pytest.mark.parametrize("p", [-0.1, 1.1])
    @pytest.mark.parametrize("y", [0.0, 1.0])
    def test_no_probability_has_no_logarithm(self, y: Any, p: Any, compiled: Any) -> None:
        likelihood = likelihoods.Bernoulli(from_logits=False)
        loss, _ = loss_and_slopes(likelihood, [[y]], [[p]], compiled)
        assert np.isnan(loss)

    @COMPILED
    def test_a_negative_count_is_none(self, compiled: Any) -> None:
        loss, _ = loss_and_slopes(likelihoods.Poisson(), [[-0.5]], [[0.3]], compiled)
        assert np.isnan(loss)

    def test_entropies_bear_the_rounding_of_a_mean(self) -> None:
        p = tf.constant([[1.0 + 2e-7, -1e-8], [1.0, 0.0]])
        for law in (likelihoods.Categorical(), likelihoods.Bernoulli()):
            np.testing.assert_allclose(law.entropy_of_mean(p), [0.0, 0.0], atol=1e-12)

    @pytest.mark.parametrize("gap", [0.0, 3.0, 12.0, 17.0, 60.0])
    def test_variances_keep_their_digits_where_a_class_is_all_but_certain(self, gap: Any) -> None:
        """1 - p has few digits in float32; the other classes' probabilities have all of theirs."""
        logits = np.array([[gap, 0.0, -1.0], [0.0, -1.0, gap], [1.0, gap, 1.0]])
        q = scipy.special.softmax(logits, axis=1)
        rest = np.stack([np.delete(q, k, axis=1).sum(axis=1) for k in range(3)], axis=1)
        for from_logits, outputs in ((True, logits), (False, q)):
            likelihood = likelihoods.Categorical(from_logits=from_logits)
            variance = likelihood.variance(tf.constant(outputs, tf.float32))
            np.testing.assert_allclose(variance, q * rest, 1e-6)

    def test_a_label_between_classes_is_none(self) -> None:
        y, logits = np.array([0.5, 1.0], np.float32), np.zeros((2, 3), np.float32)
        np.testing.assert_array_equal(
            np.isnan(likelihoods.Categorical().log_prob(y, logits)), [True, False]
        )


X = np.repeat([-40.0, 40.0], 64)[:, None].astype("float32")
X *= np.random.default_rng(0).uniform(0.9, 1.1, X.shape).astype("float32")


class TestFit:
    """Networks that end in sigmoid and softmax, so sure that their probabilities are 0 and 1."""

    @pytest.mark.parametrize("jit_compile", [False, True])
    @pytest.mark.parametrize("policy", ["float32", "mixed_float16", "float64"])
    @pytest.mark.parametrize("activation", ["sigmoid", "softmax"])
    @pytest.mark.parametrize("right", [True, False])
    def test_goes_on(self, activation: Any, policy: str, jit_compile: Any, right: Any) -> None:
        y = (X[:, 0] > 0).astype("float32")
        kernel = [[5.0]] if activation == "sigmoid" else [[-5.0, 5.0]]
        dense = keras.layers.Dense(len(kernel[0]), activation, dtype=policy)
        model = keras.Sequential([keras.Input((1,), dtype="float32"), dense])
        dense.set_weights([np.array(kernel), np.zeros(len(kernel[0]))])
        family = likelihoods.Bernoulli if activation == "sigmoid" else likelihoods.Categorical
        optimizer = keras.optimizers.SGD(1.0)
        model.compile(optimizer, family(from_logits=False), jit_compile=jit_compile)
        target = y if right else 1 - y
        history = model.fit(X, target, epochs=3, batch_size=32, verbose=0).history["loss"]
        assert np.isfinite(history).all()
        assert all(np.isfinite(w).all() for w in model.get_weights())
        if right:
            np.testing.assert_allclose(model.get_weights()[0], kernel, 1e-6)
        assert history[-1] == pytest.approx(0.0, abs=1e-6)
        sure = model.predict(X, verbose=0)[:, -1]
        np.testing.assert_array_equal(sure > 0.5, target == 1)

    def test_in_the_loop_of_tfbdl(self) -> None:
        """Also of a function compiled apart, whose probabilities nobody can trace back."""
        import tfbdl  # noqa: PLC0415

        class Apart(keras.layers.Layer):
            @tf.function(jit_compile=True)
            def call(self, x: Any) -> Any:
                return tf.sigmoid(x)

        dense = keras.layers.Dense(1)
        model = keras.Sequential([keras.Input((1,)), dense, Apart()])
        dense.set_weights([np.array([[5.0]]), np.zeros(1)])
        model.compile(keras.optimizers.SGD(1.0), likelihoods.Bernoulli(from_logits=False))
        y = (X > 0).astype("float32")
        history = tfbdl.train(model, X, y, epochs=2, batch_size=32, verbose=0)
        assert history["loss"] == [0.0, 0.0]
        np.testing.assert_array_equal(dense.get_weights()[0], [[5.0]])


class TestGraphs:
    def test_the_gradient_of_probabilities_of_a_graph_is_that_of_their_logits(self) -> None:
        """Not of p: they are taken back, as in Keras' own loss."""
        h = tf.constant([[-200.0], [3.0], [200.0]])
        y = tf.constant([[1.0], [1.0], [0.0]])

        @tf.function
        def slopes(h: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(h)
                loss = likelihoods.Bernoulli(from_logits=False)(y, tf.sigmoid(h))
            return tape.gradient(loss, h)

        np.testing.assert_allclose(slopes(h), (tf.sigmoid(h) - y) / 3, 1e-6)

    def test_constants_in_a_graph_are_outputs_too(self) -> None:
        p = tf.constant([[0.25]])
        loss = tf.function(lambda: likelihoods.Bernoulli(from_logits=False)([[1.0]], p))()
        np.testing.assert_allclose(loss, np.log(4), 1e-6)


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__]))

"""A draw is one function: for all x, in any batch, on any device, whatever was traced before."""

from typing import Any

import keras
import numpy as np
import scipy.stats
import tensorflow as tf
import two_replicas
from absl.testing import parameterized

from tfbdl import layers
from tfbdl.draws import DrawnModel, make_draw

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 4)).astype("float32")
X[5], X[11] = X[2], X[2]
DRAW = make_draw(0, 3)


def dense(estimator: str = "reparameterization", **kwargs: Any) -> Any:
    return layers.BayesDense(
        4, "tanh", num_data=100, estimator=estimator, kernel_initializer="orthogonal", **kwargs
    )


STOCHASTIC = {
    "reparameterization": dense,
    "local_reparameterization": lambda: dense("local_reparameterization"),
    "flipout": lambda: dense("flipout"),
    "mc_dropout": lambda: layers.MCDropout(0.5),
    "concrete_dropout": lambda: layers.ConcreteDropout(
        keras.layers.Dense(4), num_data=100, initial_rate=0.5, per_unit=True
    ),
    "molchanov": lambda: layers.VariationalDropout(4, num_data=100),
    "kingma": lambda: layers.VariationalDropout(4, num_data=100, kl="kingma"),
}


class Subclassed(keras.Model):
    def __init__(self, stack: Any) -> None:
        super().__init__()
        self.stack = stack

    def call(self, x: Any) -> Any:
        for layer in self.stack:
            x = layer(x)
        return x


def model_of(stack: Any, kind: Any) -> Any:
    if kind == "sequential":
        return keras.Sequential([keras.Input((4,)), *stack])
    if kind == "subclassed":
        model = Subclassed(stack)
        model(X)
        return model
    h = inputs = keras.Input((4,))
    if kind == "nested":
        return keras.Model(
            inputs,
            model_of(stack, "subclassed")(model_of([keras.layers.Identity()], "functional")(h)),
        )
    for layer in stack:
        h = layer(h)
    return keras.Model(inputs, h)


def ordinary() -> Any:
    """Layers between the stochastic ones, with statistics away from their start."""
    normalization = keras.layers.BatchNormalization()
    normalization.build((None, 4))
    normalization.moving_mean.assign([0.3, -0.2, 0.1, 0.5])
    normalization.moving_variance.assign([2.0, 0.5, 1.0, 1.5])
    return normalization


class CoherenceTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(*STOCHASTIC)
    def test_one_function_for_all_x(self, name: str) -> None:
        """Batches of any size, in any order, alone; equal rows have equal outputs."""
        keras.utils.set_random_seed(1)
        stack = [STOCHASTIC[name](), ordinary(), keras.layers.Dropout(0.5), STOCHASTIC[name]()]
        sampler = DrawnModel(model_of(stack, "sequential"))
        whole = sampler(X, draw=DRAW).numpy()
        order = RNG.permutation(12)
        self.assertAllClose(sampler(X[order], draw=DRAW), whole[order], 1e-5, 1e-6)
        parts = [sampler(X[a:b], draw=DRAW) for a, b in ((0, 1), (1, 6), (6, 12))]
        self.assertAllClose(np.concatenate(parts), whole, 1e-5, 1e-6)
        self.assertAllClose(whole[[2, 2]], whole[[5, 11]], 1e-5, 1e-6)
        self.assertAllEqual(sampler(X, draw=DRAW), whole)
        other = [sampler(X, draw=make_draw(*d)).numpy() for d in ((0, 4), (1, 3), (0, 5))]
        for a, b in zip([whole, *other], other, strict=False):
            self.assertGreater(np.abs(a - b).max(), 1e-3)

    @parameterized.product(
        name=("reparameterization", "mc_dropout"), kind=("functional", "subclassed", "nested")
    )
    def test_any_kind_of_model(self, name: str, kind: Any) -> None:
        """The same layers, hence the same function, in every kind of model; and back again."""
        keras.utils.set_random_seed(1)
        stack = [STOCHASTIC[name](), keras.layers.Dense(3)]
        expected = DrawnModel(model_of(stack, "sequential"))(X, draw=DRAW)
        model = model_of(stack, kind)
        self.assertAllClose(DrawnModel(model)(X, draw=DRAW), expected, 1e-5, 1e-6)
        mean = stack[1](stack[0](X, training=False))
        self.assertAllClose(model(X), mean, 1e-5, 1e-6)
        self.assertAllClose(DrawnModel(model)(X), mean, 1e-5, 1e-6)
        self.assertGreater(np.abs(expected - mean).max(), 1e-3)

    @parameterized.parameters(*STOCHASTIC)
    def test_a_draw_prevails_over_training(self, name: str) -> None:
        layer = STOCHASTIC[name]()
        expected = layer(X, training=False, draw=DRAW)
        self.assertAllEqual(layer(X, training=True, draw=DRAW), expected)

    @parameterized.parameters(*STOCHASTIC)
    def test_draws_leave_the_state_alone(self, name: str) -> None:
        layer = STOCHASTIC[name]()
        layer(X)
        before = layer.get_weights()
        layer(X, draw=DRAW)
        layer(X, training=False)
        for a, b in zip(layer.get_weights(), before, strict=True):
            self.assertAllEqual(a, b)


class InferenceModeTest(tf.test.TestCase):
    def test_normalization_and_stock_dropout_stay_in_inference(self) -> None:
        normalization = ordinary()
        gate = layers.MCDropout(0.5)
        stack = [normalization, keras.layers.Dropout(0.9), keras.layers.GaussianNoise(1.0), gate]
        sampler = DrawnModel(model_of(stack, "functional"))
        statistics = [v.numpy() for v in normalization.non_trainable_variables]
        mean, variance = statistics
        normal = (X - mean) / np.sqrt(variance + 1e-3)
        mask = gate(tf.ones([1, 4]), draw=DRAW).numpy()
        self.assertContainsSubset(mask.ravel(), [0.0, 2.0])
        self.assertAllClose(sampler(X, draw=DRAW), normal * mask, 1e-5, 1e-6)
        for i, variable in enumerate(normalization.non_trainable_variables):
            self.assertAllEqual(variable.value, statistics[i])


class TracingTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(("flipout", True), ("mc_dropout", False), ("concrete_dropout", False))
    def test_functions_do_not_go_stale(self, name: str, jit: Any) -> None:
        """Traced with, without, with a draw, in training: each does its own whenever called."""
        model = model_of([STOCHASTIC[name]()], "functional")
        sampler = DrawnModel(model)
        mean = model(X)
        drawn = [sampler(X, draw=make_draw(0, s)).numpy() for s in range(3)]
        compile_ = tf.function(jit_compile=jit)
        predict = compile_(lambda x: model(x, training=False))
        draw = compile_(lambda x, s: sampler(x, draw=make_draw(0, s)))
        train = compile_(lambda x: model(x, training=True))
        for s in (1, 0, 2):
            self.assertAllClose(predict(X), mean, 1e-5, 1e-6)
            self.assertAllClose(draw(X, tf.constant(s)), drawn[s], 1e-5, 1e-5)
            first, second = train(X), train(X)
            self.assertGreater(np.abs(first - second).max(), 1e-3)
            self.assertGreater(np.abs(first - mean).max(), 1e-3)
        self.assertAllClose(model.predict(X, verbose=0), mean, 1e-5, 1e-6)

    @parameterized.parameters("reparameterization", "mc_dropout", "concrete_dropout", "kingma")
    def test_in_vectorized_map(self, name: str) -> None:
        """Each lane its own function, the one that it is in a loop."""
        sampler = DrawnModel(model_of([STOCHASTIC[name]()], "functional"))
        lanes = tf.vectorized_map(lambda s: sampler(X, draw=make_draw(7, s)), tf.range(4))
        loop = [sampler(X, draw=make_draw(7, s)) for s in range(4)]
        self.assertAllClose(lanes, loop, 1e-5, 1e-5)

    def test_replicas_draw_the_same_function(self) -> None:
        strategy = two_replicas.strategy()
        with strategy.scope():
            sampler = DrawnModel(model_of([dense(), layers.MCDropout(0.5)], "functional"))
        expected = sampler(X, draw=DRAW)

        @tf.function
        def on_replicas() -> Any:
            return strategy.run(lambda: sampler(X, draw=DRAW))

        for outputs in on_replicas().values:
            self.assertAllClose(outputs, expected, 1e-5, 1e-6)


class LawTest(tf.test.TestCase):
    NUM = 20_000

    def draws(self, model: Any, x: Any) -> Any:
        sampler = DrawnModel(model)

        @tf.function(jit_compile=True)
        def outputs() -> Any:
            return tf.map_fn(
                lambda s: sampler(x, draw=make_draw(5, s)),
                tf.range(self.NUM),
                fn_output_signature=tf.float32,
            )

        return outputs().numpy().reshape(self.NUM, -1).astype(np.float64)

    def test_weights_of_draws_have_the_law_of_the_posterior(self) -> None:
        """x = 0 gives b, unit vectors give W + b: mean, covariance, normality."""
        layer = layers.BayesDense(2, num_data=10, estimator="flipout")
        model = model_of([layer], "sequential")
        x = tf.concat([tf.zeros([1, 4]), tf.eye(4)], axis=0)
        outputs = self.draws(model, x).reshape(self.NUM, 5, 2)
        b, w = outputs[:, 0], outputs[:, 1:] - outputs[:, :1]
        weights = np.concatenate([w.reshape(self.NUM, 8), b], axis=1)
        mean = np.concatenate([np.ravel(q.mean) for q in (layer.kernel, layer.bias)])
        stddev = np.concatenate([np.ravel(q.stddev) for q in (layer.kernel, layer.bias)])
        e = (weights - mean) / stddev
        for column in e.T:
            self.assertGreater(
                scipy.stats.kstest(column, scipy.stats.norm.cdf, method="asymp").pvalue, 1e-5
            )
        off = (e.T @ e / self.NUM)[~np.eye(10, dtype=bool)]
        self.assertLess(np.abs(off).max(), 5 / np.sqrt(self.NUM))

    def test_layers_of_one_draw_are_independent(self) -> None:
        model = model_of([layers.MCDropout(0.5), layers.MCDropout(0.5)], "sequential")
        kept = self.draws(model, tf.ones([1, 4])) > 0
        error = np.sqrt(0.25 * 0.75 / self.NUM)
        self.assertLess(np.abs(kept.mean(axis=0) - 0.25).max(), 5 * error)


if __name__ == "__main__":
    tf.test.main()

"""Models made under two replicas predict what those of one device predict."""

import contextlib
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import two_replicas

import tfbdl
from tfbdl.predictive.functions import Functions

RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 4)).astype("float32")
Y = np.argmax(X @ RNG.normal(size=(4, 3)), axis=1)


def classifier(scope: Any) -> Any:
    keras.utils.set_random_seed(3)
    with scope():
        model = keras.Sequential(
            [
                keras.Input((4,)),
                tfbdl.layers.BayesDense(8, num_data=20, seed=1),
                tfbdl.layers.MCDropout(0.2, seed=2),
                keras.layers.Dense(3, kernel_regularizer="l2"),
            ]
        )
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(0.05), loss)
    return model


def two() -> Any:
    return two_replicas.strategy().scope()


class ReplicasTest(tf.test.TestCase):
    def test_predict(self) -> None:
        """No draw, fewer than replicas, an odd number, and more than one call computes."""
        both, one = classifier(two), classifier(contextlib.nullcontext)
        for num_samples in (0, 1, 7, 230):
            got, expected = (
                tfbdl.predict(m, X, num_samples, seed=5, return_samples=True, verbose=0)
                for m in (both, one)
            )
            self.assertAllClose(got.outputs, expected.outputs, 1e-4, 1e-5)
            self.assertAllClose(got.mean, expected.mean, 1e-5, 1e-6)
            self.assertAllClose(got.epistemic_variance, expected.epistemic_variance, 1e-4, 1e-6)

    def test_each_replica_computes_its_share_of_the_draws(self) -> None:
        replicas = []

        class Recorder(keras.layers.Layer):
            def call(self, x: Any) -> Any:
                context = tf.distribute.get_replica_context()
                if context is not None:
                    number = context.replica_id_in_sync_group
                    tf.py_function(lambda r: replicas.append(int(r)), [number], [])
                return x

        with two():
            model = keras.Sequential([keras.Input((4,)), tfbdl.layers.MCDropout(0.5), Recorder()])
        functions = Functions(model, None)
        functions._replicas.jit_compile = False  # which takes no Python function
        (moments,) = functions.moments(tf.constant(X), 0, 10)
        self.assertEqual(moments.count, 10)
        self.assertEqual((replicas.count(0), replicas.count(1)), (5 + 1, 5 + 1))  # and the mean

    def test_elbo(self) -> None:
        got, expected = (
            tfbdl.elbo(classifier(scope), X, Y, 5, seed=5)
            for scope in (two, contextlib.nullcontext)
        )
        self.assertAllClose(got, expected, 1e-5, 1e-5)

    def test_deep_ensemble(self) -> None:
        """Its members train on both replicas; without noise they end where one device ends."""

        def prediction(scope: Any) -> Any:
            def build() -> Any:
                with scope():
                    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
                    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
                    model.compile(keras.optimizers.Adam(0.05), loss)
                return model

            deep = tfbdl.inference.DeepEnsemble(build, num_members=2, jit_compile=False)
            deep.fit(X, Y, epochs=3, batch_size=10, verbose=0)
            return tfbdl.predict(deep, X, verbose=0)

        got, expected = (prediction(scope) for scope in (two, contextlib.nullcontext))
        self.assertAllClose(got.mean, expected.mean, 1e-4, 1e-5)
        self.assertGreater(np.max(got.epistemic_variance), 1e-4)
        self.assertAllClose(got.epistemic_variance, expected.epistemic_variance, 1e-3, 1e-6)


if __name__ == "__main__":
    tf.test.main()

"""Two replicas under `MirroredStrategy`: the numbers of one device, and noise of their own."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf
import two_replicas

from tfbdl import layers, posteriors

RNG = np.random.default_rng(0)
X = RNG.normal(size=(16, 3)).astype("float32")
Y = RNG.normal(size=(16, 2)).astype("float32")


def quiet_model() -> Any:
    """Layers with next to no noise, so that every device computes the same."""
    quiet = posteriors.MeanFieldNormal(keras.initializers.Constant(-20.0))
    start = {"kernel_initializer": keras.initializers.GlorotUniform(1)}
    model = keras.Sequential(
        [
            keras.Input((3,)),
            layers.BayesDense(4, "tanh", num_data=16, posterior=quiet, seed=1, **start),
            layers.ConcreteDropout(
                keras.layers.Dense(2, **start),
                num_data=16,
                lengthscale=0.5,
                temperature=0.01,
                initial_rate=1e-5,
                seed=3,
            ),
        ]
    )
    model.compile(keras.optimizers.SGD(0.05), "mse")
    return model


class ReplicasTest(tf.test.TestCase):
    def test_fit_has_the_numbers_of_one_device(self) -> None:
        """The KL counts once, not once per replica: in the loss and in the gradient."""
        single = quiet_model()
        with two_replicas.strategy().scope():
            double = quiet_model()
        histories = [
            m.fit(X, Y, batch_size=8, epochs=2, shuffle=False, verbose=0).history["loss"]
            for m in (single, double)
        ]
        self.assertAllClose(histories[0], histories[1], 1e-4)
        self.assertLess(histories[0][1], histories[0][0])
        variables = zip(single.trainable_variables, double.trainable_variables, strict=True)
        for a, b in variables:
            self.assertAllClose(a.value, b.value, 1e-4, 1e-5, a.path)

    def test_each_replica_has_noise_of_its_own(self) -> None:
        strategy = two_replicas.strategy()
        quiet = {"num_data": 10, "seed": 1, "kernel_initializer": "zeros"}
        one = tf.ones((1, 1, 1, 1))
        with strategy.scope():
            stack = {
                "dense": (layers.BayesDense(500, **quiet), tf.ones((1, 500))),
                "dropout": (layers.MCDropout(0.5, seed=1), tf.ones((1, 500))),
                "concrete": (
                    layers.ConcreteDropout(
                        keras.layers.Dense(500, kernel_initializer="identity"),
                        num_data=10,
                        initial_rate=0.5,
                        seed=1,
                    ),
                    tf.ones((1, 500)),
                ),
                "conv": (layers.BayesConv2D(500, 1, **quiet), one),
                "transposed": (layers.BayesConv2DTranspose(500, 1, **quiet), one),
                "lstm": (layers.BayesLSTM(500, **quiet), one[0]),
                "gru": (layers.BayesGRU(500, **quiet), one[0]),
                "recurrent dropout": (
                    layers.BayesGRU(
                        500,
                        recurrent_activation=tf.zeros_like,
                        kernel_initializer="identity",
                        dropout=0.5,
                        posterior="point",
                        num_data=10,
                        seed=1,
                    ),
                    tf.ones((1, 1, 1500)),
                ),
                "embedding": (
                    layers.BayesEmbedding(1, 500, "zeros", num_data=10, seed=1),
                    tf.zeros((1,), tf.int32),
                ),
            }
            for layer, x in stack.values():
                layer.build(x.shape)

        @tf.function
        def outputs() -> Any:
            return strategy.run(lambda: [layer(x, training=True) for layer, x in stack.values()])

        for name, per_replica in zip(stack, outputs(), strict=True):
            a, b = (v.numpy().ravel() for v in per_replica.values)
            self.assertGreater(a.std(), 1e-3, name)
            self.assertLess(abs(np.corrcoef(a, b)[0, 1]), 5 / np.sqrt(500), name)


if __name__ == "__main__":
    tf.test.main()

"""Networks that train side by side, against Keras' own steps of each."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl.inference.joint_training import epochs_together
from tfbdl.likelihoods import Normal

RNG = np.random.default_rng(0)


def permutations(num_data: int, num_networks: int) -> Any:
    while True:
        yield np.stack([RNG.permutation(num_data) for _ in range(num_networks)])


class EpochsTogetherTest(tf.test.TestCase):
    def test_networks_train_as_by_themselves(self) -> None:
        """Batches of all examples, whose order says nothing, by Keras' Adam."""
        x, y = RNG.normal(size=(8, 3)), RNG.normal(size=(8, 1))
        x, y = tf.constant(x, tf.float32), tf.constant(y, tf.float32)

        def build(seed: int) -> keras.Model:
            keras.utils.set_random_seed(seed)
            layers = [keras.layers.Dense(2, "tanh"), keras.layers.Dense(2)]
            return keras.Sequential([keras.Input((3,)), *layers])

        likelihood, members = Normal("predicted"), []
        for seed in (3, 4):
            model = build(seed)
            optimizer = keras.optimizers.Adam(0.1)
            for _ in range(3):
                with tf.GradientTape() as tape:
                    loss = likelihood(y, model(x))
                gradients = tape.gradient(loss, [v.value for v in model.trainable_variables])
                optimizer.apply(gradients, model.trainable_variables)
            members.append(np.concatenate([np.ravel(v) for v in model.get_weights()]))
        path = epochs_together(
            [build(3), build(4)],
            likelihood,
            x,
            y,
            permutations(8, 2),
            optimizer=keras.optimizers.Adam(0.1),
            batch_size=8,
        )
        for _ in range(4):
            actual = next(path)
        self.assertAllClose(actual, members, rtol=1e-4, atol=1e-5)

    def test_batches_are_of_all_examples_once(self) -> None:
        """A mean without inputs: small steps of SGD add up what each batch pulls."""
        x, y = tf.zeros((6, 1)), tf.range(6.0)[:, None]
        networks = [keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)]) for _ in range(3)]
        path = epochs_together(
            networks,
            Normal(1.0),
            x,
            y,
            permutations(6, 3),
            optimizer=keras.optimizers.SGD(1e-6),
            batch_size=2,
        )
        next(path)
        expected = [np.mean(y) * 3] * 3
        self.assertAllClose(1e6 * next(path)[:, 1], expected, rtol=1e-4)


if __name__ == "__main__":
    tf.test.main()

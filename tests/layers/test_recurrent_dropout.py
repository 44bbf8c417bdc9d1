"""Dropout in Bayesian recurrent layers."""

from typing import Any

import numpy as np
import tensorflow as tf

from tfbdl import layers
from tfbdl.draws import make_draw


class DropoutTest(tf.test.TestCase):
    """An LSTM with all gates open and linear states adds its inputs up: outputs show the masks."""

    N, UNITS = 2000, 5

    def layer(self, recurrent: Any, **arguments: Any) -> Any:
        layer = layers.BayesLSTM(
            self.UNITS,
            activation=None,
            recurrent_activation=tf.ones_like,
            num_data=10,
            posterior="point",
            use_bias=False,
            seed=1,
            **arguments,
        )
        layer.build((None, None, self.UNITS))
        state = np.zeros((self.UNITS, 4 * self.UNITS))
        state[:, 2 * self.UNITS : 3 * self.UNITS] = np.eye(self.UNITS)
        layer.kernel.mu.assign(state)
        layer.recurrent_kernel.mu.assign(state if recurrent else 0 * state)
        return layer

    def check(self, mask: Any, rate: Any) -> None:
        """Zeros at the rate, the rest rescaled, of mean 1, independent."""
        self.assertAllClose(np.unique(np.round(mask, 4)), [0.0, 1 / (1 - rate)], 1e-3)
        error = np.sqrt(rate / (1 - rate) / mask.size)
        self.assertLess(abs(mask.mean() - 1), 5 * error)
        off = np.corrcoef(mask.T)[~np.eye(self.UNITS, dtype=bool)]
        self.assertLess(np.abs(off).max(), 5 / np.sqrt(self.N))
        rows = np.corrcoef(mask[1:].ravel(), mask[:-1].ravel())[0, 1]
        self.assertLess(abs(rows), 5 / np.sqrt(mask.size))

    def test_of_inputs(self) -> None:
        """One mask for all steps."""
        layer = self.layer(recurrent=False, dropout=0.3)
        y = layer(np.ones((self.N, 3, self.UNITS), "float32"), training=True).numpy()
        self.check(y / 3, 0.3)

    def test_of_states(self) -> None:
        """h_2 = 2 + mask of h_1 = 1, and h_3 = h_2 + 1 + mask h_2 with the same mask."""
        layer = self.layer(recurrent=True, recurrent_dropout=0.4, return_sequences=True)
        y = layer(np.ones((self.N, 3, self.UNITS), "float32"), training=True).numpy()
        mask = y[:, 1] - 2
        self.check(mask, 0.4)
        self.assertAllClose(y[:, 2], y[:, 1] + 1 + mask * y[:, 1], 1e-4)

    def test_both_are_independent(self) -> None:
        arguments = {"dropout": 0.3, "recurrent_dropout": 0.4, "return_sequences": True}
        layer = self.layer(recurrent=True, **arguments)
        y = layer(np.ones((self.N, 2, self.UNITS), "float32"), training=True).numpy()
        inputs = y[:, 0]
        kept = inputs > 0
        states = (y[:, 1] - 2 * inputs)[kept] / inputs[kept]
        share = np.mean(states > 0)
        self.assertLess(abs(share - 0.6), 5 * np.sqrt(0.24 / states.size))
        self.check(inputs, 0.3)

    def test_off_in_inference_and_in_draws(self) -> None:
        layer = self.layer(recurrent=False, dropout=0.3)
        x = np.ones((4, 3, self.UNITS), "float32")
        before = layer.seed.state.numpy()
        for call in ({}, {"draw": make_draw(0, 1)}, {"draw": make_draw(0, 1), "training": True}):
            self.assertAllClose(layer(x, **call), 3.0 * np.ones((4, self.UNITS)))
        self.assertAllEqual(layer.seed.state, before)

    def test_a_mask_of_its_own_at_each_step_of_training(self) -> None:
        layer = self.layer(recurrent=False, dropout=0.5)
        x = np.ones((self.N, 1, self.UNITS), "float32")
        a, b = (layer(x, training=True).numpy().ravel() for _ in range(2))
        self.assertLess(abs(np.corrcoef(a, b)[0, 1]), 5 / np.sqrt(a.size))


if __name__ == "__main__":
    tf.test.main()

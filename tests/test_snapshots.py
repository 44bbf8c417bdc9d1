"""Snapshots are equal where nothing has changed, and other wherever something has."""

from typing import Any

import keras
import numpy as np
import stock_layers
import tensorflow as tf
from absl.testing import parameterized

from tfbdl.keras_private import settings_of, walk
from tfbdl.snapshots import snapshot


class Held:
    def __init__(self) -> None:
        self.values, self.itself = [1.0, {"a": np.ones(3)}], self


CHANGES = {
    "a list": (lambda: [1, 2], lambda v: v.append(3)),
    "inside a list": (lambda: [1, [2]], lambda v: v[1].append(3)),
    "a set": (lambda: {1, 2}, lambda v: v.add(3)),
    "a mapping": (lambda: {"a": 1}, lambda v: v.update(a=2)),
    "an order": (lambda: {"a": 1, "b": 2}, lambda v: v.update(a=v.pop("a"))),
    "an array": (lambda: np.ones(3), lambda v: v.fill(2)),
    "words": (lambda: np.array(["a", None], object), lambda v: v.fill("c")),
    "an object": (Held, lambda v: v.values[1]["a"].fill(2)),
    "a config": (lambda: keras.regularizers.L2(0.1), lambda v: setattr(v, "l2", 0.2)),
}


class SnapshotTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.named_parameters((name, *change) for name, change in CHANGES.items())
    def test_a_change(self, make: Any, change: Any) -> None:
        value = make()
        before = snapshot(value)
        self.assertEqual(before, snapshot(value))
        change(value)
        self.assertNotEqual(before, snapshot(value))

    @parameterized.parameters(object, lambda: tf.Variable(1.0), lambda: keras.layers.Dense(1))
    def test_another_object(self, make: Any) -> None:
        one = make()
        self.assertEqual(snapshot(one), snapshot(one))
        self.assertNotEqual(snapshot(one), snapshot(make()))

    @parameterized.parameters(1.0, np.float32(1.0), "a", b"a", None, True, float("nan"))
    def test_plain_values(self, value: Any) -> None:
        self.assertEqual([snapshot(value)], [snapshot(value)])
        self.assertNotEqual([snapshot(value)], [snapshot("another")])

    def test_tensors(self) -> None:
        ones = tf.ones(3)
        self.assertEqual(snapshot(ones), snapshot(tf.ones(3)))
        for other in (2 * ones, tf.ones(4), tf.ones(3, "float64"), tf.ones((3, 1))):
            self.assertNotEqual(snapshot(ones), snapshot(other))

    def test_what_calls_leave_behind(self) -> None:
        left = []
        tf.function(lambda: left.append(tf.random.uniform(())))()
        self.assertEqual(snapshot(left[0]), snapshot(None))


class SettingsTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(*stock_layers.CASES)
    def test_calls_change_no_settings(self, name: str) -> None:
        """Any layer of Keras keeps its own, so that its model is not compiled anew each call."""
        (model, _), x = stock_layers.network(name), stock_layers.inputs(name)
        model(x)
        before = [settings_of(layer) for layer in walk(model)]
        tf.function(lambda: model(x), autograph=False)()
        self.assertEqual(before, [settings_of(layer) for layer in walk(model)])


if __name__ == "__main__":
    tf.test.main()

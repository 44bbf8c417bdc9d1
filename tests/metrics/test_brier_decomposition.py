"""The decomposition of the Brier score over batches, against that of all examples at once."""

import dataclasses
import itertools
import math
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import two_replicas
from absl.testing import parameterized
from metric_cases import classification

from tfbdl import metrics

Y, P = classification(503)
LOGITS = np.log(P) + np.arange(503)[:, None]
STOPS = (0, 1, 8, 300, 503)


def parts_at_once(y: Any, p: Any, num_bins: int = 15) -> Any:
    parts = dataclasses.asdict(metrics.brier_decomposition(y, p, num_bins))
    return {f"brier_{name}": value for name, value in parts.items()}


class BrierDecompositionTest(tf.test.TestCase, parameterized.TestCase):
    def feed(
        self, metric: Any, y: Any, outputs: Any, weights: Any = None, graph: bool = False
    ) -> Any:
        """The metric's parts after unequal batches, reset once in between."""
        update = metric.update_state
        if graph:
            update = tf.function(update, reduce_retracing=True)
        update(y[:3], outputs[:3])
        metric.reset_state()
        for start, stop in itertools.pairwise(STOPS):
            batch = slice(start, stop)
            update(y[batch], outputs[batch], *(() if weights is None else (weights[batch],)))
        return metric.result()

    def check(self, got: Any, expected: Any) -> None:
        self.assertEqual(list(got), list(expected))
        self.assertAllClose(got, expected, 1e-9, 1e-12)

    @parameterized.product(num_bins=(1, 4, 15), graph=(False, True))
    def test_exact_over_batches(self, num_bins: int, graph: Any) -> None:
        expected = parts_at_once(Y, P, num_bins)
        self.check(self.feed(metrics.BrierDecomposition(4, num_bins), Y, P, graph=graph), expected)
        metric = metrics.BrierDecomposition(4, num_bins, from_logits=True)
        self.check(self.feed(metric, Y[:, None], LOGITS, graph=graph), expected)

    def test_two_classes_by_one_output(self) -> None:
        y, p = classification(503, 2)
        self.check(self.feed(metrics.BrierDecomposition(2), y, p[:, 1:]), parts_at_once(y, p))

    def test_parts_add_up_to_the_score(self) -> None:
        reliability, resolution, uncertainty, variance, covariance = self.feed(
            metrics.BrierDecomposition(4), Y, P
        ).values()
        total = reliability - resolution + uncertainty + variance - covariance
        self.assertAllClose(total, metrics.brier_score(Y, P), 1e-12)

    def test_weights_are_repetitions(self) -> None:
        weights = np.arange(len(Y)) % 4
        expected = parts_at_once(np.repeat(Y, weights), np.repeat(P, weights, axis=0))
        for shape in (weights, weights[:, None].astype(np.float32)):
            self.check(self.feed(metrics.BrierDecomposition(4), Y, P, shape), expected)

    def test_under_xla(self) -> None:
        metric = metrics.BrierDecomposition(4)
        tf.function(metric.update_state, jit_compile=True)(Y, P)
        self.check(metric.result(), parts_at_once(Y, P))

    def test_two_replicas(self) -> None:
        strategy = two_replicas.strategy()
        with strategy.scope():
            metric = metrics.BrierDecomposition(4)
        data = tf.data.Dataset.from_tensor_slices((Y[:200], P[:200])).batch(100)
        step = tf.function(metric.update_state, reduce_retracing=True)
        for batch in strategy.experimental_distribute_dataset(data):
            strategy.run(step, batch)
        self.check(metric.result(), parts_at_once(Y[:200], P[:200]))

    def test_in_fit_and_evaluate(self) -> None:
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4, "softmax")])
        loss = keras.losses.SparseCategoricalCrossentropy()
        model.compile(keras.optimizers.SGD(0.0), loss, metrics=[metrics.BrierDecomposition(4)])
        x = LOGITS - LOGITS.mean(axis=1, keepdims=True)
        expected = parts_at_once(Y, model.predict(x, verbose=0))
        logs = model.evaluate(x, Y, 100, return_dict=True, verbose=0)
        history = model.fit(x, Y, 100, validation_data=(x, Y), verbose=0).history
        for name, value in expected.items():
            self.assertAllClose(logs[name], value, 1e-6, 1e-6)
            self.assertAllClose(history[f"val_{name}"], [value], 1e-6, 1e-6)

    def test_config_makes_the_same_metric(self) -> None:
        metric = metrics.BrierDecomposition(3, 7, True, "mine")
        again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(metric))
        self.assertEqual(again.get_config(), metric.get_config())
        self.assertEqual(next(iter(again.result())), "mine_reliability")
        self.assertAllClose(list(again.result().values()), np.zeros(5))

    def test_nan_stays_nan(self) -> None:
        outputs = np.where(np.arange(len(Y))[:, None] == 7, np.nan, P)
        for value in self.feed(metrics.BrierDecomposition(4), Y, outputs).values():
            self.assertTrue(math.isnan(value))

    def test_refusals(self) -> None:
        with self.assertRaisesRegex(
            ValueError, "^y_pred has 4 classes; give num_classes=4 instead"
        ):
            metrics.BrierDecomposition(3).update_state(Y, P)
        with self.assertRaisesRegex(ValueError, "^num_classes=1 must be at least 2"):
            metrics.BrierDecomposition(1)
        with self.assertRaisesRegex(ValueError, "^num_bins=0 must be a positive integer$"):
            metrics.BrierDecomposition(4, num_bins=0)
        with self.assertRaisesRegex(ValueError, "looks like logits"):
            metrics.BrierDecomposition(4).update_state(Y, LOGITS)


if __name__ == "__main__":
    tf.test.main()

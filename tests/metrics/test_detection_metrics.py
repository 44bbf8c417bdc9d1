"""Detection by uncertainty over batches, against scikit-learn and the functions."""

import itertools
import math
from typing import Any

import keras
import numpy as np
import sklearn.metrics
import tensorflow as tf
import two_replicas
from absl.testing import parameterized

from tfbdl import metrics

RNG = np.random.default_rng(0)
IS_OUT = RNG.random(503) < 0.3
SCORES = np.round(RNG.normal(IS_OUT * 0.7), 1)  # with ties
STOPS = (0, 1, 8, 300, 503)


def fpr_at_95(is_out: Any, scores: Any) -> Any:
    """The rate by scikit-learn's curve, on which examples in the distribution are to be found."""
    fpr, tpr, _ = sklearn.metrics.roc_curve(~is_out, -scores, drop_intermediate=False)
    return fpr[np.argmax(tpr >= 0.95)]


CASES = {
    "auroc": (metrics.AUROC, sklearn.metrics.roc_auc_score, metrics.auroc),
    "aupr": (metrics.AUPR, sklearn.metrics.average_precision_score, metrics.aupr),
    "false_positive_rate": (metrics.FalsePositiveRate, fpr_at_95, metrics.false_positive_rate),
}


class DetectionMetricTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.product(name=list(CASES), graph=(False, True))
    def test_exact_over_batches(self, name: str, graph: Any) -> None:
        cls, reference, function = CASES[name]
        metric = cls()
        update = metric.update_state
        if graph:
            update = tf.function(update, reduce_retracing=True)
        update(IS_OUT[:9], SCORES[:9])
        metric.reset_state()
        for start, stop in itertools.pairwise(STOPS):
            update(IS_OUT[start:stop], SCORES[start:stop])
        expected = reference(IS_OUT, SCORES)
        self.assertAllClose(metric.result(), expected, 1e-12)
        self.assertAllClose(function(SCORES[~IS_OUT], SCORES[IS_OUT]), expected, 1e-12)

    @parameterized.parameters(*CASES)
    def test_one_kind_a_batch(self, name: str) -> None:
        """As they come from `tfbdl.predict` on one data set and then on another."""
        cls, reference, _ = CASES[name]
        metric = cls()
        for kind in (False, True):
            scores = SCORES[kind == IS_OUT].astype(np.float32)[:, None]
            metric.update_state(np.full(scores.shape, int(kind)), scores)
        expected = reference(IS_OUT, SCORES.astype(np.float32))
        self.assertAllClose(metric.result(), expected, 1e-12)

    def test_undefined(self) -> None:
        for cls, only_out in (
            (metrics.AUROC, math.nan),
            (metrics.AUPR, 1.0),
            (metrics.FalsePositiveRate, math.nan),
        ):
            self.assertTrue(math.isnan(cls().result()))
            self.assertTrue(math.isnan(cls()([0, 0], [1.0, 2.0])))
            self.assertAllEqual(cls()([1, 1], [1.0, 2.0]), only_out)
            self.assertTrue(math.isnan(cls()([0, 1], [1.0, math.nan])))

    @parameterized.parameters(*CASES)
    def test_in_evaluate(self, name: str) -> None:
        """A model whose outputs are uncertainties."""
        cls, reference, _ = CASES[name]
        model = keras.Sequential(
            [keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="ones")]
        )
        model.compile(loss="mse", metrics=[cls()], jit_compile=False)
        logs = model.evaluate(SCORES[:, None], IS_OUT, 100, return_dict=True, verbose=0)
        expected = reference(IS_OUT, SCORES.astype(np.float32))
        self.assertAllClose(logs[name], expected, 1e-6)

    def test_two_replicas(self) -> None:
        strategy = two_replicas.strategy()
        with strategy.scope():
            metric = metrics.AUPR()
        data = tf.data.Dataset.from_tensor_slices((IS_OUT[:200], SCORES[:200])).batch(100)
        step = tf.function(metric.update_state, reduce_retracing=True)
        for batch in strategy.experimental_distribute_dataset(data):
            strategy.run(step, batch)
        expected = sklearn.metrics.average_precision_score(IS_OUT[:200], SCORES[:200])
        self.assertAllClose(metric.result(), expected, 1e-12)

    @parameterized.parameters(*CASES)
    def test_refusals(self, name: str) -> None:
        metric = CASES[name][0]()
        with self.assertRaisesRegex(ValueError, "^is_out has a value other than"):
            metric.update_state([0, 2], [0.1, 0.2])
        with self.assertRaisesRegex(ValueError, "^is_out has shape .2, 2.; give one number an ex"):
            metric.update_state([[0, 1], [0, 1]], [0.1, 0.2])
        with self.assertRaisesRegex(ValueError, "^uncertainty has shape .2, 3.; give one number"):
            metric.update_state([0, 1], np.ones((2, 3)))
        with self.assertRaisesRegex(ValueError, "^is_out has 1 examples and uncertainty has 2;"):
            metric.update_state([0], [0.1, 0.2])
        with self.assertRaisesRegex(ValueError, "^sample_weight is given, but"):
            metric.update_state([0, 1], [0.1, 0.2], [1.0, 2.0])


if __name__ == "__main__":
    tf.test.main()

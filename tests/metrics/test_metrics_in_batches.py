"""Keras metrics, fed batch by batch, against the functions of all examples at once."""

import itertools
import math
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import two_replicas
from absl.testing import parameterized
from metric_cases import classification

from tfbdl import likelihoods, metrics

RNG = np.random.default_rng(3)
Y, P = classification(1003)
LOGITS = np.log(P) + RNG.normal(size=(len(Y), 1))
_, REFERENCE = classification(1003, seed=1)
TARGETS = RNG.normal(size=(len(Y), 2))
MEANS, SCALES = RNG.normal(size=(2, *TARGETS.shape))
STOPS = (0, 1, 8, 500, 501, 1003)


def by_certainty(function: Any) -> Any:
    return lambda y, p: function(y, p, -p.max(axis=1))


def few_bins(function: Any) -> Any:
    return lambda y, p: function(y, p, 4)


OF_SUMS = {
    "nll": (metrics.NegativeLogLikelihood, {}, metrics.negative_log_likelihood),
    "brier": (metrics.BrierScore, {}, metrics.brier_score),
    "ece": (metrics.ExpectedCalibrationError, {}, metrics.expected_calibration_error),
    "mce": (metrics.MaximumCalibrationError, {}, metrics.maximum_calibration_error),
    "ece4": (
        metrics.ExpectedCalibrationError,
        {"num_bins": 4},
        few_bins(metrics.expected_calibration_error),
    ),
    "mce4": (
        metrics.MaximumCalibrationError,
        {"num_bins": 4},
        few_bins(metrics.maximum_calibration_error),
    ),
}
OF_RANKS = {
    "ace": (metrics.AdaptiveCalibrationError, {}, metrics.adaptive_calibration_error),
    "ace4": (
        metrics.AdaptiveCalibrationError,
        {"num_bins": 4},
        few_bins(metrics.adaptive_calibration_error),
    ),
    "debiased": (metrics.DebiasedCalibrationError, {}, metrics.debiased_calibration_error),
    "error_auroc": (metrics.ErrorAUROC, {}, by_certainty(metrics.error_auroc)),
    "error_aupr": (metrics.ErrorAUPR, {}, by_certainty(metrics.error_aupr)),
    "aurc": (metrics.AreaUnderRiskCoverage, {}, by_certainty(metrics.area_under_risk_coverage)),
    "augrc": (
        metrics.AreaUnderGeneralizedRiskCoverage,
        {},
        by_certainty(metrics.area_under_generalized_risk_coverage),
    ),
    "e_aurc": (
        metrics.ExcessAreaUnderRiskCoverage,
        {},
        by_certainty(metrics.excess_area_under_risk_coverage),
    ),
}
OF_LABELS = OF_SUMS | OF_RANKS
OF_REFERENCE = {
    "agreement": (metrics.Agreement, metrics.agreement),
    "total_variation": (metrics.TotalVariation, metrics.total_variation),
}
METRICS = (
    *(cls for cls, _, _ in OF_LABELS.values()),
    *(cls for cls, _ in OF_REFERENCE.values()),
    metrics.IntervalCoverage,
    metrics.IntervalScore,
    metrics.NormalCRPS,
    metrics.SampleCRPS,
    metrics.AUROC,
    metrics.AUPR,
    metrics.FalsePositiveRate,
)


def softmax(logits: Any) -> Any:
    exp = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exp / exp.sum(axis=1, keepdims=True)


class BatchCase(tf.test.TestCase, parameterized.TestCase):
    def feed(
        self, metric: Any, y: Any, outputs: Any, weights: Any = None, graph: bool = False
    ) -> float:
        """The metric's value after unequal batches, reset once in between."""
        update = metric.update_state
        if graph:
            update = tf.function(update, reduce_retracing=True)
        update(y[:3], outputs[:3], *(() if weights is None else (weights[:3],)))
        metric.reset_state()
        for start, stop in itertools.pairwise(STOPS):
            batch = slice(start, stop)
            update(y[batch], outputs[batch], *(() if weights is None else (weights[batch],)))
        result = metric.result()
        self.assertEqual(result.shape, ())
        self.assertEqual(result.dtype, tf.float64)
        return float(result)


class ExactTest(BatchCase):
    @parameterized.parameters(*OF_LABELS)
    def test_of_labels(self, name: str) -> None:
        cls, arguments, function = OF_LABELS[name]
        expected = function(Y, P)
        self.assertAllClose(self.feed(cls(**arguments), Y, P), expected, 1e-12)
        self.assertAllClose(self.feed(cls(**arguments), Y[:, None], P), expected, 1e-12)
        p = P.astype(np.float32)
        self.assertAllClose(self.feed(cls(**arguments), Y * 1.0, p), function(Y, p), 1e-12)

    @parameterized.parameters(*OF_LABELS)
    def test_of_logits(self, name: str) -> None:
        cls, arguments, function = OF_LABELS[name]
        got = self.feed(cls(from_logits=True, **arguments), Y, LOGITS)
        self.assertAllClose(got, function(Y, softmax(LOGITS)), 1e-9)

    @parameterized.parameters(*OF_LABELS)
    def test_of_two_classes_by_one_output(self, name: str) -> None:
        cls, arguments, function = OF_LABELS[name]
        y, p = classification(1003, 2)
        expected = function(y, p)
        self.assertAllClose(self.feed(cls(**arguments), y, p[:, 1]), expected, 1e-9)
        self.assertAllClose(self.feed(cls(**arguments), y[:, None], p[:, 1:]), expected, 1e-9)
        logit = np.log(p[:, 1:] / p[:, :1])
        got = self.feed(cls(from_logits=True, **arguments), y, logit)
        self.assertAllClose(got, expected, 1e-9)

    @parameterized.parameters(*OF_REFERENCE)
    def test_of_reference(self, name: str) -> None:
        cls, function = OF_REFERENCE[name]
        expected = function(P, REFERENCE)
        self.assertAllClose(self.feed(cls(), REFERENCE, P), expected, 1e-12)
        self.assertAllClose(self.feed(cls(from_logits=True), REFERENCE, LOGITS), expected, 1e-9)

    def test_interval_coverage(self) -> None:
        lower, upper = MEANS - 1, MEANS + np.exp(SCALES)
        outputs = np.concatenate([lower, upper], axis=1)
        expected = metrics.interval_coverage(TARGETS, lower, upper)
        self.assertAllClose(self.feed(metrics.IntervalCoverage(), TARGETS, outputs), expected)
        expected = metrics.interval_coverage(TARGETS[:, 0], lower[:, 0], upper[:, 0])
        got = self.feed(metrics.IntervalCoverage(), TARGETS[:, 0], outputs[:, ::2])
        self.assertAllClose(got, expected, 1e-12)

    def test_interval_score(self) -> None:
        lower, upper = MEANS - 1, MEANS + np.exp(SCALES)
        outputs = np.concatenate([lower, upper], axis=1)
        for level in (0.5, 0.95):
            expected = metrics.interval_score(TARGETS, lower, upper, level)
            got = self.feed(metrics.IntervalScore(level), TARGETS, outputs, graph=level > 0.5)
            self.assertAllClose(got, expected, 1e-12)
        outputs[3, 0] = math.nan
        self.assertTrue(math.isnan(self.feed(metrics.IntervalScore(), TARGETS, outputs)))

    def test_fair_crps(self) -> None:
        """Unequal batches; of two samples, by hand."""
        samples = RNG.normal(size=(3, *TARGETS.shape))
        got = self.feed(metrics.SampleCRPS(fair=True), TARGETS, np.moveaxis(samples, 0, 1))
        self.assertAllClose(got, metrics.crps_samples(TARGETS, samples, fair=True), 1e-12)
        pair = np.array([[1.0, 4.0]])
        self.assertAllClose(metrics.SampleCRPS(fair=True)([2.0], pair), (1 + 2 - 3) / 2)
        with self.assertRaisesRegex(ValueError, "^fair=True needs two samples at least"):
            metrics.SampleCRPS(fair=True).update_state([2.0], [[1.0]])

    def test_crps(self) -> None:
        stddev = np.exp(SCALES)
        outputs = np.concatenate([MEANS, stddev], axis=1)
        expected = metrics.crps_normal(TARGETS, MEANS, stddev)
        self.assertAllClose(self.feed(metrics.NormalCRPS(), TARGETS, outputs), expected, 1e-12)
        expected = metrics.crps_normal(TARGETS[:, 0], MEANS[:, 0], stddev[:, 0])
        got = self.feed(metrics.NormalCRPS(), TARGETS[:, :1], outputs[:, ::2])
        self.assertAllClose(got, expected, 1e-12)

    def test_crps_of_samples(self) -> None:
        samples = RNG.normal(size=(7, *TARGETS.shape))
        outputs = np.moveaxis(samples, 0, 1)
        for graph in (False, True):
            got = self.feed(metrics.SampleCRPS(), TARGETS, outputs, graph=graph)
            self.assertAllClose(got, metrics.crps_samples(TARGETS, samples), 1e-12)
        expected = metrics.crps_samples(TARGETS[:, 0], samples[..., 0])
        for y in (TARGETS[:, 0], TARGETS[:, :1]):
            got = self.feed(metrics.SampleCRPS(), y, outputs[..., 0])
            self.assertAllClose(got, expected, 1e-12)
        metric = metrics.SampleCRPS()
        tf.function(metric.update_state, jit_compile=True)(TARGETS, outputs)
        self.assertAllClose(metric.result(), metrics.crps_samples(TARGETS, samples), 1e-9)

    def test_crps_of_the_outputs_of_the_likelihood(self) -> None:
        outputs = np.concatenate([MEANS, SCALES], axis=1)
        normal = likelihoods.Normal("predicted").distribution(tf.constant(outputs))
        expected = metrics.crps_normal(TARGETS, MEANS, normal.stddev())
        got = self.feed(metrics.NormalCRPS(from_raw=True), TARGETS, outputs)
        self.assertAllClose(got, expected, 1e-9)

    @parameterized.parameters(*OF_LABELS)
    def test_in_a_graph(self, name: str) -> None:
        cls, arguments, function = OF_LABELS[name]
        got = self.feed(cls(**arguments), Y, P, graph=True)
        self.assertAllClose(got, function(Y, P), 1e-12)

    @parameterized.parameters(*OF_SUMS)
    def test_under_xla(self, name: str) -> None:
        cls, arguments, function = OF_SUMS[name]
        metric = cls(**arguments)
        update = tf.function(metric.update_state, jit_compile=True)
        for start in (0, 400):
            update(Y[start : start + 400], P[start : start + 400])
        self.assertAllClose(metric.result(), function(Y[:800], P[:800]), 1e-9)

    def test_impossible_and_nearly_impossible(self) -> None:
        metric = metrics.NegativeLogLikelihood()
        self.assertEqual(metric([1], [[1.0, 0.0]]), math.inf)
        metric = metrics.NegativeLogLikelihood(from_logits=True)
        self.assertAllClose(metric([1], [[1e5, 0.0]]), 1e5)

    @parameterized.parameters(7, 15, 100)
    def test_edges_of_bins(self, num_bins: int) -> None:
        p = np.arange(1, num_bins + 1) / num_bins
        y = np.arange(num_bins) % 2
        metric = metrics.ExpectedCalibrationError(num_bins)
        metric.update_state(y, p)
        expected = metrics.expected_calibration_error(y, p, num_bins)
        self.assertAllClose(metric.result(), expected, 1e-12)

    def test_half_precision_outputs(self) -> None:
        metric = metrics.BrierScore()
        metric.update_state(Y, tf.constant(P, tf.bfloat16) * 0 + tf.constant(0.25, tf.bfloat16))
        self.assertAllClose(metric.result(), 0.75, 1e-12)

    def test_two_replicas(self) -> None:
        for name in ("ece", "error_auroc"):
            cls, arguments, function = OF_LABELS[name]
            strategy = two_replicas.strategy()
            with strategy.scope():
                metric = cls(**arguments)
            data = tf.data.Dataset.from_tensor_slices((Y[:200], P[:200])).batch(100)
            step = tf.function(lambda y, p, m=metric: m.update_state(y, p), reduce_retracing=True)
            for batch in strategy.experimental_distribute_dataset(data):
                strategy.run(step, batch)
            self.assertAllClose(metric.result(), function(Y[:200], P[:200]), 1e-12)


class WeightTest(BatchCase):
    @parameterized.parameters(*OF_SUMS)
    def test_weights_are_repetitions(self, name: str) -> None:
        cls, arguments, function = OF_SUMS[name]
        weights = np.arange(len(Y)) % 4
        expected = function(np.repeat(Y, weights), np.repeat(P, weights, axis=0))
        for shape in (weights, weights[:, None].astype(np.float32)):
            self.assertAllClose(self.feed(cls(**arguments), Y, P, shape), expected, 1e-9)

    def test_weights_of_targets(self) -> None:
        weights = np.arange(len(Y)) % 4
        outputs = np.concatenate([MEANS, np.exp(SCALES)], axis=1)
        repeated = [np.repeat(a, weights, axis=0) for a in (TARGETS, MEANS, np.exp(SCALES))]
        got = self.feed(metrics.NormalCRPS(), TARGETS, outputs, weights)
        self.assertAllClose(got, metrics.crps_normal(*repeated), 1e-9)
        samples = RNG.normal(size=(len(Y), 6, 2))
        got = self.feed(metrics.SampleCRPS(), TARGETS, samples, weights)
        copies = np.moveaxis(np.repeat(samples, weights, axis=0), 1, 0)
        expected = metrics.crps_samples(np.repeat(TARGETS, weights, axis=0), copies)
        self.assertAllClose(got, expected, 1e-9)

    @parameterized.parameters(*OF_RANKS)
    def test_ranks_know_no_weights(self, name: str) -> None:
        metric = OF_RANKS[name][0]()
        with self.assertRaisesRegex(ValueError, "^sample_weight is given, but .* metrics, not in"):
            metric.update_state(Y, P, np.ones(len(Y)))


VALUES = {
    "num_bins": 7,
    "from_logits": True,
    "from_raw": True,
    "true_positive_rate": 0.5,
    "level": 0.5,
    "fair": True,
}


class StateTest(BatchCase):
    @parameterized.parameters(*METRICS)
    def test_config_makes_the_same_metric(self, cls: Any) -> None:
        arguments: dict[str, Any] = {"name": "mine"}
        known = cls().get_config()
        for argument, value in VALUES.items():
            if argument in known:
                arguments[argument] = value
        metric = cls(**arguments)
        again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(metric))
        self.assertIs(type(again), cls)
        self.assertEqual(again.get_config(), metric.get_config())
        self.assertEqual(metric.get_config(), {**known, **arguments})
        self.assertEqual(known["dtype"], "float64")

    @parameterized.parameters(*METRICS)
    def test_sums_are_in_float64(self, cls: Any) -> None:
        for variable in cls().variables:
            self.assertIn(variable.dtype, ("float64", "int64"))

    def test_value_of_nothing(self) -> None:
        for cls, _, _ in OF_SUMS.values():
            self.assertEqual(cls().result(), 0.0)
        for cls, _, _ in OF_RANKS.values():
            self.assertTrue(math.isnan(cls().result()))

    def test_default_names(self) -> None:
        names = [cls().name for cls in dict.fromkeys(METRICS)]
        self.assertLen(set(names), len(names))
        self.assertEqual(metrics.ErrorAUROC().name, "error_auroc")

    @parameterized.parameters(
        metrics.ExpectedCalibrationError,
        metrics.MaximumCalibrationError,
        metrics.AdaptiveCalibrationError,
        metrics.DebiasedCalibrationError,
    )
    def test_num_bins_is_checked(self, cls: Any) -> None:
        with self.assertRaisesRegex(ValueError, "^num_bins=0 must be a positive integer$"):
            cls(num_bins=0)


class WrongBatchTest(BatchCase):
    @parameterized.product(name=list(OF_LABELS), graph=(False, True))
    def test_outputs_that_are_no_probabilities(self, name: str, graph: Any) -> None:
        metric = OF_LABELS[name][0]()
        error = tf.errors.InvalidArgumentError if graph else ValueError
        with self.assertRaisesRegex(error, "looks like logits"):
            self.feed(metric, Y, LOGITS * 10, graph=graph)
        with self.assertRaisesRegex(error, "does not sum to one"):
            self.feed(metric, Y, P / 2, graph=graph)

    @parameterized.parameters(-1, 4, 0.5)
    def test_labels_that_are_no_classes(self, label: Any) -> None:
        for cls, _, _ in OF_LABELS.values():
            with self.assertRaisesRegex(ValueError, "^y_true has a label that is no class"):
                cls().update_state([label], P[:1])

    def test_xla_answers_nan(self) -> None:
        for cls, _, _ in OF_SUMS.values():
            metric = cls()
            tf.function(metric.update_state, jit_compile=True)(Y[:9], LOGITS[:9] * 10)
            self.assertTrue(math.isnan(metric.result()), cls)
            for label in (-1, 4):
                metric = cls()
                tf.function(metric.update_state, jit_compile=True)(np.r_[Y[:8], label], P[:9])
                self.assertTrue(math.isnan(metric.result()), (cls, label))

    def test_nan_stays_nan(self) -> None:
        outputs = np.where(np.arange(len(Y))[:, None] == 7, np.nan, P)
        for cls, _, _ in OF_LABELS.values():
            self.assertTrue(math.isnan(self.feed(cls(), Y, outputs)), cls)
            self.assertTrue(math.isnan(self.feed(cls(from_logits=True), Y, outputs)), cls)
        for cls, _ in OF_REFERENCE.values():
            self.assertTrue(math.isnan(self.feed(cls(), REFERENCE, outputs)))
        for cls in (metrics.IntervalCoverage, metrics.NormalCRPS):
            outputs = np.concatenate([MEANS, np.abs(MEANS) + 1], axis=1)
            outputs[5, 1] = math.nan
            self.assertTrue(math.isnan(self.feed(cls(), TARGETS, outputs)))
        self.assertTrue(math.isnan(self.feed(metrics.SampleCRPS(), TARGETS[:, 0], outputs)))

    def test_wrong_regression_outputs(self) -> None:
        wrong = np.concatenate([MEANS, -np.abs(MEANS) - 9], axis=1)
        with self.assertRaisesRegex(ValueError, "^y_pred has a lower end above its upper"):
            metrics.IntervalCoverage().update_state(TARGETS, wrong)
        with self.assertRaisesRegex(ValueError, "deviation .* not positive"):
            metrics.NormalCRPS().update_state(TARGETS, wrong)

    def test_wrong_shapes(self) -> None:
        one_hot = np.eye(4)[Y]
        for cls, _, _ in OF_LABELS.values():
            with self.assertRaisesRegex(ValueError, "^y_true has shape .1003, 4.; give integer"):
                cls().update_state(one_hot, P)
            with self.assertRaisesRegex(
                ValueError, "^y_true has shape .1003,.; y_pred of shape .1, 1003, 4. "
            ):
                cls().update_state(Y, P[None])
            with self.assertRaisesRegex(ValueError, "^y_true has 5 examples and y_pred has 1003;"):
                cls().update_state(Y[:5], P)
        for cls, _ in OF_REFERENCE.values():
            with self.assertRaisesRegex(ValueError, "^y_true has shape .1003, 2. and y_pred has"):
                cls().update_state(P[:, :2] / P[:, :2].sum(axis=1, keepdims=True), P)
        for cls in (metrics.IntervalCoverage, metrics.NormalCRPS):
            with self.assertRaisesRegex(ValueError, "^y_pred has shape .1003, 3.; give .B, 2 D.: "):
                cls().update_state(TARGETS, np.ones((1003, 3)))
            with self.assertRaisesRegex(ValueError, "^y_true has shape .1003, 1.; y_pred of shape"):
                cls().update_state(TARGETS[:, 0], np.ones((1003, 4)))
        for samples in (np.ones(1003), np.ones((1003, 9)), np.ones((1003, 9, 3))):
            with self.assertRaisesRegex(ValueError, "^y_pred has shape .* needs S samples of each"):
                metrics.SampleCRPS().update_state(TARGETS, samples)


if __name__ == "__main__":
    tf.test.main()

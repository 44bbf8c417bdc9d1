"""What the functions refuse, and the words of it."""

import math
import re
from typing import Any

import ml_dtypes
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

from tfbdl import metrics

P = [[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]]
Y = [0, 2]
U = [0.1, 0.2]

OF_CLASSES = {
    "nll": metrics.negative_log_likelihood,
    "brier": metrics.brier_score,
    "decomposition": metrics.brier_decomposition,
    "reliability": metrics.reliability,
    "ece": metrics.expected_calibration_error,
    "mce": metrics.maximum_calibration_error,
    "ace": metrics.adaptive_calibration_error,
    "error_auroc": lambda y, p: metrics.error_auroc(y, p, U),
    "error_aupr": lambda y, p: metrics.error_aupr(y, p, U),
    "risk_coverage": lambda y, p: metrics.risk_coverage(y, p, U),
    "aurc": lambda y, p: metrics.area_under_risk_coverage(y, p, U),
}
OF_BINS = [OF_CLASSES[name] for name in ("decomposition", "reliability", "ece", "mce", "ace")]
OF_UNCERTAINTY = (
    metrics.error_auroc,
    metrics.error_aupr,
    metrics.risk_coverage,
    metrics.area_under_risk_coverage,
)

WRONG_P = [
    ([], "p has shape (0,), which is empty; give some examples"),
    (np.zeros((0, 3)), "p has shape (0, 3), which is empty; give some examples"),
    (P[:1], "y has 2 examples and p has 1; give both of the same examples"),
    (
        np.ones((2, 2, 2)),
        "y has shape (2,); p of shape (2, 2, 2) needs labels of shape (2, 2)",
    ),
    ([[math.nan, 1.0], [0.5, 0.5]], "p has nan at index (0, 0); leave out NaN and Inf"),
    ([[0.5, 0.5], [0.5, math.inf]], "p has inf at index (1, 1); leave out NaN and Inf"),
    (
        [[0.5, 0.5], [-2.5, 3.0]],
        "p has -2.5 at index (1, 0), outside [0, 1]: the rows look like logits; "
        "apply softmax first",
    ),
    (
        [0.5, 3.0],
        "p has 3 at index 1, outside [0, 1]: the rows look like logits; apply softmax first",
    ),
    (
        [[0.5, 0.5], [0.4, 0.5]],
        "p has a row with the sum 0.9 at index 1; the probabilities of an example must sum to one",
    ),
    ([[0.5, 0.5], [1.0]], "p has rows of different lengths; give one array"),
    ([["a", "b"], ["c", "d"]], "p has dtype <U1; give real numbers"),
    ([[1j, 0], [0, 1]], "p has dtype complex128; give real numbers"),
]
WRONG_Y = [
    ([], "y has shape (0,), which is empty; give some examples"),
    ([0], "y has 1 examples and p has 2; give both of the same examples"),
    ([0, 1, 2], "y has 3 examples and p has 2; give both of the same examples"),
    ([0, 3], "y has the label 3 at index 1; p has 3 classes, so give labels from 0 to 2"),
    ([-1, 0], "y has the label -1 at index 0; p has 3 classes, so give labels from 0 to 2"),
    ([0.0, 1.0], "y has dtype float64; give integer labels"),
    ([0, math.nan], "y has nan at index 1; leave out NaN and Inf"),
    ([[1, 0, 0], [0, 0, 1]], "y has shape (2, 3); give one number an example, shape (N,)"),
    (["cat", "dog"], "y has dtype <U3; give real numbers"),
]


def product(*columns: Any) -> Any:
    """All combinations, as rows of parameters."""
    rows = [()]
    for column in columns:
        rows = [
            (*row, *(item if isinstance(item, tuple) else (item,)))
            for row in rows
            for item in column
        ]
    return rows


class RefusalCase(tf.test.TestCase, parameterized.TestCase):
    def assert_refused(self, message: str, function: Any, *arguments: Any) -> None:
        with self.assertRaisesRegex(ValueError, f"^{re.escape(message)}$"):
            function(*arguments)
        self.assertNotIn("\n", message)


class ClassesTest(RefusalCase):
    @parameterized.parameters(*product(OF_CLASSES, WRONG_P))
    def test_probabilities(self, name: str, p: Any, message: str) -> None:
        self.assert_refused(message, OF_CLASSES[name], Y, p)

    @parameterized.parameters(*product(OF_CLASSES, WRONG_Y))
    def test_labels(self, name: str, y: Any, message: str) -> None:
        self.assert_refused(message, OF_CLASSES[name], y, P)

    @parameterized.parameters(*product(OF_BINS, (0, -1, 1.5, "ten", None, True)))
    def test_num_bins(self, function: Any, num_bins: int) -> None:
        message = f"num_bins={num_bins!r} must be a positive integer"
        self.assert_refused(message, function, Y, P, num_bins)

    @parameterized.parameters(
        *product(
            OF_UNCERTAINTY,
            [
                ([], "uncertainty has shape (0,), which is empty; give some examples"),
                ([1.0], "uncertainty has 1 examples and y has 2; give both of the same examples"),
                ([1.0, math.nan], "uncertainty has nan at index 1; leave out NaN and Inf"),
                (
                    [[1.0], [2.0]],
                    "uncertainty has shape (2, 1); give one number an example, shape (N,)",
                ),
            ],
        )
    )
    def test_uncertainty(self, function: Any, uncertainty: Any, message: str) -> None:
        self.assert_refused(message, function, Y, P, uncertainty)

    def test_rounding_is_taken(self) -> None:
        """Sums of float16 rows, and float32 means that leave [0, 1]."""
        rng = np.random.default_rng(0)
        p = rng.dirichlet(np.ones(500), 50)
        y = rng.integers(500, size=50)
        exact = metrics.negative_log_likelihood(y, p)
        for dtype, tolerance in ((np.float16, 1e-2), (np.float32, 1e-6)):
            got = metrics.negative_log_likelihood(y, p.astype(dtype))
            self.assertAllClose(got, exact, tolerance)
        beyond = np.array([[1.0 + 2e-7, -2e-7]], np.float32)
        self.assertEqual(metrics.negative_log_likelihood([0], beyond), 0.0)
        self.assertEqual(metrics.expected_calibration_error([0], beyond), 0.0)

    @parameterized.parameters(
        np.int8, np.uint8, np.int64, np.uint64, bool, np.float16, np.float32, ml_dtypes.bfloat16
    )
    def test_all_dtypes(self, dtype: Any) -> None:
        p = np.array([[1, 0], [0, 1]], dtype)
        self.assertEqual(metrics.brier_score(np.array([0, 0], np.uint8), p), 1.0)
        if np.dtype(dtype).kind in "iub":
            self.assertEqual(metrics.brier_score(np.array([0, 1], dtype), p), 0.0)

    def test_arrays_are_left_as_they_are(self) -> None:
        y, p = np.array(Y), np.array(P)
        for function in OF_CLASSES.values():
            function(y, p)
        self.assertAllEqual(y, Y)
        self.assertAllEqual(p, P)

    def test_tensors(self) -> None:
        got = metrics.brier_score(tf.constant(Y), tf.constant(P, tf.float64))
        self.assertEqual(got, metrics.brier_score(Y, P))


class PairsTest(RefusalCase):
    @parameterized.parameters(metrics.agreement, metrics.total_variation)
    def test_pairs_of_predictions(self, function: Any) -> None:
        self.assert_refused(
            "reference has shape (1, 3) and p has shape (2, 3); give both the same shape",
            function,
            P,
            P[:1],
        )
        self.assert_refused(
            "reference has -1 at index (0, 0), outside [0, 1]: the rows look like logits; "
            "apply softmax first",
            function,
            P,
            [[-1.0, 2.0, 0.0], [0.0, 0.0, 1.0]],
        )
        self.assert_refused("p has dtype <U1; give real numbers", function, ["a"], [0.5])

    @parameterized.parameters(metrics.auroc, metrics.aupr)
    def test_scores(self, function: Any) -> None:
        self.assert_refused(
            "scores_in has shape (0,), which is empty; give some examples", function, [], U
        )
        self.assert_refused(
            "scores_out has shape (0,), which is empty; give some examples", function, U, []
        )
        self.assert_refused(
            "scores_out has inf at index 1; leave out NaN and Inf", function, U, [0.0, math.inf]
        )
        self.assert_refused(
            "scores_in has shape (1, 2); give one number an example, shape (N,)", function, [U], U
        )


class RegressionTest(RefusalCase):
    def test_intervals(self) -> None:
        message = "lower has 3 at index 1, where upper has 2; give lower <= upper"
        self.assert_refused(message, metrics.interval_coverage, U, [0.0, 3.0], [1.0, 2.0])
        self.assert_refused(message, metrics.interval_width, [0.0, 3.0], [1.0, 2.0])
        message = "upper has shape (1,) and lower has shape (2,); give both the same shape"
        self.assert_refused(message, metrics.interval_width, U, [1.0])
        message = "lower has shape (2, 1) and y has shape (2,); give both the same shape"
        self.assert_refused(message, metrics.interval_coverage, U, [[0.0], [0.0]], U)
        message = "y has shape (0,), which is empty; give some examples"
        self.assert_refused(message, metrics.interval_coverage, [], [], [])
        message = "upper has nan at index 0; leave out NaN and Inf"
        self.assert_refused(message, metrics.interval_width, [0.0], [math.nan])

    @parameterized.parameters(0.0, -1.0)
    def test_stddev(self, stddev: Any) -> None:
        self.assert_refused(
            f"stddev has {stddev:g} at index 1; give positive standard deviations",
            metrics.crps_normal,
            U,
            U,
            [1.0, stddev],
        )

    def test_crps_normal(self) -> None:
        message = "mean has shape (1,) and y has shape (2,); give both the same shape"
        self.assert_refused(message, metrics.crps_normal, U, [1.0], U)
        message = "mean has nan at index 1; leave out NaN and Inf"
        self.assert_refused(message, metrics.crps_normal, U, [0.0, math.nan], U)
        message = "stddev has shape (0,), which is empty; give some examples"
        self.assert_refused(message, metrics.crps_normal, U, U, [])

    def test_more_axes(self) -> None:
        lower, upper = np.zeros((2, 2, 2)), np.ones((2, 2, 2))
        lower[1, 0, 1] = 5
        message = "lower has 5 at index (1, 0, 1), where upper has 1; give lower <= upper"
        self.assert_refused(message, metrics.interval_width, lower, upper)

    @parameterized.parameters((np.zeros((5, 3)), "(5, 3)"), (np.zeros(2), "(2,)"))
    def test_samples(self, samples: Any, shape: Any) -> None:
        self.assert_refused(
            f"samples has shape {shape}; y of shape (2,) needs (S, *y.shape)",
            metrics.crps_samples,
            U,
            samples,
        )

    def test_no_samples(self) -> None:
        message = "samples has shape (0, 2), which is empty; give some examples"
        self.assert_refused(message, metrics.crps_samples, U, np.zeros((0, 2)))


if __name__ == "__main__":
    tf.test.main()

"""Agreement and total variation against loops and values by hand."""

from typing import Any

import numpy as np
import tensorflow as tf
from hypothesis import given
from metric_cases import QUICK, classification, few_classes

from tfbdl import metrics


class AgreementTest(tf.test.TestCase):
    def test_by_hand(self) -> None:
        p = [[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]]
        reference = [[0.4, 0.3, 0.3], [0.1, 0.6, 0.3]]
        self.assertEqual(metrics.agreement(p, reference), 0.5)
        self.assertAllClose(metrics.total_variation(p, reference), (0.1 + 0.4) / 2, 1e-12)
        self.assertIsInstance(metrics.agreement(p, reference), float)
        self.assertIsInstance(metrics.total_variation(p, reference), float)

    def test_against_loops(self) -> None:
        _, p = classification(seed=1)
        _, reference = classification(seed=2)
        same = [max(range(4), key=list(a).__getitem__) for a in p]
        other = [max(range(4), key=list(b).__getitem__) for b in reference]
        expected = np.mean([a == b for a, b in zip(same, other, strict=True)])
        self.assertAllClose(metrics.agreement(p, reference), expected, 1e-12)
        halves = [
            sum(abs(a[c] - b[c]) for c in range(4)) / 2 for a, b in zip(p, reference, strict=True)
        ]
        self.assertAllClose(metrics.total_variation(p, reference), np.mean(halves), 1e-12)

    def test_two_classes_by_one_column(self) -> None:
        p, reference = np.array([0.9, 0.2]), np.array([0.6, 0.8])
        self.assertEqual(metrics.agreement(p, reference), 0.5)
        self.assertAllClose(metrics.total_variation(p, reference[:, None]), 0.45, 1e-12)

    def test_as_far_as_can_be(self) -> None:
        p, reference = np.eye(3), np.eye(3)[[1, 2, 0]]
        self.assertEqual(metrics.agreement(p, reference), 0.0)
        self.assertEqual(metrics.total_variation(p, reference), 1.0)

    @QUICK
    @given(few_classes())
    def test_with_itself_and_symmetry(self, case: Any) -> None:
        _, p = case
        self.assertEqual(metrics.agreement(p, p), 1.0)
        self.assertEqual(metrics.total_variation(p, p), 0.0)
        other = p[::-1]
        self.assertEqual(metrics.agreement(p, other), metrics.agreement(other, p))
        self.assertEqual(metrics.total_variation(p, other), metrics.total_variation(other, p))
        self.assertBetween(metrics.total_variation(p, other), 0.0, 1.0)


if __name__ == "__main__":
    tf.test.main()

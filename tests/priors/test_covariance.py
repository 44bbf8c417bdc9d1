"""What is taken for a covariance, and its factors."""

from typing import Any

import numpy as np
import tensorflow as tf
from absl.testing import parameterized

from tfbdl.priors.covariance import Covariance

RNG = np.random.default_rng(0)


def random_covariance(n: Any, seed: int = 0) -> Any:
    a = np.random.default_rng(seed).normal(size=(n, 2 * n))
    return a @ a.T / n


class CovarianceTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(1, 2, 7, 40)
    def test_factors(self, n: Any) -> None:
        value = random_covariance(n)
        c = Covariance("c", value.tolist())
        self.assertEqual(c.size, n)
        self.assertAllEqual(c.matrix, value)
        self.assertAllClose(c.cholesky @ c.cholesky.T, value, 1e-10)
        self.assertAllEqual(np.triu(c.cholesky, 1), np.zeros((n, n)))
        self.assertAllClose(c.whitening @ c.cholesky, np.eye(n), 1e-9, 1e-9)
        self.assertAllClose(c.half_log_det, 0.5 * np.linalg.slogdet(value)[1], 1e-9)
        self.assertAllClose(c.precision_diagonal, np.diagonal(np.linalg.inv(value)), 1e-8)

    def test_variances_of_any_size_go(self) -> None:
        """What is judged is the correlation."""
        value = np.diag([1e-12, 1.0, 1e12])
        self.assertAllClose(Covariance("c", value).half_log_det, 0.0, 1e-9)

    @parameterized.parameters(
        (3.0, r"^c of shape \(\) must be a square matrix$"),
        (np.ones((2, 3)), r"^c of shape \(2, 3\) must be a square matrix$"),
        (np.ones((2, 2, 2)), r"^c of shape \(2, 2, 2\) must be a square matrix$"),
        (np.ones((0, 0)), r"^c of shape \(0, 0\) must be a square matrix$"),
        ([[1.0], [1.0, 2.0]], "^c=.* must be a matrix of numbers$"),
        ("identity", "^c='identity' must be a matrix of numbers$"),
        (None, r"^c of shape \(\) must be a square matrix$"),
        ([[1.0, np.nan], [np.nan, 1.0]], r"^c of shape \(2, 2\) must be finite$"),
        ([[1.0, 0.5], [0.4, 1.0]], r"^c of shape \(2, 2\) must be symmetric$"),
        ([[1.0, 0.0], [0.0, -1.0]], "^c must have a diagonal > 0, not -1.0$"),
        ([[1.0, 2.0], [2.0, 1.0]], r"^c of shape \(2, 2\) must be positive definite .* add var"),
        (np.ones((3, 3)), r"^c of shape \(3, 3\) must be positive definite "),
        ([[1.0, 1 - 1e-7], [1 - 1e-7, 1.0]], "must be positive definite with eigenvalues .* 1e-06"),
    )
    def test_what_is_none(self, value: Any, message: str) -> None:
        with self.assertRaisesRegex(ValueError, message):
            Covariance("c", value)


if __name__ == "__main__":
    tf.test.main()

"""Diagonal plus low rank against rational arithmetic, for diagonals of very different sizes."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import tensorflow as tf
from absl.testing import parameterized

from tfbdl.posteriors import capacitance

D = 6
ORDINARY = np.array([-1.0, 0.3, -2.5, -0.7, 0.0, -1.6])
SIZES = {
    "ordinary": ORDINARY,
    "one_small": ORDINARY - [42.0, 0, 0, 0, 0, 0],
    "two_small": ORDINARY - [0, 30.0, 0, 60.0, 0, 0],
    "one_large": ORDINARY - [0, 0, -50.0, 0, 0, 0],
    "all_small": ORDINARY - 40.0,
    "steps": np.arange(0.0, -120.0, -20.0),
    "far_apart": ORDINARY - [140.0, 0, 70.0, 0, 0, 20.0],
}
RNG = np.random.default_rng(0)


def columns(rank: int) -> Any:
    return RNG.normal(size=(D, rank)) * 10.0 ** RNG.integers(-3, 1, size=(D, 1))


def exact_solve(matrix: Any, right: Any) -> Any:
    """The determinant and the solution, by elimination of fractions."""
    n, rows = len(matrix), [[*a, *b] for a, b in zip(matrix, right, strict=True)]
    det = Fraction(1)
    for k in range(n):
        best = max(range(k, n), key=lambda i: abs(rows[i][k]))
        rows[k], rows[best] = rows[best], rows[k]
        det *= rows[k][k] if best == k else -rows[k][k]
        rows[k] = [x / rows[k][k] for x in rows[k]]
        for i in range(n):
            if i != k:
                rows[i] = [x - rows[i][k] * y for x, y in zip(rows[i], rows[k], strict=True)]
    return det, [row[n:] for row in rows]


class Exact:
    """Sigma and what follows from it, in fractions; results as floats."""

    def __init__(self, v: Any, log_d: Any) -> None:
        self.v = [[Fraction(float(x)) for x in row] for row in v]
        self.d = [Fraction(float(x)) for x in np.exp(log_d)]
        sigma = [[sum(a * b for a, b in zip(r, s, strict=True)) for s in self.v] for r in self.v]
        for i in range(D):
            sigma[i][i] += self.d[i] ** 2
        identity = [[Fraction(i == j) for j in range(D)] for i in range(D)]
        self.det, self.inverse = exact_solve(sigma, identity)

    def product(self, right: Any) -> Any:
        """Sigma^-1 right."""
        return [
            [sum(a * r[k] for a, r in zip(row, right, strict=True)) for k in range(len(right[0]))]
            for row in self.inverse
        ]

    def half_log_det(self) -> float:
        return 0.5 * (math.log(self.det.numerator) - math.log(self.det.denominator))

    def slope_in_log_d(self) -> Any:
        return [float(self.inverse[i][i] * self.d[i] ** 2) for i in range(D)]


def as_floats(rows: Any) -> Any:
    return np.array([[float(x) for x in row] for row in rows])


@tf.function
def value_and_slopes(function: Any, *arguments: tf.Tensor) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(arguments)
        value = function(*arguments)
    return value, tape.gradient(value, arguments)


class CapacitanceTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.product(sizes=tuple(SIZES), rank=(1, 2, 3, D))
    def test_half_log_det(self, sizes: str, rank: int) -> None:
        """Its value, its slopes in V, Sigma^-1 V, and in log d, the diagonal of d Sigma^-1 d."""
        v, log_d = tf.constant(columns(rank)), tf.constant(SIZES[sizes])
        exact = Exact(v.numpy(), log_d.numpy())
        value, (of_v, of_log_d) = value_and_slopes(capacitance.half_log_det, v, log_d)
        self.assertAllClose(value, exact.half_log_det(), 1e-12, 1e-12)
        true = as_floats(exact.product(exact.v))
        self.assertAllClose(of_v, true, 1e-8, 1e-8 * np.abs(true).max())
        self.assertAllClose(of_log_d, exact.slope_in_log_d(), 1e-9, 1e-12)

    @parameterized.product(sizes=tuple(SIZES), rank=(1, 2, 3, D))
    def test_squared_distance(self, sizes: str, rank: int) -> None:
        """The distance of d e + V z, and its slopes.

        y = Sigma^-1 x gives 2 d y, 2 V^T y and those in V, d.
        """
        v, log_d = tf.constant(columns(rank)), tf.constant(SIZES[sizes])
        e, z = tf.constant(RNG.normal(size=D)), tf.constant(RNG.normal(size=rank))
        exact = Exact(v.numpy(), log_d.numpy())
        value, slopes = value_and_slopes(capacitance.squared_distance, v, log_d, e, z)
        fractions = [[Fraction(float(a)) for a in each] for each in (e.numpy(), z.numpy())]
        x = [
            d * a + sum(p * q for p, q in zip(row, fractions[1], strict=True))
            for d, a, row in zip(exact.d, fractions[0], exact.v, strict=True)
        ]
        y = [row[0] for row in exact.product([[a] for a in x])]
        self.assertAllClose(value, float(sum(a * b for a, b in zip(x, y, strict=True))), 1e-10)
        vy = [sum(row[k] * b for row, b in zip(exact.v, y, strict=True)) for k in range(rank)]
        dy = [d * b for d, b in zip(exact.d, y, strict=True)]
        expected = (
            [[2 * b * (c - g) for c, g in zip(fractions[1], vy, strict=True)] for b in y],
            [[2 * g * (a - g) for a, g in zip(fractions[0], dy, strict=True)]],
            [[2 * g for g in dy]],
            [[2 * g for g in vy]],
        )
        for got, true in zip(slopes, map(as_floats, expected), strict=True):
            size = 1e-8 * np.abs(true).max()
            self.assertAllClose(tf.reshape(got, true.shape), true, 1e-7, max(size, 1e-14))


if __name__ == "__main__":
    tf.test.main()

"""The correlated normals: their factors, their sizes, and what each can reach."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized
from posterior_families import KEY, SHAPE, law, make, samples

from tfbdl import posteriors, priors
from tfbdl.layers import BayesDense

FAMILIES = ("full_covariance", "matrix_normal", "per_output", "low_rank")


def built(family: Any, shape: Any) -> Any:
    q = posteriors.get(family)
    return q.create(keras.layers.Layer(), "w", shape, keras.initializers.Zeros(), priors.get(1.0))


class CovarianceTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.product(family=FAMILIES, shape=(SHAPE, (4,), (1,), (2, 1, 2, 2)))
    def test_is_in_row_major_order(self, family: Any, shape: Any) -> None:
        q = make(family, shape=shape)
        self.assertAllClose(q.covariance(), law(q).covariance, 1e-10, 1e-12)

    def test_starts_diagonal(self) -> None:
        for family in ("full_covariance", "matrix_normal", "per_output"):
            covariance = built(family, SHAPE).covariance().numpy()
            self.assertAllEqual(covariance, np.diag(np.diag(covariance)))

    @parameterized.parameters("mean_field", *FAMILIES)
    def test_variance_of_products_with_inputs(self, family: Any) -> None:
        """x^T Cov(W_u) x for each unit u."""
        q, x = make(family), np.random.default_rng(1).normal(size=(5, SHAPE[0]))
        blocks = law(q).covariance.reshape(*SHAPE, *SHAPE)
        expected = np.einsum("bi,iuju,bj->bu", x, blocks, x)
        self.assertAllClose(q.product_variance(tf.constant(x)), expected, 1e-10)

    def test_other_families_have_no_normal_products(self) -> None:
        with self.assertRaisesRegex(ValueError, "^posterior=Laplace has products with x that"):
            make("laplace").product_variance(tf.ones((1, 3), tf.float64))

    @parameterized.parameters("local_reparameterization", "flipout")
    def test_estimators_that_need_independence_are_refused(self, estimator: str) -> None:
        for family in FAMILIES:
            name = type(posteriors.get(family)).__name__
            with self.assertRaisesRegex(
                ValueError, f"^estimator='{estimator}' .*posterior={name}; use 'repar"
            ):
                BayesDense(3, num_data=10, posterior=family, estimator=estimator)

    @parameterized.parameters(*FAMILIES)
    def test_binary_priors_are_refused(self, family: Any) -> None:
        with self.assertRaisesRegex(ValueError, "^prior=Bernoulli .*'relaxed_bernoulli'$"):
            BayesDense(3, num_data=10, posterior=family, prior="bernoulli")


class SizeTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(
        ("full_covariance", 12 + 12 * 13 // 2),
        ("matrix_normal", 12 + 3 * 4 // 2 + 4 * 5 // 2),
        ("per_output", 12 + 4 * (3 * 4 // 2)),
        ("low_rank", 12 + 12 + 12 * 4),
    )
    def test_numbers(self, family: Any, expected: Any) -> None:
        q = built(family, SHAPE)
        self.assertEqual(sum(v.numpy().size for v in q.variables), expected)

    def test_full_covariance_of_a_large_layer_is_refused(self) -> None:
        with self.assertRaisesRegex(
            ValueError,
            "^kernel of .*: posterior=FullCovarianceNormal over 650,000 weights needs a factor "
            r"of 211,250,325,000 numbers \(845\.0 GB in float32\) and stops at 10,000 rows; use "
            "posterior='low_rank' or 'mean_field'$",
        ):
            BayesDense(650, num_data=10, posterior="full_covariance").build((None, 1000))

    @parameterized.parameters(((20_000, 3), "20,000 rows"), ((3, 20_000), "20,000 columns"))
    def test_matrix_normal_of_a_long_side_is_refused(self, shape: Any, actual: Any) -> None:
        with self.assertRaisesRegex(ValueError, f"^posterior=MatrixNormal over {actual} needs"):
            built("matrix_normal", shape)

    def test_large_weights_have_low_rank(self) -> None:
        q = built("low_rank", (1000, 650))
        w, kl = tf.function(q.sample_and_kl, jit_compile=True)(KEY)
        self.assertTrue(np.all(np.isfinite(w)))
        d, v = (np.asarray(a, np.float64) for a in (q.d, q.v))
        log_det = 2 * np.log(d).sum() + np.linalg.slogdet(np.eye(4) + (v.T / d**2) @ v)[1]
        expected = 0.5 * (np.sum(d**2) + np.sum(v**2) - d.size - log_det)
        self.assertAllClose(kl, expected, 1e-5)


class MatrixNormalTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(
        ((3, 4), (3, 4)), ((4,), (1, 4)), ((1,), (1, 1)), ((3, 2, 5, 4), (30, 4))
    )
    def test_shape_as_a_matrix(self, shape: Any, expected: Any) -> None:
        self.assertEqual(built("matrix_normal", shape).matrix_shape, expected)

    def test_covariance_of_two_elements(self) -> None:
        """Cov(W_ij, W_kl) = (A A^T)_ik (B B^T)_jl, by samples too."""
        q = make("matrix_normal")
        rows, columns = q.row_factor.gram().numpy(), q.column_factor.gram().numpy()
        w = samples(q, 50_000).reshape(-1, *SHAPE) - q.mean.numpy()
        for (i, j), (k, m) in (((0, 1), (2, 3)), ((1, 1), (1, 1)), ((2, 0), (2, 3))):
            product = w[:, i, j] * w[:, k, m]
            error = product.std() / np.sqrt(50_000)
            self.assertLess(abs(product.mean() - rows[i, k] * columns[j, m]), 5 * error)

    def test_a_factor_may_move_from_rows_to_columns(self) -> None:
        q = make("matrix_normal")
        before = q.covariance()
        row, column = q.row_factor.diagonal, q.column_factor.diagonal
        q.row_factor.rho.assign(tf.math.log(tf.math.expm1(2.0 * row)))
        q.row_factor.below.assign(2.0 * q.row_factor.below)
        q.column_factor.rho.assign(tf.math.log(tf.math.expm1(0.5 * column)))
        q.column_factor.below.assign(0.5 * q.column_factor.below)
        self.assertAllClose(q.covariance(), before, 1e-10)


class LowRankTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(1, 3, 20)
    def test_rank(self, rank: Any) -> None:
        q = posteriors.LowRankNormal(rank)
        self.assertEqual(q.get_config()["rank"], rank)
        q = posteriors.get(keras.saving.serialize_keras_object(q))
        q = q.create(keras.layers.Layer(), "w", SHAPE, keras.initializers.Zeros(), priors.get(1.0))
        self.assertEqual(np.linalg.matrix_rank(q.v.numpy()), min(rank, 12))

    @parameterized.parameters(0, -1, 2.0, True, None, "2")
    def test_rank_is_checked(self, rank: Any) -> None:
        with self.assertRaisesRegex(ValueError, "^rank=.* must be a positive integer: .*columns"):
            posteriors.LowRankNormal(rank)

    def test_one_column_less_than_elements_reaches_every_covariance(self) -> None:
        """The smallest eigenvalue on the diagonal, the rest in V."""
        root = np.random.default_rng(0).normal(size=(4, 4))
        target = root @ root.T + 0.1 * np.eye(4)
        eigenvalues, vectors = np.linalg.eigh(target)
        q = posteriors.LowRankNormal(3).create(
            keras.layers.Layer(dtype="float64"),
            "w",
            (4,),
            keras.initializers.Zeros(),
            priors.get(1.0),
        )
        q.rho.assign(np.full(4, np.log(np.expm1(np.sqrt(eigenvalues[0])))))
        q.raw_v.assign(vectors[:, 1:] * np.sqrt(eigenvalues[1:] - eigenvalues[0]))
        self.assertAllClose(q.covariance(), target, 1e-10, 1e-12)

    def test_density_keeps_its_digits_where_v_is_large(self) -> None:
        """V is 10,000 times d, in float32: the difference in Woodbury's formula keeps no digits."""
        q, wide = (make("low_rank", dtype=dtype) for dtype in ("float32", "float64"))
        for a, b in zip(q.variables, wide.variables, strict=True):
            a.assign(tf.fill(a.shape, -9.0) if a.name == "rho" else a.value)
            b.assign(tf.cast(a.value, tf.float64))
        w = q.sample(KEY)
        got, expected = q.log_prob(w), wide.log_prob(tf.cast(w, tf.float64))
        self.assertAllClose(got, expected, atol=0.05)
        r = np.float32(w - q.mean).ravel() / q.d.numpy()
        u = (q.v / q.d[:, None]).numpy()
        t = u.T @ r
        woodbury = r @ r - t @ np.linalg.solve(np.eye(4, dtype="float32") + u.T @ u, t)
        exact = wide.squared_distance(tf.cast(w - q.mean, tf.float64))
        self.assertGreater(abs(woodbury - exact), 0.5)

    def test_v_can_leave_its_start(self) -> None:
        q = built("low_rank", SHAPE)
        with tf.GradientTape() as tape:
            kl = q.kl(KEY)
        self.assertGreater(np.abs(tape.gradient(kl, q.raw_v.value)).min(), 0.0)


if __name__ == "__main__":
    tf.test.main()

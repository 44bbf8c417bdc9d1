"""Curvature of all kinds and structures, against Jacobians taken one gradient at a time."""

import itertools

import brute_force
import keras
import numpy as np
import scipy.linalg
import tensorflow as tf
from absl.testing import parameterized
from brute_force import CASES, NUM, RNG, X, case, jacobians, network, outputs, scores

from tfbdl import likelihoods
from tfbdl.inference import Laplace
from tfbdl.inference.laplace.output_fisher import fisher_root

DELTA = 0.8


def fitted(model, likelihood, y, x=X, **arguments):
    settings = {
        "subset_of_weights": "all",
        "hessian_structure": "full",
        "prior_precision": DELTA,
        "dtype": "float64",
        **arguments,
    }
    batch_size = settings.pop("batch_size", 4)
    return Laplace(model, likelihood, **settings).fit(x, y, batch_size=batch_size)


def precision(laplace):
    """The posterior's precision, shape (P, P), from its covariance over all directions.

    The draws of unit noises are the columns of a root of the covariance.
    """
    factors = laplace._posterior_factors
    size = laplace._subset.size
    root = laplace._fit.precision.sample(tf.eye(size, dtype=tf.float64), factors).numpy()
    return np.linalg.inv(root.T @ root)


def curvature(laplace):
    return precision(laplace) - DELTA * np.eye(laplace._subset.size)


class OutputFisherTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(*CASES)
    def test_expected_square_of_scores(self, name):
        likelihood, model, _ = case(name)
        f = outputs(model, X)
        root = fisher_root(likelihood, tf.constant(f))
        got = tf.matmul(root, root, transpose_b=True)
        self.assertAllClose(got, brute_force.information(likelihood, f), 1e-6, 1e-9)

    def test_of_each_position(self):
        """Classes at several places are independent of each other."""
        f = RNG.normal(size=(5, 2, 3))
        root = fisher_root(likelihoods.Categorical(), tf.constant(f)).numpy()
        for place in range(2):
            one = brute_force.information(likelihoods.Categorical(), f[:, place])
            rows = slice(3 * place, 3 * place + 3)
            self.assertAllClose((root @ root.transpose(0, 2, 1))[:, rows, rows], one)
        self.assertAllEqual((root @ root.transpose(0, 2, 1))[:, :3, 3:], np.zeros((5, 3, 3)))

    def test_families_without_one(self):
        class Own(likelihoods.Likelihood):
            pass

        with self.assertRaisesRegex(ValueError, "^likelihood=Own has no Fisher information"):
            fisher_root(Own(), tf.zeros([2, 1]))


class FullTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(*CASES)
    def test_ggn(self, name):
        likelihood, model, y = case(name)
        expected = brute_force.ggn(model, likelihood, X)
        got = curvature(fitted(model, likelihood, y))
        self.assertAllClose(got, expected, 1e-6, 1e-6 * abs(expected).max())

    @parameterized.parameters(*CASES)
    def test_empirical_fisher(self, name):
        likelihood, model, y = case(name)
        score = np.einsum(
            "nk,nki->ni", scores(likelihood, y, outputs(model, X)), jacobians(model, X)
        )
        got = curvature(fitted(model, likelihood, y, curvature="ef"))
        self.assertAllClose(got, score.T @ score, 1e-8, 1e-8 * abs(score).max() ** 2)

    @parameterized.parameters(*CASES)
    def test_exact_hessian(self, name):
        """By central differences of a gradient that has been held against hand-made ones."""
        likelihood, model, y = case(name)
        flat, theta = brute_force.wide(model)

        @tf.function(autograph=False)
        def gradient(theta):
            with tf.GradientTape() as tape:
                tape.watch(theta)
                value = -tf.reduce_sum(likelihood.log_prob(tf.constant(y), flat(theta, X)))
            return tape.gradient(value, theta)

        steps = 1e-5 * np.eye(flat.size)
        expected = np.stack([(gradient(theta + h) - gradient(theta - h)) / 2e-5 for h in steps])
        laplace = fitted(model, likelihood, y, curvature="hessian", prior_precision=200.0)
        got = precision(laplace) - 200.0 * np.eye(flat.size)
        self.assertAllClose(got, expected, 1e-5, 1e-6 * abs(expected).max())

    def test_monte_carlo_fisher_is_right_on_average(self):
        likelihood, model, y = case("categorical")
        x, y = np.tile(X, (400, 1)), np.tile(y, 400)
        got = curvature(fitted(model, likelihood, y, x, curvature="mc_fisher", batch_size=500))
        j, f = jacobians(model, X), outputs(model, X)
        expected = 400 * brute_force.ggn(model, likelihood, X)
        variance = 0.0
        for c, p in enumerate(np.exp(f).T / np.exp(f).sum(1)):
            s = np.einsum("nk,nki->ni", scores(likelihood, np.full(NUM, c), f), j)
            variance += 400 * np.einsum("n,ni->i", p, s**4)
        error = np.abs(np.diag(got) - np.diag(expected)) / np.sqrt(variance)
        self.assertLess(error.max(), 4.5)

    def test_a_scale_of_noise(self):
        """The empirical Fisher goes with the fourth power of the noise, the others the second."""
        _, model, y = case("normal")
        for kind, power in (("ggn", 2), ("ef", 4), ("hessian", 2)):
            one = fitted(model, "regression", y, curvature=kind, prior_precision=50.0)
            other = fitted(
                model, "regression", y, curvature=kind, prior_precision=50.0, sigma_noise=2.0
            )
            of_one = precision(one) - 50.0 * np.eye(one._subset.size)
            of_other = precision(other) - 50.0 * np.eye(one._subset.size)
            self.assertAllClose(of_other, of_one / 2.0**power, 1e-8, 1e-8)
        of_object = fitted(model, likelihoods.Normal(2.0), y)
        self.assertAllClose(
            curvature(of_object), brute_force.ggn(model, likelihoods.Normal(2.0), X)
        )

    def test_temperature(self):
        likelihood, model, y = case("categorical")
        warm = curvature(fitted(model, likelihood, y, temperature=4.0))
        self.assertAllClose(4.0 * warm, curvature(fitted(model, likelihood, y)), 1e-9, 1e-9)


class StructureTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters("normal", "categorical", "poisson", "heteroscedastic")
    def test_diagonal(self, name):
        likelihood, model, y = case(name)
        got = curvature(fitted(model, likelihood, y, hessian_structure="diag"))
        expected = np.diag(np.diag(brute_force.ggn(model, likelihood, X)))
        self.assertAllClose(got, expected, 1e-6, 1e-6 * expected.max())

    @parameterized.product(name=("normal", "categorical", "poisson"), kind=("ggn", "ef"))
    def test_kronecker_factors(self, name, kind):
        """A = sum a a^T and G = sum g g^T by hand; the biases with all correlations."""
        likelihood, model, y = case(name)
        f = outputs(model, X)
        if kind == "ggn":
            root = np.linalg.cholesky(
                brute_force.information(likelihood, f) + 1e-14 * np.eye(f.shape[1])
            )
        else:
            root = scores(likelihood, y, f)[:, :, None]
        w1, b1, w2, _ = model.get_weights()
        h = np.tanh(X @ w1 + b1)
        g2 = root.transpose(0, 2, 1)
        g1 = (g2 @ w2.T) * (1 - h**2)[:, None]
        blocks = []
        for a, g in ((X, g1), (h, g2)):
            of_outputs = np.einsum("nki,nkj->ij", g, g)
            blocks += [np.kron(a.T @ a, of_outputs) / NUM, of_outputs]
        expected = scipy.linalg.block_diag(*blocks)
        got = curvature(fitted(model, likelihood, y, hessian_structure="kron", curvature=kind))
        self.assertAllClose(got, expected, 1e-5, 1e-6 * abs(expected).max())

    def test_kronecker_is_exact_for_one_example(self):
        likelihood, model, y = case("categorical")
        full = curvature(fitted(model, likelihood, y[:1], X[:1]))
        kron = curvature(fitted(model, likelihood, y[:1], X[:1], hessian_structure="kron"))
        sizes = [12, 4, 12, 3]
        starts = np.cumsum([0, *sizes])
        for start, end in itertools.pairwise(starts):
            block = slice(start, end)
            self.assertAllClose(kron[block, block], full[block, block], 1e-8, 1e-10)

    def test_kronecker_is_exact_for_a_linear_layer_with_equal_noise(self):
        """Then G is the same for all examples, and the average of products their product."""
        model = network(units=(), outputs=2, use_bias=False)
        y = RNG.normal(size=(NUM, 2))
        full = curvature(fitted(model, "regression", y))
        self.assertAllClose(
            curvature(fitted(model, "regression", y, hessian_structure="kron")), full
        )

    def test_diagonal_is_full_where_that_is_diagonal(self):
        model = network(units=(), outputs=2, use_bias=False)
        x, y = np.tile(np.eye(3), (4, 1)), RNG.normal(size=(12, 2))
        full = precision(fitted(model, "regression", y, x))
        diagonal = precision(fitted(model, "regression", y, x, hessian_structure="diag"))
        self.assertAllClose(diagonal, full, 1e-12, 1e-12)

    @parameterized.parameters("categorical", "heteroscedastic")
    def test_low_rank_is_full_where_the_rank_suffices(self, name):
        likelihood, model, y = case(name)
        full = curvature(fitted(model, likelihood, y))
        low = fitted(model, likelihood, y, hessian_structure="lowrank", rank=2 * NUM)
        self.assertAllClose(curvature(low), full, 1e-6, 1e-8 * abs(full).max())

    def test_low_rank_takes_the_largest_directions(self):
        likelihood, model, y = case("poisson")
        full = curvature(fitted(model, likelihood, y))
        values, vectors = np.linalg.eigh(full)
        expected = (vectors[:, -5:] * values[-5:]) @ vectors[:, -5:].T
        at_once = fitted(model, likelihood, y, hessian_structure="lowrank", rank=5, batch_size=NUM)
        self.assertAllClose(curvature(at_once), expected, 1e-6, 1e-8 * abs(full).max())
        in_batches = curvature(
            fitted(model, likelihood, y, hessian_structure="lowrank", rank=5, batch_size=2)
        )
        self.assertGreater(np.linalg.eigvalsh(full - in_batches)[0], -1e-8 * values[-1])
        self.assertGreater(np.trace(in_batches), 0.9 * np.trace(expected))

    @parameterized.parameters("full", "kron", "diag", "lowrank")
    def test_batches_are_all_at_once(self, structure):
        """Arrays of any batch size, and data sets with a short batch at the end."""
        likelihood, model, y = case("categorical")
        sets = tf.data.Dataset.from_tensor_slices((X, y))
        found = [
            fitted(model, likelihood, y, hessian_structure=structure, batch_size=b)
            for b in (NUM, 1, 4, 100)
        ] + [
            fitted(model, likelihood, None, sets.batch(b), hessian_structure=structure)
            for b in (3, NUM)
        ]
        for laplace in found:
            self.assertEqual(laplace._fit.num_data, NUM)
            self.assertAllClose(precision(laplace), precision(found[0]), 1e-7, 1e-7)
            evidence = [float(f.log_marginal_likelihood()) for f in (laplace, found[0])]
            self.assertAllClose(*evidence, 1e-9)

    @parameterized.parameters("full", "kron", "diag", "lowrank")
    def test_last_layer_is_all_where_there_is_no_other(self, structure):
        model = network(units=(), outputs=3)
        likelihood, _, y = case("categorical")
        both = [
            fitted(model, likelihood, y, hessian_structure=structure, subset_of_weights=subset)
            for subset in ("all", "last_layer")
        ]
        self.assertAllEqual(precision(both[0]), precision(both[1]))

    @parameterized.parameters("full", "diag")
    def test_subsets_are_blocks(self, structure):
        likelihood, model, y = case("categorical")
        whole = curvature(fitted(model, likelihood, y, hessian_structure=structure))
        last = model.layers[-1].name
        for subset, block in (
            ("last_layer", slice(16, 31)),
            ([last], slice(16, 31)),
            ([f"{last}/bias"], slice(28, 31)),
            ([model.layers[0].name], slice(0, 16)),
        ):
            part = fitted(
                model, likelihood, y, hessian_structure=structure, subset_of_weights=subset
            )
            self.assertAllClose(curvature(part), whole[block, block], 1e-7, 1e-8)


class ProbabilitiesTest(tf.test.TestCase, parameterized.TestCase):
    """Networks that end in softmax or sigmoid have the posterior of those that end in logits."""

    @parameterized.product(family=("categorical", "bernoulli"), structure=("full", "kron", "diag"))
    def test_same_as_logits(self, family, structure):
        likelihood, _, y = case(family)
        size = CASES[family][1]
        last = "softmax" if family == "categorical" else "sigmoid"
        logits, probabilities = network(outputs=size), network(outputs=size, last=last)
        probabilities.set_weights(logits.get_weights())
        other = type(likelihood)(from_logits=False)
        a = fitted(logits, likelihood, y, hessian_structure=structure)
        b = fitted(probabilities, other, y, hessian_structure=structure)
        if structure != "kron":  # whose G depends on which function is linearised
            self.assertAllClose(precision(a), precision(b), 1e-6, 1e-6)
        evidence = [float(p.log_marginal_likelihood()) for p in (a, b)]
        self.assertAllClose(*evidence, 1e-6)
        loss = keras.losses.get(
            {"categorical": "sparse_categorical_crossentropy", "bernoulli": "binary_crossentropy"}[
                family
            ]
        )
        probabilities.compile("sgd", loss)
        c = fitted(probabilities, "classification", y, hessian_structure=structure)
        self.assertAllClose(precision(c), precision(b), 1e-9)


if __name__ == "__main__":
    tf.test.main()

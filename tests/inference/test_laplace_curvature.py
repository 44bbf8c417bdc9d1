"""Curvature of all kinds and structures, against Jacobians taken one gradient at a time."""

from typing import Any

import brute_force
import keras
import numpy as np
import scipy.linalg
import tensorflow as tf
from absl.testing import parameterized
from brute_force import (
    CASES,
    DELTA,
    NUM,
    RNG,
    X,
    case,
    curvature,
    fitted,
    fitted_case,
    jacobians,
    network,
    outputs,
    precision,
    randomised,
    scores,
)

from tfbdl import likelihoods
from tfbdl.inference.laplace.output_fisher import fisher_root, information_root

UNIT = likelihoods.Normal(1.0)


class OutputFisherTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(*CASES)
    def test_expected_square_of_scores(self, name: str) -> None:
        likelihood, model, _ = case(name)
        f = outputs(model, X)
        root = fisher_root(likelihood, tf.constant(f))
        got = tf.matmul(root, root, transpose_b=True)
        self.assertAllClose(got, brute_force.information(likelihood, f), 1e-6, 1e-9)

    def test_shapes_of_gamma_laws(self) -> None:
        """Moderate shapes: those of a random network put much mass below the least float."""
        f = np.stack([RNG.normal(size=6), np.linspace(-0.5, 5.0, 6)], axis=-1)
        root = fisher_root(likelihoods.Gamma(), tf.constant(f))
        got = tf.matmul(root, root, transpose_b=True)
        self.assertAllClose(got, brute_force.information(likelihoods.Gamma(), f), 1e-6, 1e-9)

    def test_of_each_position(self) -> None:
        """Classes at several places are independent of each other."""
        f = RNG.normal(size=(5, 2, 3))
        root = fisher_root(likelihoods.Categorical(), tf.constant(f)).numpy()
        for place in range(2):
            one = brute_force.information(likelihoods.Categorical(), f[:, place])
            rows = slice(3 * place, 3 * place + 3)
            self.assertAllClose((root @ root.transpose(0, 2, 1))[:, rows, rows], one)
        self.assertAllEqual((root @ root.transpose(0, 2, 1))[:, :3, 3:], np.zeros((5, 3, 3)))

    def test_families_without_one(self) -> None:
        """The information in y stands for its mean; it equals that of natural parameters."""

        class Own(likelihoods.Likelihood):
            def distribution(self, outputs: tf.Tensor) -> Any:
                return likelihoods.Categorical().distribution(outputs)

        f, labels = tf.constant(RNG.normal(size=(5, 3))), tf.constant([0, 1, 2, 0, 1])
        self.assertIsNone(fisher_root(Own(), f))
        root = information_root(Own(), labels, f)
        known = fisher_root(likelihoods.Categorical(), f)
        got, expected = (tf.matmul(r, r, transpose_b=True) for r in (root, known))
        self.assertAllClose(got, expected, 1e-10, 1e-12)


class FullTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters("ggn", "ef", "hessian")
    def test_normal_noise(self, kind: Any) -> None:
        """The empirical Fisher goes with the fourth power of the noise, the others the second."""
        _, model, y = case("normal")
        laplace = fitted(model, likelihoods.Normal(0.7), y, curvature=kind, prior_precision=200.0)
        laplace.sigma_noise = 2.0
        expected = brute_force.curvature_of(kind, model, likelihoods.Normal(2.0), y)
        got = curvature(laplace, 200.0)
        self.assertAllClose(got, expected, 1e-5, 1e-6 * abs(expected).max())

    @parameterized.product(kind=("ggn", "ef", "hessian"), name=list(CASES))
    def test_every_likelihood(self, kind: Any, name: str) -> None:
        """The exact Hessian is indefinite away from a mode, and shows beside a large prior."""
        likelihood, model, y = case(name)
        delta = 1e5 if kind == "hessian" else DELTA
        laplace = fitted(model, likelihood, y, curvature=kind, prior_precision=delta)
        expected = brute_force.curvature_of(kind, model, likelihood, y)
        got = curvature(laplace, delta)
        self.assertAllClose(got, expected, 1e-5, 1e-6 * abs(expected).max())

    @parameterized.parameters(1, 2, 4)
    def test_layers_wider_and_narrower_than_the_outputs(self, width: int) -> None:
        """J is written out for some of them; batches that are not full count what is theirs."""
        likelihood, _, y = case("categorical")
        model = network((2, width))
        laplace = fitted(model, likelihood, y, batch_size=NUM - 1)
        expected = brute_force.curvature_of("ggn", model, likelihood, y)
        self.assertAllClose(curvature(laplace), expected, 1e-5, 1e-6 * abs(expected).max())
        j = jacobians(model, X)
        sigma = np.linalg.inv(expected + DELTA * np.eye(len(expected)))
        _, covariance = laplace.function_moments(X)
        self.assertAllClose(covariance, np.einsum("nfi,ij,ngj->nfg", j, sigma, j), 1e-5, 1e-7)

    @parameterized.parameters(*CASES)
    def test_monte_carlo_fisher_is_right_on_average(self, name: str) -> None:
        """The standard errors follow from the fourth moments of the scores."""
        likelihood, model, y = case(name)
        copies = 300
        x, y = np.tile(X, (copies, 1)), np.concatenate([y] * copies)
        got = curvature(fitted(model, likelihood, y, x, curvature="mc_fisher", batch_size=500))
        j, f = jacobians(model, X), outputs(model, X)

        def moment(power: Any) -> Any:
            return brute_force.expected(
                likelihood, f, lambda s: np.einsum("knf,nfi->kni", s, j) ** power
            )

        variance = np.sum(moment(4) - moment(2) ** 2, axis=0)
        error = (np.diag(got) / copies - moment(2).sum(axis=0)) / np.sqrt(variance / copies)
        self.assertLess(np.abs(error).max(), 4.5)

    @parameterized.parameters("same", "causal")
    def test_layers_of_all_kinds(self, padding: Any) -> None:
        """Convolution, normalisation, a recurrent layer, a layer called twice: one posterior."""
        model = mixed_network(padding)
        x = RNG.normal(size=(3, 4, 2))
        laplace = fitted(model, likelihoods.Poisson(), RNG.poisson(1.0, (3, 2)), x, batch_size=3)
        expected = brute_force.ggn(model, likelihoods.Poisson(), x)
        self.assertAllClose(curvature(laplace), expected, 1e-6, 1e-7 * abs(expected).max())

    @parameterized.parameters("mixed_float16", "float16", "float64")
    def test_layers_of_a_type_of_their_own(self, dtype: str) -> None:
        """Layers of a float32 model, whose copy computes as Laplace says."""
        x, y = RNG.normal(size=(5, 3)), RNG.integers(0, 2, 5)
        models = []
        for own in (dtype, "float32"):
            hidden = keras.layers.Dense(4, "tanh", dtype=own)
            head = keras.layers.Dense(2, dtype="float32")
            models.append(keras.Sequential([keras.Input((3,)), hidden, head]))
        models[1].set_weights(models[0].get_weights())
        got, expected = (
            curvature(fitted(m, likelihoods.Categorical(), y, x, batch_size=5, dtype="float32"))
            for m in models
        )
        self.assertAllClose(got, expected, 1e-5, 1e-6)

    @parameterized.parameters("full", "diag", "lowrank")
    def test_layers_whose_weights_are_in_no_product(self, structure: Any) -> None:
        """A table, a scale, gates that are reset, a slope."""
        model, likelihood = gated_network(), likelihoods.Poisson()
        x, y = RNG.integers(0, 5, (3, 4)), RNG.poisson(1.0, (3, 2))
        laplace = fitted(model, likelihood, y, x, batch_size=3, hessian_structure=structure)
        expected = brute_force.ggn(model, likelihood, x)
        if structure == "diag":
            expected = np.diag(np.diag(expected))
        self.assertAllClose(curvature(laplace), expected, 1e-6, 1e-7 * abs(expected).max())

    @parameterized.parameters(("full", 2), ("diag", 4))
    def test_convolutions_with_groups(self, structure: str, groups: int) -> None:
        model = keras.Sequential(
            [
                keras.Input((4, 3, 4)),
                keras.layers.Conv2D(4, 2, groups=groups, activation="tanh"),
                keras.layers.Conv2D(4, 2, strides=2, groups=2, activation="tanh"),
                keras.layers.Flatten(),
                keras.layers.Dense(3),
            ]
        )
        likelihood = likelihoods.Categorical()
        x, y = RNG.normal(size=(3, 4, 3, 4)), RNG.integers(0, 3, 3)
        laplace = fitted(randomised(model), likelihood, y, x, hessian_structure=structure)
        expected = brute_force.ggn(model, likelihood, x)
        if structure == "diag":
            expected = np.diag(np.diag(expected))
        self.assertAllClose(curvature(laplace), expected, 1e-6, 1e-7 * abs(expected).max())


def gated_network() -> Any:
    inputs = keras.Input((4,), dtype="int32")
    h = keras.layers.LayerNormalization()(keras.layers.Embedding(5, 3)(inputs))
    h = keras.layers.PReLU()(keras.layers.GRU(2)(h))
    return randomised(keras.Model(inputs, keras.layers.Dense(2)(h)))


def mixed_network(padding: str = "same") -> Any:
    keras.utils.set_random_seed(1)
    inputs = keras.Input((4, 2))
    h = keras.layers.Conv1D(3, 2, activation="tanh", padding=padding)(inputs)
    h = keras.layers.BatchNormalization()(h)
    twice = keras.layers.Dense(3, "tanh")
    h = keras.layers.SimpleRNN(2)(twice(twice(h)))
    return randomised(keras.Model(inputs, keras.layers.Dense(2)(h)))


class StructureTest(tf.test.TestCase, parameterized.TestCase):
    def test_diagonal(self) -> None:
        """At a temperature T the curvature is a T-th."""
        likelihood, model, y = case("heteroscedastic")
        got = curvature(fitted(model, likelihood, y, hessian_structure="diag", temperature=4.0))
        expected = np.diag(np.diag(brute_force.ggn(model, likelihood))) / 4.0
        self.assertAllClose(got, expected, 1e-6, 1e-6 * expected.max())

    @parameterized.parameters(("categorical", "ggn"), ("poisson", "ef"))
    def test_kronecker_factors(self, name: str, kind: Any) -> None:
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
        got = curvature(fitted_case(name, hessian_structure="kron", curvature=kind))
        self.assertAllClose(got, expected, 1e-5, 1e-6 * abs(expected).max())

    def test_kronecker_factors_of_a_convolution(self) -> None:
        """Patches are what the kernel is multiplied with; pixels count as examples."""
        convolution = keras.layers.Conv2D(2, 2)
        pooled = [convolution, keras.layers.Activation("tanh"), keras.layers.Flatten()]
        last = keras.layers.Dense(1, name="last")
        model = randomised(keras.Sequential([keras.Input((3, 3, 1)), *pooled, last]))
        x = RNG.normal(size=(5, 3, 3, 1))
        kernel, bias, out, _ = model.get_weights()
        corners = [(i, j) for i in range(2) for j in range(2)]
        patches = np.stack([x[:, i : i + 2, j : j + 2, 0].reshape(5, 4) for i, j in corners], 1)
        z = np.tanh(patches @ kernel.reshape(4, 2) + bias)
        g = (1 - z**2) * out.reshape(1, 4, 2)
        expected = np.kron(
            np.einsum("npi,npj->ij", patches, patches), np.einsum("npi,npj->ij", g, g) / 20
        )
        laplace = fitted(model, UNIT, np.zeros((5, 1)), x, hessian_structure="kron", batch_size=5)
        self.assertAllClose(curvature(laplace)[:8, :8], expected, 1e-7, 1e-8)

    @parameterized.parameters(keras.layers.SeparableConv1D, keras.layers.SeparableConv2D)
    def test_kronecker_factors_of_a_separable_convolution(self, kind: Any) -> None:
        """What the depthwise kernel leaves is what the pointwise one is multiplied with."""
        axes = 1 if kind is keras.layers.SeparableConv1D else 2
        separable = kind(3, 2, depth_multiplier=2, activation="tanh", name="separable")
        last = [keras.layers.Flatten(), keras.layers.Dense(1)]
        model = randomised(keras.Sequential([keras.Input((3,) * axes + (2,)), separable, *last]))
        x = RNG.normal(size=(5, *(3,) * axes, 2))
        depthwise, pointwise, bias, out, _ = model.get_weights()
        t = 2**axes  # positions, and offsets in a kernel
        places = np.array(list(np.ndindex((2,) * axes)))
        at = places[:, None] + places  # (position, offset, axis)
        patches = x[tuple([slice(None), *np.moveaxis(at, -1, 0)])]  # (5, position, offset, channel)
        of_each = np.einsum("npoc,ocm->npcm", patches, depthwise.reshape(t, 2, 2))
        a = of_each.reshape(5, t, 4)
        g = (1 - np.tanh(a @ pointwise.reshape(4, 3) + bias) ** 2) * out.reshape(1, t, 3)
        of_outputs = np.einsum("npi,npj->ij", g, g)
        factors = np.kron(np.einsum("npi,npj->ij", a, a), of_outputs / (5 * t))
        of_bias = np.einsum("npi,nqj->ij", g, g)
        for subset in ("all", ["separable/pointwise_kernel", "separable/bias"]):
            settings = {"hessian_structure": "kron", "subset_of_weights": subset}
            laplace = fitted(model, UNIT, np.zeros((5, 1)), x, **settings, batch_size=5)
            start = depthwise.size if subset == "all" else 0
            expected = scipy.linalg.block_diag(factors, of_bias)
            got = curvature(laplace)[start : start + 15, start : start + 15]
            self.assertAllClose(got, expected, 1e-7, 1e-8)
        full = fitted(model, UNIT, np.zeros((5, 1)), x, batch_size=5)
        self.assertAllClose(curvature(full), brute_force.ggn(model, UNIT, x), 1e-6, 1e-7)

    def test_kronecker_is_exact_for_one_example(self) -> None:
        likelihood, model, y = case("categorical")
        full = brute_force.ggn(model, likelihood, X[:1])
        kron = curvature(fitted(model, likelihood, y[:1], X[:1], hessian_structure="kron"))
        ends = np.cumsum([12, 4, 12, 3])
        blocks = [full[e - s : e, e - s : e] for e, s in zip(ends, [12, 4, 12, 3], strict=True)]
        self.assertAllClose(kron, scipy.linalg.block_diag(*blocks), 1e-6, 1e-8)

    def test_kronecker_is_exact_for_a_linear_layer_with_equal_noise(self) -> None:
        """Then G is the same for all examples, and the average of products their product."""
        model = network(units=(), outputs=2, use_bias=False)
        y = RNG.normal(size=(NUM, 2))
        got = curvature(fitted(model, UNIT, y, hessian_structure="kron"))
        self.assertAllClose(got, np.kron(X.T @ X, np.eye(2)), 1e-9, 1e-9)

    def test_diagonal_is_full_where_that_is_diagonal(self) -> None:
        model = network(units=(), outputs=2, use_bias=False)
        x, y = np.tile(np.eye(3), (4, 1)), RNG.normal(size=(12, 2))
        full = precision(fitted(model, UNIT, y, x))
        diagonal = precision(fitted(model, UNIT, y, x, hessian_structure="diag"))
        self.assertAllClose(full, 4.8 * np.eye(6), 1e-12, 1e-12)
        self.assertAllClose(diagonal, full, 1e-12, 1e-12)

    def test_low_rank_is_full_where_the_rank_suffices(self) -> None:
        full = curvature(fitted_case("categorical"))
        low = fitted_case("categorical", hessian_structure="lowrank", rank=2 * NUM)
        self.assertAllClose(curvature(low), full, 1e-6, 1e-8 * abs(full).max())

    def test_low_rank_takes_the_largest_directions(self) -> None:
        likelihood, model, y = case("categorical")
        full = curvature(fitted_case("categorical"))
        values, vectors = np.linalg.eigh(full)
        expected = (vectors[:, -5:] * values[-5:]) @ vectors[:, -5:].T
        at_once, in_batches = (
            fitted(model, likelihood, y, hessian_structure="lowrank", rank=5, batch_size=b)
            for b in (NUM, 2)
        )
        self.assertAllClose(curvature(at_once), expected, 1e-6, 1e-8 * abs(full).max())
        in_batches = curvature(in_batches)
        self.assertGreater(np.linalg.eigvalsh(full - in_batches)[0], -1e-8 * values[-1])
        self.assertGreater(np.trace(in_batches), 0.9 * np.trace(expected))

    @parameterized.parameters("full", "kron", "lowrank")
    def test_batches_are_all_at_once(self, structure: Any) -> None:
        """Arrays and data sets, both with a short batch at the end."""
        likelihood, model, y = case("categorical")
        arguments = {"hessian_structure": structure}
        if structure == "lowrank":
            arguments["rank"] = 2 * NUM
        arrays = fitted_case("categorical", **arguments)
        batches = tf.data.Dataset.from_tensor_slices((X, y)).batch(3)
        sets = fitted(model, likelihood, None, batches, **arguments)
        self.assertEqual(sets._result.num_data, NUM)
        self.assertAllClose(precision(sets), precision(arrays), 1e-7, 1e-7)
        evidence = [float(f.log_marginal_likelihood()) for f in (sets, arrays)]
        self.assertAllClose(*evidence, 1e-9)

    @parameterized.parameters(
        ("last_layer", slice(16, 31), "full"),
        (["last/bias"], slice(28, 31), "diag"),
        (["dense"], slice(0, 16), "full"),
    )
    def test_subsets_are_blocks(self, subset: Any, block: Any, structure: Any) -> None:
        likelihood, model, y = case("categorical")
        model.layers[0].name = "dense"
        whole = curvature(fitted_case("categorical"))[block, block]
        subset = [model.layers[0].name] if subset == ["dense"] else subset
        part = fitted(model, likelihood, y, hessian_structure=structure, subset_of_weights=subset)
        expected = np.diag(np.diag(whole)) if structure == "diag" else whole
        self.assertAllClose(curvature(part), expected, 1e-7, 1e-8)


class ProbabilitiesTest(tf.test.TestCase):
    """Networks that end in softmax or sigmoid have the posterior of those that end in logits."""

    def test_softmax(self) -> None:
        _, _, y = case("categorical")
        model = network(last="softmax")
        model.compile("sgd", "sparse_categorical_crossentropy")
        laplace = fitted(model, None, y)
        logits = fitted_case("categorical")
        self.assertAllClose(precision(laplace), precision(logits), 1e-6, 1e-6)
        evidence = [float(p.log_marginal_likelihood()) for p in (laplace, logits)]
        self.assertAllClose(*evidence, 1e-6)

    def test_sigmoid(self) -> None:
        likelihood, logits, y = case("bernoulli")
        model = network(outputs=2, last="sigmoid")
        given = likelihoods.Bernoulli(from_logits=False)
        got = curvature(fitted(model, given, y, hessian_structure="diag"))
        expected = np.diag(np.diag(brute_force.ggn(logits, likelihood)))
        self.assertAllClose(got, expected, 1e-6, 1e-6 * expected.max())


if __name__ == "__main__":
    tf.test.main()

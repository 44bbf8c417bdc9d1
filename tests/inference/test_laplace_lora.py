"""Laplace over the factors of LoRA and over einsums: what automatic differentiation says."""

from __future__ import annotations

import tempfile
from typing import Any

import keras
import keras.layers as L
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

import tfbdl
from tfbdl.inference import Laplace

RNG = np.random.default_rng(0)
N, C = 12, 3
X = RNG.normal(size=(N, 5, 4)).astype("float32")
Y = RNG.integers(0, C, N)


def attention() -> keras.Model:
    """Projections of all forms that attention has, a convolution and dense layers."""
    x = keras.Input((5, 4))
    y = L.EinsumDense("abc,cde->abde", (None, 2, 3), "tanh", "de", name="query")(x)
    y = L.EinsumDense("abde,def->abf", (None, 4), bias_axes="f", name="output")(y)
    y = L.Conv1D(3, 2, activation="tanh", name="conv")(y + x)
    y = L.Dense(4, "tanh", name="hidden")(L.GlobalAveragePooling1D()(y))
    return keras.Model(x, L.Dense(C, name="head")(y))


def adapted(rank: int = 2) -> keras.Model:
    """Each layer but the head with LoRA, away from where it starts."""
    model = attention()
    for layer in model.layers:
        if hasattr(layer, "enable_lora") and layer.name != "head":
            layer.enable_lora(rank, 3.0)
            for v in (layer.lora_kernel_a, layer.lora_kernel_b):
                v.assign(RNG.normal(size=v.shape))
    return model


def jacobian(model: keras.Model, weights: list[Any]) -> np.ndarray:
    """The Jacobian of the logits in the weights, by automatic differentiation, shape (N, C, P)."""
    with tf.GradientTape(persistent=True) as tape:
        logits = model(X)
    parts = tape.jacobian(logits, [w.value for w in weights])
    return np.concatenate([np.reshape(j, (N, C, -1)) for j in parts], axis=2)


class LaplaceLoraTest(tf.test.TestCase, parameterized.TestCase):
    def setUp(self) -> None:
        super().setUp()
        keras.utils.set_random_seed(1)

    def test_one_output_without_xla(self) -> None:
        """oneDNN's product of rows in threes with one matrix for all breaks memory."""
        x = keras.Input((16, 8))
        attention = L.MultiHeadAttention(2, 4)
        y = L.GlobalAveragePooling1D()(x + attention(x, x))
        model = keras.Model(x, L.Dense(1)(y))
        for projection in (attention.query_dense, attention.value_dense):
            projection.enable_lora(2)
            projection.lora_kernel_b.assign(RNG.normal(size=projection.lora_kernel_b.shape))
        inputs = RNG.normal(size=(64, 16, 8)).astype("float32")
        targets = RNG.integers(0, 2, (64, 1))
        moments = [
            Laplace(model, "bernoulli", subset_of_weights="lora", jit_compile=jit_compile)
            .fit(inputs, targets)
            .function_moments(inputs)[1]
            for jit_compile in (False, True, False)
        ]
        self.assertAllClose(moments[0], moments[1], 1e-3, 1e-5)
        self.assertAllClose(moments[2], moments[1], 1e-3, 1e-5)

    @parameterized.parameters(("lora", adapted), ("all", attention))
    def test_posterior(self, subset: str, make: Any) -> None:
        """Covariance of the weights and of the functions: those of sum J^T H J + delta."""
        model = make()
        logits = tfbdl.likelihoods.Categorical()
        posterior = Laplace(
            model,
            logits,
            subset_of_weights=subset,
            hessian_structure="full",
            prior_precision=2.0,
        ).fit(X, Y)
        weights = posterior.weights_with_posterior
        self.assertEqual(all("lora" in w.name for w in weights), subset == "lora")
        j = jacobian(model, weights)
        p = np.asarray(tf.nn.softmax(model(X)))
        h = np.einsum("nc,cd->ncd", p, np.eye(C)) - np.einsum("nc,nd->ncd", p, p)
        precision = np.einsum("ncp,ncd,ndq->pq", j, h, j) + 2.0 * np.eye(j.shape[2])
        covariance = np.linalg.inv(precision)
        _, actual = posterior.function_moments(X)
        expected = np.einsum("ncp,pq,ndq->ncd", j, covariance, j)
        self.assertAllClose(actual, expected, 2e-4, 1e-5)
        draws = posterior.sample(20_000)
        self.assertAllClose(draws.var(axis=0), np.diag(covariance), rtol=0.06)

    @parameterized.parameters("lora", "all")
    def test_kronecker_factors_are_known_for_all(self, subset: str) -> None:
        """Every kernel and factor has a rule, which differentiation confirmed."""
        model = adapted() if subset == "lora" else attention()
        posterior = Laplace(model, tfbdl.likelihoods.Categorical(), subset_of_weights=subset).fit(
            X, Y
        )
        forms = posterior._fitted("test")._jacobian
        kernels = [w for w in posterior.weights_with_posterior if w.name != "bias"]
        self.assertLen(forms.positions, len(kernels))
        self.assertLen(forms.biases, len(posterior.weights_with_posterior) - len(kernels))

    def test_kronecker_factors(self) -> None:
        """B behind one position has E[u u^T] with u = alpha / r A^T a, and E[g g^T]."""
        model = adapted()
        layer = model.get_layer("hidden")
        posterior = Laplace(
            model,
            tfbdl.likelihoods.Categorical(),
            subset_of_weights=["hidden/lora_kernel_b"],
            prior_precision=1.5,
        ).fit(X, Y)
        before = keras.Model(model.input, [layer.input, layer.output, model.output])
        a, z, logits = (np.asarray(v) for v in before(X))
        u = 1.5 * a @ layer.lora_kernel_a.numpy()
        to_logits = (1 - z**2)[:, :, None] * model.get_layer("head").kernel.numpy()
        p = np.asarray(tf.nn.softmax(logits))
        h = np.einsum("nc,cd->ncd", p, np.eye(C)) - np.einsum("nc,nd->ncd", p, p)
        g = np.einsum("noc,ncd,npd->op", to_logits, h, to_logits)
        kron = np.kron(u.T @ u, g) / N + 1.5 * np.eye(u.shape[1] * g.shape[0])
        j = np.einsum("nr,noc->ncro", u, to_logits).reshape(N, C, -1)
        _, actual = posterior.function_moments(X)
        expected = np.einsum("ncp,pq,ndq->ncd", j, np.linalg.inv(kron), j)
        self.assertAllClose(actual, expected, 2e-4, 1e-5)

    def test_predictions_and_saving(self) -> None:
        """Functions that vary with the factors alone; the kernels are where they were."""
        model = adapted()
        frozen = [np.asarray(layer._kernel) for layer in model.layers if hasattr(layer, "_kernel")]
        posterior = Laplace(model, "categorical", subset_of_weights="lora").fit(X, Y)
        prediction = tfbdl.predict(posterior, X, seed=1)
        self.assertAllGreater(prediction.mutual_information, 0.0)
        after = [np.asarray(layer._kernel) for layer in model.layers if hasattr(layer, "_kernel")]
        for a, b in zip(frozen, after, strict=True):
            self.assertAllEqual(a, b)
        with tempfile.TemporaryDirectory() as folder:
            posterior.save(f"{folder}/posterior.keras")
            again = tfbdl.predict(tfbdl.load(f"{folder}/posterior.keras"), X, seed=1)
        self.assertAllClose(again.epistemic_variance, prediction.epistemic_variance, 1e-6)

    def test_no_factors(self) -> None:
        with self.assertRaisesRegex(ValueError, "'lora': no layer of the model trains factors"):
            Laplace(attention(), "categorical", subset_of_weights="lora")


if __name__ == "__main__":
    tf.test.main()

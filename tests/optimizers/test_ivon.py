"""IVON: a step by hand, known posteriors of quadratic losses, Keras' ways."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import two_replicas
from absl.testing import parameterized

import tfbdl
from tfbdl.optimizers import IVON, SGHMC, DrawnWeights

N = 50
PRIOR = 0.7
DELTA = 1.0 / (N * PRIOR**2)


class Quadratic(keras.Model):
    """U = 1/2 (w - c)^T H (w - c), of many independent copies of w."""

    def __init__(self, hessian: np.ndarray, centre: np.ndarray, copies: int) -> None:
        super().__init__()
        self.hessian, self.centre = tf.constant(hessian, tf.float32), tf.constant(centre)
        self.w = self.add_weight(shape=(len(centre), copies), initializer="zeros")

    def call(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        offset = tf.convert_to_tensor(self.w) - self.centre[:, None]
        self.add_loss(0.5 * tf.reduce_sum(offset * tf.matmul(self.hessian, offset)))
        return x


def quadratic(optimizer: IVON, hessian: np.ndarray, copies: int = 1000) -> keras.Model:
    centre = np.arange(1.0, len(hessian) + 1, dtype="float32")
    model = Quadratic(hessian, centre, copies)
    model(np.zeros((1, 1)))
    model.compile(optimizer)
    return model


def steps(model: keras.Model, number: int) -> None:
    """Trains, on data that say nothing, for so many steps."""
    tfbdl.train(model, np.zeros((number, 1)), epochs=1, batch_size=1, verbose=0)


class StepTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(1, 3)
    def test_algorithm_1_by_hand(self, num_samples: int) -> None:
        h_matrix = np.diag([2.0, 0.5])
        arguments = {"beta_1": 0.8, "beta_2": 0.9, "initial_hessian": 0.3, "temperature": 0.5}
        optimizer = IVON(0.1, num_data=N, prior=PRIOR, num_samples=num_samples, seed=1, **arguments)
        model = quadratic(optimizer, h_matrix, copies=4)
        optimizer.build([model.w])
        m, h, g_bar = np.zeros((2, 4)), np.full((2, 4), 0.3), np.zeros((2, 4))
        lam = N / 0.5
        for t in range(1, 4):
            g, h_hat = np.zeros((2, 4)), np.zeros((2, 4))
            for s in range(num_samples):
                sigma = 1.0 / np.sqrt(lam * (h + DELTA))
                w = m + sigma * optimizer.noise(model.w, s).numpy()
                g_s = h_matrix @ (w - np.array([[1.0], [2.0]]))
                g += g_s / num_samples
                h_hat += g_s * (w - m) / sigma**2 / num_samples
            g_bar = 0.8 * g_bar + 0.2 * g
            h = 0.9 * h + 0.1 * h_hat + 0.005 * (h - h_hat) ** 2 / (h + DELTA)
            m = m - 0.1 * (0.3 + DELTA) * (g_bar / (1 - 0.8**t) + DELTA * m) / (h + DELTA)
            steps(model, 1)
            self.assertAllClose(model.w, m, rtol=1e-4)
            self.assertAllClose(optimizer.stddev(model.w), 1 / np.sqrt(lam * (h + DELTA)), 1e-4)
            self.assertEqual(int(optimizer.iterations), t)


class PosteriorTest(tf.test.TestCase):
    @pytest.mark.xla
    def test_diagonal_posterior_of_a_quadratic_loss(self) -> None:
        """N(c N a / (N a + 1 / prior^2), 1 / (N a + 1 / prior^2)), over many copies."""
        a = np.array([0.2, 1.0, 5.0])
        optimizer = IVON(0.05, num_data=N, prior=PRIOR, beta_2=0.999, initial_hessian=1.0, seed=0)
        model = quadratic(optimizer, np.diag(a))
        steps(model, 8000)
        precision = N * a + PRIOR**-2
        sigma = optimizer.stddev(model.w).numpy()
        self.assertAllClose((sigma**-2.0).mean(axis=1), precision, rtol=0.01)
        m = model.w.numpy()
        error = m.std(axis=1) / np.sqrt(m.shape[1])
        expected = np.arange(1.0, 4.0) * N * a / precision
        self.assertLess(np.abs((m.mean(axis=1) - expected) / error).max(), 5)

    @pytest.mark.xla
    def test_mean_field_optimum_of_a_linear_model(self) -> None:
        """The exact mean, and the precision of each weight given the others."""
        rng = np.random.default_rng(0)
        x = rng.normal(size=(N, 2)) @ np.array([[1.0, 0.8], [0.0, 0.6]])
        hessian = x.T @ x / N
        optimizer = IVON(0.05, num_data=N, prior=PRIOR, beta_2=0.999, seed=0)
        model = quadratic(optimizer, hessian)
        steps(model, 8000)
        precision = N * hessian + np.eye(2) / PRIOR**2
        mean = np.linalg.solve(precision, N * hessian @ [1.0, 2.0])
        sigma = optimizer.stddev(model.w).numpy()
        self.assertAllClose((sigma**-2.0).mean(axis=1), np.diag(precision), rtol=0.01)
        m = model.w.numpy()
        error = m.std(axis=1) / np.sqrt(m.shape[1])
        self.assertLess(np.abs((m.mean(axis=1) - mean) / error).max(), 5)


def network(optimizer: Any) -> keras.Model:
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)]
    )
    model.compile(optimizer, "mse", metrics=["mae"])
    return model


X = np.random.default_rng(0).normal(size=(64, 3)).astype("float32")
Y = np.sin(X.sum(axis=1, keepdims=True))


def ivon(**arguments: Any) -> IVON:
    return IVON(0.3, num_data=64, initial_hessian=0.5, seed=3, **arguments)


class KerasTest(tf.test.TestCase, parameterized.TestCase):
    def test_fit_and_train_are_one(self) -> None:
        fitted, trained = network(ivon()), network(ivon())
        fitted.fit(X, Y, 64, epochs=5, verbose=0, callbacks=[DrawnWeights()])
        tfbdl.train(trained, X, Y, epochs=5, batch_size=64, verbose=0)
        for v, w in zip(fitted.get_weights(), trained.get_weights(), strict=True):
            self.assertAllClose(v, w, 1e-4, 1e-5)
        self.assertNotIn("train_step", vars(fitted))

    def test_validation_and_checkpoints_see_the_mean(self) -> None:
        model = network(ivon())
        seen = []

        class Look(keras.callbacks.Callback):
            def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
                means = [np.asarray(v) for v in model.optimizer._slots["mean"]]
                seen.append((model.get_weights(), means, logs["val_loss"]))

        model.fit(
            X, Y, 16, 3, validation_data=(X, Y), verbose=0, callbacks=[DrawnWeights(), Look()]
        )
        for weights, means, _ in seen:
            self.assertAllEqual(
                *([np.concatenate([a.ravel() for a in w]) for w in (weights, means)])
            )
        self.assertAllClose(model.evaluate(X, Y, verbose=0)[0], seen[-1][2], rtol=1e-5)

    def test_without_draws_it_refuses(self) -> None:
        with self.assertRaisesRegex(ValueError, "DrawnWeights"):
            network(ivon()).fit(X, Y, verbose=0)
        with self.assertRaisesRegex(ValueError, "^model=.* is compiled with SGHMC"):
            network(SGHMC(0.1, num_data=64)).fit(X, Y, verbose=0, callbacks=[DrawnWeights()])

    def test_constraints_are_refused(self) -> None:
        model = keras.Sequential(
            [keras.Input((3,)), keras.layers.Dense(1, kernel_constraint="non_neg")]
        )
        model.compile(ivon(), "mse")
        with self.assertRaisesRegex(ValueError, "has a constraint"):
            tfbdl.train(model, X, Y, epochs=1, verbose=0)

    @parameterized.parameters(
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"prior": -1.0}, "prior"),
        ({"beta_2": 1.0}, "beta_2"),
        ({"initial_hessian": 0.0}, "initial_hessian"),
        ({"num_samples": 0}, "num_samples"),
        ({"temperature": 0.0}, "temperature"),
        ({"weight_decay": 0.1}, "weight_decay"),
        ({"num_samples": 2, "gradient_accumulation_steps": 2}, "num_samples"),
    )
    def test_arguments_are_checked(self, arguments: dict[str, Any], name: str) -> None:
        with self.assertRaisesRegex(ValueError, f"^{name}="):
            IVON(**{"num_data": 10, **arguments})

    def test_a_saved_model_goes_on_as_it_would(self) -> None:
        whole, half = network(ivon()), network(ivon())
        tfbdl.train(whole, X, Y, epochs=4, batch_size=16, verbose=0)
        tfbdl.train(half, X, Y, epochs=2, batch_size=16, verbose=0)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "m.keras"
            half.save(path)
            again = keras.models.load_model(path)
            savedir = Path(folder) / "run"
            tfbdl.train(network(ivon()), X, Y, epochs=2, batch_size=16, savedir=savedir, verbose=0)
            resumed = network(ivon())
            tfbdl.train(resumed, X, Y, epochs=4, batch_size=16, savedir=savedir, verbose=0)
        self.assertEqual(again.optimizer.get_config(), half.optimizer.get_config())
        for v, w in zip(again.optimizer.variables, half.optimizer.variables, strict=True):
            self.assertAllEqual(v, w)
        for v, w in zip(whole.get_weights(), resumed.get_weights(), strict=True):
            self.assertAllEqual(v, w)

    @parameterized.parameters({}, {"num_samples": 2})
    def test_replicas_take_the_steps_of_one_device(self, **arguments: int) -> None:
        alone = network(ivon(**arguments))
        tfbdl.train(alone, X, Y, epochs=3, batch_size=32, verbose=0)
        with two_replicas.strategy().scope():
            shared = network(ivon(**arguments))
        tfbdl.train(shared, X, Y, epochs=3, batch_size=32, verbose=0)
        for v, w in zip(alone.get_weights(), shared.get_weights(), strict=True):
            self.assertAllClose(v, w, 1e-4, 1e-5)

    def test_mixed_precision_skips_what_overflows(self) -> None:
        keras.config.set_dtype_policy("mixed_float16")
        self.addCleanup(keras.config.set_dtype_policy, "float32")
        model = network(keras.optimizers.LossScaleOptimizer(ivon(), initial_scale=2.0**40))
        before = model.get_weights()
        tfbdl.train(model, X[:16], Y[:16], epochs=1, batch_size=16, verbose=0)
        for v, w in zip(model.get_weights(), before, strict=True):
            self.assertAllEqual(v, w)
        tfbdl.train(model, X, Y, epochs=40, batch_size=16, verbose=0)
        self.assertLess(model.evaluate(X, Y, verbose=0)[0], 0.5 * float(np.var(Y)))

    def test_accumulated_gradients_are_those_of_one_draw(self) -> None:
        """Two batches a step are one of both together."""
        one, two = network(ivon()), network(ivon(gradient_accumulation_steps=2))
        tfbdl.train(one, X, Y, epochs=3, batch_size=64, verbose=0)
        tfbdl.train(two, X, Y, epochs=3, batch_size=32, verbose=0)
        for v, w in zip(one.get_weights(), two.get_weights(), strict=True):
            self.assertAllClose(v, w, 1e-3, 1e-5)


if __name__ == "__main__":
    tf.test.main()

"""The trainings of CIFAR-10, with a small network on images whose class is their colour."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from unittest import mock

import keras
import numpy as np
from absl.testing import parameterized

from tfbdl.layers import FilterResponseNormalization
from tutorials.cifar10 import __main__ as script
from tutorials.cifar10 import predictions, problem, trainings

NUM_DATA = 160


def images(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, NUM_DATA).astype("int32")
    colours = np.eye(3)[y][:, None, None]
    return (colours + rng.normal(0, 0.3, (NUM_DATA, 8, 8, 3))).astype("float32"), y


def small_network(
    precision: float | None = None, dropped: problem.Dropped = lambda convolution: convolution
) -> keras.Model:
    inputs = keras.Input((8, 8, 3))
    x = keras.layers.Conv2D(4, 3, 2)(inputs)
    x = dropped(keras.layers.Conv2D(4, 3))(FilterResponseNormalization(activation="swish")(x))
    return keras.Model(inputs, keras.layers.Dense(10)(keras.layers.GlobalAveragePooling2D()(x)))


class TrainingsTest(parameterized.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        contexts = contextlib.ExitStack()
        cls.addClassCleanup(contexts.close)
        cls.folder = Path(contexts.enter_context(tempfile.TemporaryDirectory()))
        for patch in (
            mock.patch.multiple(
                problem,
                NUM_DATA=NUM_DATA,
                STEPS=NUM_DATA // problem.BATCH_SIZE,
                network=small_network,
                data=lambda: (images(0), images(1)),
                shifted=lambda: [("noise", strength, images(1)[0]) for strength in range(1, 6)],
            ),
        ):
            contexts.enter_context(patch)
        cls.run_command("map", "--epochs", "30", "--learning_rate", "0.3")

    @classmethod
    def run_command(cls, command: str, *flags: str) -> dict[int, np.ndarray]:
        """What the run predicts, by epoch."""
        places = ("--savedir", str(cls.folder), "--weights", str(cls.folder / "weights"))
        args = script.parser().parse_args([*places, command, *flags])
        getattr(trainings, script.COMMANDS[command][0])(args)
        return predictions.kept(trainings.predictions_of(args))

    def accuracy(self, p: np.ndarray) -> float:
        np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=5e-3)
        return float(np.mean(p.argmax(axis=1) == images(1)[1]))

    def test_modes_leave_weights_that_others_start_from(self) -> None:
        kept = predictions.kept(self.folder / "map_0" / "predictions")
        self.assertEqual(list(kept), [5, 10, 15, 20, 25, 30])
        self.assertGreater(self.accuracy(kept[30]), 0.9)
        model = small_network()
        trainings.load_weights(model, self.folder / "weights" / "map_0.npz")
        again = predictions.probabilities(problem.compiled(model, "sgd"), images(1)[0])
        np.testing.assert_allclose(again, kept[30], atol=0.02)  # weights and both are float16

    def test_runs_answer_for_corrupted_images(self) -> None:
        arrays = predictions.kept_shifted(self.folder / "map_0", 30)
        assert arrays is not None
        p = arrays["noise"]
        kept = predictions.kept(self.folder / "map_0" / "predictions")
        np.testing.assert_allclose(p, np.broadcast_to(kept[30], p.shape), atol=1e-3)

    @parameterized.parameters(
        ("mc_dropout", ("--epochs", "30")),
        ("concrete_dropout", ("--epochs", "30", "--learning_rate", "0.3")),
        (
            "mean_field",
            (
                "--epochs",
                "5",
            ),
        ),
        (
            "swag",
            (
                "--epochs",
                "5",
            ),
        ),
        ("laplace", ()),
        ("laplace", ("--layers", "all", "--name", "laplace_all")),
        ("sampler", ("--epochs", "40", "--burn_in", "20", "--learning_rate", "0.3")),
        ("sampler", ("--from_mode", "--name", "near", "--epochs", "20", "--burn_in", "2")),
    )
    def test_predicts_better_than_chance(self, command: str, flags: tuple[str, ...]) -> None:
        kept = self.run_command(command, *flags)
        self.assertGreater(self.accuracy(np.mean(list(kept.values())[-20:], axis=0)), 0.5)

    def test_a_stopped_chain_goes_on(self) -> None:
        flags = ("--burn_in", "1", "--learning_rate", "0.1", "--sampler", "SGLD")
        whole = self.run_command("sampler", "--name", "whole", "--epochs", "4", *flags)
        self.run_command("sampler", "--name", "parts", "--epochs", "2", *flags)
        parts = self.run_command("sampler", "--name", "parts", "--epochs", "4", *flags)
        self.assertEqual(list(parts), [1, 2, 3, 4])
        for epoch, p in whole.items():
            np.testing.assert_array_equal(parts[epoch], p)

    def test_cycles(self) -> None:
        flags = ("--name", "cycles", "--cycle", "4", "--epochs", "8", "--learning_rate", "0.1")
        self.assertLen(self.run_command("sampler", "--burn_in", "0", *flags), 8)


def test_a_mode_scaled_to_the_prior_is_the_same_function() -> None:
    keras.utils.set_random_seed(0)
    model = problem.network()
    rng = np.random.default_rng(0)
    model.set_weights([w + rng.normal(0, 0.1, w.shape) for w in model.get_weights()])
    x = rng.normal(size=(8, 32, 32, 3)).astype("float32")
    before = model(x)
    scaled = trainings.scaled_to_prior(model)
    np.testing.assert_allclose(scaled(x), before, atol=1e-3)
    kernels = [w for w in scaled.weights if w.name == "kernel" and len(w.shape) == 4]
    assert len(kernels) == 21
    for kernel in kernels:
        np.testing.assert_allclose(np.mean(np.square(kernel)), 1 / 5, rtol=1e-5)


def test_the_network_is_that_of_the_reference() -> None:
    model = problem.network(problem.PRIOR_PRECISION)
    assert model.count_params() == 274_042
    penalty = float(sum(model.losses) if model.losses else 0.0)
    weights = np.concatenate([w.ravel() for w in model.get_weights()])
    decay = sum(float(v.regularizer(v)) for v in model.trainable_variables)
    np.testing.assert_allclose(
        decay, 0.5 * problem.PRIOR_PRECISION * np.sum(weights**2) / problem.NUM_DATA, rtol=1e-5
    )
    np.testing.assert_allclose(penalty, decay, rtol=1e-5)

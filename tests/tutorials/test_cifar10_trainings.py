"""The trainings of CIFAR-10, with a small network on images whose class is their colour."""

from __future__ import annotations

import argparse
import contextlib
import json
import tempfile
from pathlib import Path
from unittest import mock

import keras
import numpy as np
import pytest
import tensorflow as tf
from absl.testing import parameterized

from tfbdl import layers
from tfbdl.layers import FilterResponseNormalization
from tutorials.cifar10 import __main__ as script
from tutorials.cifar10 import answers, chains, modes, predictions, problem, trainings

NUM_DATA = 160
OF_NO_MODE = ("--name", "anew", "--epochs", "30", "--learning_rate", "0.03", "--sigma", "0.1")
MODE = ("map", "--epochs", "30", "--learning_rate", "0.3", "--kernel_precision", "5")
ONE = np.ones(1, np.float32)


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
        cls.results = cls.folder / "results"
        for patch in (
            mock.patch.multiple(
                problem,
                NUM_DATA=NUM_DATA,
                STEPS=NUM_DATA // problem.BATCH_SIZE,
                network=small_network,
                training_data=lambda: images(0),
                test_inputs=lambda: images(1)[0],
                shifted=lambda: [("noise", strength, images(1)[0]) for strength in range(1, 6)],
            ),
        ):
            contexts.enter_context(patch)
        cls.run_command(*MODE)

    @classmethod
    def run_command(cls, command: str, *flags: str) -> dict[int, np.ndarray]:
        """What the run predicts, by epoch."""
        args = cls.arguments(command, *flags)
        script.FUNCTIONS[args.command](args)
        return {e: said.p for e, said in predictions.kept(answers.folder_of(args)).items()}

    @classmethod
    def arguments(cls, command: str, *flags: str) -> argparse.Namespace:
        places = ("--savedir", str(cls.folder), "--results", str(cls.results))
        return script.parser().parse_args([*places, command, *flags])

    def accuracy(self, p: np.ndarray) -> float:
        np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=5e-3)
        return float(np.mean(p.argmax(axis=1) == images(1)[1]))

    def test_modes_leave_weights_that_others_start_from(self) -> None:
        kept = predictions.kept(self.results / "map_0")
        self.assertEqual(list(kept), [5, 10, 15, 20, 25, 30])
        self.assertGreater(self.accuracy(kept[30].p), 0.9)
        self.assertFalse(kept[30].mutual_information.any())
        model = modes.loaded(argparse.Namespace(results=self.results), "map_0", problem.network())
        again = predictions.predict(problem.compiled(model, "sgd"), images(1)[0], 0).mean
        np.testing.assert_allclose(again, kept[30].p, atol=0.02)  # weights and both are float16

    def test_mean_field_begins_as_asked(self) -> None:
        with mock.patch.object(trainings, "trained") as trained:
            flags = ("--kernel_precision", "25", "--sigma", "0.5")
            once = ("--estimator", "reparameterization")
            self.run_command("mean_field", "--name", "narrow", *flags, *once)
        (model, _), _ = trained.call_args
        scales = {type(q): q.prior.scale for q in model.layers if hasattr(q, "random_weights")}
        expected = {layers.BayesConv2D: 0.2, layers.BayesDense: 5**-0.5}
        self.assertEqual(scales, expected)
        estimators = {type(q.estimator).__name__ for q in model.layers if type(q) in expected}
        self.assertEqual(estimators, {"Reparameterization"})
        for layer in model.layers:
            for q in getattr(layer, "random_weights", ()):
                np.testing.assert_allclose(
                    np.log1p(np.exp(q.rho)), 0.5 * layer.prior.scale, rtol=1e-5
                )

    def test_curvatures_of_ivon_begin_with_the_sigma_that_is_asked(self) -> None:
        with mock.patch.object(trainings, "trained") as trained:
            self.run_command("ivon", "--name", "wide", "--sigma", "0.5", "--beta_2", "0.99")
        (model, _), _ = trained.call_args
        model.optimizer.build(model.trainable_variables)
        for variable in model.trainable_variables:
            sigma = model.optimizer.stddev(variable)
            np.testing.assert_allclose(sigma, np.full(sigma.shape, 0.5 * 5**-0.5), rtol=1e-5)
        self.assertEqual(model.optimizer.beta_2, 0.99)

    def test_all_kernels_of_concrete_dropout_have_the_prior_that_is_asked(self) -> None:
        with mock.patch.object(trainings, "trained") as trained:
            self.run_command("concrete_dropout", "--name", "narrow", "--kernel_precision", "50")
        (model, _), _ = trained.call_args
        plain, *_ = problem.convolutions(model)
        for weight in plain.trainable_variables:
            self.assertAlmostEqual(float(weight.regularizer(ONE)), 0.5 * 50 / NUM_DATA)
        (dropped,) = (q for q in model.layers if isinstance(q, layers.ConcreteDropout))
        self.assertAlmostEqual(dropped.lengthscale, 50**0.5)

    @parameterized.parameters("map", "mc_dropout")
    def test_kernels_have_the_prior_that_is_asked(self, command: str) -> None:
        with mock.patch.object(trainings, "trained") as trained:
            self.run_command(command, "--name", "short", "--kernel_precision", "50")
        (model, _), _ = trained.call_args
        self.check_precision(model, 50)

    def test_what_goes_on_from_a_mode_keeps_its_prior(self) -> None:
        short = ("--epochs", "5", "--kernel_precision", "50", "--learning_rate", "0.3")
        self.run_command("map", "--name", "short", *short)
        fitting = mock.patch.object(trainings, "fitted", side_effect=ZeroDivisionError)
        with fitting as fitted, self.assertRaises(ZeroDivisionError):
            self.run_command("swag", "--mode", "short")
        (fit, _), _ = fitted.call_args
        self.check_precision(fit.__self__.model, 50)
        weights = modes.loaded(
            argparse.Namespace(results=self.results), "short_0", problem.network()
        )
        for ours, theirs in zip(fit.__self__.model.weights, weights.weights, strict=True):
            np.testing.assert_array_equal(ours, theirs)

    def test_a_mode_that_is_elsewhere_is_asked_for(self) -> None:
        with self.assertRaisesRegex(FileNotFoundError, "short_9 is missing, .* train it first$"):
            self.run_command("swag", "--mode", "short", "--number", "9")
        with self.assertRaisesRegex(FileNotFoundError, "none_0 is missing, .* train it first$"):
            self.run_command("swag", "--mode", "none")  # of which mean field alone knows

    @parameterized.parameters("map", "mc_dropout")
    def test_snapshots_go_on_with_prior_and_dropout_of_their_mode(self, command: str) -> None:
        """Going on behind others changes neither; costs add up, and the mode is one of them."""
        name, few = f"snapshots_{command}", ("--epochs", "20", "--every", "10")
        mode = ("--epochs", "10", "--kernel_precision", "20", "--learning_rate", "0.3")
        first = self.run_command(command, "--name", f"first_{command}", *mode)
        flags = ("--learning_rate", "0.05", *few)
        kept = self.run_command("snapshots", "--name", name, "--mode", f"first_{command}", *flags)
        self.assertEqual(list(kept), [10, 20])
        more = (*flags, "--number", "0", "--mode", name)
        with mock.patch.object(trainings, "trained") as trained:
            self.run_command("snapshots", "--name", "more", *more)
        (model, _), _ = trained.call_args
        self.check_precision(model, 20)
        dropped = any(isinstance(layer, layers.MCDropout) for layer in model.layers)
        self.assertEqual(dropped, command == "mc_dropout")
        (*_, last) = answers.curves(self.results)[name]
        self.assertEqual(last.epochs, 30)
        together = [first[10], *kept.values()]
        np.testing.assert_allclose(last.said.p, np.mean(together, axis=0), atol=1e-6)
        for p in together[1:]:
            self.assertGreater(self.accuracy(p), 0.5)

    def test_snapshots_end_with_a_cycle(self) -> None:
        with self.assertRaisesRegex(ValueError, "epochs=5 must be some times every=3"):
            self.run_command("snapshots", "--epochs", "5", "--every", "3")

    def check_precision(self, model: keras.Model, precision: float) -> None:
        convolutions = problem.convolutions(model)
        self.assertLen(convolutions, 2)
        for weight in (w for layer in convolutions for w in layer.trainable_variables):
            self.assertAlmostEqual(float(weight.regularizer(ONE)), 0.5 * precision / NUM_DATA)

    def test_predictions_are_not_overwritten_where_checkpoints_are_gone(self) -> None:
        before = predictions.kept(self.results / "map_0")[30].p
        elsewhere = ("--savedir", str(self.folder / "gone"), "--results", str(self.results))
        with self.assertRaisesRegex(FileExistsError, "map_0 has predictions, .* no checkpoint"):
            script.FUNCTIONS["map"](script.parser().parse_args([*elsewhere, *MODE]))
        np.testing.assert_array_equal(predictions.kept(self.results / "map_0")[30].p, before)

    def test_a_run_keeps_what_it_began_with(self) -> None:
        """It is refused with other flags, and wrong flags leave nothing."""
        before = (self.results / "map_0" / "run.json").read_text()
        with self.assertRaisesRegex(ValueError, "map_0 holds a run with --learning_rate 0.3, not"):
            self.run_command(*MODE, "--learning_rate", "0.2")
        self.assertEqual((self.results / "map_0" / "run.json").read_text(), before)
        wrong = (
            ("--epochs", "10", "--burn_in", "10"),
            ("--epochs", "15", "--burn_in", "10", "--every", "4"),
            ("--epochs", "12", "--burn_in", "3", "--every", "9", "--cyclical"),
            ("--momentum", "2"),
        )
        for flags in wrong:
            with self.assertRaises(ValueError):
                self.run_command("sghmc", "--name", "wrong", *flags)
        self.assertFalse((self.results / "wrong_0").exists())

    def test_seconds_of_an_epoch_count_once(self) -> None:
        folder = self.folder / "costs"
        for epoch, seconds in ((1, 1800.0), (2, 9.0), (2, 3600.0)):
            predictions.note(folder / predictions.COSTS, epoch, seconds)
        self.assertEqual(answers.hours_of(folder, 2), 1.5)
        with self.assertRaisesRegex(FileNotFoundError, "lacks the seconds"):
            answers.hours_of(folder, 3)

    def test_runs_answer_for_corrupted_images(self) -> None:
        arrays = predictions.kept_shifted(self.results / "map_0", 30)
        assert arrays is not None
        p = arrays["noise"]
        kept = predictions.kept(self.results / "map_0")
        np.testing.assert_allclose(p, np.broadcast_to(kept[30].p, p.shape), atol=1e-3)

    @parameterized.parameters(
        ("mc_dropout", ("--epochs", "30")),
        ("concrete_dropout", ("--epochs", "30")),
        ("mean_field", ("--epochs", "5")),
        ("swag", ("--epochs", "5")),
        ("mean_field", ("--mode", "none", "--optimizer", "sgd", *OF_NO_MODE)),
        ("ivon", ("--epochs", "30", "--learning_rate", "0.3")),
        ("laplace", ()),
        ("laplace_all", ()),
        ("sghmc", ("--epochs", "20", "--burn_in", "2", "--momentum", "0.9")),
        ("preconditioned_sghmc", ("--epochs", "20", "--burn_in", "2", "--temperature", "0.5")),
        ("sgld", ("--epochs", "20", "--burn_in", "0")),
    )
    def test_predicts_better_than_chance(self, command: str, flags: tuple[str, ...]) -> None:
        kept = self.run_command(command, *flags)
        self.assertGreater(self.accuracy(np.mean(list(kept.values())[-20:], axis=0)), 0.5)
        run = answers.run_of(self.arguments(command, *flags))
        drawn = predictions.kept(run.folder)
        chain = command in answers.SAMPLERS
        self.assertNotEqual(chain, any(said.mutual_information.any() for said in drawn.values()))
        self.assertTrue(answers.curves(self.results)[run.method])

    def test_a_stopped_chain_goes_on(self) -> None:
        flags = ("--burn_in", "1", "--learning_rate", "0.1")
        whole = self.run_command("sghmc", "--name", "whole", "--epochs", "4", *flags)
        self.run_command("sghmc", "--name", "parts", "--epochs", "2", *flags)
        parts = self.run_command("sghmc", "--name", "parts", "--epochs", "4", *flags)
        self.assertEqual(list(parts), [2, 3, 4])
        for epoch, p in whole.items():
            np.testing.assert_array_equal(parts[epoch], p)
        temperatures = predictions.notes(self.results / "parts_0" / predictions.TEMPERATURES)
        self.assertEqual(list(temperatures), [1, 2, 3, 4])

    def test_a_chain_goes_on_behind_another(self) -> None:
        """It begins with its weights, float16; costs add up, and samples of both count."""
        flags = ("--name", "linked", "--burn_in", "0", "--learning_rate", "1e-9")
        first = self.run_command("sghmc", *flags, "--epochs", "2", "--temperature", "0")
        behind = ("--start", "linked_0", "--number", "7", "--temperature", "0")
        second = self.run_command("sghmc", *flags, "--epochs", "3", *behind)
        for p in second.values():  # hardly anything moves at this rate
            np.testing.assert_allclose(p, first[2], atol=0.02)
        (*_, last) = answers.curves(self.results)["linked"]
        self.assertEqual(last.epochs, 30 + 2 + 3)
        np.testing.assert_allclose(
            last.said.p, np.mean([*first.values(), *second.values()], axis=0), atol=1e-6
        )
        with self.assertRaisesRegex(
            FileNotFoundError, "none_3 is missing, where linked_8 starts; train"
        ):
            self.run_command("sghmc", *flags, "--number", "8", "--start", "none_3")

    def test_mean_field_goes_on_behind_another(self) -> None:
        """It begins with its means and standard deviations."""
        flags = ("--name", "behind", "--epochs", "1")
        first = self.run_command("mean_field", *flags, "--learning_rate", "1e-2")
        with mock.patch.object(trainings, "trained") as trained:
            self.run_command("mean_field", *flags, "--start", "behind_0", "--number", "1")
        (model, _), _ = trained.call_args
        p = predictions.predict(problem.compiled(model, "adam"), images(1)[0], 20).mean
        np.testing.assert_allclose(p, first[1], atol=0.01)  # the same draws

    def test_cycles_give_a_sample_at_their_end(self) -> None:
        """There, and nowhere else, is the rate next to 0, and nothing said of temperatures."""
        flags = ("--cyclical", "--every", "2", "--burn_in", "2", "--epochs", "6")
        kept = self.run_command("sghmc", "--name", "cycles", *flags)
        self.assertEqual(list(kept), [4, 6])
        samples = sorted(p.stem for p in (self.folder / "cycles_0" / "samples").glob("*.npz"))
        self.assertEqual([int(name.split("_")[1]) for name in samples], [4, 6])
        temperatures = predictions.notes(self.results / "cycles_0" / predictions.TEMPERATURES)
        self.assertEqual(list(temperatures), [1, 3, 5])


def randomize(model: keras.Model) -> None:
    rng = np.random.default_rng(0)
    model.set_weights([w + rng.normal(0, 0.1, w.shape) for w in model.get_weights()])


def write_settings(folder: Path, args: argparse.Namespace) -> None:
    folder.mkdir()
    settings = {k: v for k, v in vars(args).items() if k not in ("results", "savedir")}
    (folder / answers.SETTINGS).write_text(json.dumps(settings))


def test_a_mode_scaled_to_the_prior_is_the_same_function() -> None:
    keras.utils.set_random_seed(0)
    model = problem.network()
    randomize(model)
    x = np.random.default_rng(1).normal(size=(8, 32, 32, 3)).astype("float32")
    before = model(x)
    scaled = modes.scaled_to_prior(model)
    np.testing.assert_allclose(scaled(x), before, atol=1e-3)
    assert len(problem.convolutions(scaled)) == 21
    for layer in problem.convolutions(scaled):
        np.testing.assert_allclose(np.mean(np.square(layer.kernel)), 1 / 5, rtol=1e-5)


@pytest.mark.parametrize("start", [None, "sgld_0"])
@pytest.mark.parametrize("temperature", [1.0, 0.05])
def test_a_chain_has_a_prior_of_the_modes_size(
    tmp_path: Path, temperature: float, start: str | None
) -> None:
    """Convolutions alone have it, as wide as p(w)^(1 / T): nothing pulls on a kernel's length.

    Where a draw of N(0, s^2)^(1 / T) has the mode's mean square, the mean of w times the slope of
    -log p(w) / N is T / N for each weight.
    """
    keras.utils.set_random_seed(0)
    mode = problem.network()
    randomize(mode)
    common = {"results": tmp_path, "savedir": tmp_path, "name": None}

    def args(command: str, number: int, start: str | None = None) -> argparse.Namespace:
        flags = {"command": command, "number": number, "start": start, "temperature": temperature}
        flags["mode"] = "map"
        return argparse.Namespace(**common, **flags)

    modes.save_weights(args("map", 0), mode)
    modes.save_weights(args("map", 5), problem.network())
    modes.save_weights(args("sgld", 0), problem.network())
    write_settings(tmp_path / "map_0", args("map", 0))
    write_settings(tmp_path / "sgld_0", args("sgld", 0))
    chain = chains.start_of_chain(args("sgld", 5 if start else 0, start))
    for layer, of_mode in zip(*map(problem.convolutions, (chain, mode)), strict=True):
        w = tf.Variable(of_mode.kernel)
        with tf.GradientTape() as tape:
            penalty = layer.kernel.regularizer(w)
        each = np.mean(w * tape.gradient(penalty, w))
        np.testing.assert_allclose(each, temperature / problem.NUM_DATA, rtol=2e-3)  # of float16
        assert layer.bias.regularizer(ONE) == layer.kernel.regularizer(ONE)
    dense = chain.layers[-1]
    np.testing.assert_allclose(dense.kernel.regularizer(ONE), 2.5 / problem.NUM_DATA, rtol=1e-5)


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


@pytest.mark.parametrize("flags", [(), ("--bfloat16",)])
def test_where_asked_convolutions_are_in_bfloat16(flags: tuple[str, ...]) -> None:
    def types(args: argparse.Namespace) -> None:
        model = problem.network()
        convolutions = {w.compute_dtype for w in model.layers if isinstance(w, keras.layers.Conv2D)}
        assert convolutions == {"bfloat16" if args.bfloat16 else "float32"}
        assert {str(w.dtype) for w in model.weights} == {"float32"}
        assert model.output.dtype == "float32"

    policy = keras.config.dtype_policy()
    try:
        with (
            mock.patch.dict(script.FUNCTIONS, {"map": types}),
            mock.patch.object(tf.config, "threading"),
        ):
            script.start(script.parser().parse_args([*flags, "map"]))
    finally:
        keras.config.set_dtype_policy(policy)

"""The UCI protocol: its numbers, its parts, and every method on data of a known truth."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import keras
import numpy as np
import scipy.integrate
import scipy.stats
import tensorflow as tf
import tutorial_runs
from absl.testing import parameterized
from soak.uci_files import write_splits

import tfbdl
from tfbdl.data import RegressionData
from tfbdl.data.uci import PUBLISHED, Published
from tfbdl.layers import LearnedScale
from tfbdl.likelihoods import Normal
from tfbdl.models import WeightEnsemble
from tfbdl.predictive import Prediction
from tutorials.records import RecordFile
from tutorials.uci import __main__ as script
from tutorials.uci import (
    around_networks,
    by_training,
    chain_variants,
    held_out,
    hierarchical_prior,
    intervals,
    joint_ensemble,
    multi_swag,
    published,
    when_to_stop,
)
from tutorials.uci.heads import HEADS
from tutorials.uci.split import Split

NOISE = 3.0
"""Standard deviation, in the units of the made targets."""


def made_data(num: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """y = 100 + 20 |x_0| + N(0, 3^2), beside a constant input and one that says nothing."""
    rng = np.random.default_rng(seed)
    x = np.stack([rng.normal(size=num), np.full(num, 0.998), rng.normal(5, 9, num)], axis=1)
    return x, 100 + 20 * np.abs(x[:, :1]) + NOISE * rng.normal(size=(num, 1))


def raw(num_train: int = 40, num_test: int = 10) -> RegressionData:
    x, y = made_data(num_train + num_test)
    return RegressionData(x[:num_train], y[:num_train], x[num_train:], y[num_train:])


class SplitTest(tf.test.TestCase):
    def test_inputs_are_normalised_by_the_training_part(self) -> None:
        split = Split.of(raw())
        self.assertAllClose(split.x.mean(axis=0), np.zeros(3), atol=1e-6)
        self.assertAllClose(split.x.std(axis=0), [1, 0, 1], atol=1e-5)
        self.assertAllClose(split.y.std(), 1.0, atol=1e-5)
        x, y, x_test, y_test = raw()
        self.assertAllClose(
            split.x_test[:, 2], (x_test[:, 2] - x[:, 2].mean()) / x[:, 2].std(), atol=1e-5
        )
        self.assertAllClose(split.y_test * y.std() + y.mean(), y_test, rtol=1e-5)

    def test_validation_is_the_last_fifth_normalised_by_the_rest(self) -> None:
        x, y, *_ = raw()
        held_out = Split.of(raw()).validation
        self.assertAllEqual(held_out.raw.x_test, x[32:])
        self.assertAllEqual(held_out.raw.y_train, y[:32])
        self.assertAllClose(held_out.loc, y[:32].mean())
        self.assertAllClose(held_out.x[:, 0].std(), 1.0, atol=1e-5)

    def test_scores_are_those_in_the_units_of_the_data(self) -> None:
        """A mixture of two functions with their own noise, by hand."""
        split = Split.of(raw())
        network = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1), LearnedScale()])
        thetas = np.random.default_rng(1).normal(size=(2, 5))
        ensemble = WeightEnsemble(network, thetas)
        ensemble.compile(loss=Normal("predicted"))
        prediction = split.scores(
            tfbdl.predict(ensemble, split.x_test, 2, return_samples=True, verbose=0)
        )
        means = [split.loc + split.scale * (split.x_test @ t[:3] + t[3]) for t in thetas]
        noises = [split.scale * np.log1p(np.exp(t[4])) for t in thetas]
        y = split.raw.y_test[:, 0]
        pairs = zip(means, noises, strict=True)
        densities = np.mean([scipy.stats.norm.pdf(y, m, s) for m, s in pairs], axis=0)
        self.assertAllClose(prediction["log_likelihood"], np.log(densities).mean(), rtol=1e-4)
        errors = np.mean(means, axis=0) - y
        self.assertAllClose(prediction["rmse"], np.sqrt(np.mean(errors**2)), rtol=1e-4)


class PriorTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters((1.0, 0.1), (0.5, 2.0))
    def test_is_the_integral_over_the_scale(self, shape: float, rate: float) -> None:
        w = np.array([[0.3, -0.2, 0.05], [2.0, 1.0, -4.0]])
        log_prob = hierarchical_prior.log_prob(tf.constant(w), shape, rate)
        for values, log_p in zip(w, log_prob, strict=True):

            def integrand(u: float, values: np.ndarray = values) -> float:
                variance = np.exp(u)
                density = scipy.stats.norm.pdf(values, scale=np.sqrt(variance)).prod()
                return density * scipy.stats.invgamma.pdf(variance, shape, scale=rate) * variance

            integral = scipy.integrate.quad(integrand, -15, 25, epsabs=0, limit=200)[0]
            self.assertAllClose(log_p, np.log(integral), rtol=1e-6)

    def test_groups_of_a_network(self) -> None:
        """The multivariate t of SciPy, and the density of the noise with its slope."""
        layers = [keras.layers.Dense(4, "relu"), keras.layers.Dense(1), LearnedScale()]
        model = keras.Sequential([keras.Input((3,)), *layers])
        theta = np.random.default_rng(0).normal(size=12 + 4 + 4 + 1 + 1)
        kernel, bias, out, out_bias, raw_scale = np.split(theta, np.cumsum([12, 4, 4, 1]))

        def t(w: np.ndarray, rate: float) -> float:
            a = hierarchical_prior.SHAPE
            scale = rate / a * np.eye(len(w))
            return scipy.stats.multivariate_t.logpdf(w, shape=scale, df=2 * a)

        sigma = np.log1p(np.exp(raw_scale[0]))
        noise = scipy.stats.gamma.logpdf(sigma, 0.5) - np.log1p(np.exp(-raw_scale[0]))
        expected = sum(t(row, 1 / 3) for row in kernel.reshape(3, 4))
        expected += t(bias, 1.0) + t(out, 1 / 4) + t(out_bias, 1.0) + noise
        actual = hierarchical_prior.prior_of(model)(tf.constant(theta, tf.float32))
        self.assertAllClose(actual, expected, rtol=1e-5)
        expected += t(kernel, 1 / 3) - sum(t(row, 1 / 3) for row in kernel.reshape(3, 4))
        of_one_scale = hierarchical_prior.prior_of(model, scale_of_input=False)
        self.assertAllClose(of_one_scale(tf.constant(theta, tf.float32)), expected, rtol=1e-5)


class NoiseTest(tf.test.TestCase):
    def test_of_one_function_is_the_root_of_its_mean_squared_error(self) -> None:
        errors = np.random.default_rng(0).normal(0, 0.3, (50, 1))
        prediction = mock.Mock(outputs=np.ones((1, 50, 1)))
        score, sigma = held_out.best_noise(prediction, 1.0 + errors)
        expected = np.sqrt(np.mean(errors**2))
        self.assertAllClose(sigma, expected, rtol=1e-4)
        self.assertAllClose(score, scipy.stats.norm.logpdf(errors, 0, expected).mean(), rtol=1e-4)

    def test_of_functions_that_differ_is_smaller(self) -> None:
        """y ~ N(0, 0.5^2) from functions of spread 0.3 leaves the noise 0.4."""
        rng = np.random.default_rng(0)
        prediction = mock.Mock(outputs=rng.normal(0, 0.3, (300, 1000, 1)))
        _, sigma = held_out.best_noise(prediction, rng.normal(0, 0.5, (1000, 1)))
        self.assertAllClose(sigma, 0.4, atol=0.04)


class StopTest(parameterized.TestCase):
    FLAGS = ("--hidden", "4", "--steps", "400", "--batch_size", "10", "--K", "2", "--rate", "0.01")

    @parameterized.parameters(
        ([0.1, 0.3, 0.2, 0.2, 0.2, 0.2, 0.2, 9.0], 7, 0.2),
        ([0.1, 0.3, 0.2, 0.4, 0.2, 0.2, 0.2, 0.2, 0.5, 9.0], 10, 1.0),
    )
    def test_looks_end_five_after_the_best(
        self, scores: list[float], looks: int, share: float
    ) -> None:
        """The best of ten looks is taken; what comes behind the last is not seen."""
        answers = [np.full(3, score) for score in scores]
        prediction = mock.Mock(log_prob=mock.Mock(side_effect=answers))
        args = script.parser().parse_args(self.FLAGS)
        args.steps = 40
        with (
            mock.patch.object(when_to_stop.tfbdl, "predict", return_value=prediction),
            mock.patch.object(when_to_stop, "num_epochs", return_value=10),
            mock.patch.object(when_to_stop, "trained", trained_for(10)) as trained,
        ):
            made = when_to_stop.best_of_path(mock.Mock(), Normal(), 0, Split.of(raw()), args)
        self.assertEqual(made, (prediction, {"share_of_steps": share}))
        self.assertEqual(prediction.log_prob.call_count, looks)
        self.assertEqual(trained.call_args.kwargs["epochs"], round(10 * share))

    @parameterized.parameters(2, 30, 125)
    def test_an_ensemble_is_asked_early_and_late(self, best: int) -> None:
        """Where the densities are highest at an epoch, a look is near; most are early."""
        epochs = iter(range(1, 1000))
        seen: list[int] = []

        def density(*_: Any) -> tf.Tensor:
            return tf.constant(-abs(np.log(seen[-1] / best)))

        def path(*_: Any) -> Any:
            yield np.zeros((2, 1))
            for epoch in epochs:
                seen.append(epoch)
                yield np.zeros((2, 1))

        args = script.parser().parse_args(self.FLAGS)
        with (
            mock.patch.object(joint_ensemble, "members", path),
            mock.patch.object(joint_ensemble, "log_density", density),
            mock.patch.object(joint_ensemble.tf, "function", lambda f: f),
        ):
            chosen = joint_ensemble.best_epochs(Split.of(raw()), args)
        self.assertBetween(chosen, 0.8 * best, 1.25 * best)
        self.assertEqual(seen[-1], 400 * 10 // 32)


def trained_for(epochs: int) -> mock.Mock:
    """A stand-in of `trained`, which calls back after each of so many epochs, or those given."""

    def train(model: Any, *_: Any, callbacks: Any = (), **more: Any) -> Any:
        model.stop_training = False
        for callback in callbacks:
            callback.set_model(model)
        for epoch in range(epochs):
            for callback in callbacks:
                callback.on_epoch_end(epoch)
            if model.stop_training:
                break
        return model

    return mock.Mock(side_effect=train)


def write_made(folder: Path) -> Published:
    """A data set with two splits, in files as those of Gal's repository."""
    return write_splits(folder, np.concatenate(made_data(250), axis=1))


class ScriptTest(tf.test.TestCase, parameterized.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.contexts = contextlib.ExitStack()
        cls.addClassCleanup(cls.contexts.close)
        cls.folder = Path(cls.contexts.enter_context(tempfile.TemporaryDirectory()))
        made = write_made(cls.folder)
        for patch in (
            mock.patch.dict(os.environ, TFBDL_DATA=str(cls.folder)),
            mock.patch.dict(PUBLISHED, made=made),
            mock.patch.dict(published.RMSE, made=(3.1, 9, 9, 9, 9, None)),
            mock.patch.dict(published.LOG_LIKELIHOOD, made=(-2.6, -9, -9, -9, -9, -2.7)),
            mock.patch.multiple(by_training, SCALES=(1.0,), RATES=(0.01,), LENGTHSCALES=(0.1,)),
            mock.patch.multiple(by_training, IVON_SCALES=(1.0,), VBLL_SCALES=(1.0,)),
            mock.patch.object(multi_swag, "RATES", (1e-3,)),
            mock.patch.object(around_networks, "SCALES", (1.0,)),
        ):
            cls.contexts.enter_context(patch)

    def run_script(self, savedir: str, *flags: str, program: ModuleType = script) -> str:
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            where = ("--set", "made", "--savedir", str(self.folder / savedir))
            tutorial_runs.run(program, *where, *flags)
        return output.getvalue()

    def records(self, savedir: str, name: str = "made") -> list[dict[str, Any]]:
        return RecordFile(self.folder / savedir / f"{name}.jsonl", "method", "split").records()

    @parameterized.parameters(*script.METHODS)
    def test_method_finds_the_truth(self, method: str) -> None:
        """Its error is not far above the noise, and its density not far below the truth's."""
        self.run_script("methods", "--methods", method, "--splits", "0", *FEW)
        (record,) = (r for r in self.records("methods") if r["method"] == method)
        truth = -0.5 * np.log(2 * np.pi * np.e) - np.log(NOISE)
        self.assertBetween(record["rmse"], 0.8 * NOISE, 1.35 * NOISE)
        self.assertBetween(record["log_likelihood"], truth - 0.4, truth + 0.15)
        if "noise" in record["details"]:
            scale = np.std(made_data(250)[1])
            self.assertBetween(scale * record["details"]["noise"], 0.7 * NOISE, 1.5 * NOISE)

    @parameterized.parameters(*HEADS, "laplace")
    def test_intervals_cover(self, method: str) -> None:
        """Intervals of a head that knows the truth are 2 * 1.645 standard deviations wide."""
        flags = ("--methods", method, "--splits", "0", *FEW)
        text = self.run_script("intervals", *flags, program=intervals)
        (record,) = (r for r in self.records("intervals") if r["method"] == method)
        self.assertBetween(record["rmse"], 0.8 * NOISE, 1.5 * NOISE)
        self.assertEqual(record["intervals"].keys(), intervals.INTERVALS.keys())
        for of in record["intervals"].values():
            self.assertBetween(of["coverage"], 0.65, 1.0)
            self.assertBetween(of["width"], 2 * NOISE, 6 * NOISE)
            self.assertBetween(of["score"], of["width"], 10 * NOISE)
        self.assertEqual("log_likelihood" in record, method != "head_quantiles")
        self.assertIn(f"| {method} | {record['rmse']:.4g} | ", text)

    def test_intervals_are_calibrated_by_what_is_held_out(self) -> None:
        """A normal law with a fifth of the noise covers too little, and is widened to 90 %."""
        seen: list[Split] = []

        def method(data: Split, args: Any) -> tuple[Prediction, dict[str, Any]]:
            seen.append(data)
            mean = Split.of(data.raw).y_test * 0.0
            variance = np.full_like(mean, 0.2**2)
            zeros = np.zeros_like(mean)
            law = Normal(0.2)
            return Prediction(mean, variance, zeros, None, 1, law, mean[np.newaxis]), {}

        with mock.patch.dict(intervals.METHODS, {"hmc": method}, clear=True):
            self.run_script("narrow", "--splits", "0", program=intervals)
        (record,) = self.records("narrow")
        (both,) = seen
        self.assertEqual((len(both.x), len(both.x_test)), (120, 30 + 100))
        own, *conformal = record["intervals"].values()
        self.assertLess(own["coverage"], 0.4)
        self.assertAllClose(own["width"], 2 * 1.645 * 0.2 * both.scale, rtol=1e-3)
        for of in conformal:
            self.assertBetween(of["coverage"], 0.8, 0.98)

    def test_variants_of_chains(self) -> None:
        text = self.run_script("variants", "--splits", "0", *FEW, program=chain_variants)
        records = {record["method"]: record for record in self.records("variants")}
        self.assertEqual(records.keys(), chain_variants.VARIANTS.keys())
        gradients = {name: record["details"]["gradients"] for name, record in records.items()}
        self.assertGreater(gradients["longer"], 2 * gradients["hmc"])
        for name, record in records.items():
            self.assertBetween(record["rmse"], 0.8 * NOISE, 1.35 * NOISE)
            worst = f"{record['log_likelihood']:.4g}"
            rhat = f"{record['details']['rhat_of_functions']:.2f}"
            self.assertIn(f"| {worst} | {worst} | {rhat} |", text)
            self.assertIn(f"| {name} | ", text)

    def test_records_are_made_once_and_summed_up(self) -> None:
        method = mock.Mock(side_effect=constant_prediction)
        with mock.patch.dict(script.METHODS, {"hmc": method}, clear=True):
            self.run_script("once", "--splits", "1")
            text = self.run_script("once")
            self.assertEqual(method.call_count, 2)
            self.assertEqual([call.args[1].seed for call in method.call_args_list], [1, 0])
            steps = script.parser().get_default("steps")
            message = f"was made with --steps {steps}, not 7; name an"
            with self.assertRaisesRegex(SystemExit, message):
                self.run_script("once", "--steps", "7")
            records = self.records("once")
            self.assertEqual([record["split"] for record in records], [0, 1])
            self.assertIn("| variational inference, published | 3.1 | -2.6 | | |", text)
            self.assertIn("| VBLL, published |  | -2.7 | | |", text)
            self.assertIn(f"{np.mean([r['rmse'] for r in records]):.4g} ± ", text)
            self.assertEqual(self.run_script("once", "--mode", "table"), text[text.index("|") :])

    def test_gaps_and_sets_of_ones_own(self) -> None:
        """The same rows, once as a gap of a published set and once as a folder's split."""
        gaps = self.folder / "uci_gap" / "made"
        gaps.mkdir(parents=True)
        for part in ("train", "test"):
            name = f"index_{part}_1.txt"
            (gaps / name).write_text((self.folder / "made" / "data" / name).read_text())
        with mock.patch.dict(script.METHODS, {"hmc": constant_prediction}, clear=True):
            gap = self.run_script("gap", "--gap", "--splits", "1")
            folders = ("--folder", str(self.folder / "made" / "data"), "--split_folder", str(gaps))
            own = self.run_script("own", *folders)
        self.assertIn("made_gap, split 1, hmc: ", gap)
        self.assertIn("data, split 1, hmc: ", own)
        rows = [text.splitlines()[-1] for text in (gap, own)]
        self.assertEqual(*(row.split("|")[2:5] for row in rows))
        (record,) = RecordFile(self.folder / "own" / "data.jsonl", "method", "split").records()
        self.assertIn(f"| {record['log_likelihood']:.4g} | 1 |", own)
        self.assertNotIn("published", gap + own)

    def test_gaps_stand_beside_standard_splits(self) -> None:
        settings = {"steps": 1}
        for name, values in (("made", {0: 3.0, 1: 5.0}), ("made_gap", {2: 7.0, 4: 11.0})):
            file = RecordFile(self.folder / "beside" / f"{name}.jsonl", "method", "split")
            for method in ("hmc", "laplace") if name == "made" else ("hmc",):
                for split, rmse in values.items():
                    numbers = {"rmse": rmse, "log_likelihood": -rmse, "seconds": 1.0}
                    file.kept({"method": method, "split": split}, settings, numbers.copy)
        made = PUBLISHED["made"]._replace(num_features=5, constant=(1, 3))
        with mock.patch.dict(PUBLISHED, made=made):
            text = self.run_script("beside", "--mode", "between")
        self.assertIn("| hmc | 4 ± 1 | 9 ± 2 | -4 ± 1 | -9 ± 2 | -11 | 2 |\n", text)
        self.assertNotIn("laplace", text)
        self.assertIn("Features 1, 3 are constant, and have no gap.", text)

    def test_cells(self) -> None:
        values = np.array([1.0, 2.0, 3.0])
        error = np.sqrt(1.0 / 3.0)
        for best, sign, bold in (
            (2.0 - 0.9 * error, -1, True),
            (2.0 - 1.1 * error, -1, False),
            (2.0 + 0.9 * error, 1, True),
            (2.0 + 1.1 * error, 1, False),
        ):
            expected = "**2 ± 0.58**" if bold else "2 ± 0.58"
            self.assertEqual(script.cell(values, best, sign), expected)
        self.assertEqual(script.cell(values[:1], 5.0, -1), "1")

    def test_a_printed_zero_is_no_best(self) -> None:
        self.assertEqual(published.best("naval"), (0.00074, 5.63))
        self.assertEqual(published.best("boston"), (2.904, -2.402))
        self.assertEqual(published.best("energy"), (0.539, -0.85))


FEW = (
    *("--hidden", "10", "--steps", "600", "--rate", "0.02", "--S", "50", "--K", "2"),
    *("--num_chains", "2", "--num_warmup", "100", "--num_samples", "50"),
)
"""Flags under which methods are quick."""


def constant_prediction(data: tuple[Any, ...], args: argparse.Namespace) -> tuple[Any, ...]:
    """The mean and spread of what is trained on."""
    zeros = np.zeros_like(data.y_test)
    log_prob = mock.Mock(side_effect=lambda y: scipy.stats.norm.logpdf(y[:, 0]))
    return mock.Mock(mean=zeros, log_prob=log_prob), {}


if __name__ == "__main__":
    tf.test.main()

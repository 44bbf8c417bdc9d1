"""`tfbdl predict` and `tfbdl summary`: what they show, write, and refuse."""

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any
from unittest import mock

import h5py
import keras
import numpy as np
import tensorflow as tf

import tfbdl
from tfbdl import layers, likelihoods
from tfbdl.cli import main

RNG = np.random.default_rng(0)
N, D, C = 9, 4, 3
X = RNG.normal(size=(N, D)).astype("float32")


def classifier() -> Any:
    model = keras.Sequential(
        [
            keras.Input((D,)),
            layers.ConcreteDropout(
                keras.layers.Dense(8, "relu"), num_data=N, initial_rate=0.25, per_unit=True
            ),
            layers.MCDropout(0.3),
            layers.BayesDense(C, num_data=N, name="head"),
        ]
    )
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def my_loss(y: Any, p: Any) -> Any:
    return keras.ops.mean(p - y)


class CommandCase(tf.test.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = Path(self.enter_context(tempfile.TemporaryDirectory()))
        self.model = self.folder / "model.keras"
        self.inputs = self.folder / "test.npz"
        np.savez(self.inputs, x=X)

    def run_command(self, *args: Any) -> Any:
        out, err = io.StringIO(), io.StringIO()
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            mock.patch.dict(os.environ, {"COLUMNS": "100"}),
        ):
            try:
                code = main([str(arg) for arg in args])
            except SystemExit as stop:
                code = int(stop.code or 0)
        return code, out.getvalue(), err.getvalue()

    def refuse(self, code: Any, message: str, *args: Any) -> None:
        """One line of error, nothing else shown, no file made, changed or removed."""
        before = self.files()
        actual, out, err = self.run_command(*args)
        self.assertEqual((actual, out), (code, ""), err)
        self.assertRegex(err, f"^tfbdl: error: .*{message}.*\n$")
        self.assertEqual(err.count("\n"), 1, err)
        self.assertEqual(self.files(), before)

    def files(self) -> Any:
        return {path: path.is_file() and path.read_bytes() for path in self.folder.rglob("*")}


class PredictTest(CommandCase):
    def test_classes(self) -> None:
        model = classifier()
        model.save(self.model)
        code, out, err = self.run_command(
            "predict", self.model, self.inputs, "--samples", 20, "--seed", 4
        )
        self.assertEqual((code, err), (0, ""))
        expected = tfbdl.predict(model, X, 20, seed=4)
        with np.load(self.folder / "test_predicted.npz") as file:
            names = ["mean", "stddev", "entropy", "mutual_information"]
            self.assertCountEqual(file, ["format", *names])
            for name in names:
                self.assertAllClose(file[name], getattr(expected, name), 1e-5, msg=name)
        rows = re.findall(r"^ +(\d+) +(\d) +(\d\.\d+) +(\d\.\d+) +(\d\.\d+) *$", out, re.MULTILINE)
        order = np.argsort(-expected.entropy)[:5]
        self.assertEqual([int(row[0]) for row in rows], list(order))
        self.assertEqual([int(row[1]) for row in rows], list(expected.mean[order].argmax(-1)))
        self.assertAllClose([float(row[3]) for row in rows], expected.entropy[order], atol=6e-4)

    def test_regression_and_a_file_with_one_array(self) -> None:
        model = keras.Sequential([keras.Input((D,)), layers.BayesDense(1, num_data=N)])
        model.compile("sgd", likelihoods.Normal(0.5))
        model.save(self.model)
        np.savez(self.inputs, features=X)
        output = self.folder / "out.npz"
        code, out, _ = self.run_command("predict", self.model, self.inputs, "--output", output)
        self.assertEqual(code, 0)
        self.assertIn("least sure first (by stddev)", out)
        with np.load(output) as file:
            self.assertCountEqual(file, ["format", "mean", "stddev"])
            self.assertAllClose(file["mean"], tfbdl.predict(model, X, seed=0).mean, 1e-4, 1e-5)

    def test_several_inputs_go_by_their_names(self) -> None:
        a, b = keras.Input((2,), name="a"), keras.Input((2,), name="b")
        h = layers.MCDropout(0.5)(keras.layers.Concatenate()([b, a]))
        model = keras.Model([b, a], keras.layers.Dense(1)(h))
        model.save(self.model)
        np.savez(self.inputs, a=X[:, :2], b=X[:, 2:], more=X)
        code, out, err = self.run_command("predict", self.model, self.inputs)
        self.assertEqual((code, err), (0, ""))
        self.assertIn("No loss of the model says what its outputs mean", out)
        expected = tfbdl.predict(model, [X[:, 2:], X[:, :2]], seed=0)
        with np.load(self.folder / "test_predicted.npz") as file:
            self.assertAllClose(file["stddev"], expected.epistemic_stddev, 1e-4, 1e-5)
        other = self.folder / "other.npz"
        np.savez(other, a=X)
        self.refuse(2, "has arrays a; this model's inputs are b, a", "predict", self.model, other)

    def test_several_labels_an_example_have_no_one_class(self) -> None:
        model = keras.Sequential([keras.Input((D,)), layers.BayesDense(3, num_data=N)])
        model.compile("sgd", likelihoods.Bernoulli())
        model.save(self.model)
        code, out, _ = self.run_command("predict", self.model, self.inputs)
        self.assertEqual(code, 0)
        self.assertRegex(out, r"example +entropy +mutual information")

    def test_positions_are_written_and_shown_by_their_mean(self) -> None:
        inputs = keras.Input((D,))
        h = keras.layers.Reshape((D, 1))(inputs)
        model = keras.Model(inputs, layers.BayesDense(3, num_data=N, estimator="flipout")(h))
        model.compile("sgd", likelihoods.Categorical())
        model.save(self.model)
        code, out, _ = self.run_command("predict", self.model, self.inputs)
        self.assertEqual(code, 0)
        entropy = tfbdl.predict(model, X, seed=0).entropy
        with np.load(self.folder / "test_predicted.npz") as file:
            self.assertAllClose(file["entropy"], entropy, 1e-4, 1e-5)
        of_examples = entropy.mean(axis=1)
        first = np.argmax(of_examples)
        self.assertRegex(out, rf"\n +{first} +{of_examples[first]:.2f}")

    def test_positions_that_a_mask_leaves_out(self) -> None:
        """They are written with the mask, and do not count in what is shown."""
        lengths = 1 + np.arange(N)[:, np.newaxis] % 4
        x = np.where(np.arange(4) < lengths, 1 + np.arange(N)[:, np.newaxis] % 8, 0)
        counts = x > 0
        np.savez(self.inputs, x=x)
        words = keras.Input((4,), dtype="int32")
        h = layers.MCDropout(0.5, seed=3)(keras.layers.Embedding(9, 6, mask_zero=True)(words))
        model = keras.Model(words, keras.layers.Dense(3)(h))
        for loss in (likelihoods.Categorical(), likelihoods.Normal(0.1)):
            model.compile("sgd", loss)
            model.save(self.model)
            code, out, _ = self.run_command("predict", self.model, self.inputs, "--force")
            self.assertEqual(code, 0)
            expected = tfbdl.predict(model, x, seed=0)
            if isinstance(loss, likelihoods.Categorical):
                of_examples = (expected.entropy * counts).sum(axis=1) / counts.sum(axis=1)
            else:
                of_examples = np.max(expected.stddev * counts[..., np.newaxis], axis=(1, 2))
            with np.load(self.folder / "test_predicted.npz") as file:
                self.assertAllEqual(file["mask"], counts)
            shown = [int(row) for row in re.findall(r"^ +(\d+) ", out, re.MULTILINE)]
            self.assertAllClose(of_examples[shown], np.sort(of_examples)[::-1][:5], 1e-4)

    def test_several_outputs_go_by_their_names(self) -> None:
        inputs = keras.Input((4,))
        h = layers.MCDropout(0.5, seed=3)(keras.layers.Dense(8, "relu")(inputs))
        heads = {"kind": keras.layers.Dense(3)(h), "price": keras.layers.Dense(1)(h)}
        model = keras.Model(inputs, heads)
        scce = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("sgd", {"kind": scce, "price": likelihoods.Normal(0.1)})
        model.save(self.model)
        code, out, _ = self.run_command("predict", self.model, self.inputs)
        self.assertEqual(code, 0)
        self.assertRegex(out, "least sure first .by kind_entropy.")
        self.assertRegex(out, "least sure first .by price_stddev.")
        expected = tfbdl.predict(model, X, seed=0)
        with np.load(self.folder / "test_predicted.npz") as file:
            fields = ["mean", "stddev", "entropy", "mutual_information"]
            known = {f"kind_{name}": getattr(expected["kind"], name) for name in fields}
            known |= {f"price_{name}": getattr(expected["price"], name) for name in fields[:2]}
            self.assertCountEqual(file.files, [*known, "format"])
            for name, array in known.items():
                self.assertAllClose(file[name], array, 1e-4, 1e-5)

    def test_nothing_is_overwritten_without_force(self) -> None:
        classifier().save(self.model)
        output = self.folder / "test_predicted.npz"
        output.write_text("mine")
        self.refuse(1, "already exists; add --force", "predict", self.model, self.inputs)
        self.assertEqual(output.read_text(), "mine")
        code, _, _ = self.run_command("predict", self.model, self.inputs, "--force")
        self.assertEqual(code, 0)
        self.assertTrue(zipfile.is_zipfile(output))

    def test_bad_files(self) -> None:
        classifier().save(self.model)
        self.refuse(
            2,
            "none.npz does not exist; give the inputs",
            "predict",
            self.model,
            self.folder / "none.npz",
        )
        text = self.folder / "text.npz"
        text.write_text("not numbers")
        self.refuse(2, "text.npz is no .npz file", "predict", self.model, text)
        text.write_bytes(self.inputs.read_bytes()[:100])
        self.refuse(2, "text.npz is no .npz file, or is cut off", "predict", self.model, text)
        np.savez(text)
        self.refuse(2, "text.npz holds no array", "predict", self.model, text)
        np.savez(text, x=np.array([{}, 1], dtype=object))
        self.refuse(2, "text.npz holds Python objects", "predict", self.model, text)
        np.savez(text, x=X)
        whole = text.read_bytes()
        text.write_bytes(whole.replace(X.tobytes(), X[::-1].tobytes()))
        self.refuse(2, "text.npz is damaged .*CRC", "predict", self.model, text)
        np.savez(text, a=X, b=X)
        self.refuse(2, "has arrays a, b; name the inputs x", "predict", self.model, text)
        np.savez(text, x=X[:, :2])
        self.refuse(2, "x has examples of shape", "predict", self.model, text)
        nowhere = self.folder / "none" / "out.npz"
        self.refuse(
            1, "folder does not exist", "predict", self.model, self.inputs, "--output", nowhere
        )
        self.refuse(
            2, "argument --samples: -1 must be", "predict", self.model, self.inputs, "--samples", -1
        )


class DeviceTest(CommandCase):
    def test_what_has_no_end_is_not_read(self) -> None:
        """Devices, pipes and links to them in place of files; nothing waits, or fills memory."""
        classifier().save(self.model)
        pipe, link = self.folder / "pipe", self.folder / "link.npz"
        os.mkfifo(pipe)
        link.symlink_to("/dev/zero")
        for path in ("/dev/zero", "/dev/urandom", pipe, link, self.folder):
            for words in (
                ("predict", self.model, path),
                ("predict", path, self.inputs),
                ("summary", path),
            ):
                with self.subTest(words=words):
                    self.refuse(2, f"{path} is no file; ", *words)
        self.refuse(2, "/dev/zero, line 1: expected", "log", "/dev/zero")


class SummaryTest(CommandCase):
    def test_posteriors_and_dropout(self) -> None:
        model = classifier()
        head = model.layers[-1]
        head.kernel.mu.assign(tf.fill([8, C], 2.0))
        head.kernel.rho.assign(tf.fill([8, C], float(np.log(np.expm1(0.2)))))
        model.save(self.model)
        code, out, err = self.run_command("summary", self.model)
        self.assertEqual((code, err), (0, ""))
        kl = 24 * (np.log(1 / 0.2) + (0.2**2 + 2.0**2) / 2 - 0.5)
        self.assertRegex(out, rf"head/kernel +24 +2 +0\.2 +10\.0 10\.0 10\.0 +{kl:.4g} ")
        self.assertRegex(out, r"concrete_dropout\S* +0\.750 \(0\.750 to 0\.750\), learned")
        self.assertRegex(out, r"mc_dropout\S* +0\.700")

    def test_an_ensemble(self) -> None:
        """Mean and standard deviation over its members."""
        network = keras.Sequential([keras.Input((D,)), keras.layers.Dense(C, name="head")])
        members = np.stack([np.full(D * C + C, w) for w in (1.0, 2.0, 3.0)])
        tfbdl.models.WeightEnsemble(network, members).save(self.model)
        code, out, err = self.run_command("summary", self.model)
        self.assertEqual((code, err), (0, ""))
        self.assertRegex(out, r"head/kernel +12 +2 +0\.8165 +3\.9 3\.9 3\.9 +unknown ")

    def test_an_ensemble_whose_members_are_much_alike(self) -> None:
        network = keras.Sequential([keras.Input((D,)), keras.layers.Dense(C, name="head")])
        members = np.random.default_rng(0).normal(1e6, 0.5, (100, D * C + C)).astype("float32")
        tfbdl.models.WeightEnsemble(network, members).save(self.model)
        _, out, _ = self.run_command("summary", self.model)
        stddev = members[:, : D * C].astype(np.float64).std(axis=0)
        rms = np.sqrt(np.mean(stddev**2))
        self.assertRegex(out, rf"head/kernel +{D * C} +1e\+06 +{rms:.4g} ")

    def test_a_model_whose_weights_are_not_random(self) -> None:
        model = tfbdl.models.VAE(2, (5,))
        model(tf.zeros((1, 4)))
        model.save(self.model)
        self.refuse(2, "has no random weights and no learned dropout", "summary", self.model)

    def test_a_spread_that_is_not_known(self) -> None:
        prior = layers.BayesDense(C, num_data=N, posterior="prior", name="head")
        keras.Sequential([keras.Input((D,)), prior]).save(self.model)
        code, out, _ = self.run_command("summary", self.model)
        self.assertEqual(code, 0)
        self.assertRegex(out, r"head/kernel +12 +0 +unknown +unknown +0 ")
        self.assertNotIn("nan", out)

    def test_bad_files(self) -> None:
        self.refuse(2, "none.keras does not exist", "summary", self.folder / "none.keras")
        text = self.folder / "text.keras"
        text.write_text("hello")
        self.refuse(2, "text.keras is no .keras file", "summary", text)
        self.refuse(2, "it is a zip file, but no model", "summary", self.inputs)
        keras.Sequential([keras.Input((D,)), keras.layers.Dense(1)]).save(self.model)
        self.refuse(2, "has no random weights and no learned dropout", "summary", self.model)

    def edit(self, changes: Any) -> Any:
        """A copy of the saved model with text replaced in the files inside it."""
        copy = self.folder / "edited.keras"
        with zipfile.ZipFile(self.model) as old, zipfile.ZipFile(copy, "w") as new:
            for name in old.namelist():
                data = old.read(name)
                for before, after in changes.get(name, {}).items():
                    self.assertIn(before.encode(), data)
                    data = data.replace(before.encode(), after.encode())
                new.writestr(name, data)
        return copy

    def test_models_of_other_versions(self) -> None:
        classifier().save(self.model)
        made_by = {f'"{keras.__version__}"': '"99.0"'}
        unknown = {"BayesDense": "TomorrowsDense"}
        newer = self.edit({"metadata.json": made_by, "config.json": unknown})
        self.refuse(2, "made by Keras 99.0, and this is .*; upgrade Keras", "summary", newer)
        newer = self.edit({"config.json": unknown})
        self.refuse(2, "tfbdl .* has no TomorrowsDense; use the version that", "summary", newer)
        newer = self.edit({"config.json": {'"per_example"': '"per_day"'}})
        self.refuse(2, "knows no {'per_day': False} of MCDropout; use the", "summary", newer)

    def test_layers_of_the_users_own(self) -> None:
        classifier().save(self.model)
        changes = {"tfbdl>BayesDense": "mine>Mine", '"BayesDense"': '"Mine"'}
        own = self.edit({"config.json": changes})
        self.refuse(2, "Mine is unknown; load it in Python, where it is regis", "summary", own)

    def test_a_loss_of_the_users_own(self) -> None:
        """Only a prediction needs it."""
        model = classifier()
        model.compile("sgd", my_loss)
        model.save(self.model)
        self.assertEqual(self.run_command("summary", self.model)[0], 0)
        self.refuse(2, "my_loss is unknown; load it in", "predict", self.model, self.inputs)

    def test_damaged_files(self) -> None:
        classifier().save(self.model)
        whole = self.model.read_bytes()
        self.model.write_bytes(whole[: len(whole) // 2])
        self.refuse(2, "is no .keras file, or is cut off", "summary", self.model)
        self.model.write_bytes(whole)
        self.refuse(2, "cannot be loaded: ", "summary", self.edit({"config.json": {"{": "["}}))
        config = whole.index(b"config.json")
        for place in (config - 30, config + 20):
            self.model.write_bytes(whole[:place] + b"\xff" + whole[place + 1 :])
            self.refuse(2, "cannot be loaded: it is damaged; save", "summary", self.model)

    def test_hostile_files(self) -> None:
        """Nothing is unfolded that takes far more memory than the file, or lands elsewhere."""
        classifier().save(self.model)
        with zipfile.ZipFile(self.model) as whole:
            members = {name: whole.read(name) for name in whole.namelist()}

        def weights(**dataset: Any) -> Any:
            raw = io.BytesIO()
            with h5py.File(raw, "w") as file:
                file.create_dataset("layers/dense/vars/0", dtype="float32", **dataset)
            return {"model.weights.h5": raw.getvalue()}

        bomb = b"0" * 2**20
        cases = {
            "it claims to hold 1[0-9]{8} bytes, in a file of": {"config.json": bomb * 100},
            "it claims to hold [0-9]{9} bytes": {f"assets/{i}": bomb for i in range(100)},
            r"it has the member '\.\./\.\./evil', which lies outside": {"../../evil": b"x"},
            r"it has the member '/tmp/evil', which lies outside": {"/tmp/evil": b"x"},
            "its weights claim 4000000000000 bytes, in a file of": weights(
                shape=(10**12,), chunks=True
            ),
            "its weights claim 8000000 bytes": weights(
                shape=(2 * 10**6,), chunks=True, fillvalue=1.0
            ),
        }
        keras.models.load_model(self.model)
        for message, changes in cases.items():
            with self.subTest(message):
                hostile = self.folder / "hostile.keras"
                with zipfile.ZipFile(hostile, "w", zipfile.ZIP_DEFLATED) as file:
                    for name, content in {**members, **changes}.items():
                        file.writestr(name, content)
                tracemalloc.start()
                self.refuse(2, f"hostile.keras cannot be loaded: {message}", "summary", hostile)
                self.refuse(2, message, "predict", hostile, self.inputs)
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
                self.assertLess(peak, 2**24)
        self.assertFalse((self.folder.parent / "evil").exists())

    def test_hostile_inputs(self) -> None:
        classifier().save(self.model)
        bomb = self.folder / "bomb.npz"
        np.savez_compressed(bomb, x=np.zeros((10, 8_000_000), np.float32))
        self.refuse(2, "bomb.npz is damaged .it claims to hold 320", "predict", self.model, bomb)
        np.savez_compressed(bomb, x=X)
        self.assertEqual(self.run_command("predict", self.model, bomb)[0], 0)


class ProcessTest(CommandCase):
    def test_a_screen_without_noise(self) -> None:
        classifier().save(self.model)
        done = subprocess.run(
            [sys.executable, "-m", "tfbdl", "summary", str(self.model)],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("head/kernel", done.stdout)


if __name__ == "__main__":
    tf.test.main()

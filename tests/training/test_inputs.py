"""What `tfbdl.train` refuses: one line that names the argument, and nothing written."""

import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tfbdl

N = 12
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 4)).astype("float32")
Y = np.arange(N) % 3


def sparse(**kwargs: Any) -> Any:
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True, **kwargs)


def classifier(loss: Any = None, kind: str = "functional") -> Any:
    keras.utils.set_random_seed(1)
    if kind == "subclassed":
        model = Subclassed()
    else:
        inputs = [keras.Input((4,))] if kind == "functional" else []
        model = keras.Sequential([*inputs, keras.layers.Dense(3)])
    model.compile("sgd", loss or sparse())
    return model


class Subclassed(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(3)

    def call(self, x: Any) -> Any:
        return self.dense(x)


class InputCase(tf.test.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = Path(self.enter_context(tempfile.TemporaryDirectory()))

    def refuse(
        self,
        pattern: str,
        model: Any = None,
        x: Any = X,
        y: Any = Y,
        error: Any = ValueError,
        **kwargs: Any,
    ) -> None:
        """`train` raises one line that matches, and leaves model and disk alone."""
        model = model or classifier()
        before = model.get_weights()
        folder = Path(self.enter_context(tempfile.TemporaryDirectory()))
        arguments = {
            "epochs": 2,
            "batch_size": 4,
            "savedir": folder / "run",
            "jit_compile": False,
            "verbose": 0,
            **kwargs,
        }
        with self.assertRaisesRegex(error, pattern) as caught:
            tfbdl.train(model, x, y, **arguments)
        self.assertNotIn("\n", str(caught.exception))
        self.assertEqual(os.listdir(folder), [])
        if before:
            for a, b in zip(model.get_weights(), before, strict=True):
                self.assertAllEqual(a, b)

    def accept(self, model: Any = None, x: Any = X, y: Any = Y, **kwargs: Any) -> Any:
        model = model or classifier()
        arguments = {"epochs": 1, "batch_size": 4, "jit_compile": False, "verbose": 0, **kwargs}
        history = tfbdl.train(model, x, y, **arguments)
        self.assertTrue(np.isfinite(history["loss"][-1]))
        return history


class ArgumentTest(InputCase):
    def test_uncompiled(self) -> None:
        self.refuse("not compiled", keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)]))

    def test_losses_that_are_sums(self) -> None:
        """KL / N is beside the mean over a batch; a network without a KL may be as it likes."""
        loss = tfbdl.likelihoods.Categorical(reduction="sum")
        layer = tfbdl.layers.BayesDense(3, num_data=N)
        bayesian = keras.Sequential([keras.Input((4,)), layer])
        bayesian.compile("sgd", loss)
        self.refuse("^loss='categorical' has reduction='sum', beside which KL / N", bayesian)
        plain = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
        for kind in (tfbdl.optimizers.IVON, tfbdl.optimizers.SGLD):
            plain.compile(kind(1e-3, num_data=N), loss)
            self.refuse("^loss='categorical' .* the prior of the optimizer", plain)
        plain.compile("sgd", loss)
        tfbdl.train(plain, X, Y, epochs=1, batch_size=4, jit_compile=False, verbose=0)

    def test_epochs(self) -> None:
        for epochs in (0, -1, 2.0, "3", True, None, float("nan")):
            with self.subTest(epochs=epochs):
                self.refuse("^epochs=", epochs=epochs)

    def test_batch_size(self) -> None:
        for batch_size in (0, -5, 4.0, "4", False):
            with self.subTest(batch_size=batch_size):
                self.refuse("^batch_size=", batch_size=batch_size)

    def test_numpy_integers(self) -> None:
        self.accept(epochs=np.int64(1), batch_size=np.int32(4))

    def test_seed(self) -> None:
        for seed in (1.5, "a", None):
            with self.subTest(seed=seed):
                self.refuse("seed", seed=seed, error=(ValueError, TypeError))


class ArrayTest(InputCase):
    def test_other_length(self) -> None:
        self.refuse("^y has 11 examples and x has 12; give one y for each$", y=Y[:-1])
        self.refuse("^y has 12 examples and x has 11; give one y for each$", x=X[:-1])

    def test_empty(self) -> None:
        self.refuse("^x has shape", x=X[:0], y=Y[:0])
        self.refuse("^x=1.0 is one value; give an array of examples$", x=np.float32(1.0))
        self.refuse("^y=1.0 is one value; give an array of examples$", y=np.float32(1.0))

    def test_other_features(self) -> None:
        self.refuse(
            r"^x has examples of shape \(3,\), which model=.* does not take: .*4", x=X[:, :3]
        )

        class Subclassed(keras.Model):
            def __init__(self) -> None:
                super().__init__()
                self.dense = tfbdl.layers.BayesDense(3, num_data=12)

            def call(self, x: Any, training: bool = False) -> Any:
                return self.dense(x)

        model = Subclassed()
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        model(X)
        self.refuse(
            r"^x has examples .* model=subclassed\S* does not take: .* value 4", model, x=X[:, :3]
        )

    def test_not_finite(self) -> None:
        for bad in (np.nan, np.inf, -np.inf):
            for dtype in ("float32", "float64", "float16"):
                with self.subTest(bad=bad, dtype=dtype):
                    x = X.astype(dtype)
                    x[5, 2] = bad
                    self.refuse("^x is not finite in example 5", x=x)
                    y = X[:, :3].astype(dtype)
                    y[7, 1] = bad
                    self.refuse("^y is not finite in example 7", classifier("mse"), y=y)

    def test_finite_only_in_double_precision(self) -> None:
        """1e300 is finite in x and infinite on the device: an error, whoever finds it."""
        x = X.astype("float64")
        x[5, 2] = 1e300
        with warnings.catch_warnings(), self.assertRaises((ValueError, tfbdl.TrainingError)):
            warnings.simplefilter("ignore", RuntimeWarning)
            self.accept(x=x, batch_size=N)

    def test_arrays_that_are_no_numbers(self) -> None:
        for dtype in (str, object):
            with self.subTest(dtype=dtype):
                self.refuse("^x ", x=X.astype(dtype))

    def test_types_that_are_accepted(self) -> None:
        expected = self.accept()
        for x, y in (
            (X.astype("float64"), Y.astype("int32")),
            (X, Y.astype("uint8")),
            (X, Y.astype("float32")),
            (X.tolist(), Y.tolist()),
            (X, Y[:, None]),
            (tf.constant(X), tf.constant(Y)),
        ):
            with self.subTest(x=type(x), y=getattr(y, "dtype", None)):
                self.assertAllClose(self.accept(x=x, y=y)["loss"], expected["loss"], 1e-6, 1e-6)

    def test_integer_pixels(self) -> None:
        x = RNG.integers(0, 256, (N, 4)).astype("uint8")
        got = self.accept(x=x)
        self.assertAllClose(got["loss"], self.accept(x=x.astype("float32"))["loss"], 1e-6, 1e-6)

    def test_the_callers_arrays_are_not_changed(self) -> None:
        x, y = X.copy(), Y.copy()
        self.accept(x=x, y=y)
        self.assertAllEqual(x, X)
        self.assertAllEqual(y, Y)


class LabelTest(InputCase):
    def labels(self, bad: Any) -> Any:
        y = Y.astype(np.result_type(bad, Y.dtype))
        y[4] = bad
        return y

    def test_out_of_range(self) -> None:
        for bad in (-1, 3, 1000):
            with self.subTest(bad=bad):
                self.refuse(f"^y .*{bad}", y=self.labels(bad))
                self.refuse(f"^y .*{bad}", y=self.labels(float(bad)))

    def test_fractional(self) -> None:
        self.refuse("^y ", y=self.labels(1.5))

    def test_every_way_to_name_the_loss(self) -> None:
        losses = {
            "string": "sparse_categorical_crossentropy",
            "class name": "SparseCategoricalCrossentropy",
            "function": keras.losses.sparse_categorical_crossentropy,
            "named": sparse(name="cent"),
        }
        for name, loss in losses.items():
            for bad in (3, -1):
                with self.subTest(name, bad=bad):
                    self.refuse("^y ", classifier(loss), y=self.labels(bad))

    def test_every_kind_of_model(self) -> None:
        """Also where the number of classes is known only once the model is built."""
        for kind in ("unbuilt", "subclassed"):
            for bad in (3, -1):
                with self.subTest(kind, bad=bad):
                    self.refuse("^y ", classifier(kind=kind), y=self.labels(bad))

    def test_a_built_subclassed_model(self) -> None:
        model = classifier(kind="subclassed")
        model(X[:1])
        self.refuse("^y ", model, y=self.labels(3))
        self.accept(model)

    def test_ignored_class(self) -> None:
        """A label that the loss ignores is no label out of range."""
        for ignored in (-1, 255):
            with self.subTest(ignored=ignored):
                self.accept(classifier(sparse(ignore_class=ignored)), y=self.labels(ignored))

    def test_other_losses_take_other_targets(self) -> None:
        self.accept(classifier("mse"), y=X[:, :3] - 5.0)
        one_hot = keras.losses.CategoricalCrossentropy(from_logits=True)
        self.accept(classifier(one_hot), y=np.eye(3)[Y])


class VAEInputTest(InputCase):
    def test_pixels_out_of_range(self) -> None:
        vae = tfbdl.models.VAE(2, (4,))
        vae.compile("sgd")
        self.refuse(r"^x .*\[0, 1\]", vae, x=255.0 * np.abs(X), y=None)

    def test_targets_missing(self) -> None:
        with self.assertRaises(ValueError):
            tfbdl.train(classifier(), X, epochs=1, savedir=self.folder / "run", verbose=0)
        self.assertEqual(os.listdir(self.folder), [])


class SavedirTest(InputCase):
    def test_under_a_file(self) -> None:
        blocker = Path(self.enter_context(tempfile.TemporaryDirectory())) / "file"
        blocker.write_text("mine")
        for savedir in (blocker / "run", blocker / "a" / "b", blocker):
            with self.subTest(savedir=savedir):
                self.refuse(f"savedir.*{savedir}", savedir=savedir, error=OSError)
        self.assertEqual(blocker.read_text(), "mine")

    def test_where_nobody_may_write(self) -> None:
        self.refuse("savedir.*/proc/run", savedir="/proc/run", error=OSError)
        self.refuse("/proc", savedir="/proc", error=OSError)

    def test_a_log_of_another_program(self) -> None:
        run = self.folder / "run"
        run.mkdir()
        log = run / "train.log"
        for text in (
            "mine\n",
            "\nEpoch 1 start, learning rate 0.001000\ntrain: epoch 1, (0.1 secs), a 1.000000\n",
            "\nEpoch 1 start, learning rate 0.001000\ntrain: epoch 1, (0.100 secs), a 1.000000\n",
        ):
            with self.subTest(text):
                log.write_text(text)
                with self.assertRaisesRegex(ValueError, "train.log") as caught:
                    tfbdl.train(classifier(), X, Y, epochs=1, savedir=run, verbose=0)
                self.assertNotIn("\n", str(caught.exception))
                self.assertEqual(log.read_text(), text)
                self.assertEqual(os.listdir(run), ["train.log"])

    def test_string_and_path_and_parents(self) -> None:
        deep = self.folder / "a" / "b"
        self.accept(savedir=str(deep))
        self.assertEqual(sorted(os.listdir(deep)), ["checkpoint.npz", "train.log"])

    def test_none_writes_nothing(self) -> None:
        here = os.getcwd()
        self.addCleanup(os.chdir, here)
        os.chdir(self.folder)
        self.accept(savedir=None)
        self.assertEqual(os.listdir(self.folder), [])


if __name__ == "__main__":
    tf.test.main()

"""`tfbdl.train` on data sets that are read as they go, and what it refuses of them."""

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import two_replicas

import tfbdl

N, BATCH, SEED = 41, 16, 7
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 4)).astype("float32")
Y = np.argmax(X @ RNG.normal(size=(4, 3)), axis=1)


def order(epoch: int) -> Any:
    """The order of the loop's own shuffling."""
    return tf.random.experimental.stateless_shuffle(tf.range(N), seed=(SEED, epoch)).numpy()


def from_arrays(epoch: int, context: Any) -> Any:
    rows = order(epoch)
    return tf.data.Dataset.from_tensor_slices((X[rows], Y[rows]))


def from_generator(epoch: int, context: Any) -> Any:
    return tf.data.Dataset.from_generator(
        lambda: ((X[i], Y[i]) for i in order(epoch)),
        output_signature=(tf.TensorSpec([4]), tf.TensorSpec([], tf.int64)),
    )


def without_seconds(folder: Any) -> Any:
    return re.sub(r"\(\d+\.\d{3} secs\)", "(secs)", (Path(folder) / "train.log").read_text())


def raising(error: Any, where: Any) -> Any:
    """Data that fail in their second epoch: in the function, in what it reads from, or in a map."""

    def examples(epoch: int, context: Any) -> Any:
        def next_one() -> Iterator[Any]:
            for k, i in enumerate(order(epoch)):
                if (epoch, k) == (2, 20) and where == "generator":
                    raise error
                yield X[i], Y[i]

        def changed(x: Any) -> Any:
            if epoch == 2 and where == "map":
                raise error
            return x

        if epoch == 2 and where == "function":
            raise error
        signature = tf.TensorSpec([4]), tf.TensorSpec([], tf.int64)
        data = tf.data.Dataset.from_generator(next_one, output_signature=signature)
        return data.map(
            lambda x, y: (tf.ensure_shape(tf.py_function(changed, [x], tf.float32), [4]), y)
        )

    return examples


class FeedTest(tf.test.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = Path(self.enter_context(tempfile.TemporaryDirectory()))

    def classifier(self, random: bool = True) -> Any:
        keras.utils.set_random_seed(3)
        noise = [tfbdl.layers.MCDropout(0.5, seed=1)] if random else []
        hidden = tfbdl.layers.BayesDense(8, num_data=N, seed=1) if random else None
        hidden = hidden or keras.layers.Dense(8, "tanh")
        model = keras.Sequential([keras.Input((4,)), hidden, *noise, keras.layers.Dense(3)])
        model.compile(
            keras.optimizers.Adam(0.05),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        )
        return model

    def train(self, model: Any, x: Any, y: Any = None, **kwargs: Any) -> Any:
        given = {"epochs": 3, "batch_size": BATCH, "seed": SEED, "verbose": 0, "num_data": N}
        return tfbdl.train(model, x, y, **{**given, **kwargs})

    def test_same_run_as_on_arrays(self) -> None:
        """The order is that of the data sets; noise and KL are those of the model."""
        for jit_compile in (False, True):
            for callbacks in ([], [tfbdl.MinibatchKL()]):
                both = {"jit_compile": jit_compile, "callbacks": callbacks}
                arrays, stream = self.classifier(), self.classifier()
                expected = self.train(arrays, X, Y, num_data=None, **both)
                got = self.train(stream, from_generator, **both)
                for name, values in expected.items():
                    self.assertAllClose(got[name], values, 1e-5, 1e-5, name)
                self.assertAllClose(stream.get_weights(), arrays.get_weights(), 1e-4, 1e-5)

    def test_same_run_on_two_devices(self) -> None:
        expected = self.train(self.classifier(random=False), from_arrays, jit_compile=False)
        with two_replicas.strategy().scope():
            model = self.classifier(random=False)
        self.assertAllClose(self.train(model, from_arrays)["loss"], expected["loss"], 1e-5, 1e-5)

    def test_resume(self) -> None:
        for name, parts in (("whole", [4]), ("parts", [2, 4])):
            for epochs in parts:
                model = self.classifier()
                self.train(model, from_generator, epochs=epochs, savedir=self.folder / name)
        self.assertEqual(
            without_seconds(self.folder / "parts"), without_seconds(self.folder / "whole")
        )

    def test_files(self) -> None:
        """Each example of each file is seen once an epoch, in batches of one size."""
        paths = [str(self.folder / f"{i}.tfrecord") for i in range(4)]
        for path, rows in zip(paths, np.split(np.arange(40, dtype=np.int64), 4), strict=True):
            with tf.io.TFRecordWriter(path) as writer:
                for row in rows:
                    writer.write(row.tobytes())
        seen = {}

        def of_files(epoch: int, context: Any) -> Any:
            def parse(record: Any) -> Any:
                row = tf.io.decode_raw(record, tf.int64)[0]
                return tf.gather(X, row), tf.gather(Y, row)

            names = tf.data.Dataset.from_tensor_slices(paths).shuffle(4, seed=epoch)
            names = names.shard(context.num_input_pipelines, context.input_pipeline_id)
            data = tf.data.TFRecordDataset(names).shuffle(10, seed=epoch).map(parse)
            seen[epoch] = [tuple(x) for x, _ in data.as_numpy_iterator()]
            return data

        self.train(self.classifier(), of_files, num_data=40, batch_size=8, jit_compile=False)
        self.assertEqual(set(seen), {1, 2, 3})
        for tuples in seen.values():
            self.assertCountEqual(tuples, map(tuple, X[:40]))
        self.assertNotEqual(seen[2], seen[3])

    def test_model_without_targets(self) -> None:
        keras.utils.set_random_seed(1)
        vae = tfbdl.models.VAE(2, (8,), seed=3)
        vae.compile(keras.optimizers.Adam(0.01))
        pixels = np.abs(X) / np.abs(X).max()
        history = self.train(
            vae, lambda e, c: tf.data.Dataset.from_tensor_slices(pixels), jit_compile=False
        )
        self.assertLess(history["loss"][-1], history["loss"][0])
        with self.assertRaisesRegex(ValueError, r"^x .*\[0, 1\]"):
            self.train(vae, lambda e, c: tf.data.Dataset.from_tensor_slices(255 * pixels))

    def refuse(
        self, pattern: str, x: Any, y: Any = None, error: Any = ValueError, **kwargs: Any
    ) -> None:
        with self.assertRaisesRegex(error, pattern) as caught:
            self.train(self.classifier(), x, y, savedir=self.folder / "run", **kwargs)
        self.assertNotIn("\n", str(caught.exception))

    def test_refusals(self) -> None:
        def batches(epoch: int, context: Any) -> Any:
            return from_arrays(epoch, context).batch(8)

        def of(*arrays: Any) -> Any:
            return lambda epoch, context: tf.data.Dataset.from_tensor_slices(arrays)

        self.refuse("^num_data=41 is for a function x", X, Y)
        self.refuse("^num_data=None must be a positive integer", from_arrays, num_data=None)
        self.refuse("^y is given, but x is a function", from_arrays, Y)
        self.refuse("^x gives a list; let it make", lambda epoch, context: [X, Y])
        self.refuse("^x gives examples that are neither", of(X, Y, Y, Y))
        self.refuse("^x has examples of shape .4,., which model=.* does not take", of({"a": X}, Y))
        self.refuse("^x gives fewer examples .* single examples, not batches", batches)
        self.refuse(
            "^y has the label 7; outputs of 3 classes need labels from 0 to 2$",
            of(X, np.where(Y == 1, 7, Y)),
        )
        self.refuse("^x is not finite in example 0", of(X * np.nan, Y))
        self.refuse("^x gives fewer examples than .*batch_size=16", of(X[:10], Y[:10]))
        self.assertFalse((self.folder / "run").exists())

    def test_targets_are_missing(self) -> None:
        """Arrays, and a data set of inputs alone, for a loss that needs targets."""

        def inputs_alone(epoch: int, context: Any) -> Any:
            return tf.data.Dataset.from_tensor_slices(X)

        for x, num_data in ((X, None), (inputs_alone, N)):
            for loss in (keras.losses.SparseCategoricalCrossentropy(), "mse"):
                model = self.classifier()
                model.compile("sgd", loss)
                with self.assertRaisesRegex(ValueError, "^y=None: give targets, or a data set"):
                    self.train(model, x, num_data=num_data)

    def test_errors_of_the_data(self) -> None:
        """They are told as they were raised, by the function itself or by what reads examples."""

        class Mine(Exception):
            pass

        for error, where, kind, message in (
            (Mine("first\n\nsecond"), "function", Mine, "^first\n\nsecond$"),
            (
                Mine("first\n\nsecond"),
                "generator",
                tfbdl.TrainingError,
                " raised Mine: first second;",
            ),
            (
                Mine(),
                "map",
                tfbdl.TrainingError,
                "^the data, or Python code .* raised Mine; the last",
            ),
            (
                KeyError("k"),
                "generator",
                tfbdl.TrainingError,
                " raised KeyError: 'k'; the last check",
            ),
            (StopIteration("no file"), "function", RuntimeError, "^x raised StopIter.*2: no file$"),
        ):
            with self.subTest(f"{error!r} in a {where}"):
                folder = self.folder / f"{type(error).__name__}_{where}"
                with self.assertRaisesRegex(kind, message) as context:
                    self.train(self.classifier(), raising(error, where), savedir=folder)
                if kind is tfbdl.TrainingError:
                    self.assertNotIn("\n", str(context.exception))
                    self.assertIn("Traceback", str(context.exception.__cause__))
                self.assertEqual(tfbdl.read_log(folder / "train.log").epochs.tolist(), [1])
                self.train(self.classifier(), from_generator, savedir=folder)
                self.assertLen(tfbdl.read_log(folder / "train.log").epochs, 3)

    def test_too_few_examples_later(self) -> None:
        def x(epoch: int, context: Any) -> Any:
            return from_arrays(epoch, context).take(N if epoch < 3 else 20)

        pattern = r"^x gave fewer examples in epoch 3 than 2 batches need; .*after epoch 2$"
        self.refuse(pattern, x, error=tfbdl.TrainingError)
        self.assertEqual(tfbdl.read_log(self.folder / "run" / "train.log").epochs.tolist(), [1, 2])


if __name__ == "__main__":
    tf.test.main()

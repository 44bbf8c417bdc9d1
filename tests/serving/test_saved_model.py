"""An exported model answers as `predict` does, in a process that has only TensorFlow."""

import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

import tfbdl
from tfbdl import layers, likelihoods

RNG = np.random.default_rng(0)
N, D, C = 9, 4, 3
X = RNG.normal(size=(N, D)).astype("float32")

ALONE = """
import json, sys
import numpy as np
import tensorflow as tf
x = np.load(sys.argv[2])
serve = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
answers = {n: {k: v.numpy().tolist() for k, v in serve(tf.constant(x[:n])).items()} for n in (9, 2)}
answers["modules"] = [name for name in ("tfbdl", "tensorflow_probability") if name in sys.modules]
print(json.dumps(answers))
"""


class Subclassed(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.dense = layers.BayesDense(C, num_data=N)

    def call(self, x: Any, training: bool = False) -> Any:
        return self.dense(x)


@keras.saving.register_keras_serializable(package="tests")
class Plain(keras.Model):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dense = keras.layers.Dense(C)

    def call(self, x: Any) -> Any:
        return self.dense(x)


def stack(*inputs: Any) -> keras.Model:
    return keras.Sequential(
        [
            *inputs,
            layers.ConcreteDropout(
                keras.layers.Dense(8, "relu"), num_data=N, per_unit=True, initial_rate=0.4
            ),
            layers.MCDropout(0.3),
            layers.VariationalDropout(C, num_data=N),
        ]
    )


class ExportTest(tf.test.TestCase, parameterized.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = Path(self.enter_context(tempfile.TemporaryDirectory()))
        self.path = self.folder / "digits" / "1"

    def signature(self) -> Any:
        return tf.saved_model.load(str(self.path)).signatures["serving_default"]

    def test_classes_in_a_process_with_tensorflow_alone(self) -> None:
        model = stack(keras.Input((D,)))
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        tfbdl.export(model, self.path, 20, seed=3)
        np.save(self.folder / "x.npy", X)
        (self.folder / "alone.py").write_text(ALONE)
        done = subprocess.run(
            [sys.executable, "alone.py", str(self.path), "x.npy"],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        answers = json.loads(done.stdout)
        self.assertEqual(answers.pop("modules"), [])
        for n, answer in answers.items():
            expected = tfbdl.predict(model, X[: int(n)], 20, seed=3)
            self.assertEqual(
                set(answer),
                {"mean", "stddev", "epistemic_stddev", "entropy", "mutual_information"},
            )
            for name, value in answer.items():
                self.assertAllClose(value, getattr(expected, name), 1e-3, 1e-5, name)
            self.assertGreater(np.min(answer["mutual_information"]), 1e-4)

    def test_regression(self) -> None:
        model = keras.Sequential([keras.Input((D,)), layers.BayesDense(1, num_data=N)])
        tfbdl.export(model, self.path, 50, likelihood=likelihoods.Normal(0.7))
        answer = self.signature()(tf.constant(X))
        expected = tfbdl.predict(model, X, 50, seed=0, likelihood=likelihoods.Normal(0.7))
        self.assertEqual(set(answer), {"mean", "stddev", "epistemic_stddev"})
        for name, value in answer.items():
            self.assertAllClose(value, getattr(expected, name), 1e-3, 1e-5, name)

    def test_subclassed_models_and_vaes(self) -> None:
        vae = tfbdl.models.VAE(2, (5,))
        for i, (model, x) in enumerate(((Subclassed(), X), (vae, RNG.random((N, 2, 3))))):
            model(tf.constant(x, tf.float32))
            path = self.folder / f"{i}"
            tfbdl.export(model, path, 5)
            serve = tf.saved_model.load(str(path)).signatures["serving_default"]
            answer = serve(tf.constant(x, tf.float32))
            expected = tfbdl.predict(model, x, 5, seed=0)
            self.assertAllClose(answer["mean"], expected.mean, 1e-4, 1e-5)
            self.assertAllClose(answer["stddev"], expected.stddev, 1e-2, 1e-4)

    @parameterized.parameters("sequential", "functional", "two inputs")
    def test_ensembles(self, kind: Any) -> None:
        """Each member once, as in `predict`; before and after a file."""
        a, b = keras.Input((D,), name="a"), keras.Input((D,), name="b")
        joined = keras.layers.Dense(C)(keras.layers.Concatenate()([a, b]))
        network, x = {
            "sequential": (keras.Sequential([a, keras.layers.Dense(C)]), {"x": X}),
            "functional": (keras.Model(a, keras.layers.Dense(C)(a)), {"x": X}),
            "two inputs": (keras.Model([a, b], joined), {"a": X, "b": -X}),
        }[kind]
        members = RNG.normal(size=(7, sum(w.size for w in map(np.asarray, network.weights))))
        ensemble = tfbdl.models.WeightEnsemble(network, members)
        ensemble.compile("sgd", likelihoods.Categorical())
        ensemble.save(self.folder / "ensemble.keras")
        loaded = keras.models.load_model(self.folder / "ensemble.keras")
        arrays = list(x.values()) if len(x) > 1 else X
        expected = tfbdl.predict(ensemble, arrays, 30)
        for i, model in enumerate((ensemble, loaded)):
            path = self.folder / f"{i}"
            tfbdl.export(model, path, 30)
            serve = tf.saved_model.load(str(path)).signatures["serving_default"]
            answer = serve(**{name: tf.constant(array) for name, array in x.items()})
            for name, value in answer.items():
                self.assertAllClose(value, getattr(expected, name), 1e-3, 1e-5, name)

    @parameterized.parameters("list", "dict")
    def test_several_inputs_go_by_their_names(self, structure: Any) -> None:
        number, word = (
            keras.Input((2,), name="number"),
            keras.Input((2,), name="word", dtype="int32"),
        )
        vectors = keras.layers.Flatten()(keras.layers.Embedding(5, 3)(word))
        joined = layers.MCDropout(0.5)(keras.layers.Concatenate()([number, vectors]))
        x = {"number": X[:, :2], "word": RNG.integers(0, 5, (N, 2)).astype("int32")}
        inputs = [number, word] if structure == "list" else {"number": number, "word": word}
        model = keras.Model(inputs, keras.layers.Dense(1)(joined))
        tfbdl.export(model, self.path, 6, seed=2)
        answer = self.signature()(**{name: tf.constant(array) for name, array in x.items()})
        expected = tfbdl.predict(model, list(x.values()) if structure == "list" else x, 6, seed=2)
        self.assertAllClose(answer["mean"], expected.mean, 1e-4, 1e-5)
        self.assertAllClose(answer["stddev"], expected.stddev, 1e-2, 1e-4)

    def test_the_input_has_the_type_and_the_open_lengths_of_the_model(self) -> None:
        words = keras.Input((None,), dtype="int32")
        h = keras.layers.GlobalAveragePooling1D()(keras.layers.Embedding(9, 4)(words))
        model = keras.Model(words, keras.layers.Dense(2)(layers.MCDropout(0.5)(h)))
        tfbdl.export(model, self.path, 5, seed=1)
        serve = self.signature()
        for length in (3, 6):
            x = RNG.integers(0, 9, (N, length)).astype("int32")
            expected = tfbdl.predict(model, x, 5, seed=1)
            self.assertAllClose(serve(tf.constant(x))["mean"], expected.mean, 1e-4, 1e-5)

    def test_the_format_of_tensorflow_serving(self) -> None:
        tfbdl.export(stack(keras.Input((D,))), self.path, 2)
        self.assertTrue((self.path / "saved_model.pb").is_file())
        self.assertTrue((self.path / "variables" / "variables.index").is_file())
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            meta = tf.compat.v1.saved_model.load(session, ["serve"], str(self.path))
            signature = meta.signature_def["serving_default"]
            (name,) = (tensor.name for tensor in signature.inputs.values())
            mean = session.run(signature.outputs["mean"].name, {name: X})
        self.assertEqual(signature.method_name, "tensorflow/serving/predict")
        self.assertAllClose(mean, self.signature()(tf.constant(X))["mean"], 1e-5)

    def test_ensembles_of_subclassed_networks(self) -> None:
        network = Plain()
        network(X)
        size = sum(weight.size for weight in map(np.asarray, network.trainable_variables))
        ensemble = tfbdl.models.WeightEnsemble(network, RNG.normal(size=(3, size)))
        ensemble.save(self.folder / "ensemble.keras")
        expected = tfbdl.predict(ensemble, X, 3)
        for i, model in enumerate(
            (ensemble, keras.models.load_model(self.folder / "ensemble.keras"))
        ):
            tfbdl.export(model, self.folder / f"{i}", 3)
            loaded = tf.saved_model.load(str(self.folder / f"{i}"))
            answer = loaded.signatures["serving_default"](tf.constant(X))
            self.assertAllClose(answer["mean"], expected.mean, 1e-3, 1e-5)

    def test_refusals(self) -> None:
        model = stack(keras.Input((D,)))
        for wrong in (0, -1, 2.5):
            with self.assertRaisesRegex(ValueError, "^num_samples=.* must be a positive integer$"):
                tfbdl.export(model, self.path, wrong)
        with self.assertRaisesRegex(ValueError, "^model=.* is not built; call it on data first$"):
            tfbdl.export(stack(), self.path)
        plain = keras.Sequential([keras.Input((D,)), keras.layers.Dense(2)], name="plain")
        with self.assertRaisesRegex(ValueError, "^model=plain has no random layer"):
            tfbdl.export(plain, self.path)
        with self.assertRaisesRegex(ValueError, "^model='m.keras' is no keras.Model"):
            tfbdl.export("m.keras", self.path)
        with self.assertRaisesRegex(ValueError, "^likelihood='mse' is a loss that gives"):
            tfbdl.export(model, self.path, likelihood="mse")
        file = self.folder / "file"
        file.touch()
        with self.assertRaisesRegex(OSError, "^path=.* cannot be written .*; name another$"):
            tfbdl.export(model, file / "1")
        self.assertFalse(self.path.exists())
        self.path.mkdir(parents=True)
        with self.assertRaisesRegex(FileExistsError, "exists; name a new folder"):
            tfbdl.export(model, self.path)
        self.assertEqual(list(self.path.iterdir()), [])

    def test_a_full_disk_leaves_no_half_of_it(self) -> None:
        model = stack(keras.Input((D,)))
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
        try:
            with self.assertRaisesRegex(OSError, "^path=.* cannot be written .*; name another$"):
                tfbdl.export(model, self.path)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        self.assertFalse(self.path.exists())
        self.assertEqual([p for p in self.folder.rglob("*") if p.is_file()], [])
        tfbdl.export(model, self.path)
        self.assertTrue((self.path / "saved_model.pb").exists())

    @parameterized.parameters(
        (None, likelihoods.Categorical(from_logits=False), "logits; use from_logits=True$"),
        ("softmax", likelihoods.Categorical(), "probabilities; use from_logits=False$"),
        ("sigmoid", likelihoods.Bernoulli(), "probabilities; use from_logits=False$"),
        (None, likelihoods.Normal("predicted"), r"^outputs has shape \(8, 3\)"),
    )
    def test_outputs_that_the_likelihood_does_not_take(
        self, activation: Any, likelihood: Any, message: str
    ) -> None:
        head = keras.layers.Dense(3, activation, bias_initializer=keras.initializers.Constant(2.0))
        model = keras.Sequential([keras.Input((D,)), layers.MCDropout(0.5), head])
        with self.assertRaisesRegex(ValueError, message):
            tfbdl.export(model, self.path, likelihood=likelihood)
        self.assertFalse(self.path.exists())


if __name__ == "__main__":
    tf.test.main()

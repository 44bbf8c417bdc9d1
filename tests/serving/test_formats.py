"""Files of ONNX and LiteRT answer in runtimes of their own as `predict` does."""

import gc
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import keras
import numpy as np
import onnxruntime
import tensorflow as tf
from absl.testing import parameterized
from ai_edge_litert.interpreter import Interpreter

import tfbdl
from tfbdl import inference, layers, likelihoods
from tfbdl.flat_model import in_precision
from tfbdl.optimizers import IVON
from tfbdl.serving import stored_draws, to_onnx

RNG = np.random.default_rng(0)
N, D, C, S = 9, 4, 3, 4
CATEGORICAL = likelihoods.Categorical()
X = RNG.normal(size=(N, D)).astype("float32")
IMAGES = RNG.normal(size=(N, 6, 6, 2)).astype("float32")
WORDS = RNG.integers(0, 8, (N, 5)).astype("int32")
CLASSES = {"mean", "stddev", "epistemic_stddev", "entropy", "mutual_information"}
MOMENTS = {"mean", "stddev", "epistemic_stddev"}


def ask(path: Path, **inputs: Any) -> dict[str, Any]:
    """What the file answers in its own runtime."""
    if path.suffix == ".onnx":
        session = onnxruntime.InferenceSession(path)
        names = [output.name for output in session.get_outputs()]
        return dict(zip(names, session.run(None, inputs), strict=True))
    return Interpreter(str(path)).get_signature_runner()(**inputs)


def network(*stack: Any, x: Any = X) -> keras.Model:
    return keras.Sequential([keras.Input(x.shape[1:], dtype=x.dtype.name), *stack])


def dropouts() -> keras.Model:
    hidden = keras.layers.Dense(8, "relu")
    return network(
        keras.layers.Dense(8, "relu"),
        layers.MCDropout(0.3),
        layers.ConcreteDropout(hidden, num_data=N, per_unit=True, initial_rate=0.4),
        layers.MCGaussianDropout(0.2),
        layers.VariationalDropout(C, num_data=N),
    )


def convolutions() -> keras.Model:
    model = network(
        layers.BayesConv2D(4, 3, padding="same", activation="relu", num_data=N),
        keras.layers.BatchNormalization(),
        keras.layers.MaxPooling2D(),
        layers.MCDropout(0.3, noise_shape=(None, 1, 1, None)),
        keras.layers.Flatten(),
        layers.BayesDense(C, estimator="flipout", num_data=N),
        x=IMAGES,
    )
    statistics = model.layers[1]
    statistics.moving_mean.assign(RNG.normal(size=4))
    statistics.moving_variance.assign(RNG.uniform(0.5, 2.0, size=4))
    return model


@keras.saving.register_keras_serializable()
class ByXLA(keras.layers.Layer):
    """A function that asks for XLA."""

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return tf.function(lambda y: 2.0 * y + 1.0, jit_compile=True)(x)


def grouped() -> keras.Model:
    return network(
        ByXLA(),
        keras.layers.Conv2D(4, 3, groups=2, activation="relu"),
        layers.BayesConv2D(8, 2, groups=4, activation="relu", num_data=N),
        keras.layers.Flatten(),
        keras.layers.Dense(C),
        x=IMAGES,
    )


def recurrent(cell: Any = layers.BayesLSTM, mask_zero: bool = True) -> keras.Model:
    return network(
        layers.BayesEmbedding(8, 3, mask_zero=mask_zero, num_data=N),
        cell(4, num_data=N),
        layers.BayesDense(C, num_data=N),
        x=WORDS,
    )


def stock_recurrent() -> keras.Model:
    """The layers of Keras between masks, of which one lies before and one behind the loop."""
    return network(
        keras.layers.Embedding(8, 3),
        layers.MCDropout(0.3),
        keras.layers.LSTM(4),
        layers.MCDropout(0.5),
        keras.layers.Dense(C),
        x=WORDS,
    )


def linear(units: int) -> keras.Model:
    return network(keras.layers.Dense(6, "tanh"), layers.BayesDense(units, num_data=N))


def classifier(optimizer: Any = "sgd") -> keras.Model:
    model = network(keras.layers.Dense(6, "tanh"), keras.layers.Dense(C))
    model.compile(optimizer, CATEGORICAL)
    return model


def fitted(name: str) -> Any:
    labels = np.arange(N) % C
    keras.utils.set_random_seed(1)
    if name == "laplace":
        return inference.Laplace(classifier(), pred_type="nn").fit(X, labels)
    if name == "ensemble":
        return inference.DeepEnsemble(classifier, 3).fit(X, labels, epochs=1, verbose=0)
    method = {
        "swag": lambda: inference.SWAG(classifier(), rank=2, start=1, jit_compile=False),
        "mean field": lambda: inference.MeanFieldVI(classifier(IVON(0.05, num_data=N))),
    }[name]()
    return method.fit(X, labels, epochs=4, batch_size=3, verbose=0)


MODELS: dict[str, tuple[Callable[[], keras.Model], Any, Any]] = {
    "dropouts": (dropouts, X, CATEGORICAL),
    "dense": (lambda: linear(2), X, likelihoods.Normal("predicted")),
    "no likelihood": (lambda: linear(2), X, None),
    "convolutions": (convolutions, IMAGES, CATEGORICAL),
    "groups": (grouped, IMAGES, CATEGORICAL),
    "LSTM with masks": (recurrent, WORDS, CATEGORICAL),
    "GRU": (lambda: recurrent(layers.BayesGRU, mask_zero=False), WORDS, CATEGORICAL),
    "LSTM of Keras": (stock_recurrent, WORDS, CATEGORICAL),
    "gelu": (
        lambda: network(keras.layers.Dense(6, "gelu"), layers.BayesDense(C, num_data=N)),
        X,
        CATEGORICAL,
    ),
    "positions": (
        lambda: network(layers.BayesDense(C, num_data=N), x=IMAGES[:, 0]),
        IMAGES[:, 0],
        CATEGORICAL,
    ),
}
FORMATS = (".onnx", ".tflite")


class FormatsTest(tf.test.TestCase, parameterized.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = Path(self.enter_context(tempfile.TemporaryDirectory()))

    def assert_answers(self, path: Path, model: Any, x: Any, **given: Any) -> dict[str, Any]:
        """For batches of several sizes; the last answer."""
        expected = tfbdl.predict(model, x, S, seed=3, **given)
        for size in (1, 4, N):
            answer = ask(path, x=x[:size])
            for name, value in answer.items():
                self.assertAllClose(value, getattr(expected, name)[:size], 0.0, 1e-5, name)
        return answer

    @parameterized.product(kind=list(MODELS), ending=FORMATS)
    def test_models(self, kind: str, ending: str) -> None:
        make, x, likelihood = MODELS[kind]
        model, path = make(), self.folder / f"model{ending}"
        tfbdl.export(model, path, S, seed=3, likelihood=likelihood)
        answer = self.assert_answers(path, model, x, likelihood=likelihood)
        self.assertEqual(set(answer), CLASSES if likelihood is CATEGORICAL else MOMENTS)
        self.assertGreater(np.min(answer["epistemic_stddev"]), 1e-4)

    @parameterized.product(
        likelihood=[
            likelihoods.Bernoulli(),
            likelihoods.Poisson(),
            likelihoods.StudentT(scale="predicted"),
            likelihoods.ContinuousBernoulli(),
            likelihoods.Categorical(from_logits=False),
        ],
        ending=FORMATS,
    )
    def test_likelihoods(self, likelihood: Any, ending: str) -> None:
        ends_in = (
            [keras.layers.Softmax()] if isinstance(likelihood, likelihoods.Categorical) else []
        )
        model = network(layers.BayesDense(2, num_data=N), *ends_in)
        path = self.folder / f"model{ending}"
        tfbdl.export(model, path, S, seed=3, likelihood=likelihood)
        self.assert_answers(path, model, X, likelihood=likelihood)

    @parameterized.product(
        name=["swag", "laplace", "ensemble", "mean field"],
        ending=FORMATS,
    )
    def test_posteriors(self, name: str, ending: str) -> None:
        posterior, path = fitted(name), self.folder / f"model{ending}"
        tfbdl.export(posterior, path, S, seed=3)
        answer = self.assert_answers(path, posterior, X)
        self.assertEqual(set(answer), CLASSES)
        self.assertGreater(np.max(answer["epistemic_stddev"]), 1e-4)

    @parameterized.parameters(*FORMATS)
    def test_products_of_integers(self, ending: str) -> None:
        """More summands, and not square, so that a transposed factor would be seen."""
        x = RNG.normal(size=(N, 300)).astype("float32")
        hidden = keras.layers.Dense(8, "tanh")
        model = network(hidden, layers.MCDropout(0.5), keras.layers.Dense(C), x=x)
        hidden.quantize("int8")
        path = self.folder / f"model{ending}"
        tfbdl.export(model, path, S, seed=3, likelihood=CATEGORICAL)
        self.assert_answers(path, model, x, likelihood=CATEGORICAL)

    @parameterized.product(policy=["mixed_float16", "mixed_bfloat16"], ending=FORMATS)
    def test_mixed_precision(self, policy: str, ending: str) -> None:
        """Files are of float32: exactly the copy's answers, and the model's up to rounding."""
        keras.utils.set_random_seed(0)
        dtype = {"dtype": policy}
        stack = [
            keras.layers.Dense(8, "tanh", **dtype),
            layers.MCDropout(0.3, **dtype),
            layers.BayesDense(C, num_data=N, **dtype),
        ]
        model, path = network(*stack), self.folder / f"model{ending}"
        tfbdl.export(model, path, S, seed=3, likelihood=CATEGORICAL)
        self.assert_answers(path, in_precision(model, "float32"), X, likelihood=CATEGORICAL)
        expected = tfbdl.predict(model, X, S, seed=3, likelihood=CATEGORICAL)
        error = {"mixed_float16": 2e-3, "mixed_bfloat16": 2e-2}[policy]
        self.assertAllClose(ask(path, x=X)["mean"], expected.mean, 0.0, error)

    @parameterized.parameters(*FORMATS)
    def test_several_inputs_go_by_their_names(self, ending: str) -> None:
        number, word = (
            keras.Input((2,), name="number"),
            keras.Input((2,), name="word", dtype="int32"),
        )
        vectors = keras.layers.Flatten()(keras.layers.Embedding(5, 3)(word))
        joined = layers.MCDropout(0.5)(keras.layers.Concatenate()([number, vectors]))
        model = keras.Model({"word": word, "number": number}, keras.layers.Dense(1)(joined))
        x = {"number": X[:, :2], "word": RNG.integers(0, 5, (N, 2)).astype("int32")}
        path = self.folder / f"model{ending}"
        tfbdl.export(model, path, S, seed=3)
        expected = tfbdl.predict(model, x, S, seed=3)
        answer = ask(path, **x)
        for name in MOMENTS:
            self.assertAllClose(answer[name], getattr(expected, name), 0.0, 1e-5)

    @parameterized.parameters("", *FORMATS)
    def test_several_outputs(self, ending: str) -> None:
        inputs = keras.Input((D,))
        h = layers.MCDropout(0.5)(keras.layers.Dense(8, "tanh")(inputs))
        heads = [keras.layers.Dense(C)(h), keras.layers.Reshape((2, 1))(keras.layers.Dense(2)(h))]
        model = keras.Model(inputs, dict(zip(("kind", "price"), heads, strict=True)))
        laws = {"kind": CATEGORICAL, "price": likelihoods.Normal(0.3)}
        path = self.folder / f"model{ending}"
        tfbdl.export(model, path, S, seed=3, likelihood=laws)
        if ending:
            answer = ask(path, x=X)
        else:
            answer = tf.saved_model.load(str(path)).signatures["serving_default"](x=tf.constant(X))
        expected = tfbdl.predict(model, X, S, seed=3, likelihood=laws)
        names = {f"kind_{name}" for name in CLASSES} | {f"price_{name}" for name in MOMENTS}
        self.assertEqual(set(answer), names)
        for name, value in answer.items():
            output, field = name.split("_", 1)
            self.assertAllClose(value, getattr(expected[output], field), 0.0, 1e-5, name)

    def test_sequences_of_all_lengths_in_onnx(self) -> None:
        words = keras.Input((None,), dtype="int32")
        h = layers.BayesLSTM(4, num_data=N)(keras.layers.Embedding(8, 3)(words))
        model = keras.Model(words, keras.layers.Dense(1)(h))
        path = self.folder / "model.onnx"
        tfbdl.export(model, path, S, seed=3)
        for x in (WORDS, WORDS[:, :3]):
            self.assert_answers(path, model, x)

    @parameterized.parameters(*FORMATS)
    def test_a_body_that_all_members_share(self, ending: str) -> None:
        model = network(keras.layers.Dense(8, "relu"), keras.layers.Dense(C))
        laplace = inference.Laplace(model, CATEGORICAL, subset_of_weights="last_layer")
        ensemble = laplace.fit(X, np.arange(N) % C).ensemble(S)
        path = self.folder / f"model{ending}"
        with self.assertNoLogs("tensorflow", "WARNING"):
            tfbdl.export(ensemble, path, S, seed=3, likelihood=CATEGORICAL)
        self.assert_answers(path, ensemble, X, likelihood=CATEGORICAL)

    @parameterized.parameters(gc.freeze, gc.unfreeze)
    def test_copies_of_graphs_die_in_onnx(self, begin: Callable[[], None]) -> None:
        """The converter makes dozens, each with all weights; few are there at once."""
        from tf2onnx.graph import Graph  # noqa: PLC0415 (which is slow to import)

        self.addCleanup(gc.freeze)
        begin()
        alive, count, frozen = [], Graph.dump_node_statistics, gc.get_freeze_count()

        def counted(graph: Any, *args: Any, **kwargs: Any) -> Any:
            alive.append(sum(type(one) is Graph for one in gc.get_objects()))
            return count(graph, *args, **kwargs)

        with mock.patch.object(Graph, "dump_node_statistics", counted):
            tfbdl.export(linear(2), self.folder / "a.onnx", S, seed=1)
        self.assertGreater(len(alive), 20)
        self.assertLessEqual(max(alive), 4)
        self.assertBetween(gc.get_freeze_count(), 0.9 * frozen, frozen)  # what dies leaves it

    def test_the_axes_of_a_file_have_names(self) -> None:
        path = self.folder / "model.onnx"
        tfbdl.export(dropouts(), path, 2)
        session = onnxruntime.InferenceSession(path)
        self.assertEqual([(i.name, i.shape) for i in session.get_inputs()], [("x", ["batch", D])])
        shapes = {output.name: output.shape for output in session.get_outputs()}
        self.assertEqual(shapes, {name: ["batch", C] for name in MOMENTS})

    def test_the_format_is_given_or_that_of_the_ending(self) -> None:
        model = dropouts()
        path = self.folder / "of.no.ending"
        tfbdl.export(model, path, S, seed=3, format="litert")
        runner = Interpreter(str(path)).get_signature_runner()
        expected = tfbdl.predict(model, X, S, seed=3)
        self.assertAllClose(runner(x=X)["mean"], expected.mean, 0.0, 1e-5)
        tfbdl.export(model, self.folder / "model.onnx", 2, format="tf_saved_model")
        self.assertTrue((self.folder / "model.onnx" / "saved_model.pb").is_file())

    def test_layers_are_what_they_were(self) -> None:
        model = recurrent()
        tfbdl.export(model, self.folder / "model.tflite", 1)
        self.assertFalse(model.layers[1].unroll)


class Betainc(keras.layers.Layer):
    """An operation that no other runtime has."""

    def call(self, x: Any) -> Any:
        return tf.math.betainc(tf.ones_like(x), tf.ones_like(x), tf.sigmoid(x))


@keras.saving.register_keras_serializable()
class InHalves(keras.layers.Layer):
    """Computes in half precision whatever its policy is."""

    def call(self, x: Any) -> Any:
        return tf.cast(tf.sqrt(tf.cast(tf.abs(x), tf.float16)), x.dtype)


def of_seconds() -> keras.Model:
    """Takes what float32 has not the digits for."""
    seconds = keras.Input((1,), dtype="float64")
    since = keras.layers.Rescaling(1.0, -1.7e9, dtype="float64")(seconds)
    dense = keras.layers.Dense(1, dtype="float32")(since)
    return keras.Model(seconds, layers.MCDropout(0.5, dtype="mixed_bfloat16")(dense))


def of_halves() -> keras.Model:
    return network(layers.MCDropout(0.5), InHalves())


def of_look_ups() -> keras.Model:
    rows = keras.layers.IntegerLookup(vocabulary=[3, 4])
    embedded = (rows, keras.layers.Embedding(4, 3), keras.layers.Flatten())
    return network(*embedded, layers.MCDropout(0.5), x=WORDS)


def of_open_lengths(*stack: Any) -> keras.Model:
    words = keras.Input((None,), dtype="int32")
    return keras.Sequential([words, keras.layers.Embedding(8, 3), *stack])


class RefusalsTest(tf.test.TestCase, parameterized.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = Path(self.enter_context(tempfile.TemporaryDirectory()))

    def assert_refused(self, make: Any, ending: str, message: str) -> None:
        with self.assertRaisesRegex(ValueError, message) as raised:
            tfbdl.export(make(), self.folder / f"model{ending}", 2)
        self.assertEqual(len(str(raised.exception).splitlines()), 1)
        self.assertEqual(list(self.folder.iterdir()), [])

    @parameterized.product(ending=FORMATS)
    def test_models_whose_draws_are_no_constants(self, ending: str) -> None:
        each = lambda: network(layers.MCDropout(0.5, per_example=True))  # noqa: E731
        self.assert_refused(each, ending, "^model=.* has noise that depends on the number .*=True$")
        open_ended = lambda: of_open_lengths(layers.MCDropout(0.5))  # noqa: E731
        self.assert_refused(open_ended, ending, "^model=.* or lengths of its inputs, .* use fixed")
        self.assert_refused(of_look_ups, ending, "^model=.* looks up tables, which only format=")
        self.assert_refused(of_halves, ending, "^model=.* computes in float16, which only format=")
        self.assert_refused(of_seconds, ending, "^model=.* float64, which only format=")

    @parameterized.parameters((".onnx", "ONNX"), (".tflite", "LiteRT"))
    def test_operations_that_a_runtime_has_not(self, ending: str, runtime: str) -> None:
        make = lambda: network(layers.MCDropout(0.5), Betainc())  # noqa: E731
        self.assert_refused(make, ending, f"^model=.* operations that {runtime} has not: Betainc; ")

    def test_loops_of_all_lengths_in_litert(self) -> None:
        make = lambda: of_open_lengths(layers.BayesGRU(2, num_data=N))  # noqa: E731
        self.assert_refused(make, ".tflite", "LiteRT has not: .* use inputs of fixed lengths, ")

    def test_more_functions_than_a_file_holds(self) -> None:
        with mock.patch.object(stored_draws, "MOST_BYTES", 3 * 4 * (D * 6 + 6)):
            message = (
                "^num_samples=4 functions of .* than the .* GB that a file holds; give at most 3,"
            )
            model = network(layers.BayesDense(6, num_data=N))
            with self.assertRaisesRegex(ValueError, message):
                tfbdl.export(model, self.folder / "model.onnx", 4)

    def test_arguments(self) -> None:
        model, path = dropouts(), self.folder / "model.onnx"
        to_onnx.packages()  # since onnx cannot be imported anew once it is forgotten
        with self.assertRaisesRegex(ValueError, "^format='pb' is unknown; choose one of: litert, "):
            tfbdl.export(model, path, format="pb")
        with (
            mock.patch.dict(sys.modules, {"tf2onnx": None}),
            self.assertRaisesRegex(ImportError, r"^format='onnx' needs tf2onnx; pip install 'tfbd"),
        ):
            tfbdl.export(model, path)
        path.touch()
        with self.assertRaisesRegex(FileExistsError, "exists; name a new file, or remove it"):
            tfbdl.export(model, path)
        with self.assertRaisesRegex(OSError, "^path=.* cannot be written .*; name another$"):
            tfbdl.export(model, path / "model.tflite", 1)
        self.assertEqual((list(self.folder.iterdir()), path.read_bytes()), ([path], b""))


if __name__ == "__main__":
    tf.test.main()

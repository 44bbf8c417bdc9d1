"""What is asked of a model, column by column: by value where a value is known."""

from __future__ import annotations

import functools
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tfbdl
from compatibility.models import Case, N
from tfbdl import inference
from tfbdl.flat_model import in_precision
from tfbdl.metrics import fit_temperature

S = 3


def leaves(structure: Any) -> list[np.ndarray]:
    return [np.asarray(part) for part in keras.tree.flatten(structure)]


def assert_close(a: Any, b: Any, tolerance: float) -> None:
    for one, other in zip(leaves(a), leaves(b), strict=True):
        size = np.abs(one).max() + 1e-3
        np.testing.assert_allclose(other / size, one / size, rtol=0, atol=tolerance)


def bayesian(case: Case) -> keras.Model:
    return tfbdl.to_bayesian(case.model, num_data=N)


@functools.cache
def kept_bayesian(model: keras.Model) -> keras.Model:
    """A model which is only asked: by all columns of a row, so that its answers compile once."""
    return tfbdl.to_bayesian(model, num_data=N)


def asked(model: Any, case: Case) -> Any:
    """Predictions, finite and with an epistemic part."""
    predictions = keras.tree.flatten(tfbdl.predict(model, case.x, S, seed=1, verbose=0))
    for prediction in predictions:
        assert np.isfinite(prediction.mean).all()
        assert len(prediction.mean) == N
        assert prediction.epistemic_stddev.max() > 0
    return predictions


def outputs(model: keras.Model, x: Any) -> Any:
    return model(keras.tree.map_structure(tf.constant, x), training=False)


def to_mc_dropout(case: Case) -> None:
    converted = tfbdl.to_mc_dropout(case.model)
    assert_close(outputs(case.model, case.x), outputs(converted, case.x), 1e-6)
    asked(converted, case)


def to_bayesian(case: Case) -> None:
    assert_close(outputs(case.model, case.x), outputs(bayesian(case), case.x), 1e-5)


def fit(case: Case) -> None:
    x = keras.tree.map_structure(tf.constant, case.x)
    history = bayesian(case).fit(x, case.y, batch_size=8, epochs=1, verbose=0).history
    assert np.isfinite(history["loss"]).all()


def train(case: Case) -> None:
    history = tfbdl.train(bayesian(case), case.x, case.y, batch_size=8, epochs=1, verbose=0)
    assert np.isfinite(history["loss"]).all()


def predict(case: Case) -> None:
    asked(kept_bayesian(case.model), case)


def save_and_load(case: Case) -> None:
    model = kept_bayesian(case.model)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.keras"
        model.save(path)
        loaded = keras.models.load_model(path)
    means = [[p.mean for p in asked(m, case)] for m in (model, loaded)]
    assert_close(*means, 1e-5)


def exported(case: Case, ending: str, answer: Callable[[Path, dict[str, Any]], Any]) -> None:
    """What a file answers, by its own runtime, is what `predict` does, in the file's precision.

    Where that is another than the model's, it is what the model itself answers up to its rounding.
    """
    model = kept_bayesian(case.model)
    in_file = in_precision(model, "float32") if ending else model
    law = tfbdl.likelihoods.of_model(model, None)

    def predicted(model: keras.Model) -> Any:
        return tfbdl.predict(model, case.x, S, seed=1, likelihood=law, verbose=0)

    predictions = predicted(in_file)
    prefixes = [""]
    if isinstance(predictions, dict):
        prefixes = [f"{name}_" for name in sorted(predictions)]
    names = [i.name for i in model.inputs]
    arrays = leaves(case.x)
    inputs = dict(zip(names if len(names) > 1 else ["x"], arrays, strict=True))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"exported{ending}"
        tfbdl.export(model, path, S, seed=1)
        answers = answer(path, inputs)
    for prefix, prediction in zip(prefixes, keras.tree.flatten(predictions), strict=True):
        assert_close(prediction.mean, answers[f"{prefix}mean"], 1e-5)
        assert_close(prediction.stddev, answers[f"{prefix}stddev"], 1e-4)
    if in_file is not model:
        means = [p.mean for p in keras.tree.flatten(predicted(model))]
        assert_close(means, [answers[f"{prefix}mean"] for prefix in prefixes], 0.05)


def export(case: Case) -> None:
    def answer(path: Path, inputs: dict[str, Any]) -> Any:
        serve = tf.saved_model.load(str(path)).signatures["serving_default"]
        specs = serve.structured_input_signature[1]
        return serve(**{n: tf.cast(tf.constant(v), specs[n].dtype) for n, v in inputs.items()})

    exported(case, "", answer)


def litert(case: Case) -> None:
    from ai_edge_litert.interpreter import Interpreter  # noqa: PLC0415 (an extra)

    def answer(path: Path, inputs: dict[str, Any]) -> Any:
        runner = Interpreter(str(path)).get_signature_runner()
        types = runner.get_input_details()
        return runner(**{n: v.astype(types[n]["dtype"]) for n, v in inputs.items()})

    exported(case, ".tflite", answer)


def onnx(case: Case) -> None:
    import onnxruntime  # noqa: PLC0415 (an extra)

    def answer(path: Path, inputs: dict[str, Any]) -> Any:
        session = onnxruntime.InferenceSession(str(path))
        types = {i.name: i.type for i in session.get_inputs()}
        numpy = {"tensor(float)": "float32", "tensor(int32)": "int32", "tensor(int64)": "int64"}
        values = {n: v.astype(numpy.get(types[n], v.dtype)) for n, v in inputs.items()}
        return dict(
            zip([o.name for o in session.get_outputs()], session.run(None, values), strict=True)
        )

    exported(case, ".onnx", answer)


def laplace(subset: str, structure: str) -> Callable[[Case], None]:
    def cell(case: Case) -> None:
        posterior = inference.Laplace(
            case.model, subset_of_weights=subset, hessian_structure=structure
        )
        predictions = asked(posterior.fit(case.x, case.y, batch_size=8), case)
        for prediction, plain in zip(
            predictions, keras.tree.flatten(outputs(case.model, case.x)), strict=True
        ):
            assert prediction.mean.shape == plain.shape

    return cell


def swag(case: Case) -> None:
    """The one that trains the model itself on."""
    posterior = inference.SWAG(case.model, rank=2)
    asked(posterior.fit(case.x, case.y, epochs=3, batch_size=8, verbose=0), case)


def deep_ensemble(case: Case) -> None:
    posterior = inference.DeepEnsemble(case.model, 2)
    posterior.fit(case.x, case.y, epochs=1, batch_size=8, verbose=0)
    for prediction in keras.tree.flatten(tfbdl.predict(posterior, case.x, 2, verbose=0)):
        assert np.isfinite(prediction.mean).all()
        assert prediction.epistemic_stddev.max() > 0


def neural_linear(case: Case) -> None:
    """Classes as their one-hot rows, which it regresses on."""
    y = case.y
    if keras.tree.flatten(y)[0].dtype.kind == "i" and not isinstance(y, dict):
        y = np.eye(outputs(case.model, case.x).shape[-1], dtype="float32")[y]
    asked(inference.NeuralLinear(case.model, sigma_noise=0.3).fit(case.x, y), case)


def temperature(case: Case) -> None:
    """Fits the temperature of labels that the network gets right three times in four."""
    logits = outputs(case.model, case.x)
    logits = np.asarray(logits["kind"] if isinstance(logits, dict) else logits, "float64")
    y = logits.argmax(axis=-1)
    y[::4] = (y[::4] + 1) % logits.shape[-1]
    assert fit_temperature(y, logits) > 0


COLUMNS: dict[str, Callable[[Case], None]] = {
    "to_mc_dropout": to_mc_dropout,
    "to_bayesian": to_bayesian,
    "fit": fit,
    "train": train,
    "predict": predict,
    "save, load": save_and_load,
    "export": export,
    "LiteRT": litert,
    "ONNX": onnx,
    "Laplace, last layer": laplace("last_layer", "kron"),
    "Laplace, diagonal": laplace("all", "diag"),
    "Laplace, Kronecker": laplace("all", "kron"),
    "SWAG": swag,
    "DeepEnsemble": deep_ensemble,
    "NeuralLinear": neural_linear,
    "temperature": temperature,
}

NO_LAYERS_KNOWN = "the program of a subclass is not known, so that no layer in it can be exchanged"
REFUSED: dict[tuple[str, str], str] = {
    **{
        ("subclassed", column): NO_LAYERS_KNOWN
        for column in list(COLUMNS)[: list(COLUMNS).index("Laplace, last layer")]
    },
    ("look-ups and normalisation", "LiteRT"): "LiteRT has no strings",
    ("look-ups and normalisation", "ONNX"): "ONNX has no look-ups of TensorFlow's",
    ("dict in, dict out", "NeuralLinear"): "it is the linear regression of one output",
    **{
        (name, column): "the last layer is the embedding, whose weights the features hold too"
        for name in ("GPT-2", "Gemma")
        for column in ("Laplace, last layer", "NeuralLinear")
    },
}
"""The cells that must be refused, written down before they were run, with the reason."""

MESSAGES = (ValueError, NotImplementedError, FileExistsError)


def outcome(column: str, case: Case) -> str:
    """`works`, `refused: ...` by one line that names something, or `fails: ...`."""
    before = case.model.get_weights()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            COLUMNS[column](case)
        if not all(map(np.array_equal, case.model.get_weights(), before)):
            case.model.set_weights(before)
            if column != "SWAG":
                return "fails: it has changed the weights of the model that it was given"
    except MESSAGES as error:
        line = str(error)
        if "\n" not in line.strip() and ("=" in line or "'" in line or "has" in line):
            return f"refused: {line.strip()[:300]}"
        return f"fails: {type(error).__name__}: {line.strip().splitlines()[0][:200]}"
    except Exception as error:  # whatever a model raises
        lines = str(error).strip().splitlines() or [""]
        return f"fails: {type(error).__name__}: {lines[0][:200]}"
    return "works"

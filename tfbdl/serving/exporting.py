"""`tfbdl.export`: a model and its uncertainty as a file of TensorFlow, LiteRT or ONNX."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from tfbdl import arguments
from tfbdl.arguments import option, positive_integer
from tfbdl.calls import apart
from tfbdl.draws import DrawnModel
from tfbdl.flat_model import in_precision
from tfbdl.keras_private import is_graph, walk
from tfbdl.likelihoods import Likelihood, LikelihoodLike
from tfbdl.model_arguments import keras_model
from tfbdl.predictive.functions import check_outputs, known_likelihood
from tfbdl.predictive.predict import Predictive, is_random, num_functions
from tfbdl.serving import to_litert, to_onnx
from tfbdl.serving.answers import answers_of_functions, answers_of_noise
from tfbdl.serving.signature import as_called, examples, input_specs
from tfbdl.serving.stored_draws import StoredDraws
from tfbdl.side_by_side import SideBySide
from tfbdl.whole_file import new_folder, write_whole

_CONVERTERS = {"litert": to_litert.to_litert, "onnx": to_onnx.to_onnx}
_ENDINGS = {".tflite": "litert", ".onnx": "onnx"}


def export(
    model: keras.Model | Predictive,
    path: str | os.PathLike[str],
    num_samples: int = 30,
    *,
    format: str | None = None,
    seed: int = 0,
    likelihood: LikelihoodLike | None = None,
) -> None:
    """Writes a model that answers with a prediction and how sure it is, without this package.

    It takes a batch of any size and gives a dictionary: `mean`, `stddev` (total),
    `epistemic_stddev`, and for classes also `entropy` (nats, total) and `mutual_information`
    (nats, epistemic). The input is `x`, or where the model has several inputs each has its name.

    The formats are those of `keras.Model.export`. A SavedModel, for TensorFlow and TensorFlow
    Serving, holds the posterior once, and draws the noise of all S functions again for each
    request. LiteRT and ONNX lack the operations of the noise: their files hold the weights and
    masks of the S functions as constants, which is S times the random weights, and compute in
    float32: a functional or Sequential network in mixed precision answers there as a copy of it in
    float32 does. Positions that a mask leaves out have answers like the others, and mean nothing.

    Args:
        model: built; subclassed, with one input. Where it has several outputs, each has its
            answers, named `price_mean` and so on after its key or its place. Or a posterior of
            `tfbdl.inference` that predicts by functions, as all do but `Laplace` under "glm".
        path: what does not exist yet: the folder of a SavedModel, else a file. For TensorFlow
            Serving it ends in a version number, as in `models/digits/1`.
        num_samples: S, the number of drawn functions in each answer, the same ones in all: equal
            requests get equal answers. An ensemble gives at most as many as it has.
        format: "tf_saved_model", "litert", or "onnx", which needs `pip install 'tfbdl[onnx]'`. By
            default "litert" for a path that ends in `.tflite`, "onnx" for one in `.onnx`, else
            "tf_saved_model".
        seed: the seed of the functions.
        likelihood: as in `tfbdl.predict`.

    Raises:
        ValueError: if the model is not built, has outputs that do not fit the likelihood, an
            argument is out of its range, or the format has not the operations of the model or no
            room for its functions.
        FileExistsError: if `path` exists.
        ImportError: if a package that writes the format is missing.
        OSError: if it cannot be written.
    """
    num_samples = positive_integer("num_samples", num_samples)
    seed = arguments.seed("seed", seed)
    path = arguments.path("path", path)
    format = _format(format, path)
    if isinstance(model, Predictive):
        model = model.functions(num_samples, seed)
    keras_model("model", model)
    if path.exists():
        kind = "folder" if format == "tf_saved_model" else "file"
        raise FileExistsError(f"path={path} exists; name a new {kind}, or remove it first")
    if not model.built:
        raise ValueError(f"model={model.name} is not built; call it on data first")
    if not is_random(model):
        raise ValueError(f"model={model.name} has no random layer; use model.export")
    num_samples = min(num_samples, num_functions(model))
    likelihood = known_likelihood(model, likelihood)
    some = examples(input_specs(model))
    if some is not None:
        check_outputs(model, as_called(model, some), likelihood)
    if format == "tf_saved_model":
        write = _saved_model(model, num_samples, seed, likelihood)
    else:
        write = _converted(model, num_samples, seed, likelihood, format=format)
    try:
        write(path)
    except (OSError, tf.errors.OpError) as error:
        reason = error.strerror if isinstance(error, OSError) else error.message.splitlines()[0]
        raise OSError(f"path={path} cannot be written ({reason}); name another") from None


def _format(given: Any, path: Path) -> str:
    """The format that is given, or else that of the path's ending."""
    by_ending = _ENDINGS.get(path.suffix, "tf_saved_model")
    format = option(
        "format", by_ending if given is None else given, {*_CONVERTERS, "tf_saved_model"}
    )
    if format == "onnx":
        to_onnx.packages()
    return format


def _saved_model(
    model: keras.Model, num_samples: int, seed: int, likelihood: Likelihood | None
) -> Callable[[Path], None]:
    """Writes the folder of a SavedModel, whose noise is drawn where it is called."""

    def mean(*inputs: tf.Tensor) -> tf.Tensor:
        return model(as_called(model, inputs), training=False)

    serve = answers_of_noise(_drawn(model), mean, seed, num_samples, likelihood)
    archive = keras.export.ExportArchive()
    archive.track(model)
    archive.add_endpoint("serve", apart()(serve), input_signature=input_specs(model))
    return lambda path: new_folder(path, lambda new: archive.write_out(str(new), verbose=False))


def _in_float32(model: keras.Model) -> keras.Model:
    """A copy of a graph of mixed precision in the type of its weights; any other as it is."""
    types = {layer.variable_dtype for layer in walk(model)}
    types |= {spec.dtype.name for spec in keras.tree.flatten(input_specs(model))}
    floating = {name for name in types if "float" in name}
    is_mixed = is_graph(model) and floating == {"float32"}
    return in_precision(model, "float32") if is_mixed else model


def _converted(
    model: keras.Model, num_samples: int, seed: int, likelihood: Likelihood | None, *, format: str
) -> Callable[[Path], None]:
    """Writes the file of another runtime, whose drawn functions have constant weights and masks."""
    model = _in_float32(model)
    specs, drawn = input_specs(model), _drawn(model)
    several = None
    if keras.tree.is_nested(getattr(model, "output", None)):
        several = SideBySide.of(model.output)
    rows = drawn if several is None else several.rows_of(drawn)
    with to_litert.unrolled(model, specs) if format == "litert" else to_onnx.laid_out():
        functions = StoredDraws(apart()(rows), specs, seed, num_samples, model.name)

    def each(*inputs: tf.Tensor) -> list[Any]:
        outputs = functions(*inputs)
        return outputs if several is None else [several.split(row) for row in outputs]

    serve = answers_of_functions(each, likelihood)
    content = _CONVERTERS[format](serve, specs, model.name)

    def write(path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, lambda file: file.write(content))

    return write


def _drawn(model: keras.Model) -> Callable[..., tf.Tensor]:
    """The outputs of a drawn function, of inputs one after the other and `draw=`."""
    sampler = DrawnModel(model)

    def drawn(*inputs: tf.Tensor, draw: tf.Tensor) -> tf.Tensor:
        return sampler(as_called(model, inputs), draw=draw)

    return drawn

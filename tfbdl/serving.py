"""A model and its uncertainty as a TensorFlow SavedModel, for processes without this package."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl import arguments
from tfbdl.arguments import positive_integer
from tfbdl.calls import apart
from tfbdl.draws import DrawnModel, make_draw
from tfbdl.likelihoods import Likelihood, LikelihoodLike
from tfbdl.model_arguments import keras_model, only_input_shape
from tfbdl.predictive.functions import check_outputs, known_likelihood
from tfbdl.predictive.moments import of_many
from tfbdl.predictive.predict import Predictive, is_random, num_functions
from tfbdl.whole_file import new_folder


def export(
    model: keras.Model | Predictive,
    path: str | os.PathLike[str],
    num_samples: int = 30,
    *,
    seed: int = 0,
    likelihood: LikelihoodLike | None = None,
) -> None:
    """Writes a SavedModel whose signature answers with a prediction and how sure it is.

    `serving_default` takes a batch of any size and gives a dictionary: `mean`, `stddev` (total),
    `epistemic_stddev`, and for classes also `entropy` (nats, total) and `mutual_information`
    (nats, epistemic). TensorFlow alone loads it, and so does TensorFlow Serving, where `path` ends
    in a version number as in `models/digits/1`. The signature takes `x`, or where the model has
    several inputs each by its name.

    Args:
        model: built, with one output; subclassed, with one input. Or a posterior of
            `tfbdl.inference` that predicts by functions, as all do but `Laplace` under "glm".
        path: a folder that does not exist yet.
        num_samples: S, the number of drawn functions in each answer, the same ones in all: equal
            requests get equal answers. An ensemble gives at most as many as it has.
        seed: the seed of the functions.
        likelihood: as in `tfbdl.predict`.

    Raises:
        ValueError: if the model is not built, has several outputs or such as do not fit the
            likelihood, or `num_samples` is out of range.
        FileExistsError: if `path` exists.
        OSError: if it cannot be written.
    """
    num_samples = positive_integer("num_samples", num_samples)
    seed = arguments.seed("seed", seed)
    if isinstance(model, Predictive):
        model = model.functions(num_samples, seed)
    keras_model("model", model)
    path = arguments.path("path", path)
    if path.exists():
        raise FileExistsError(f"path={path} exists; name a new folder, or remove it first")
    if not model.built:
        raise ValueError(f"model={model.name} is not built; call it on data first")
    if not is_random(model):
        raise ValueError(f"model={model.name} has no random layer; use model.export")
    num_samples = min(num_samples, num_functions(model))
    likelihood = known_likelihood(model, likelihood)
    specs = _input_specs(model)
    examples = _examples(specs)
    if examples is not None:
        check_outputs(model, _as_called(model, examples), likelihood)
    archive = keras.export.ExportArchive()
    archive.track(model)
    serve = _answering(model, num_samples, seed, likelihood)
    archive.add_endpoint("serve", apart()(serve), input_signature=specs)
    try:
        new_folder(path, lambda folder: archive.write_out(str(folder), verbose=False))
    except (OSError, tf.errors.OpError) as error:
        reason = error.strerror if isinstance(error, OSError) else error.message.splitlines()[0]
        raise OSError(f"path={path} cannot be written ({reason}); name another") from None


def _answering(
    model: keras.Model, num_samples: int, seed: int, likelihood: Likelihood | None
) -> Callable[..., dict[str, tf.Tensor]]:
    """The function that a signature serves."""
    sampler = DrawnModel(model)

    def serve(*inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        x = _as_called(model, inputs)
        moments = of_many(
            lambda s: sampler(x, draw=make_draw(seed, s)),
            tf.constant(0),
            tf.constant(num_samples),
            likelihood,
            like=model(x, training=False),
        )
        epistemic = moments.squares / moments.count
        total = epistemic if likelihood is None else epistemic + moments.variance
        answer = {
            "mean": moments.mean,
            "stddev": tf.sqrt(total),
            "epistemic_stddev": tf.sqrt(epistemic),
        }
        entropy = None
        if likelihood is not None and likelihood.has_entropy:
            entropy = likelihood.entropy_of_mean(moments.mean)
        if entropy is not None:
            information = tf.maximum(entropy - moments.entropy, 0.0)
            answer |= {"entropy": entropy, "mutual_information": information}
        return {name: tf.cast(value, tf.float32) for name, value in answer.items()}

    return serve


def _input_specs(model: keras.Model) -> list[tf.TensorSpec]:
    """The signature's inputs: batches of any size."""
    inputs = getattr(model, "inputs", None) or ()
    if len(inputs) > 1:
        return [tf.TensorSpec((None, *i.shape[1:]), i.dtype, name=i.name) for i in inputs]
    if inputs:
        return [tf.TensorSpec((None, *inputs[0].shape[1:]), inputs[0].dtype, name="x")]
    shape = only_input_shape(model)
    if shape is None:
        raise ValueError(
            f"model={model.name} has no single input; make it a functional keras.Model"
        )
    return [tf.TensorSpec((None, *shape[1:]), keras.config.floatx(), name="x")]


def _as_called(model: keras.Model, inputs: Sequence[tf.Tensor]) -> Any:
    """The inputs in the structure of the model's inputs."""
    if isinstance(model, keras.Sequential) or not getattr(model, "inputs", None):
        return inputs[0]
    return keras.tree.pack_sequence_as(model.input, list(inputs))


def _examples(specs: Sequence[tf.TensorSpec]) -> list[tf.Tensor] | None:
    """Examples that a model will take, unlike each other; None where a length is open."""
    if any(None in spec.shape[1:] for spec in specs):
        return None
    return [_filled(spec) for spec in specs]


def _filled(spec: tf.TensorSpec) -> tf.Tensor:
    """As many examples as let no logits pass for probabilities by chance."""
    number = 8
    values: Any = ["1" if spec.dtype == tf.string else 1] * number
    if spec.dtype.is_floating:
        values = np.linspace(1.0 / number, 1.0, number)  # indices too, as 0 and 1
    column = tf.reshape(
        tf.cast(tf.constant(values), spec.dtype), [number, *[1] * (len(spec.shape) - 1)]
    )
    return tf.broadcast_to(column, [number, *spec.shape[1:]])

"""A model and its uncertainty as a TensorFlow SavedModel, for processes without this package."""

from __future__ import annotations

import os
from pathlib import Path

import keras
import tensorflow as tf

from tfbdl import likelihoods
from tfbdl.arguments import integer, positive_integer
from tfbdl.likelihoods import Likelihood
from tfbdl.predictive.moments import of_many
from tfbdl.predictive.predict import is_random
from tfbdl.sampling import Sampler, make_draw


def export(
    model: keras.Model,
    path: str | os.PathLike[str],
    num_samples: int = 30,
    *,
    seed: int = 0,
    likelihood: Likelihood | None = None,
) -> None:
    """Writes a SavedModel whose signature answers with a prediction and how sure it is.

    `serving_default` takes a batch of any size and gives a dictionary: `mean`, `stddev` (total),
    `epistemic_stddev`, and for classes also `entropy` (nats, total) and `mutual_information`
    (nats, epistemic). TensorFlow alone loads it, and so does TensorFlow Serving, where `path` ends
    in a version number as in `models/digits/1`.

    Args:
        model: built, with one input and one output.
        path: a folder that does not exist yet.
        num_samples: S, the number of drawn functions in each answer, the same ones in all: equal
            requests get equal answers.
        seed: of the functions.
        likelihood: as in `tfbdl.predict`.

    Raises:
        ValueError: if the model is not built, has several inputs, or `num_samples` is out of range.
        FileExistsError: if `path` exists.
    """
    num_samples, seed = positive_integer("num_samples", num_samples), integer("seed", seed)
    path = Path(path)
    if path.exists():
        raise FileExistsError(f"path={path} exists; name a new folder, or remove it first")
    if not model.built or len(getattr(model, "inputs", None) or ()) > 1:
        raise ValueError(f"model={model.name} must be built, with one input; call it on data first")
    if not is_random(model):
        raise ValueError(f"model={model.name} has no random layer; use model.export")
    if likelihood is None:
        likelihood = likelihoods.of_loss(getattr(model, "loss", None))
    sampler = Sampler(model)

    def serve(x: tf.Tensor) -> dict[str, tf.Tensor]:
        moments = of_many(
            lambda s: sampler(x, draw=make_draw(seed, s)),
            tf.constant(0),
            tf.constant(num_samples),
            likelihood,
        )
        epistemic = moments.squares / moments.count
        answer = {
            "mean": moments.mean,
            "stddev": tf.sqrt(moments.variance + epistemic),
            "epistemic_stddev": tf.sqrt(epistemic),
        }
        entropy = None if likelihood is None else likelihood.entropy_of_mean(moments.mean)
        if entropy is not None:
            information = tf.maximum(entropy - moments.entropy, 0.0)
            answer |= {"entropy": entropy, "mutual_information": information}
        return answer

    archive = keras.export.ExportArchive()
    archive.track(model)
    shape = (None, *_example_shape(model))
    archive.add_endpoint(
        "serve", serve, input_signature=[tf.TensorSpec(shape, keras.config.floatx(), name="x")]
    )
    archive.write_out(str(path), verbose=False)


def _example_shape(model: keras.Model) -> tuple[int | None, ...]:
    if getattr(model, "inputs", None):
        return tuple(model.inputs[0].shape[1:])
    shape = (model.get_build_config() or {}).get("input_shape")
    if not isinstance(shape, tuple):
        raise ValueError(f"model={model.name} has no single input shape; call it on an array first")
    return tuple(shape[1:])

"""Data as the model would have made them."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl import arguments, random
from tfbdl.arguments import instance, shown
from tfbdl.checking.arviz import kept
from tfbdl.likelihoods.joint import named, names_of
from tfbdl.predictive import Prediction
from tfbdl.predictive.replicates import replicated


def replicate(prediction: Prediction | Any, *, seed: int = 0) -> Any:
    """A data set y for each function of a prediction, noise included, shape (S, N, ...).

    Data sets made from a posterior are what `predictive_check` compares the data with; data sets
    made from a prior show which y the prior holds for likely. All y of a data set come from one
    function.

    Args:
        prediction: what `tfbdl.predict` or `prior_predictive` gives, with the functions kept
            (`return_samples=True`) and a likelihood; for several outputs a structure of
            predictions, which the data then have too.
        seed: an integer of 64 bits.

    Raises:
        ValueError: if the functions were not kept, no likelihood is known, or it has no `sample`.
    """
    key = random.key_of(arguments.seed("seed", seed), "replicates")
    if not keras.tree.is_nested(prediction):
        return _of_output(prediction, key)
    parts = zip(names_of(prediction), keras.tree.flatten(prediction), strict=True)
    drawn = [
        named(name, _of_output, part, random.fold_in(key, number))
        for number, (name, part) in enumerate(parts)
    ]
    if not drawn:
        raise ValueError(f"prediction={shown(prediction)} is empty; give what tfbdl.predict gives")
    return keras.tree.pack_sequence_as(prediction, drawn)


def _of_output(prediction: Prediction, key: tf.Tensor) -> np.ndarray:
    instance("prediction", prediction, Prediction, "what tfbdl.predict gives")
    return replicated(*kept(prediction), key)

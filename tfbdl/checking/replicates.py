"""Data as the model would have made them."""

from __future__ import annotations

import numpy as np

from tfbdl import arguments, random
from tfbdl.arguments import instance
from tfbdl.checking.arviz import kept
from tfbdl.predictive import Prediction
from tfbdl.predictive.replicates import replicated


def replicate(prediction: Prediction, *, seed: int = 0) -> np.ndarray:
    """A data set y for each function of a prediction, noise included, shape (S, N, ...).

    Of a posterior they are what `predictive_check` compares the data with; of a prior, what it
    holds for likely. All y of a data set come from one function.

    Args:
        prediction: what `tfbdl.predict` or `prior_predictive` gives, with the functions kept
            (`return_samples=True`) and a likelihood.
        seed: an integer of 64 bits.

    Raises:
        ValueError: if the functions were not kept, no likelihood is known, or it has no `sample`.
    """
    instance("prediction", prediction, Prediction, "what tfbdl.predict gives")
    key = random.key_of(arguments.seed("seed", seed), "replicates")
    return replicated(*kept(prediction), key)

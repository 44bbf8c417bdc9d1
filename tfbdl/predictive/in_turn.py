"""Predictions of functions that take turns in one model: the memory is that of one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import keras
import numpy as np

from tfbdl.predictive.functions import Functions, known_likelihood
from tfbdl.predictive.moments import Moments, merge
from tfbdl.predictive.predict import Outputs, Request, in_batches, predictions
from tfbdl.sources import Source


def predict_in_turn(
    model: keras.Model, turns: Iterable[Any], data: Source, request: Request
) -> Any:
    """The prediction of the functions that a model is, one after the other.

    Args:
        model: a model without random layers.
        turns: gives the model other weights each time something is taken of it.
        data: inputs, which are gone through once for each function.
        request: what is asked for; of `num_samples` and the seed nothing is needed.

    Raises:
        ValueError: as `tfbdl.predict`, and if the inputs are gone after one pass.
    """
    likelihood = known_likelihood(model, None)
    functions = Functions.of(model, likelihood, request.jit_compile)
    total: list[Moments] = []
    drawn: list[list[list[np.ndarray]]] = []
    outputs = Outputs(functions)
    number = 0
    data = Source.of(data, model)
    with functions.programs.held():
        for _ in turns:
            for i, batch in enumerate(in_batches(data, request.batch_size, needs_y=False).parts):
                if number == 0:
                    outputs.add(batch)
                if request.return_samples:
                    ((moments, kept),) = functions.moments_and_outputs(batch.x, request.seed, 0)
                else:
                    (moments,), kept = functions.moments(batch.x, request.seed, 0), []
                moments = moments.first(batch.size)
                if number == 0:
                    total.append(moments)
                    drawn.append([])
                else:
                    total[i] = merge(total[i], moments)
                drawn[i].append([output[:, : batch.size] for output in kept])
            number += 1
    of_batches = [[np.concatenate(o) for o in zip(*batch, strict=True)] for batch in drawn]
    kept_outputs = of_batches if request.return_samples else []
    return predictions(model, likelihood, outputs, total, kept_outputs, num_samples=number)

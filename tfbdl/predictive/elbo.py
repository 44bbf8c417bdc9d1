"""The evidence lower bound and the predictive density of data, by Monte Carlo."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import keras
import numpy as np
import scipy.special

from tfbdl import arguments
from tfbdl.arguments import boolean, optional, positive_integer
from tfbdl.batches import PaddedBatch
from tfbdl.keras_private import make_default_seed
from tfbdl.lengths import shapes_of
from tfbdl.likelihoods import LikelihoodLike
from tfbdl.model_arguments import keras_model
from tfbdl.predictive.finite import refuse
from tfbdl.predictive.functions import Functions, known_likelihood
from tfbdl.predictive.predict import Predictive, Request, in_batches, num_functions
from tfbdl.predictive.prediction import Prediction
from tfbdl.sources import NO_TARGETS, Source


class ELBO(NamedTuple):
    """The evidence lower bound per example, in nats, and its parts: elbo = log_likelihood - kl."""

    elbo: float
    log_likelihood: float
    kl: float


def elbo(
    model: keras.Model,
    x: Any,
    y: Any = None,
    num_samples: int = 10,
    *,
    sample_weight: Any = None,
    class_weight: Mapping[int, float] | None = None,
    batch_size: int | None = None,
    steps: int | None = None,
    seed: int | None = None,
    likelihood: LikelihoodLike | None = None,
    jit_compile: bool | None = None,
) -> ELBO:
    """E_q[log p(y | f(x))] - KL / N, estimated with drawn functions, per example, in nats.

    `model.evaluate` reports the likelihood at the mean weights; this is the bound itself. The
    number N that the KL is divided by is the layers' own `num_data`; KL annealing is left out. With
    weights the first term is sum_n w_n E_q[log p(y_n | f(x_n))] divided by the number of examples,
    not by the sum of their weights, as in the loss of Keras, whose negative this is.

    Args:
        model: a model with layers of this package. A model without such layers gives the same
            function S times.
        x: inputs as in `predict`, or batches (x, y) or (x, y, weights) of a data set.
        y: targets, shape (N, ...); None if x has them.
        num_samples: S, the number of functions.
        sample_weight: the weights w_n of the examples, shape (N,), by default 1.
        class_weight: weights by class in their place, as in Keras' `fit`.
        batch_size: as in `predict`.
        steps: as in `predict`.
        seed: as in `predict`.
        likelihood: as in `predict`.
        jit_compile: as in `predict`.

    Raises:
        ValueError: if an argument is out of its range, x or y is empty or not finite or does not
            fit the model or its likelihood, or no likelihood is known.
    """
    keras_model("model", model)
    data = Source(
        x, y, sample_weight=sample_weight, class_weight=class_weight, steps=steps, model=model
    )
    logs, weights, kl = _log_probs(
        model,
        data,
        num_samples,
        batch_size=batch_size,
        seed=seed,
        likelihood=likelihood,
        jit_compile=jit_compile,
    )
    log_likelihood = float((weights * logs).mean())
    return ELBO(log_likelihood - kl, log_likelihood, kl)


def log_predictive_density(
    model: keras.Model | Predictive,
    x: Any,
    y: Any = None,
    num_samples: int = 100,
    *,
    batch_size: int | None = None,
    steps: int | None = None,
    seed: int | None = None,
    likelihood: LikelihoodLike | None = None,
    jit_compile: bool | None = None,
) -> np.ndarray:
    """Log 1/S sum_s p(y | f_s(x)) of each example, shape (N,), in nats.

    Its mean is the test log likelihood that the literature reports. On average over draws it is too
    small, the less so the larger S (Burda, Grosse, Salakhutdinov 2016, theorem 1). Arguments are as
    in `elbo`, but `model` may also be a posterior of `tfbdl.inference`, which has a likelihood of
    its own and may know the density in closed form. Weights are not asked for, and those in a data
    set change nothing: weigh the mean, `np.average(density, weights=w)`.

    Raises:
        ValueError: as `elbo`.
    """
    if isinstance(model, Predictive):
        if likelihood is not None:
            raise ValueError("likelihood is for a keras.Model; a posterior has that of its model")
        seed = make_default_seed() if seed is None else arguments.seed("seed", seed)
        num_samples = positive_integer("num_samples", num_samples)
        request = Request(num_samples, batch_size, seed, True, jit_compile)
        return _of_posterior(model, Source(x, y, steps=steps, model=model), request)
    keras_model("model", model)
    logs, *_ = _log_probs(
        model,
        Source(x, y, steps=steps, model=model),
        num_samples,
        batch_size=batch_size,
        seed=seed,
        likelihood=likelihood,
        jit_compile=jit_compile,
    )
    return scipy.special.logsumexp(logs, axis=0) - np.log(len(logs))


def _of_posterior(posterior: Predictive, data: Source, request: Request) -> np.ndarray:
    logs = []
    for batch in _labelled(data, request.batch_size):
        inputs, targets = _that_count(batch)
        prediction = posterior.predictive(Source(inputs), request)
        if isinstance(prediction, Prediction):
            logs.append(prediction.log_prob(keras.ops.convert_to_numpy(targets)))
        else:
            model = posterior.functions(request.num_samples, request.seed)
            given = {"seed": request.seed, "jit_compile": request.jit_compile}
            logs.append(
                log_predictive_density(model, inputs, targets, request.num_samples, **given)
            )
    return np.concatenate(logs)


def _that_count(batch: PaddedBatch) -> tuple[Any, Any]:
    """X and y of a batch without what it was filled up with."""
    return keras.tree.map_structure(lambda values: values[: batch.size], (batch.x, batch.y))


def _labelled(data: Source, batch_size: int | None) -> Iterator[PaddedBatch]:
    for batch in in_batches(data, batch_size, needs_y=True).parts:
        if batch.y is None:
            raise ValueError(NO_TARGETS)
        yield batch


def _log_probs(
    model: keras.Model,
    data: Source,
    num_samples: int,
    *,
    batch_size: int | None,
    seed: int | None,
    likelihood: LikelihoodLike | None,
    jit_compile: bool | None,
) -> tuple[np.ndarray, np.ndarray, float]:
    """Log p(y | f_s(x)) of each draw and example, (S, N), weights, (N,), and the mean KL / N."""
    num_samples = min(positive_integer("num_samples", num_samples), num_functions(model))
    seed = optional(arguments.seed, "seed", seed)
    jit_compile = optional(boolean, "jit_compile", jit_compile)
    likelihood = known_likelihood(model, likelihood)
    if likelihood is None:
        raise ValueError("likelihood=None: the model was not compiled with one; give it here")
    seed = make_default_seed() if seed is None else seed
    functions = Functions.of(model, likelihood, jit_compile)
    columns, weights, kl, shapes = [], [], 0.0, None
    with functions.programs.held():
        for batch in _labelled(data, batch_size):
            if shapes != (shapes := shapes_of(batch.x)):
                outputs = functions.check(batch.x)
            likelihood.check_targets(_that_count(batch)[1], outputs)
            logs, kl = functions.log_probs(batch.x, batch.y, seed, num_samples)
            columns.append(logs[:, : batch.size])
            weights.append(batch.weights[: batch.size].numpy())
    logs = np.concatenate(columns, axis=1)
    refuse("log_prob", logs.T, np.isnan(logs.T), model, likelihood)
    return logs, np.concatenate(weights), kl

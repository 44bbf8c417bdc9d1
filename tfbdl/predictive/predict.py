"""`tfbdl.predict`: the predictive distribution of any model whose layers can be drawn."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from itertools import repeat
from typing import Any, NamedTuple, Protocol, runtime_checkable

import keras
import numpy as np
import tensorflow as tf

from tfbdl import arguments
from tfbdl.arguments import boolean, integer, optional, positive_integer, shown, verbosity
from tfbdl.batches import Batches, PaddedBatch, batches
from tfbdl.draws import is_drawn
from tfbdl.keras_private import make_default_seed, walk
from tfbdl.lengths import check_one_length, shapes_of
from tfbdl.likelihoods import Likelihood, LikelihoodLike
from tfbdl.likelihoods.positions import masks_of
from tfbdl.model_arguments import keras_model
from tfbdl.predictive.bar import Bar
from tfbdl.predictive.finite import check_finite
from tfbdl.predictive.functions import Functions, known_likelihood
from tfbdl.predictive.moments import Moments, merge, of_each
from tfbdl.predictive.prediction import Prediction
from tfbdl.sources import Source


class Request(NamedTuple):
    """The arguments of `predict` beside the inputs, checked."""

    num_samples: int = 100
    batch_size: int | None = None
    seed: int = 0
    return_samples: bool = False
    jit_compile: bool | None = None
    verbose: int = 0


@runtime_checkable
class Predictive(Protocol):
    """An object with a predictive distribution of its own, such as a method of inference."""

    def predictive(self, x: Source, request: Request) -> Prediction:
        """The answer of `predict`."""
        ...

    def functions(self, num_samples: int, seed: int) -> keras.Model:
        """The functions by which it predicts, as a model to draw them from.

        Raises:
            ValueError: if it predicts in another way.
        """
        ...


def predict(
    model: keras.Model | Predictive,
    x: Any,
    num_samples: int = 100,
    *,
    batch_size: int | None = None,
    steps: int | None = None,
    seed: int | None = None,
    likelihood: LikelihoodLike | None = None,
    return_samples: bool = False,
    jit_compile: bool | None = None,
    verbose: int = 1,
) -> Prediction | Any:
    """The predictive distribution of y at x: the mean over `num_samples` functions of p(y | f(x)).

    Each draw is one function for all x: one weight sample, one dropout mask per unit. The model is
    in inference mode otherwise, so that BatchNormalization and stock Dropout layers stay there.
    Statistics are merged as functions come: memory does not grow with their number. What lies
    before the first random layer is computed once for every 100 of them.

    Args:
        model: any Keras model with layers of this package, or a fitted posterior of
            `tfbdl.inference`.
        x: inputs, shape (N, ...), or what `model.predict` takes in their place: a structure of
            arrays, a `pandas.DataFrame`, or batches, with or without targets: a `tf.data.Dataset`,
            a `keras.utils.PyDataset`, a generator.
        num_samples: S, the number of functions; an ensemble gives at most as many as it has. 0
            takes the mean weights of a model alone, the naive approximation.
        batch_size: examples at a time; by default as many as hold a million numbers, but 32 to
            1,000. A data set has its own.
        steps: the number of batches to take of a data set, which an endless one needs; None for
            all.
        seed: an integer of 64 bits; equal seeds draw equal functions. None takes one from Keras'
            global seed.
        likelihood: p(y | f(x)), as `tfbdl.likelihoods.get` takes it: an object, a name such as
            "categorical", a cross-entropy of Keras. By default that of the loss the model was
            compiled with, where it is one of these. Without one the result describes the network's
            outputs: mean and epistemic standard deviation. A network with several outputs has one
            for each, in a dictionary, list or tuple.
        return_samples: whether to keep the outputs of all functions, (S, N, ...), on the host.
        jit_compile: whether XLA compiles the loop over draws; by default unless the model has
            operations that it cannot compile, such as look-ups and those on strings, or that it is
            slow at: on a CPU, convolutions of single channels, transposed or in space, that
            differ from draw to draw.
        verbose: 1 shows a progress bar, in a terminal, where there is time to read it; 0 none.

    Returns:
        The prediction; for a network with several outputs one for each, in their structure.

    Raises:
        ValueError: if an argument is out of its range, x is empty or not finite, nothing in the
            model is random, its outputs are no probabilities where those are expected, or what
            is predicted is NaN or overflows; the message names the first example and the cause.
    """
    num_samples = integer("num_samples", num_samples, least=0)
    return_samples = boolean("return_samples", return_samples)
    verbose = verbosity("verbose", verbose)
    seed = make_default_seed() if seed is None else arguments.seed("seed", seed)
    jit_compile = optional(boolean, "jit_compile", jit_compile)
    optional(positive_integer, "batch_size", batch_size)
    request = Request(num_samples, batch_size, seed, return_samples, jit_compile, verbose)
    if not isinstance(model, Predictive):
        keras_model("model", model)
    data = Source.of(x, model, steps=steps)
    if not isinstance(model, Predictive):
        return _of_model(model, data, likelihood, request)
    if likelihood is not None:
        raise ValueError("likelihood is for a keras.Model; a posterior has that of its model")
    positive_integer("num_samples", num_samples, " for a posterior, which is drawn from")
    return model.predictive(data, request)


def _of_model(
    model: keras.Model, data: Source, likelihood: LikelihoodLike | None, request: Request
) -> Any:
    """The answer of `predict` for a model with random layers."""
    if request.num_samples and not is_random(model):
        raise ValueError(
            f"model={model.name} has no random layer, so all functions are equal; use "
            "num_samples=0, tfbdl.to_mc_dropout or tfbdl.to_bayesian"
        )
    num_samples = min(request.num_samples, num_functions(model))
    likelihood = known_likelihood(model, likelihood)
    functions = Functions.of(model, likelihood, request.jit_compile)
    moments: list[Moments] = []
    drawn: list[list[np.ndarray]] = []
    outputs = Outputs(functions)
    parts, number = in_batches(data, request.batch_size, needs_y=False)
    num_calls = None if number is None else number * functions.calls(num_samples)
    with functions.programs.held(), Bar(num_calls, request.verbose) as bar:
        for batch in parts:
            outputs.add(batch)
            of_batch = batch.x, request.seed, num_samples
            if request.return_samples:
                calls = bar.watch(functions.moments_and_outputs(*of_batch))
                of_calls, kept = zip(*calls, strict=True)
                drawn.append([np.concatenate(o)[:, : batch.size] for o in zip(*kept, strict=True)])
            else:
                of_calls = bar.watch(functions.moments(*of_batch))
            moments.append(reduce(merge, of_calls).first(batch.size))
    return predictions(model, likelihood, outputs, moments, drawn, num_samples=num_samples)


class Outputs:
    """What the outputs are for all batches, and which positions of them count.

    Args:
        functions: the functions of a model.

    Attributes:
        some: the outputs for the first examples.
    """

    some: Any = None

    def __init__(self, functions: Functions) -> None:
        self._functions = functions
        self._shapes: list[tuple[int, ...]] | None = None
        self._masks: list[list[np.ndarray | None]] = []

    def add(self, batch: PaddedBatch) -> None:
        """Takes in a batch.

        Raises:
            ValueError: if the model does not take it, or its outputs do not go with those before.
        """
        if self._shapes != (shapes := shapes_of(batch.x)):
            outputs, self._shapes = self._functions.check(batch.x), shapes
            self.some = outputs if self.some is None else self.some
            check_one_length("outputs", self.some, outputs)
        masks: list[Any] = [None] * len(keras.tree.flatten(self.some))
        if any(mask is not None for mask in masks_of(self.some)):
            masks = self._functions.masks(batch.x)
        self._masks.append([None if m is None else m[: batch.size] for m in masks])

    def masks(self) -> list[np.ndarray | None]:
        """The positions that count, for each output; None where all do."""
        columns = zip(*self._masks, strict=True)
        return [None if column[0] is None else np.concatenate(column) for column in columns]


def predictions(
    model: keras.Model,
    likelihood: Likelihood | None,
    outputs: Outputs,
    moments: Sequence[Moments],
    drawn: Sequence[Sequence[np.ndarray]],
    *,
    num_samples: int,
) -> Any:
    """The predictions of all outputs, in their structure.

    Args:
        model: the model, for messages.
        likelihood: p(y | f(x)), if known.
        outputs: what the outputs of all batches are.
        moments: the moments of all functions, for each batch.
        drawn: the outputs of all functions, shapes (S, B, ...), of each batch; none if not kept.
        num_samples: S.
    """
    of_outputs = of_each(likelihood, outputs.some)
    columns = zip(*(part.of_outputs() for part in moments), strict=True)
    samples = zip(*drawn, strict=True) if drawn else repeat(None, len(of_outputs))
    each = [
        replace(_prediction(model, *of_output[:3], num_samples), mask=of_output[3])
        for of_output in zip(of_outputs, columns, samples, outputs.masks(), strict=True)
    ]
    return keras.tree.pack_sequence_as(outputs.some, each)


def _prediction(
    model: keras.Model,
    likelihood: Likelihood | None,
    of_batches: Sequence[Moments],
    outputs: Sequence[np.ndarray] | None,
    num_samples: int,
) -> Prediction:
    """The prediction of one output, from the moments and the draws of all batches."""
    with np.errstate(over="ignore"):
        mean, squares, variance, entropy = (
            np.concatenate(arrays).astype(np.float32)
            for arrays in list(zip(*of_batches, strict=True))[1:]
        )
    epistemic = squares / max(num_samples, 1)
    check_finite(
        model,
        likelihood,
        mean=mean,
        epistemic_variance=epistemic,
        aleatoric_variance=variance,
        expected_entropy=entropy,
    )
    has_entropy = likelihood is not None and likelihood.has_entropy
    return Prediction(
        mean=mean,
        aleatoric_variance=None if likelihood is None else variance,
        epistemic_variance=epistemic,
        expected_entropy=entropy if has_entropy else None,
        num_samples=num_samples,
        likelihood=likelihood,
        outputs=None if outputs is None else np.concatenate(outputs, axis=1),
    )


def in_batches(data: Source, batch_size: int | None, *, needs_y: bool) -> Batches:
    """Examples in batches, in Keras' precision; those of a data set as they come.

    Raises:
        ValueError: as `batches`, and for a `batch_size` beside a data set.
    """
    if batch_size is not None and not data.is_arrays:
        raise ValueError(
            f"batch_size={shown(batch_size)} is for arrays, but x is {data.kind}, which has its own"
        )
    dtype = tf.as_dtype(keras.config.floatx())
    return batches(data, batch_size, dtype, needs_y=needs_y)


def num_functions(model: keras.Model) -> int:
    """The number of different functions that the model can draw; for most there is no bound."""
    return getattr(model, "num_functions", sys.maxsize)


def is_random(model: keras.Model) -> bool:
    """Whether anything in the model can be drawn."""
    return any(map(is_drawn, walk(model)))

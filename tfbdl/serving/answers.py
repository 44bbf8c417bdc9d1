"""The answer that an exported model gives: a prediction, and how sure it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from tfbdl.draws import make_draw
from tfbdl.likelihoods import Likelihood
from tfbdl.likelihoods.joint import names_of
from tfbdl.predictive.moments import Moments, of_each, of_many, of_one

Answer = dict[str, tf.Tensor]
Drawn = Callable[..., tf.Tensor]
"""A function of the inputs, and of `draw=`, that gives the outputs of the drawn network."""


def answers_of_noise(
    drawn: Drawn, mean: Drawn, seed: int, num_samples: int, likelihood: Likelihood | None
) -> Callable[..., Answer]:
    """Answers of functions whose noise is drawn in the graph, in a loop, anew for each request.

    Args:
        drawn: outputs (B, ...) for inputs and a draw.
        mean: outputs for inputs at the mean weights.
        seed: the seed of the draws.
        num_samples: S, their number.
        likelihood: p(y | outputs), if known.
    """

    def serve(*inputs: tf.Tensor) -> Answer:
        like = mean(*inputs)
        moments = of_many(
            lambda s: drawn(*inputs, draw=make_draw(seed, s)),
            tf.constant(0),
            tf.constant(num_samples),
            likelihood,
            like,
        )
        return _answers(like, moments.of_outputs(), likelihood)

    return serve


def answers_of_functions(
    functions: Callable[..., Sequence[Any]], likelihood: Likelihood | None
) -> Callable[..., Answer]:
    """Answers of functions that are computed one beside the other, in float32.

    Args:
        functions: S outputs (B, ...), or structures of them, for inputs.
        likelihood: p(y | outputs), if known.
    """

    def serve(*inputs: tf.Tensor) -> Answer:
        outputs = functions(*inputs)
        of_each_output = zip(*map(keras.tree.flatten, outputs), strict=True)
        moments = [
            _moments(of_output, part)
            for of_output, part in zip(of_each_output, of_each(likelihood, outputs[0]), strict=True)
        ]
        return _answers(outputs[0], moments, likelihood)

    return serve


def _moments(outputs: Sequence[tf.Tensor], likelihood: Likelihood | None) -> Moments:
    """The moments of all functions at once."""
    one = of_one(tf.cast(tf.concat(outputs, axis=0), tf.float32), likelihood)  # (S B, ...)

    def by_function(values: tf.Tensor) -> tf.Tensor:
        return tf.reshape(values, tf.concat([[len(outputs), -1], tf.shape(values)[1:]], axis=0))

    means = by_function(one.mean)  # (S, B, ...)
    origin = means[0]  # differences from it lose no digits however small they are
    mean = tf.reduce_mean(means - origin, axis=0)
    return Moments(
        tf.constant(float(len(outputs))),
        origin + mean,
        tf.reduce_sum(tf.square(means - origin - mean), axis=0),
        tf.reduce_mean(by_function(one.variance), axis=0),
        tf.reduce_mean(by_function(one.entropy), axis=0),
    )


def _answers(outputs: Any, moments: Sequence[Moments], likelihood: Likelihood | None) -> Answer:
    """The answer for each output, under its name where there are several: `price_mean`."""
    if not keras.tree.is_nested(outputs):
        return _answer(moments[0], likelihood)
    columns = zip(names_of(outputs), moments, of_each(likelihood, outputs), strict=True)
    return {
        f"{name}_{key}": value
        for name, of_output, part in columns
        for key, value in _answer(of_output, part).items()
    }


def _answer(moments: Moments, likelihood: Likelihood | None) -> Answer:
    epistemic = moments.squares / moments.count
    total = epistemic if likelihood is None else epistemic + moments.variance
    answer: dict[str, Any] = {
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

"""What a likelihood p(y | f(x)) answers; each is a Keras loss."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl import random
from tfbdl.probability import tfp


class Likelihood(keras.losses.Loss):
    """p(y | outputs), as the loss -log p(y | outputs) of each example.

    An example is one entry of the first axis: its log probability is the sum over all that it
    holds, so that Keras' mean loss is the negative log likelihood per example, in nats, and the
    layers' KL / N stands beside it on the same scale.

    A family defines `distribution`, over the elements of y; the rest follows.
    """

    is_discrete = False

    def distribution(self, outputs: tf.Tensor) -> tfp.distributions.Distribution:
        """p(y | outputs), for outputs of the network of shape (B, ...)."""
        raise NotImplementedError

    def log_prob(self, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Log p(y | outputs) of each example, shape (B,), in nats.

        Raises:
            ValueError: if y has not the shape that the outputs describe.
        """
        outputs = wide(outputs)
        return sum_over_example(self.log_prob_of_elements(tf.cast(y, outputs.dtype), outputs))

    def log_prob_of_elements(self, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Log p of each element of y, in nats."""
        distribution = self.distribution(outputs)
        return distribution.log_prob(match(y, distribution.batch_shape))

    def sample(self, key: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """One y for the outputs, from the noise of `key` (see `tfbdl.random`)."""
        return self.distribution(outputs).sample(seed=random.halves(key))

    def mean(self, outputs: tf.Tensor) -> tf.Tensor:
        """E[y | outputs], shape (B, ...)."""
        return self.distribution(outputs).mean()

    def variance(self, outputs: tf.Tensor) -> tf.Tensor:
        """Var[y | outputs], the aleatoric variance, of the shape of the mean."""
        return self.distribution(outputs).variance()

    def entropy(self, outputs: tf.Tensor) -> tf.Tensor:
        """Entropy of y given the outputs, of each example, shape (B,), in nats."""
        return sum_over_example(self.distribution(outputs).entropy())

    def cdf(self, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """P(Y <= y | outputs), elementwise in y."""
        return self.distribution(outputs).cdf(y)

    def check(self, outputs: tf.Tensor) -> None:
        """Raises ValueError where a network's outputs cannot be what this likelihood takes."""
        self.distribution(outputs)

    def check_targets(self, y: Any, outputs: tf.Tensor) -> None:
        """Raises ValueError where y, (N, ...), cannot be observed under outputs like these."""
        size = min(len(y), len(outputs))
        self.log_prob(y[:size], outputs[:size])

    def entropy_of_mean(self, mean: tf.Tensor) -> tf.Tensor | None:
        """Entropy of the prediction whose mean is `mean`, shape (B,), in nats.

        It is the mean's alone where the mean says all there is (classes); None elsewhere.
        """
        return None

    def call(self, y_true: Any, y_pred: Any) -> tf.Tensor:
        """-log p(y_true | y_pred), shape (B,)."""
        return -self.log_prob(y_true, y_pred)


def wide(outputs: Any) -> tf.Tensor:
    """Outputs in at least float32, where densities are computed."""
    outputs = tf.convert_to_tensor(outputs)
    return tf.cast(outputs, tf.float32) if outputs.dtype.size < 4 else outputs


def match(y: tf.Tensor, shape: tf.TensorShape) -> tf.Tensor:
    """Y of `shape`, where it differs by axes of length one at the end alone, as Keras allows.

    Raises:
        ValueError: if it differs otherwise; broadcasting (B,) against (B, 1) would give (B, B).
    """
    if y.shape.rank == shape.rank - 1 and shape[-1] == 1:
        y = y[..., None]
    elif y.shape.rank == shape.rank + 1 and y.shape[-1] == 1:
        y = y[..., 0]
    if not y.shape.is_compatible_with(shape):
        raise ValueError(f"y has shape {tuple(y.shape)}; these outputs describe {tuple(shape)}")
    return y


def sum_over_example(values: tf.Tensor) -> tf.Tensor:
    """The sum over all axes but the first, shape (B,)."""
    return tf.reduce_sum(values, axis=tf.range(1, tf.rank(values)))


def check_probabilities(outputs: tf.Tensor) -> None:
    """Raises ValueError unless all values are in [0, 1]."""
    if tf.reduce_any((outputs < 0) | (outputs > 1)):
        raise ValueError("outputs leave [0, 1]: they look like logits; use from_logits=True")


def refuse_activation(outputs: tf.Tensor, operation: str) -> None:
    """Raises ValueError where logits are known to be the result of TensorFlow's `operation`.

    That is known while a graph is made, as in `fit`, and where nothing but a change of precision
    lies between the two.
    """
    if tf.executing_eagerly():
        return
    made_by = outputs.op
    while made_by.type == "Cast":
        made_by = made_by.inputs[0].op
    if made_by.type == operation:
        raise ValueError(
            f"from_logits=True, but outputs end in {operation.lower()}: they are probabilities; "
            "use from_logits=False"
        )


def check_range(y: Any, low: float, high: float) -> None:
    """Raises ValueError unless all targets are in [low, high]."""
    y = np.asarray(y)
    outside = y[~((y >= low) & (y <= high))]
    if outside.size:
        raise ValueError(f"y has the value {outside[0]:g}; give values in [{low:g}, {high:g}]")


def split_halves(outputs: tf.Tensor, family: str) -> tuple[tf.Tensor, tf.Tensor]:
    """The two halves of the last axis: locations, and raw scales.

    Raises:
        ValueError: if the last axis has an odd length.
    """
    if outputs.shape[-1] is None or outputs.shape[-1] % 2:
        raise ValueError(
            f"outputs has shape {tuple(outputs.shape)}; {family}('predicted') needs an even last "
            "axis: means, and as many raw scales"
        )
    loc, raw = tf.split(outputs, 2, axis=-1)
    return loc, raw


def positive(raw: tf.Tensor) -> tf.Tensor:
    """A scale from an unbounded output: softplus, and 1e-6 so that densities are finite."""
    return tf.math.softplus(raw) + 1e-6


HALF_LOG_2PI_E = 0.5 * math.log(2.0 * math.pi * math.e)

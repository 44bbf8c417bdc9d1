"""The base of all likelihoods p(y | f(x)); each is a Keras loss."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl import random
from tfbdl.arguments import first_line, optional, text
from tfbdl.as_call import as_call
from tfbdl.examples import check_finite
from tfbdl.inherited_arguments import LossArguments, Unpack
from tfbdl.keras_private import keras_mask
from tfbdl.keras_private_training import reduced
from tfbdl.likelihoods.positions import (
    are_of_positions,
    mask_at_positions,
    sum_counted,
    sum_over_example,
    sum_over_position,
    weights_at_positions,
    where_counted,
    with_mask,
)
from tfbdl.likelihoods.targets import match, wide
from tfbdl.probability import tfp


class Likelihood(keras.losses.Loss):
    """p(y | outputs), as the loss -log p(y | outputs) of each example.

    An example is one entry of the first axis: its log probability is the sum over all elements that
    it holds, so that Keras' mean loss is the negative log likelihood per example, in nats, and the
    layers' KL / N stands beside it on the same scale.

    Outputs of shape (B, ..., D) describe a y at each position along the axes between, such as
    pixels and tokens: entropies are given for each position, shape (B, ...). Where the outputs
    carry a mask of Keras, as behind `Embedding(mask_zero=True)`, positions that it leaves out have
    no likelihood. Weights of a loss may be of examples, (B,), or of positions.

    A family defines `distribution`, over the elements of y, from which the rest follows. Or it
    defines `log_prob`, `mean` and `variance`, which suffice to train, to predict and for all
    posteriors; and `sample`, `cdf` and `entropy` where they are asked for.

    Args:
        **kwargs: `reduction` and `dtype`; like `name` as in `keras.losses.Loss`.
    """

    is_discrete = False
    has_curvature = True
    """Whether `log_prob` is curved in the outputs, as a parabola around a mode needs."""

    def __init__(self, name: str | None = None, **kwargs: Unpack[LossArguments]) -> None:
        self._check_complete()
        super().__init__(name=optional(text, "name", name), **kwargs)

    def __repr__(self) -> str:
        return as_call(self)

    @property
    def outputs_hold(self) -> str | None:
        """A description of outputs that no metric is to compare y with; None where one may."""
        return None

    @property
    def has_expectation(self) -> bool:
        """Whether `expected_log_prob` is known."""
        return False

    @property
    def outputs_per_function(self) -> int:
        """The number of columns of outputs for each f, the first of which are f."""
        return 1

    @property
    def has_entropy(self) -> bool:
        """Whether `entropy` is known."""
        return self._defines("entropy") or self._defines("distribution")

    def expected_log_prob(self, y: tf.Tensor, outputs: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
        """E[log p(y | f)] of each example, or a lower bound, shape (B,), in nats.

        Args:
            y: targets.
            outputs: as in `log_prob`, with E[f] in the place of f.
            variance: Var[f], of the shape of f; f is normal.
        """
        raise NotImplementedError

    def distribution(self, outputs: tf.Tensor) -> tfp.distributions.Distribution:
        """p(y | outputs), for outputs of the network of shape (B, ...).

        Raises:
            ValueError: if the family defines none.
        """
        raise self._lack("distribution")

    def log_prob(self, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Log p(y | outputs) of each example, shape (B,), in nats.

        y is of the type in which it was given, integers too; it is cast to that of the outputs.

        Raises:
            ValueError: if y has not the shape that the outputs describe.
        """
        return sum_over_example(self.log_prob_at_positions(y, outputs))

    def log_prob_at_positions(self, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Log p of y at each position, shape (B, ...), in nats; 0 where it does not count.

        Raises:
            ValueError: if y does not fit, or the family defines `log_prob` of examples alone.
        """
        if self._defines("log_prob"):
            raise self._lack("log_prob_at_positions")
        outputs = wide(outputs)
        values = self.log_prob_of_elements(tf.cast(y, outputs.dtype), outputs)
        return where_counted(self.counted(y, outputs), sum_over_position(values))

    def counted(self, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor | None:
        """Which positions of y have a likelihood, booleans of shape (B, ...); None if all do.

        The positions that count are those that a mask of Keras on the outputs leaves in.

        Raises:
            ValueError: if the mask is not one of positions.
        """
        return mask_at_positions(outputs)

    def log_prob_of_elements(self, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Log p of each element of y, in nats."""
        distribution = self.distribution(outputs)
        shape = distribution.batch_shape + distribution.event_shape
        return distribution.log_prob(match(y, shape))

    def sample(self, key: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """One y for the outputs, from the noise of `key` (see `tfbdl.random`)."""
        return self._law_for("sample", outputs).sample(seed=random.halves(key))

    def mean(self, outputs: tf.Tensor) -> tf.Tensor:
        """E[y | outputs], shape (B, ...)."""
        return self.distribution(outputs).mean()

    def variance(self, outputs: tf.Tensor) -> tf.Tensor:
        """Var[y | outputs], the aleatoric variance, of the shape of the mean."""
        return self.distribution(outputs).variance()

    def entropy(self, outputs: tf.Tensor) -> tf.Tensor:
        """Entropy of y given the outputs, at each position, shape (B, ...), in nats."""
        return sum_over_position(self._law_for("entropy", outputs).entropy())

    def cdf(self, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """P(Y <= y | outputs), elementwise in y."""
        return self._law_for("cdf", outputs).cdf(y)

    def check(self, outputs: tf.Tensor) -> None:
        """Raises ValueError where a network's outputs do not fit this likelihood."""
        if self._defines("distribution"):
            self.distribution(outputs)

    def check_targets(self, y: Any, outputs: tf.Tensor) -> None:
        """Raises ValueError where y cannot be observed under outputs like these.

        Args:
            y: all targets, shape (N, ...).
            outputs: the outputs of the network for any one example or more, of which only the shape
                counts.
        """
        y = np.asarray(y)
        if self._defines("distribution"):
            law = self.distribution(outputs[:1])
            match(y, [len(y), *(law.batch_shape + law.event_shape)[1:]])
        else:
            self._check_log_prob(y[:1], outputs[:1])
        check_finite("y", y)

    def entropy_of_mean(self, mean: tf.Tensor) -> tf.Tensor | None:
        """Entropy of the prediction whose mean is `mean`, at each position, (B, ...), in nats.

        It is the mean's alone where the mean says all there is (classes); None elsewhere.
        """
        return None

    def call(self, y_true: Any, y_pred: Any) -> tf.Tensor:
        """-log p(y_true | y_pred), shape (B,)."""
        return -self.log_prob(y_true, y_pred)

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> tf.Tensor:
        """The loss of a batch, with weights of examples, (B,), or positions, (B, ...)."""
        if keras.tree.is_nested(y_pred):
            return super().__call__(y_true, y_pred, sample_weight)
        mask = keras_mask(y_pred)
        y = keras.tree.map_structure(self._converted, y_true)
        outputs = with_mask(self._converted(y_pred), mask)
        if not are_of_positions(sample_weight):
            return reduced(self, self.call(y, outputs), sample_weight)
        logs = self.log_prob_at_positions(y, outputs)
        weighted = weights_at_positions(sample_weight, logs) * logs
        return reduced(self, -sum_over_example(weighted), None)

    def _converted(self, values: Any) -> tf.Tensor:
        return keras.ops.convert_to_tensor(values, dtype=self.dtype)

    def _defines(self, name: str) -> bool:
        """Whether the family has a method of its own in the place of the one here."""
        return getattr(type(self), name) is not getattr(Likelihood, name)

    def _check_complete(self) -> None:
        """Raises TypeError if neither the distribution is defined nor what stands for it."""
        of_log_prob = self._defines("log_prob") or self._defines("log_prob_of_elements")
        missing = [name for name in ("mean", "variance") if not self._defines(name)]
        missing = missing if of_log_prob else ["log_prob", *missing]
        if missing and not self._defines("distribution"):
            raise TypeError(
                f"Can't instantiate abstract class {type(self).__name__}; define distribution, or "
                + " and ".join(missing)
            )

    def _law_for(self, asked: str, outputs: tf.Tensor) -> tfp.distributions.Distribution:
        """The distribution, from which comes what is asked.

        Raises:
            ValueError: if there is none.
        """
        if not self._defines("distribution"):
            raise self._lack(asked)
        return self.distribution(outputs)

    def _lack(self, asked: str) -> ValueError:
        family = type(self).__name__
        also = "" if asked == "distribution" else ", or distribution"
        return ValueError(f"likelihood={family} has no {asked}; define {family}.{asked}{also}")

    def _check_log_prob(self, y: np.ndarray, outputs: tf.Tensor) -> None:
        """Raises ValueError unless a family's own `log_prob` gives one number for an example."""
        family = type(self).__name__
        try:
            shape = tuple(tf.convert_to_tensor(self.log_prob(tf.constant(y), outputs)).shape)
        except (TypeError, ValueError, tf.errors.InvalidArgumentError) as error:
            raise ValueError(
                f"likelihood={family}: log_prob fails for y of shape {y.shape} and type {y.dtype} "
                f"and outputs of shape {tuple(outputs.shape)}: {first_line(error)}"
            ) from error
        if shape != (1,):
            raise ValueError(
                f"likelihood={family}: log_prob has shape {shape} for one example; sum over all "
                "but the first axis, to shape (B,)"
            )


def expected_in_natural_form(
    likelihood: Likelihood, y: tf.Tensor, outputs: tf.Tensor, variance: tf.Tensor
) -> tf.Tensor:
    """E[y f - A(f)] with A at E[f] + Var[f] / 2, and what does not depend on f, shape (B,).

    For log p(y | f) of this form: exact for A = exp, a lower bound where A is log(1 + exp(f)).
    """
    half, counted = 0.5 * variance, likelihood.counted(y, outputs)
    weights = tf.cast(match(tf.convert_to_tensor(y), half.shape), half.dtype)
    at_half = with_mask(outputs + half, keras_mask(outputs))
    return likelihood.log_prob(y, at_half) - sum_counted(counted, weights * half)


def split_halves(outputs: tf.Tensor, family: str) -> tuple[tf.Tensor, tf.Tensor]:
    """The two halves of the last axis: locations, and raw scales.

    Raises:
        ValueError: if the last axis has an odd length.
    """
    if outputs.shape[-1] is None or outputs.shape[-1] % 2:
        raise ValueError(
            f"outputs has shape {tuple(outputs.shape)}; {family} needs an even last axis: "
            "means, and as many raw scales"
        )
    loc, raw = tf.split(outputs, 2, axis=-1)
    return loc, raw


def positive(raw: tf.Tensor) -> tf.Tensor:
    """A scale from an unbounded output: softplus, and 1e-6 so that densities are finite."""
    return tf.math.softplus(raw) + 1e-6


HALF_LOG_2PI_E = 0.5 * math.log(2.0 * math.pi * math.e)

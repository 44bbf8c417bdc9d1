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
from tfbdl.probability import tfp


class Likelihood(keras.losses.Loss):
    """p(y | outputs), as the loss -log p(y | outputs) of each example.

    An example is one entry of the first axis: its log probability is the sum over all that it
    holds, so that Keras' mean loss is the negative log likelihood per example, in nats, and the
    layers' KL / N stands beside it on the same scale.

    A family defines `distribution`, over the elements of y, from which the rest follows. Or it
    defines `log_prob`, `mean` and `variance`, which suffice to train, to predict and for all
    posteriors; and `sample`, `cdf` and `entropy` where they are asked for.
    """

    is_discrete = False

    def __init__(self, name: str | None = None, **kwargs: Any) -> None:
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
        outputs = wide(outputs)
        return sum_over_example(self.log_prob_of_elements(tf.cast(y, outputs.dtype), outputs))

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
        """Entropy of y given the outputs, of each example, shape (B,), in nats."""
        return sum_over_example(self._law_for("entropy", outputs).entropy())

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
        check_finite(y)

    def entropy_of_mean(self, mean: tf.Tensor) -> tf.Tensor | None:
        """Entropy of the prediction whose mean is `mean`, shape (B,), in nats.

        It is the mean's alone where the mean says all there is (classes); None elsewhere.
        """
        return None

    def call(self, y_true: Any, y_pred: Any) -> tf.Tensor:
        """-log p(y_true | y_pred), shape (B,)."""
        return -self.log_prob(y_true, y_pred)

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
    half = 0.5 * variance
    weights = tf.cast(match(tf.convert_to_tensor(y), half.shape), half.dtype)
    return likelihood.log_prob(y, outputs + half) - sum_over_example(weights * half)


def wide(outputs: Any) -> tf.Tensor:
    """Outputs in at least float32, where densities are computed."""
    outputs = tf.convert_to_tensor(outputs)
    return tf.cast(outputs, tf.float32) if outputs.dtype.size < 4 else outputs


def aligned(y: Any, shape: tf.TensorShape) -> Any:
    """Y with one axis of length one more or less at the end, if that gives it the right rank."""
    if tf.TensorShape(y.shape).rank is None:
        return of_examples(y, shape)
    if len(y.shape) == shape.rank - 1:
        return y[..., None]
    return y[..., 0] if len(y.shape) == shape.rank + 1 and y.shape[-1] == 1 else y


def of_examples(y: tf.Tensor, shape: tf.TensorShape) -> tf.Tensor:
    """Y of `shape`, where its rank is not known: Keras' graphs forget it if they meet several.

    Raises:
        ValueError: if the shape of an example is not known either.
    """
    if not shape[1:].is_fully_defined():
        raise ValueError(f"y has several ranks; give all of shape {tuple(shape)}")
    return tf.reshape(y, [-1, *shape[1:]])


def match(y: Any, shape: Any) -> Any:
    """Y, a tensor or array, of `shape`; they may differ by an axis of length one at the end.

    Raises:
        ValueError: if they differ otherwise; broadcasting (B,) against (B, 1) would give (B, B).
    """
    shape = tf.TensorShape(shape)
    fitting = aligned(y, shape)
    if not shape.is_compatible_with(fitting.shape):
        raise ValueError(f"y has shape {tuple(y.shape)}; these outputs describe {tuple(shape)}")
    return fitting


def sum_over_example(values: tf.Tensor) -> tf.Tensor:
    """The sum over all axes but the first, shape (B,)."""
    return tf.reduce_sum(values, axis=tf.range(1, tf.rank(values)))


def check_finite(y: np.ndarray) -> None:
    """Raises ValueError unless all targets are finite."""
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise ValueError(f"y has the value {y[~np.isfinite(y)][0]:g}; give finite numbers")


def check_numbers(y: Any, shape: tf.TensorShape) -> None:
    """Raises ValueError unless targets are finite and of `shape`, but for the first axis."""
    y = np.asarray(y)
    match(y, [len(y), *shape[1:]])
    check_finite(y)


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
            f"outputs has shape {tuple(outputs.shape)}; {family} needs an even last axis: "
            "means, and as many raw scales"
        )
    loc, raw = tf.split(outputs, 2, axis=-1)
    return loc, raw


def positive(raw: tf.Tensor) -> tf.Tensor:
    """A scale from an unbounded output: softplus, and 1e-6 so that densities are finite."""
    return tf.math.softplus(raw) + 1e-6


HALF_LOG_2PI_E = 0.5 * math.log(2.0 * math.pi * math.e)

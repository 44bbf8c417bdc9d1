"""Estimators of the output of a layer with random weights in training.

All are unbiased for E_q[f(x W + b)] inside the expected log likelihood and differ in how strongly
the examples of a batch share their noise, which sets the variance of the gradient:

- `Reparameterization`: one weight sample for the batch (Blundell et al. 2015, section 3.2);
- `PerExample`: one weight sample for each example (the same section, taken literally);
- `LocalReparameterization`: the output's own normal distribution (Kingma et al. 2015, section 3);
- `Flipout`: one sample, decorrelated by random signs (Wen et al. 2018, section 3).

Axes between the first, of examples, and the last, of channels, are positions of one example, which
share its weights.

An estimator maps (x, linear, kernel, bias, key) to (outputs before the activation, KL in nats),
where `linear(x, w)` applies the layer's linear map.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tfbdl import random
from tfbdl.identifiers import choose
from tfbdl.posteriors import Posterior

Linear = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


class Estimator(abc.ABC):
    """Base of the estimators; stateless, so its class is all there is to save.

    Attributes:
        draws_outputs: whether outputs are drawn and not weights, so that several calls of a layer
            would not be with the same ones.
    """

    draws_outputs = False

    def check(self, posterior: Posterior) -> None:  # noqa: B027 (most hold for all)
        """Raises ValueError where the estimator does not hold for this posterior."""

    @abc.abstractmethod
    def __call__(
        self,
        x: tf.Tensor,
        linear: Linear,
        kernel: Posterior,
        bias: Posterior | None,
        key: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Outputs before the activation, and the KL of kernel and bias in nats."""

    def get_config(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Estimator:
        return cls(**config)


@keras.saving.register_keras_serializable(package="tfbdl")
class Reparameterization(Estimator):
    """y = x W + b with one (W, b) ~ q for the whole batch."""

    def __call__(
        self,
        x: tf.Tensor,
        linear: Linear,
        kernel: Posterior,
        bias: Posterior | None,
        key: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        return _one_sample(
            x, linear, kernel, bias, key=key, sample_and_kl=lambda q, k: q.fused_sample_and_kl(k)
        )


@keras.saving.register_keras_serializable(package="tfbdl")
class PerExample(Estimator):
    """y_n = x_n W_n + b_n with a (W_n, b_n) ~ q for each example n of the batch.

    Its gradient has the least variance of all estimators that hold for every posterior. It takes
    the memory of all weights times the batch, and draws as much noise in a step, also under XLA.
    The KL counts once, however many samples there are: where it is estimated, it is the mean of the
    examples' estimates.
    """

    def __call__(
        self,
        x: tf.Tensor,
        linear: Linear,
        kernel: Posterior,
        bias: Posterior | None,
        key: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        def of_example(example: tuple[tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
            x_n, key_n = example
            y_n, kl_n = _one_sample(
                x_n[tf.newaxis],
                *(linear, kernel, bias),
                key=key_n,
                sample_and_kl=lambda q, k: q.sample_and_kl(k),
            )
            return y_n[0], kl_n

        y, kl = tf.vectorized_map(of_example, (x, random.split(key, tf.shape(x)[0])))
        return y, tf.reduce_mean(kl)


@keras.saving.register_keras_serializable(package="tfbdl")
class LocalReparameterization(Estimator):
    """y ~ N(x mu + mu_b, x^2 sigma^2 + sigma_b^2), drawn for each example on its own.

    Outputs at several positions of an example would not be independent, so it holds for one
    position only. Variances are computed in the precision of the weights, also under mixed
    precision.
    """

    draws_outputs = True

    def check(self, posterior: Posterior) -> None:
        if not posterior.independent_normal:
            raise ValueError(
                "estimator='local_reparameterization' needs independent normal weights, not "
                f"posterior={type(posterior).__name__}; use 'reparameterization'"
            )

    def __call__(
        self,
        x: tf.Tensor,
        linear: Linear,
        kernel: Posterior,
        bias: Posterior | None,
        key: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        mean = linear(x, tf.cast(kernel.mean, x.dtype))
        wide = tf.cast(x, kernel.dtype)
        variance = linear(tf.square(wide), tf.square(kernel.stddev))
        kl = kernel.kl(random.fold_in(key, 0))
        if bias is not None:
            mean += tf.cast(bias.mean, mean.dtype)
            variance += tf.square(bias.stddev)
            kl += bias.kl(random.fold_in(key, 1))
        noise = random.normal(random.fold_in(key, 2), tf.shape(mean), variance.dtype)
        noise = tf.ensure_shape(noise, mean.shape)
        return mean + tf.cast(_safe_sqrt(variance) * noise, mean.dtype), kl


@keras.saving.register_keras_serializable(package="tfbdl")
class Flipout(Estimator):
    """y = x mu + ((x * s) dW + t db) * r + mu_b, with signs s, t, r drawn for each example.

    Signs hold for a channel at all positions of an example.

    dW = W - mu is shared by the batch. The signs leave each example's distribution as it is,
    since dW is symmetric about zero, and make the examples uncorrelated.
    """

    def check(self, posterior: Posterior) -> None:
        if not posterior.symmetric:
            raise ValueError(
                "estimator='flipout' needs independent weights symmetric about their mean, not "
                f"posterior={type(posterior).__name__}; use 'reparameterization'"
            )

    def __call__(
        self,
        x: tf.Tensor,
        linear: Linear,
        kernel: Posterior,
        bias: Posterior | None,
        key: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        w, kl = kernel.fused_sample_and_kl(random.fold_in(key, 0))
        mean = linear(x, tf.cast(kernel.mean, x.dtype))
        signs_in = _signs(key, 2, x)
        flipped = linear(x * signs_in, tf.cast(w - kernel.mean, x.dtype))
        if bias is not None:
            b, bias_kl = bias.fused_sample_and_kl(random.fold_in(key, 1))
            mean += tf.cast(bias.mean, mean.dtype)
            flipped += tf.cast(b - bias.mean, mean.dtype) * _signs(key, 3, x[..., :1])
            kl += bias_kl
        return mean + flipped * _signs(key, 4, mean), kl


_NAMES: dict[str, type[Estimator]] = {
    "flipout": Flipout,
    "local_reparameterization": LocalReparameterization,
    "per_example": PerExample,
    "reparameterization": Reparameterization,
}


def get(identifier: str | dict[str, Any] | Estimator) -> Estimator:
    """The estimator a user means: an object, its name, or its config.

    Raises:
        ValueError: if the name is unknown.
    """
    return choose("estimator", identifier, Estimator, _NAMES)


def _one_sample(
    x: tf.Tensor,
    linear: Linear,
    kernel: Posterior,
    bias: Posterior | None,
    *,
    key: tf.Tensor,
    sample_and_kl: Callable[[Posterior, tf.Tensor], tuple[tf.Tensor, tf.Tensor]],
) -> tuple[tf.Tensor, tf.Tensor]:
    w, kl = sample_and_kl(kernel, random.fold_in(key, 0))
    y = linear(x, tf.cast(w, x.dtype))
    if bias is None:
        return y, kl
    b, bias_kl = sample_and_kl(bias, random.fold_in(key, 1))
    return y + tf.cast(b, y.dtype), kl + bias_kl


def _signs(key: tf.Tensor, stream: int, like: tf.Tensor) -> tf.Tensor:
    channels = like.shape[-1]
    shape = [tf.shape(like)[0], *[1] * (len(like.shape) - 2), channels]
    signs = random.rademacher(random.fold_in(key, stream), tf.stack(shape), like.dtype)
    return tf.ensure_shape(signs, [like.shape[0], *shape[1:]])


def _safe_sqrt(variance: tf.Tensor) -> tf.Tensor:
    """Square root whose gradient at 0 is 0 and not infinite (an all-zero row has variance 0)."""
    return tf.sqrt(tf.maximum(variance, tf.constant(1e-30, variance.dtype)))

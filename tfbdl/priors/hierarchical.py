"""Priors whose scales are unknown, w ~ N(0, s^2) and s ~ p(s), with their own posterior over s."""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from tfbdl import random
from tfbdl.arguments import shown
from tfbdl.inherited_arguments import NameAndType, Unpack
from tfbdl.priors.base import HALF_LOG_2PI, Prior
from tfbdl.priors.groups import Groups
from tfbdl.priors.hyperpriors import Hyperprior
from tfbdl.priors.log_normal_posterior import LogNormalPosterior
from tfbdl.priors.normal import Normal


class Hierarchical(Prior):
    """p(w, s) = N(w; 0, s^2) p(s), where s is a product of scales that groups of weights share.

    Scales have log-normal posteriors, independent of each other and of q(w), which are learned
    with it. With KL(q(s) || p(s)) in the loss beside E_q(s)[KL(q(w) || p(w | s))], the bound is one
    on the evidence of the whole hierarchy; both are in closed form, but for the quadrature of some
    p(s).

    An object holds the scales of one weight; it may be given to several weights of one shape, which
    then share them. Biases that are given no prior of their own have `Normal(1.0)`.

    Args:
        scales: the name of each factor of s, the groups that share it, and its p(s). The
            posterior of a factor is the attribute `<name>_posterior`.
        trainable: whether q(s) is learned; if not it stays where it starts (see
            `LogNormalPosterior`).
        **kwargs: `name` and `dtype`, as in `keras.layers.Layer`.

    Raises:
        ValueError: if `scales` are no such mapping, or empty; when it is given to weights of
            different shapes, or of a shape without such groups.
    """

    def __init__(
        self,
        scales: Mapping[str, tuple[Groups, Hyperprior]],
        *,
        trainable: bool = True,
        **kwargs: Unpack[NameAndType],
    ) -> None:
        super().__init__(trainable=trainable, **kwargs)
        if not isinstance(scales, Mapping) or not scales or not all(map(_is_scale, scales.items())):
            raise ValueError(
                f"scales={shown(scales)} must hold (Groups, Hyperprior) by name, at least one"
            )
        self._scales = [(name, *scale) for name, scale in scales.items()]

    @abc.abstractmethod
    def get_config(self) -> dict[str, Any]:
        return super().get_config()

    def attach(self, shape: tuple[int, ...]) -> None:
        super().attach(shape)
        if tuple(shape) != self._weight_shape:
            raise ValueError(
                f"prior={type(self).__name__} holds the scales of a weight of shape "
                f"{self._weight_shape}; give that of shape {tuple(shape)} a prior of its own"
            )

    def build(self, shape: tuple[int, ...]) -> None:
        self._weight_shape = tuple(shape)
        for name, groups, hyperprior in self._scales:
            q = LogNormalPosterior(self, name, groups, self._weight_shape, hyperprior)
            setattr(self, f"{name}_posterior", q)

    def get_build_config(self) -> None:
        """None: the shape is that of the weight."""

    def for_bias(self) -> Prior:
        return Normal(1.0)

    @property
    def _posteriors(self) -> list[LogNormalPosterior]:
        return [getattr(self, f"{name}_posterior") for name, *_ in self._scales]

    @property
    def scale(self) -> tf.Tensor:
        """The median of s under q, in a shape that broadcasts against the weight's."""
        return tf.exp(self._log_scale(tf.float32)[0])

    def _log_scale(self, dtype: tf.DType) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean and variance of log s under q, which broadcast against the weight."""

        def total(values: list[tf.Tensor]) -> tf.Tensor:
            pairs = zip(self._scales, values, strict=True)
            scales = [g.broadcast(value, self._weight_shape) for (_, g, _), value in pairs]
            return tf.cast(sum(scales[1:], scales[0]), dtype)

        return (
            total([q.mean for q in self._posteriors]),
            total([tf.square(q.stddev) for q in self._posteriors]),
        )

    def log_prob(self, w: tf.Tensor) -> tf.Tensor:
        """E_q(s)[log N(w; 0, s^2)] of each element."""
        return self.expected_log_prob(w, tf.zeros_like(w))

    def expected_log_prob(self, mu: tf.Tensor, sigma: tf.Tensor) -> tf.Tensor:
        """E_q(s)[E log N(w; 0, s^2)] under w ~ N(mu, sigma^2), from E[log s] and E[s^-2]."""
        mean, variance = self._log_scale(mu.dtype)
        largest = math.log(mu.dtype.max) - 8.0
        factor = tf.exp(tf.minimum(0.5 * (variance - mean), largest))  # twice: the square overflows
        second_moment = sum(tf.square(v * factor * factor) for v in (mu, sigma))
        return -0.5 * second_moment - mean - HALF_LOG_2PI

    def kl(self) -> tf.Tensor:
        """KL(q(s) || p(s)), in nats."""
        return tf.add_n([q.kl() for q in self._posteriors])

    def sample(self, key: tf.Tensor, shape: tuple[int, ...]) -> tf.Tensor:
        """Scales from p(s), weights from p(w | s)."""
        log_scales = [
            groups.broadcast(hyperprior.sample(random.fold_in(key, i), groups.shape(shape)), shape)
            for i, (_, groups, hyperprior) in enumerate(self._scales)
        ]
        noise = random.normal(random.fold_in(key, len(log_scales)), shape)
        return tf.exp(sum(log_scales[1:], log_scales[0])) * noise


def _is_scale(item: tuple[Any, Any]) -> bool:
    match item:
        case (str(), (Groups(), Hyperprior())):
            return True
    return False

"""The horseshoe: weights are pulled to zero, or left alone (Carvalho, Polson, Scott 2010)."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl.arguments import positive
from tfbdl.examples import as_array, check_finite
from tfbdl.inherited_arguments import NameAndType, Unpack
from tfbdl.priors.groups import Groups
from tfbdl.priors.hierarchical import Hierarchical
from tfbdl.priors.hyperpriors import HalfCauchy

_SERIES = [-((-1.0) ** k) / (k * math.factorial(k)) for k in range(1, 20)]
_DEPTH = 40
_ONLY_Z = 60.0
"""The least log z where the continued fraction equals z in every precision."""


@keras.saving.register_keras_serializable(package="tfbdl.priors")
class Horseshoe(Hierarchical):
    """w ~ N(0, tau^2 lambda^2) with a half-Cauchy lambda for each group and one half-Cauchy tau.

    tau ~ C+(0, scale) says how sparse the tensor is, lambda ~ C+(0, 1) which groups are not. Under
    q(w), q(lambda) and q(tau), all independent, it shrinks noise more and signals less than a
    normal prior does. Scales of units (`groups="input"` or `"output"`; Ghosh, Yao, Doshi-Velez
    2018) cost less than those of weights, whose hyperpriors are integrated by quadrature over as
    many numbers as there are weights, 41 times.

    Args:
        scale: the scale of tau, > 0; small where few weights are expected to matter.
        groups: the weights that share a lambda: `"weight"`, `"input"`, `"output"`, `"layer"`, or
            the number of equal parts of the last axis (the gates of an LSTM: 4, of a GRU: 3).
        trainable: whether q(lambda) and q(tau) are learned.
        **kwargs: `name` and `dtype`, as in `keras.layers.Layer`.

    Raises:
        ValueError: if an argument is out of its range.
    """

    def __init__(
        self,
        scale: float = 1.0,
        groups: str | int = "weight",
        *,
        trainable: bool = True,
        **kwargs: Unpack[NameAndType],
    ) -> None:
        self.global_scale = positive("scale", scale, "a positive number: that of tau")
        self.groups = groups
        scales = {
            "local": (Groups(groups), HalfCauchy(1.0)),
            "global": (Groups("layer"), HalfCauchy(self.global_scale)),
        }
        super().__init__(scales, trainable=trainable, **kwargs)

    def marginal_log_prob(self, w: tf.Tensor, tau: float | None = None) -> tf.Tensor:
        """Log density p(w | tau) of a weight with a lambda of its own, integrated out, in nats.

        With z = w^2 / (2 tau^2) it is log(exp(z) E1(z)) - log tau - 3/2 log pi - 1/2 log 2 (the
        paper's theorem 1 bounds it). It has a pole at 0, and a gradient that falls off as -2 / w:
        large weights are not pulled.

        Args:
            w: any shape; numbers that are no floats are taken as float32.
            tau: > 0, by default the scale of its prior.

        Raises:
            ValueError: if `tau` is not a positive number, or `w` not of finite numbers.
        """
        tau = positive("tau", self.global_scale if tau is None else tau)
        w = _floats("w", w)
        log_z = 2.0 * (tf.math.log(tf.abs(w)) - math.log(tau)) - math.log(2.0)
        return log_exp_e1(log_z) - (math.log(tau) + 1.5 * math.log(math.pi) + 0.5 * math.log(2.0))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "scale": self.global_scale, "groups": self.groups}


def _floats(name: str, values: Any) -> tf.Tensor:
    """Finite numbers as a tensor of floats; other values raise ValueError."""
    if not (isinstance(values, tf.Variable) or tf.is_tensor(values)):
        array = as_array(name, values)
        check_finite(name, array)
        values = tf.convert_to_tensor(array)
    return values if values.dtype.is_floating else tf.cast(values, tf.float32)


def log_exp_e1(log_z: tf.Tensor) -> tf.Tensor:
    """log(exp(z) E1(z)) for any z > 0, E1 the exponential integral.

    Abramowitz and Stegun 1964: the series 5.1.11 below 1, the continued fraction 5.1.22 (its even
    part) above; within 1e-11 in float64.
    """
    small = tf.exp(tf.minimum(log_z, 0.0))
    series = tf.zeros_like(small)
    for coefficient in reversed(_SERIES):
        series = small * (series + coefficient)
    below = small + tf.math.log(series - tf.minimum(log_z, 0.0) - np.euler_gamma)
    beyond = tf.maximum(log_z - _ONLY_Z, 0.0)
    large = tf.exp(tf.maximum(log_z, 0.0) - beyond)
    fraction = large + (2.0 * _DEPTH + 1.0)
    for k in range(_DEPTH, 0, -1):
        fraction = large + (2.0 * k - 1.0) - k**2 / fraction
    return tf.where(log_z < 0.0, below, -tf.math.log(fraction) - beyond)

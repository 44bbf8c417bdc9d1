"""Dropout whose rate is learned, through a relaxed Bernoulli mask (Gal, Hron, Kendall 2017).

With keep probability k_q of input unit q of a layer with kernel W, mask e_q ~ RelaxedBernoulli(k_q)
and inputs x_q e_q / k_q, the layer's share of the negative ELBO is

    KL = sum_q  l^2 / 2 ||W_q||^2 / k_q  -  H(k_q)        (nats per data set),

since a weight has the value m_q = W_q / k_q when it is kept, and k_q l^2 / 2 ||m_q||^2 is the
slides' form of the same term.
"""

from __future__ import annotations

import math
from typing import Any

import keras
import tensorflow as tf

from tfbdl import random
from tfbdl.arguments import boolean, instance, not_negative, number, positive
from tfbdl.draws import accept_draws, handed_down
from tfbdl.inherited_arguments import LayerArguments, Unpack
from tfbdl.kl_term import KLTerm

_LARGEST_EXPONENT = 80.0
"""The exponential of it is finite in float32."""


def entropy(logits: tf.Tensor) -> tf.Tensor:
    """Entropy of Bernoulli(sigmoid(logits)) in nats, elementwise; exact however large the logit."""
    kept = tf.sigmoid(logits) * tf.math.log_sigmoid(logits)
    dropped = tf.sigmoid(-logits) * tf.math.log_sigmoid(-logits)
    return -kept - dropped


@keras.saving.register_keras_serializable(package="tfbdl")
class ConcreteDropout(keras.layers.Wrapper):
    """Drops inputs of the wrapped layer at a learned rate: `ConcreteDropout(Dense(10), ...)`.

    Masks hold for a unit of the last axis as a whole: for convolutions channels, for sequences all
    steps. `training=True` draws a mask for each example, a draw (`tfbdl.draws`) one mask for all x,
    `training=False` none.

    Args:
        layer: a layer with a `kernel` whose second-to-last axis is the input's last axis: Dense,
            Conv1D, Conv2D, Conv3D and the like, channels last.
        num_data: N, the number of training examples; required, since the KL enters as KL / N.
        lengthscale: l of the prior w ~ N(0, l^-2) over the wrapped layer's kernel. The default is
            that of Gal and Ghahramani's regression experiments.
        temperature: the temperature of the relaxation, > 0. Gal, Hron, Kendall use 0.1, and 2/3 for
            channels.
        per_unit: whether each input unit learns a rate of its own (the slides), or the layer one.
        initial_rate: drop probability at the start, in (0, 1).
        logit_scale: keep probabilities are sigmoid(logit_scale * variable), > 0. An optimizer such
            as Adam moves the variable by its learning rate a step and so the logit logit_scale
            times as far; 10 lets rates settle within a few thousand steps.
        seed: as in Keras.
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.

    Raises:
        ValueError: if an argument is out of its range, or the layer has no such kernel.
    """

    def __init__(
        self,
        layer: keras.layers.Layer,
        *,
        num_data: int,
        lengthscale: float = 1e-2,
        temperature: float = 0.1,
        per_unit: bool = False,
        initial_rate: float = 0.1,
        logit_scale: float = 1.0,
        seed: int | None = None,
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        instance(
            "layer", layer, keras.layers.Layer, "a Keras layer, such as keras.layers.Dense(10)"
        )
        super().__init__(layer, **kwargs)
        if getattr(layer, "data_format", None) == "channels_first":
            raise ValueError(f"layer={layer.name} has channels first; use channels_last")
        if "Transpose" in type(layer).__name__:
            raise ValueError(f"layer={layer.name} is transposed; wrap Dense or a convolution")
        self.lengthscale = not_negative("lengthscale", lengthscale, ">= 0")
        self.temperature = positive("temperature", temperature, "> 0")
        self.per_unit = boolean("per_unit", per_unit)
        self.initial_rate = number("initial_rate", initial_rate, lambda v: 0 < v < 1, "in (0, 1)")
        self.logit_scale = positive("logit_scale", logit_scale, "> 0")
        self.kl_term = KLTerm(num_data, names=("wd", "ent"))
        self.seed = random.Seed(seed)
        self.supports_masking = True
        accept_draws(self)

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        super().build(input_shape)
        units = input_shape[-1]
        kernel_shape = getattr(getattr(self.layer, "kernel", None), "shape", ())
        if len(kernel_shape) < 2 or kernel_shape[-2] != units:
            raise ValueError(
                f"layer={self.layer.name} ({type(self.layer).__name__}) has no kernel over its "
                f"{units} input units; ConcreteDropout wraps Dense and convolution layers"
            )
        start = math.log1p(-self.initial_rate) - math.log(self.initial_rate)
        self.scaled_logit = self.add_weight(
            shape=(units,) if self.per_unit else (),
            initializer=keras.initializers.Constant(start / self.logit_scale),
            autocast=False,
            name="scaled_logit",
        )

    @property
    def keep_logit(self) -> tf.Tensor:
        """log(k / (1 - k)) of the keep probabilities."""
        return self.logit_scale * tf.convert_to_tensor(self.scaled_logit)

    @property
    def keep_prob(self) -> tf.Tensor:
        """Learned keep probabilities: shape (input units,) with `per_unit`, else ()."""
        return tf.sigmoid(self.keep_logit)

    def call(
        self, inputs: tf.Tensor, training: bool = False, draw: tf.Tensor | None = None
    ) -> tf.Tensor:
        draw = handed_down(draw)
        key = self.seed.key(training, draw)
        if key is not None:
            batch = tf.shape(inputs)[0] if draw is None else 1
            shape = tf.stack([batch] + [1] * (len(inputs.shape) - 2) + [inputs.shape[-1]])
            mask = random.relaxed_bernoulli(key, self.keep_logit, self.temperature, shape)
            inverse = 1.0 + tf.exp(tf.minimum(-self.keep_logit, _LARGEST_EXPONENT))
            inputs *= tf.cast(mask * inverse, inputs.dtype)
        y = self.layer(inputs)
        wd, ent = self.weight_term(), self.entropy_term()
        self.kl_term.add(wd - ent, training, wd=wd, ent=ent)
        return y

    def weight_term(self) -> tf.Tensor:
        """sum_q l^2 / 2 ||W_q||^2 / k_q, in nats per data set."""
        kernel = tf.convert_to_tensor(self.layer.kernel)
        kernel = tf.cast(kernel, self.keep_logit.dtype)
        other_axes = [axis for axis in range(len(kernel.shape)) if axis != len(kernel.shape) - 2]
        norms = tf.reduce_sum(tf.square(kernel), axis=other_axes)
        pulls = 0.5 * self.lengthscale**2 * norms
        root = tf.exp(tf.minimum(-0.5 * self.keep_logit, _LARGEST_EXPONENT))
        return tf.reduce_sum(pulls + pulls * root * root)  # 1 / k, which may overflow, is 1 + odds

    def entropy_term(self) -> tf.Tensor:
        """sum_q H(k_q), in nats per data set."""
        per_probability = 1 if self.per_unit else self.layer.kernel.shape[-2]
        return per_probability * tf.reduce_sum(entropy(self.keep_logit))

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        return self.layer.compute_output_shape(input_shape)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_data": self.kl_term.num_data,
            "lengthscale": self.lengthscale,
            "temperature": self.temperature,
            "per_unit": self.per_unit,
            "initial_rate": self.initial_rate,
            "logit_scale": self.logit_scale,
            "seed": self.seed.seed,
        }

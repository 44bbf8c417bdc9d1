"""A last layer that gives mean and variance of its outputs, so that no weight is sampled."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tfbdl import posteriors, priors
from tfbdl.arguments import boolean, optional, positive, positive_integer
from tfbdl.draws import handed_down
from tfbdl.identifiers import initializer
from tfbdl.inherited_arguments import LayerArguments, Unpack
from tfbdl.layers.base import BayesLayer
from tfbdl.layers.learned_scale import LearnedScale


@keras.saving.register_keras_serializable(package="tfbdl")
class VariationalLastLayer(BayesLayer):
    """f = W^T (x, 1) with W ~ q: the outputs are the means of f, and behind them its variances.

    This is the variational Bayesian last layer of Harrison et al. (2024, "Variational Bayesian last
    layers"): q is over the last layer alone, and its loss has no noise. Under
    `tfbdl.likelihoods.Expected` the loss of an example is -E_q[log p(y | f(x))], in closed form or
    by a bound, and KL(q, p) / N is in the model's losses, whatever trains the layers before it. For
    known noise and fixed features q = p(W | data) at the optimum, where the loss is minus the log
    evidence, divided by N.

        network = keras.Sequential([..., VariationalLastLayer(1, num_data=len(x))])
        network.compile("adam", likelihoods.Expected(likelihoods.Normal(0.1)))

    Input (B, d), output (B, 2 units); with `learned_scale` (B, 3 units), raw scales between means
    and variances. A draw (`tfbdl.draws`) is one function, whose variance is 0, so that
    `tfbdl.predict` averages p(y | f(x)) over functions as for every other model.

    Args:
        units: number of outputs of f.
        num_data: N, the number of training examples; required, since the KL enters as KL / N.
        prior: p(W), as in `BayesDense`, of the bias too.
        posterior: a normal family of q(W). The default has a full covariance of the weights into
            each output; `"mean_field"` and `"low_rank"` need less where d is large.
        use_bias: whether x is followed by a 1, so that W has a row of biases.
        learned_scale: the first of noise scales that are learned, one an output, for
            `Expected(Normal("predicted"))`; None for none.
        kl: as in `BayesDense`.
        kernel_initializer: the start of the means, of biases too.
        seed: as in Keras; training needs no noise, draws do.
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.

    Raises:
        ValueError: if an argument is out of its range, or products with q(W) are not normal.
    """

    size_arguments = ("units",)
    without_bias = "the biases are a row of W"

    def __init__(
        self,
        units: int,
        *,
        num_data: int,
        prior: float | str | dict[str, Any] | priors.Prior = 1.0,
        posterior: str | dict[str, Any] | posteriors.Posterior = "per_output",
        use_bias: bool = True,
        learned_scale: float | None = None,
        kl: str = "auto",
        kernel_initializer: str | keras.initializers.Initializer = "glorot_uniform",
        seed: int | None = None,
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        super().__init__(
            num_data=num_data, prior=prior, posterior=posterior, kl=kl, seed=seed, **kwargs
        )
        self.units = positive_integer("units", units)
        self.use_bias = boolean("use_bias", use_bias)
        self.learned_scale = optional(positive, "learned_scale", learned_scale)
        self.scale = None
        if self.learned_scale is not None:
            self.scale = LearnedScale(self.learned_scale, dtype=self.variable_dtype)
        self.kernel_initializer = initializer("kernel_initializer", kernel_initializer)
        self.input_spec = keras.layers.InputSpec(ndim=2)

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        d_in = input_shape[-1]
        if d_in is None:
            raise ValueError(f"input_shape={input_shape} must have a known last dimension")
        shape = (d_in + self.use_bias, self.units)
        self.add_random_weight("kernel", shape, self.kernel_initializer, self.prior, self.posterior)
        self.kernel.product_variance(tf.zeros((1, shape[0]), self.variable_dtype))
        if self.scale is not None:
            self.scale.build((None, self.units))
        self.input_spec = keras.layers.InputSpec(ndim=2, axes={-1: d_in})
        self.built = True

    def call(
        self, inputs: tf.Tensor, training: bool = False, draw: tf.Tensor | None = None
    ) -> tf.Tensor:
        draw = handed_down(draw)
        inputs = tf.cast(inputs, self.variable_dtype)
        if self.use_bias:
            inputs = tf.concat([inputs, tf.ones_like(inputs[:, :1])], axis=-1)
        (w,), kl = self.weights_at(draw)
        self.add_kl(kl, training)
        f = tf.matmul(inputs, tf.cast(w, self.variable_dtype))
        variance = self.kernel.product_variance(inputs) if draw is None else tf.zeros_like(f)
        return tf.concat([f if self.scale is None else self.scale(f), variance], axis=-1)

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        return (*input_shape[:-1], (2 if self.scale is None else 3) * self.units)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "units": self.units,
            "use_bias": self.use_bias,
            "learned_scale": self.learned_scale,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }

"""A Gaussian process of random features as last layer (Liu et al. 2020, SNGP)."""

from __future__ import annotations

import math
from typing import Any

import keras
import tensorflow as tf

from tfbdl import random
from tfbdl.arguments import boolean, not_negative, option, positive, positive_integer
from tfbdl.draws import accept_draws, handed_down
from tfbdl.inherited_arguments import LayerArguments, Unpack
from tfbdl.kl_term import KLTerm
from tfbdl.layers.laplace_root import LaplaceRoot
from tfbdl.memory import require

LIKELIHOODS = ("categorical", "bernoulli", "normal")


@keras.saving.register_keras_serializable(package="tfbdl")
class RandomFeatureGP(keras.layers.Layer):
    """f = phi(x)^T beta, with phi(x) = sqrt(2 / D) cos(W x + b) and beta ~ N(0, 1 / ridge).

    For D random features, W ~ N(0, length_scale^-2) and b uniform on [0, 2 pi), f is a Gaussian
    process with the kernel exp(-|x - x'|^2 / (2 length_scale^2)) / ridge, in the limit of many
    (Rahimi and Recht 2007). As last layer of a network it is unsure of all that is far from the
    data, in the distance that x has kept; so the layers before it are to keep distances, by
    `BoundedSpectralNormalization` (Liu et al. 2020, "Simple and principled uncertainty estimation
    with deterministic deep learning via distance awareness").

    beta is trained to its mode: ridge |beta|^2 / (2 N) is in the losses. Its posterior is the
    Laplace approximation there, N(beta, Lambda^-1), with

        Lambda = ridge I + sum_i h_i phi_i phi_i^T,

    h_i the curvature of the loss of example i: p (1 - p) of classes, 1 / noise_scale^2 under normal
    noise, where it is exact. Training adds up the sum; when N examples have gone by, it becomes the
    posterior and begins anew. So `predict` uses the posterior of the last whole pass, and before
    the first one the prior. Where a pass has not N examples, as when the last batch is left out,
    the sum is scaled to N.

    Input (B, d), output (B, units). A draw (`tfbdl.draws`) is one function, beta ~ N(beta,
    Lambda^-1). Without one, in inference, logits are f / sqrt(1 + mean_field_factor Var[f]), whose
    sigmoid approximates E[sigmoid(f)] (MacKay 1992), and whose softmax stands for E[softmax(f)] in
    the same way (Lu et al. 2020, "Mean-field approximation to Gaussian-softmax integral").

    Args:
        units: number of outputs of f.
        num_data: N, the number of training examples; required, as in `BayesDense`.
        likelihood: `"categorical"` or `"bernoulli"` of logits, or `"normal"`.
        num_features: D; time and memory grow with D^2, and once a pass with D^3.
        length_scale: the distance of x at which f has become another, > 0. The default suits
            inputs whose distances are about 1, as those of normalised layers.
        ridge: the prior precision of beta, > 0; the paper's 1.
        noise_scale: standard deviation of the noise under `"normal"`.
        per_output: whether each output has a Lambda of its own, as its own p (1 - p) says. By
            default all share the Lambda of the likeliest class, whose p (1 - p) is the largest, in
            1 / units of the time and memory.
        mean_field_factor: as above; 0 for the mean of f. It is not used under `"normal"`.
        seed: the seed of W and b, and of draws, as in Keras.
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.

    Attributes:
        beta: shape (D, units).

    Raises:
        ValueError: if an argument is out of its range, or the matrices do not fit into memory.
    """

    def __init__(
        self,
        units: int,
        *,
        num_data: int,
        likelihood: str = "categorical",
        num_features: int = 1024,
        length_scale: float = 1.0,
        ridge: float = 1.0,
        noise_scale: float = 1.0,
        per_output: bool = False,
        mean_field_factor: float = math.pi / 8.0,
        seed: int | None = None,
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.units = positive_integer("units", units)
        self.likelihood = option("likelihood", likelihood, LIKELIHOODS)
        self.num_features = positive_integer("num_features", num_features)
        self.length_scale = positive("length_scale", length_scale)
        self.ridge = positive("ridge", ridge)
        self.noise_scale = positive("noise_scale", noise_scale)
        self.per_output = boolean("per_output", per_output)
        self.mean_field_factor = not_negative("mean_field_factor", mean_field_factor)
        self.kl_term = KLTerm(num_data, ("wd",))
        self.root = LaplaceRoot(num_data, self.ridge, dtype=self.variable_dtype)
        self.seed = random.Seed(seed)
        self.input_spec = keras.layers.InputSpec(ndim=2)
        accept_draws(self)

    @property
    def num_data(self) -> int:
        """N, the number of training examples."""
        return self.kl_term.num_data

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        d, size = input_shape[-1], self.num_features
        if d is None:
            raise ValueError(f"input_shape={input_shape} must have a known last dimension")
        matrices = self.units if self.per_output else 1
        what = f"num_features={size} of layer {self.name!r}"
        require(12 * matrices * size**2 + 4 * d * size, what, "take fewer")
        key = self.seed.state.value[0]
        fixed = {"trainable": False, "autocast": False}
        self.directions = self.add_weight(
            shape=(d, size),
            initializer=lambda shape, dtype: (
                random.normal(random.fold_in(key, 0), shape, dtype) / self.length_scale
            ),
            name="directions",
            **fixed,
        )
        self.phases = self.add_weight(
            shape=(size,),
            initializer=lambda shape, dtype: (
                2.0 * math.pi * random.uniform(random.fold_in(key, 1), shape, dtype)
            ),
            name="phases",
            **fixed,
        )
        self.beta = self.add_weight(
            shape=(size, self.units), initializer="zeros", autocast=False, name="beta"
        )
        self.root.build((matrices, size))
        self.input_spec = keras.layers.InputSpec(ndim=2, axes={-1: d})
        self.built = True

    def call(
        self, inputs: tf.Tensor, training: bool = False, draw: tf.Tensor | None = None
    ) -> tf.Tensor:
        draw = handed_down(draw)
        phi, beta = self.features(inputs), tf.convert_to_tensor(self.beta)
        cost = 0.5 * self.ridge * tf.reduce_sum(tf.square(beta))
        self.kl_term.add(cost, training, wd=cost)
        if draw is not None:
            shape = (self.num_features, self.units)
            noise = random.normal(self.seed.at(draw), shape, beta.dtype)
            return tf.matmul(phi, beta + self.root.times(noise))
        f = tf.matmul(phi, beta)
        if training:
            self.root.add(tf.stop_gradient(phi), self._curvature(tf.stop_gradient(f)))
        elif self.mean_field_factor > 0 and self.likelihood != "normal":
            return f / tf.sqrt(1.0 + self.mean_field_factor * self.root.variance(phi))
        return f

    def features(self, x: tf.Tensor) -> tf.Tensor:
        """The random features phi(x), shape (B, D)."""
        x = tf.cast(x, self.variable_dtype)
        angles = tf.matmul(x, tf.convert_to_tensor(self.directions))
        angles += tf.convert_to_tensor(self.phases)
        return math.sqrt(2.0 / self.num_features) * tf.cos(angles)

    def variance(self, x: tf.Tensor) -> tf.Tensor:
        """Var[f(x)] under the posterior, shape (B, units)."""
        variance = self.root.variance(self.features(x))
        return tf.broadcast_to(variance, [tf.shape(variance)[0], self.units])

    def _curvature(self, f: tf.Tensor) -> tf.Tensor:
        """The curvature h of each example's loss, in each output or in all, shape (B, 1 or C)."""
        if self.likelihood == "normal":
            h = tf.fill(tf.shape(f), tf.cast(self.noise_scale**-2, f.dtype))
        else:
            p = tf.nn.softmax(f) if self.likelihood == "categorical" else tf.sigmoid(f)
            h = p * (1.0 - p)
        return h if self.per_output else tf.reduce_max(h, axis=-1, keepdims=True)

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        return (*input_shape[:-1], self.units)

    def get_config(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in _ARGUMENTS}
        return {**super().get_config(), **own, "seed": self.seed.seed}


_ARGUMENTS = (
    *("units", "num_data", "likelihood", "num_features", "length_scale", "ridge"),
    *("noise_scale", "per_output", "mean_field_factor"),
)

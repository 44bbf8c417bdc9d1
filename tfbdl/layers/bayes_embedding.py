"""The embedding with a distribution over its table."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl import posteriors, priors
from tfbdl.arguments import boolean, positive_integer
from tfbdl.draws import handed_down
from tfbdl.examples import examples
from tfbdl.identifiers import initializer
from tfbdl.inherited_arguments import LayerArguments, Unpack
from tfbdl.layers.shared_sample import SharedSample


@keras.saving.register_keras_serializable(package="tfbdl")
class BayesEmbedding(SharedSample):
    """Rows of a table E ~ q for integers, and KL(q || p) / num_data in the model's losses.

    `training=True` samples the table, `training=False` uses its mean, and a draw
    (`tfbdl.draws`) names one table. Equal integers have equal vectors in a training step and in
    a draw. At the mean it is `keras.layers.Embedding`. Input (...) of integers below `input_dim`,
    of which negative ones count from the end; output (..., output_dim).

    Args:
        input_dim: number of rows: the greatest integer and one.
        output_dim: length of the vectors.
        embeddings_initializer: the start of the table's means.
        mask_zero: whether 0 is padding, which later layers skip.
        weights: the start of the table's means, in the place of the initializer: an array of shape
            (input_dim, output_dim). As in Keras, the configuration does not hold it.
        num_data: N, the number of training examples; required, since the KL enters as KL / N.
        prior: p(w), as in `BayesDense`; an input unit is a row.
        posterior: the family of q(w), as in `BayesDense`.
        kl: as in `BayesDense`.
        activity_regularizer: as in `keras.layers.Layer`.
        seed: as in `BayesDense`.
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.

    Raises:
        ValueError: if an argument is out of its range.
    """

    size_arguments = ("input_dim", "output_dim")
    without_bias = "an embedding has none"

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        embeddings_initializer: str | keras.initializers.Initializer = "uniform",
        *,
        mask_zero: bool = False,
        weights: Any = None,
        num_data: int,
        prior: float | str | dict[str, Any] | priors.Prior = 1.0,
        posterior: str | dict[str, Any] | posteriors.Posterior = "mean_field",
        kl: str = "auto",
        activity_regularizer: Any = None,
        seed: int | None = None,
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        super().__init__(
            num_data=num_data,
            prior=prior,
            posterior=posterior,
            kl=kl,
            activity_regularizer=activity_regularizer,
            seed=seed,
            **kwargs,
        )
        self.input_dim = positive_integer("input_dim", input_dim)
        self.output_dim = positive_integer("output_dim", output_dim)
        self.embeddings_initializer = initializer("embeddings_initializer", embeddings_initializer)
        self.mask_zero = boolean("mask_zero", mask_zero)
        self.supports_masking = self.mask_zero
        self.autocast = False  # integers given as floats would be rounded
        self._start = None if weights is None else self._table(weights, embeddings_initializer)

    def _table(self, weights: Any, beside: Any) -> np.ndarray:
        """`weights` without the list that Keras has around them."""
        array = examples("weights", weights, "float32")
        shape = (self.input_dim, self.output_dim)
        if array.shape not in (shape, (1, *shape)):
            raise ValueError(
                f"weights of shape {array.shape} must have the shape "
                f"(input_dim, output_dim)={shape}"
            )
        if not isinstance(beside, str) or beside != "uniform":
            raise ValueError(
                "embeddings_initializer is given beside weights, which say where the means start; "
                "leave one out"
            )
        return array.reshape(shape)

    def build(self, input_shape: tuple[int | None, ...] | None = None) -> None:
        start = self._start
        begin = (
            self.embeddings_initializer
            if start is None
            else lambda shape, dtype=None: tf.constant(start, dtype)
        )
        shape = (self.input_dim, self.output_dim)
        self.add_random_weight("embeddings", shape, begin, self.prior, self.posterior)
        self.built = True

    def call(
        self, inputs: tf.Tensor, training: bool = False, draw: tf.Tensor | None = None
    ) -> tf.Tensor:
        draw = handed_down(draw)
        (table,) = self.weights_now(training, draw)
        rows = inputs if inputs.dtype in (tf.int32, tf.int64) else tf.cast(inputs, tf.int32)
        return tf.gather(table, tf.where(rows < 0, rows + self.input_dim, rows))

    def compute_mask(self, x: tf.Tensor, mask: Any = None) -> tf.Tensor | None:
        return keras.ops.not_equal(x, 0) if self.mask_zero else None

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        return (*input_shape, self.output_dim)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "input_dim": self.input_dim,
            "output_dim": self.output_dim,
            "embeddings_initializer": keras.initializers.serialize(self.embeddings_initializer),
            "mask_zero": self.mask_zero,
        }

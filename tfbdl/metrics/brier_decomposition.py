"""The decomposition of the Brier score over batches, from sums per class and bin."""

from __future__ import annotations

import keras
import tensorflow as tf

from tfbdl.metrics.binned_classes import BinnedClasses


@keras.saving.register_keras_serializable(package="tfbdl")
class BrierDecomposition(BinnedClasses):
    """`brier_decomposition` over batches, exact; arguments as in `BinnedClasses`.

    The result is a dict of scalars, one for each attribute of `BrierComponents`, named
    `<name>_reliability` and so on; Keras logs each.
    """

    sums = ("weight", "p", "outcome", "p_squared", "p_outcome")

    def __init__(
        self,
        num_classes: int,
        num_bins: int = 15,
        from_logits: bool = False,
        name: str = "brier",
        dtype: str = "float64",
    ) -> None:
        super().__init__(num_classes, num_bins, from_logits, name, dtype)

    def summands(self, p: tf.Tensor, outcome: tf.Tensor) -> list[tf.Tensor]:
        return [tf.ones_like(p), p, outcome, tf.square(p), p * outcome]

    def result(self) -> dict[str, tf.Tensor]:
        weight = tf.convert_to_tensor(self.weight)
        total = tf.reduce_sum(weight, axis=1, keepdims=True)
        share = tf.math.divide_no_nan(weight, total)
        mean_p, mean_outcome, mean_square, mean_product = (
            tf.math.divide_no_nan(tf.convert_to_tensor(getattr(self, of_bin)), weight)
            for of_bin in ("p", "outcome", "p_squared", "p_outcome")
        )
        base_rate = tf.reduce_sum(share * mean_outcome, axis=1, keepdims=True)
        parts = {
            "reliability": share * tf.square(mean_p - mean_outcome),
            "resolution": share * tf.square(mean_outcome - base_rate),
            "uncertainty": base_rate * (1.0 - base_rate),
            "within_bin_variance": share * (mean_square - tf.square(mean_p)),
            "within_bin_covariance": 2.0 * share * (mean_product - mean_p * mean_outcome),
        }
        return {f"{self.name}_{part}": tf.reduce_sum(each) for part, each in parts.items()}

"""Several Monte-Carlo samples a training step: 1/S sum_s of the loss at w_s ~ q.

The expected log likelihood of the bound is estimated by S samples (Kingma and Welling 2014,
equation 7, with L = S; Blundell et al. 2015, equation 2). KL / N is in the loss of every sample, so
that it counts once in their mean.
"""

from __future__ import annotations

from types import MethodType
from typing import Any

import keras

from tfbdl.arguments import positive_integer
from tfbdl.keras_private import takes_training_of_loss
from tfbdl.model_arguments import keras_model
from tfbdl.training.checks import check_told_of_training

_TRAIN_STEP = keras.Model.train_step


def set_num_samples(model: keras.Model, num_samples: int) -> None:
    """Averages the loss of each training step over S samples of what is random in `model`.

    It holds for `model.fit` and `tfbdl.train` alike, and for all that samples in training: random
    weights, dropout, the z of a VAE. The gradient keeps its mean; the part of its variance that
    comes from the noise is 1/S as large, and the part that comes from the batch stays. A step takes
    up to S times as long, and the memory of S forward passes. Compiled metrics are those of the
    first sample. It is a setting of the training and not saved with the model.

    Args:
        model: a Keras model with the `train_step` of Keras.
        num_samples: S; 1, as at the start, is the papers' choice. Where noise is drawn for each
            example (dropout, flipout, local reparameterisation, a VAE) a batch S times as large
            lowers both parts of the variance at the same price; where one sample of the weights
            serves a whole batch, hardly, and S samples do.

    Raises:
        ValueError: if `num_samples` < 1, or `model` has a `train_step` of its own, a `compute_loss`
            that is not told of training, or layers that are not.
    """
    S = positive_integer("num_samples", num_samples)
    kind = type(keras_model("model", model))
    if kind.train_step is not _TRAIN_STEP:
        raise ValueError(
            f"model={model.name} has a train_step of its own; average over samples in it"
        )
    if not takes_training_of_loss(model):
        raise ValueError(
            f"model={model.name}: let {kind.__name__}.compute_loss take `training`, as in Keras 3"
        )
    check_told_of_training(model)

    def compute_loss(  # noqa: PLR0917  (as Keras passes them)
        self: keras.Model,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        loss_at = type(self).compute_loss
        loss = loss_at(self, x, y, y_pred, sample_weight, training)
        if not training:
            return loss
        for _ in range(S - 1):
            y_pred = self(x, training=True)
            loss += loss_at(self, x, y, y_pred, sample_weight, training)
        return loss / S

    vars(model).pop("compute_loss", None)
    if S > 1:
        compute_loss.num_samples = S  # type: ignore[attr-defined]
        model.compute_loss = MethodType(compute_loss, model)
    model.train_function = None


def num_samples_of(model: keras.Model) -> int:
    """The S that `set_num_samples` has set."""
    return getattr(model.compute_loss, "num_samples", 1)

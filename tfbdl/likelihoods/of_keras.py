"""Likelihoods of losses that are Keras' own."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl.identifiers import of_keras
from tfbdl.likelihoods.base import Likelihood
from tfbdl.likelihoods.bernoulli import Bernoulli
from tfbdl.likelihoods.categorical import Categorical

_OF_KERAS: dict[Any, type[Categorical] | type[Bernoulli]] = {
    keras.losses.SparseCategoricalCrossentropy: Categorical,
    keras.losses.CategoricalCrossentropy: Categorical,
    keras.losses.BinaryCrossentropy: Bernoulli,
    keras.losses.sparse_categorical_crossentropy: Categorical,
    keras.losses.categorical_crossentropy: Categorical,
    keras.losses.binary_crossentropy: Bernoulli,
}


def of_loss(loss: Any) -> Likelihood | None:
    """The likelihood whose negative logarithm a Keras loss is; None where it is none of ours.

    Cross-entropies over the last axis are known. Squared error is not: it leaves the noise open.

    Args:
        loss: the value that was given to `compile`: an object, a name, a function, or None.

    Raises:
        ValueError: if it is none of these.
    """
    if loss is None or isinstance(loss, (list, tuple, dict)):
        return None
    loss = of_keras("loss", loss, keras.losses.get)
    if isinstance(loss, Likelihood):
        return loss
    if isinstance(loss, keras.losses.Loss) and loss.get_config().get("axis", -1) != -1:
        return None
    kind = loss if callable(loss) and not isinstance(loss, keras.losses.Loss) else type(loss)
    family = _OF_KERAS.get(kind)
    if family is None:
        return None
    from_logits = bool(getattr(loss, "from_logits", False))
    if family is Bernoulli:
        return Bernoulli(from_logits)
    return Categorical(from_logits, getattr(loss, "ignore_class", None))


def check_loss_targets(loss: Any, y: Any, outputs: tf.Tensor) -> None:
    """Raises ValueError where a loss meets targets that its likelihood gives no probability.

    Args:
        loss: the value that was given to `compile`. Nothing is checked where `of_loss` knows no
            likelihood.
        y: all targets, shape (N, ...).
        outputs: the outputs of the network for any one example or more.
    """
    likelihood = of_loss(loss)
    if likelihood is not None:
        likelihood.check_targets(np.asarray(y), outputs)

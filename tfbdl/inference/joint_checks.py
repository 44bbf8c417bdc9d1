"""Networks that can train side by side, since each would train the same alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl.flat_model import FlatModel
from tfbdl.keras_private_training import compiled_with, excludes_from_decay
from tfbdl.models.alike import OF_START, layer_configs

_OF_EACH_NUMBER = (
    *(keras.optimizers.SGD, keras.optimizers.RMSprop, keras.optimizers.Adagrad),
    *(keras.optimizers.Adam, keras.optimizers.AdamW, keras.optimizers.Nadam),
    *(keras.optimizers.Adamax, keras.optimizers.Adadelta, keras.optimizers.Lion),
)
"""The optimizers of Keras that move each number by its own gradients."""

_OF_SEVERAL = (
    *("clipnorm", "global_clipnorm", "use_ema", "gradient_accumulation_steps"),
    "loss_scale_factor",
)
"""Settings by which they look at more than one number and one step."""


def check_together(networks: Sequence[keras.Model], x: Any) -> None:
    """Raises ValueError unless these networks train side by side as they would alone.

    Args:
        networks: built and compiled.
        x: some inputs.
    """
    first = networks[0]
    settings = _settings(first)
    fault = _fault(first, FlatModel(first), x)
    for k, network in enumerate(networks[1:], 1):
        others = _settings(network)
        differ = [what for what in settings if settings[what] != others[what]]
        differ += [] if _frozen_alike(first, network) else ["frozen weight"]
        fault = fault or (f"gives member {k} another {differ[0]} than member 0" if differ else None)
    if fault is not None:
        raise ValueError(f"build_model {fault}, which cannot train together; call fit")


def _fault(network: keras.Model, flat: FlatModel, x: Any) -> str | None:
    """What keeps networks like this one from training side by side, in words; None if nothing."""
    optimizer, weights = network.optimizer, network.trainable_variables
    name, kind = type(optimizer).__name__, type(network)
    of_several = [setting for setting in _OF_SEVERAL if getattr(optimizer, setting, None)]
    bound = [v.path for v in weights if v.constraint is not None]
    scaled = any(v.overwrite_with_gradient for v in weights)
    faults = {
        f"compiles with {name}, not known to move each weight by its own gradients": (
            type(optimizer) not in _OF_EACH_NUMBER
        ),
        f"compiles with {name}({', '.join(of_several)})": of_several,
        f"compiles with {name} that excludes weights from decay": excludes_from_decay(optimizer),
        f"compiles with {name} that has moved weights already": optimizer.built,
        f"makes {kind.__name__}, which has a train_step of its own": (
            kind.train_step is not keras.Model.train_step
        ),
        f"makes the weight {bound[:1]} with a constraint": bound,
        "makes weights of several types": scaled or len({v.dtype for v in weights}) > 1,
        "makes layers that draw or keep something in training, such as Dropout": (
            not _is_same_in_training(flat, x)
        ),
    }
    return next((words for words, holds in faults.items() if holds), None)


def _is_same_in_training(flat: FlatModel, x: Any) -> bool:
    weights = [tf.convert_to_tensor(v) for v in flat.model.trainable_variables]
    modes = [
        flat.model.stateless_call(weights, flat.state, x, **mode)
        for mode in (flat.inference, flat.training)
    ]
    outputs = zip(*map(keras.tree.flatten, modes), strict=True)
    return all(np.array_equal(a, b, equal_nan=True) for a, b in outputs)


def _settings(network: keras.Model) -> dict[str, Any]:
    """What steps of a training depend on but the weights, by name."""
    optimizer, given = network.optimizer, compiled_with(network)
    losses = [_described(loss) for loss in keras.tree.flatten(given["loss"])]
    return {
        "optimizer": (type(optimizer), repr({**optimizer.get_config(), "name": None})),
        "loss": (losses, repr(given["loss_weights"])),
        "setting of layers": layer_configs(network, OF_START),
    }


def _frozen_alike(first: keras.Model, other: keras.Model) -> bool:
    """Whether variables that are not trained are equal, but for the states of unused noise."""
    pairs = zip(first.non_trainable_variables, other.non_trainable_variables, strict=True)
    return all(np.array_equal(v, w) for v, w in pairs if "float" in v.dtype)


def _described(loss: Any) -> Any:
    if isinstance(loss, keras.losses.Loss):
        return type(loss), repr({**loss.get_config(), "name": None})
    return getattr(loss, "__qualname__", loss)

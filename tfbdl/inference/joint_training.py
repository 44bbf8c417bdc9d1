"""Networks alike that train side by side: one compiled step moves all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl.flat_model import FlatModel
from tfbdl.graphs import Compiled
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
    fault = _fault(first, FlatModel(first), x)
    for k, network in enumerate(networks[1:], 1):
        differ = [what for what, own in _settings(first).items() if own != _settings(network)[what]]
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
    frozen = [np.asarray(v).tolist() for v in network.non_trainable_variables if "float" in v.dtype]
    losses = [_described(loss) for loss in keras.tree.flatten(given["loss"])]
    return {
        "optimizer": (type(optimizer), repr({**optimizer.get_config(), "name": None})),
        "loss": (losses, repr(given["loss_weights"])),
        "setting of layers": layer_configs(network, OF_START),
        "frozen weight": repr(frozen),
    }


def _described(loss: Any) -> Any:
    if isinstance(loss, keras.losses.Loss):
        return type(loss), repr({**loss.get_config(), "name": None})
    return getattr(loss, "__qualname__", loss)


def epochs_together(
    networks: Sequence[keras.Model],
    data: tuple[Any, ...],
    orders: Iterator[Any],
    *,
    batch_size: int,
    jit_compile: bool | None = None,
) -> Iterator[np.ndarray]:
    """The weights of all networks, shape (K, D), before the first epoch and after each.

    The loss of network k, with the weights theta_k, is that it is compiled with, on batches of its
    own, and what its layers add. All weights are one variable, (K, D), which an optimizer that
    moves each number by its own gradients moves as if networks were alone.

    Args:
        networks: such as `check_together` lets pass. They are not changed.
        data: (x,) or (x, y) on the device, shapes (N, ...), in the structure of the networks.
        orders: the examples in the order of each network, shape (K, N), one array an epoch.
        batch_size: B; examples of an epoch that fill no batch are left out.
        jit_compile: whether XLA compiles an epoch, as in `tfbdl.train`.
    """
    network = networks[0]
    flat, state = FlatModel(network), FlatModel(network).state
    variables = [*network.trainable_variables, *network.non_trainable_variables]
    theta = keras.Variable(tf.stack([FlatModel(other).theta for other in networks]))
    optimizer = type(network.optimizer).from_config(network.optimizer.get_config())
    optimizer.build([theta])

    def loss(x: Any, y: Any = None) -> tf.Tensor:
        outputs = network(x, **flat.training)
        return network.compute_loss(x=x, y=y, y_pred=outputs, training=True)

    def gradient(member: tuple[Any, ...]) -> tf.Tensor:
        theta, *batch = member
        with tf.GradientTape() as tape:
            tape.watch(theta)
            values = [*flat.unflatten(theta), *state]
            with keras.StatelessScope(
                list(zip(variables, values, strict=True)), collect_losses=True
            ):
                value = loss(*batch)
        return tape.gradient(value, theta)

    def epoch(order: tf.Tensor) -> None:
        num_steps = order.shape[1] // batch_size
        rows = tf.reshape(order[:, : num_steps * batch_size], (-1, num_steps, batch_size))
        rows = tf.transpose(rows, (1, 0, 2))

        def step(i: tf.Tensor) -> tuple[tf.Tensor]:
            batch = keras.tree.map_structure(lambda array: tf.gather(array, rows[i]), data)
            members = (tf.convert_to_tensor(theta.value), *batch)
            optimizer.apply([tf.vectorized_map(gradient, members)], [theta])
            return (i + 1,)

        tf.while_loop(lambda i: i < num_steps, step, (tf.constant(0),))

    loss(*keras.tree.map_structure(lambda array: array[:1], data))  # makes what the loss keeps
    compiled = Compiled(epoch, jit_compile)
    yield theta.numpy()
    for order in orders:
        compiled(tf.constant(order, tf.int32))
        yield theta.numpy()

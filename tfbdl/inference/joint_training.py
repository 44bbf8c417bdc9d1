"""Networks alike that train side by side: one compiled step moves all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl.flat_model import FlatModel
from tfbdl.likelihoods import Likelihood

_OF_EACH_NUMBER = (
    *(keras.optimizers.SGD, keras.optimizers.RMSprop, keras.optimizers.Adagrad),
    *(keras.optimizers.Adam, keras.optimizers.AdamW, keras.optimizers.Nadam),
    *(keras.optimizers.Adamax, keras.optimizers.Adadelta, keras.optimizers.Lion),
)
"""The optimizers of Keras that move each number by its own gradients."""


def check_together(network: keras.Model, x: Any) -> None:
    """Raises ValueError unless networks like this one train side by side as they would alone.

    Args:
        network: compiled.
        x: some inputs.
    """
    optimizer, name = network.optimizer, type(network.optimizer).__name__
    if type(optimizer) not in _OF_EACH_NUMBER:
        names = ", ".join(kind.__name__ for kind in _OF_EACH_NUMBER)
        raise ValueError(
            f"model={network.name} is compiled with {name}, which is not known to move each "
            f"weight by its own gradients; take one of {names}, or call fit"
        )
    settings = ("clipnorm", "global_clipnorm", "use_ema", "gradient_accumulation_steps")
    of_all = [setting for setting in settings if getattr(optimizer, setting)]
    if of_all:
        raise ValueError(
            f"model={network.name} is compiled with {name}({of_all[0]}=...), which looks at more "
            "than one weight or step; leave it out, or call fit"
        )
    bound = [v.path for v in network.trainable_variables if v.constraint is not None]
    if bound:
        raise ValueError(f"weight={bound[0]!r} has a constraint; leave it out, or call fit")
    if len({v.dtype for v in network.trainable_variables}) > 1:
        raise ValueError(f"model={network.name} has weights of several types; call fit")
    state = [tf.convert_to_tensor(v) for v in network.non_trainable_variables]
    weights = [tf.convert_to_tensor(v) for v in network.trainable_variables]
    modes = [network.stateless_call(weights, state, x, training=mode) for mode in (False, True)]
    if not all(map(np.array_equal, *map(keras.tree.flatten, modes))):
        raise ValueError(
            f"model={network.name} has layers that draw or keep something while it trains, such "
            "as Dropout and BatchNormalization; call fit"
        )


def epochs_together(
    networks: Sequence[keras.Model],
    likelihood: Likelihood,
    x: Any,
    y: Any,
    orders: Iterator[Any],
    *,
    optimizer: keras.optimizers.Optimizer,
    batch_size: int,
    jit_compile: bool | None = True,
) -> Iterator[np.ndarray]:
    """The weights of all networks, shape (K, D), before the first epoch and after each.

    The loss of network k, with the weights theta_k, is -1/B sum_b log p(y_b | f(theta_k, x_b)) on
    batches of its own, and what its regularisers add. All weights are one variable, (K, D), which
    an optimizer that moves each number by its own gradients moves as if networks were alone.

    Args:
        networks: of one architecture, deterministic in training.
        likelihood: p(y | f(x)).
        x: inputs, shape (N, ...), in the structure in which networks take them.
        y: targets, shape (N, ...).
        orders: the examples in the order of each network, shape (K, N), one array an epoch.
        optimizer: one that moves each number by its own gradients.
        batch_size: B; examples of an epoch that fill no batch are left out.
        jit_compile: whether XLA compiles an epoch.
    """
    flat, state = FlatModel(networks[0]), FlatModel(networks[0]).state
    theta = keras.Variable(tf.stack([FlatModel(network).theta for network in networks]))
    optimizer.build([theta])

    def gradient(member: tuple[Any, ...]) -> tf.Tensor:
        theta, x, y = member
        with tf.GradientTape() as tape:
            tape.watch(theta)
            outputs, _, added = flat.model.stateless_call(
                flat.unflatten(theta), state, x, return_losses=True, **flat.training
            )
            loss = tf.add_n([-tf.reduce_mean(likelihood.log_prob(y, outputs)), *added])
        return tape.gradient(loss, theta)

    @tf.function(autograph=False, jit_compile=jit_compile)
    def epoch(order: tf.Tensor) -> None:
        num_steps = order.shape[1] // batch_size
        rows = tf.reshape(order[:, : num_steps * batch_size], (-1, num_steps, batch_size))
        rows = tf.transpose(rows, (1, 0, 2))

        def step(i: tf.Tensor) -> tuple[tf.Tensor]:
            batch = tf.nest.map_structure(lambda array: tf.gather(array, rows[i]), (x, y))
            members = (tf.convert_to_tensor(theta.value), *batch)
            optimizer.apply([tf.vectorized_map(gradient, members)], [theta])
            return (i + 1,)

        tf.while_loop(lambda i: i < num_steps, step, (tf.constant(0),))

    yield theta.numpy()
    for order in orders:
        epoch(tf.constant(order, tf.int32))
        yield theta.numpy()

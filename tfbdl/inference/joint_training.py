"""Networks alike that train side by side: one compiled step moves all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl.flat_model import FlatModel
from tfbdl.graphs import Compiled
from tfbdl.inference.joint_checks import check_together
from tfbdl.sources import kind_of
from tfbdl.training import checks
from tfbdl.training.feed import Arrays, Examples, feed_of, order_of_epoch
from tfbdl.training.loop import TrainingError


def train_together(
    networks: Sequence[keras.Model],
    x: Any,
    y: Any,
    *,
    epochs: int,
    batch_size: int | None,
    seed: int,
    jit_compile: bool | None,
) -> None:
    """Trains network k as `tfbdl.train` does with the seed `seed + k`, on the same arrays.

    Raises:
        ValueError: as `tfbdl.train`, if x is no arrays, or as `check_together`.
        TrainingError: if weights are not finite after an epoch.
    """
    first = networks[0]
    asked: dict[str, Any] = {"epochs": epochs, "batch_size": batch_size, "jit_compile": jit_compile}
    checks.check(first, seed=seed, columns=None, callbacks=(), verbose=0, **asked)
    if callable(x) or kind_of(x) is not None:
        raise ValueError("x is no arrays, which members that train together need; call fit")
    given = Examples(x, y, None, None, None, batch_size, None)
    feed = feed_of(first, given, epochs=epochs, seed=seed)
    assert isinstance(feed, Arrays)
    check_together(networks, keras.tree.map_structure(lambda array: array[:2], feed.data[0]))
    seeds = range(seed, seed + len(networks))
    orders = (
        np.stack([order_of_epoch(feed.num_data, own, epoch) for own in seeds])
        for epoch in range(1, epochs + 1)
    )
    path = epochs_together(
        networks, feed.data, orders, batch_size=feed.batch_size, jit_compile=jit_compile
    )
    for epoch, weights in enumerate(path):
        lost = np.flatnonzero(~np.isfinite(weights).all(axis=1))
        if lost.size:
            raise TrainingError(
                f"weights of member {lost[0]} are not finite after epoch {epoch}; lower the "
                "learning rate, or look at the data"
            )
    for network, theta in zip(networks, weights, strict=True):
        FlatModel(network).assign(tf.constant(theta))


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
    network, flats = networks[0], [FlatModel(network) for network in networks]
    flat, state = flats[0], flats[0].state
    variables = [*network.trainable_variables, *network.non_trainable_variables]
    theta = keras.Variable(tf.stack([each.theta for each in flats]))
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

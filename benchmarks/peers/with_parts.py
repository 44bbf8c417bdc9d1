"""The parts of a step of Bayes by Backprop, each alone: what no step can save.

Noise and weights, w = mu + softplus(rho) eps; matrix products, forward and backward; the KL, and
the gradients with respect to mu and rho; Adam on both. Biases are a row more of the weights.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from functools import partial

os.environ.setdefault("TFBDL_QUIET", "1")

import tfbdl  # noqa: F401  # isort: skip  (before anything that imports TensorFlow)

import tensorflow as tf
import work

from tfbdl import random

Round = Callable[[], dict[str, float]]


class Layer:
    """The tensors of a layer.

    Attributes:
        mu, rho: parameters of the posterior.
        w, eps: drawn weights, and their noise.
        gradients: the gradients of the loss with respect to w, mu and rho.
        first, second: moments of Adam for mu and rho.
    """

    def __init__(self, inputs: int, units: int) -> None:
        shape = (inputs + 1, units)
        self.mu = tf.Variable(0.05 * tf.random.normal(shape))
        self.rho = tf.Variable(tf.fill(shape, -3.0))
        self.w, self.eps = (tf.Variable(tf.zeros(shape)) for _ in range(2))
        self.gradients = [tf.Variable(tf.zeros(shape)) for _ in range(3)]
        self.first, self.second = ([tf.Variable(tf.zeros(shape)) for _ in "12"] for _ in "12")

    def draw(self, key: tf.Tensor) -> None:
        """New weights."""
        self.eps.assign(random.normal(key, self.mu.shape))
        self.w.assign(self.mu + tf.nn.softplus(self.rho) * self.eps)

    def differentiate(self, num_data: int) -> None:
        """The gradients that the KL / N from N(0, 1) adds, and those through the weights."""
        sigma = tf.nn.softplus(self.rho)
        of_w, of_mu, of_rho = self.gradients
        of_mu.assign(of_w + self.mu / num_data)
        of_sigma = of_w * self.eps + (sigma - 1.0 / sigma) / num_data
        of_rho.assign(of_sigma * tf.sigmoid(self.rho))

    def update(self) -> None:
        """A step of Adam."""
        tensors = (self.mu, self.rho), self.first, self.second, self.gradients[1:]
        for w, m, v, g in zip(*tensors, strict=True):
            m.assign(0.9 * m + 0.1 * g)
            v.assign(0.999 * v + 0.001 * g * g)
            w.assign_sub(work.LEARNING_RATE * m / (tf.sqrt(v) + 1e-7))


def bbb_one(sizes: tuple[int, ...] = work.NETWORK, batch: int = work.BATCH) -> Round:
    """As many steps of each part, one part after the other."""
    layers = [Layer(*pair) for pair in itertools.pairwise(sizes)]
    num_data = work.STEPS * batch
    x, y = map(tf.constant, work.images(num_data))

    def draw(step: tf.Tensor) -> None:
        for i, layer in enumerate(layers):
            layer.draw(random.fold_in(random.fold_in(tf.constant(0, tf.int64), step), i))

    def multiply(step: tf.Tensor) -> None:
        h, weights = x[step * batch : (step + 1) * batch], [layer.w for layer in layers]
        with tf.GradientTape() as tape:
            for i, w in enumerate(weights):
                h = (tf.nn.relu(h) if i else h) @ w[:-1] + w[-1]
            labels = y[step * batch : (step + 1) * batch]
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, h)
            loss = tf.reduce_mean(losses)
        for layer, gradient in zip(layers, tape.gradient(loss, weights), strict=True):
            layer.gradients[0].assign(gradient)

    def differentiate(step: tf.Tensor) -> None:
        del step
        for layer in layers:
            layer.differentiate(num_data)

    def update(step: tf.Tensor) -> None:
        del step
        for layer in layers:
            layer.update()

    def repeated(part: Callable[[tf.Tensor], None]) -> Callable[[], None]:
        compiled = tf.function(part, jit_compile=True, autograph=False)

        @tf.function
        def run() -> None:
            for step in tf.range(work.STEPS):
                compiled(step)

        return run

    parts = [repeated(part) for part in (draw, multiply, differentiate, update)]

    def run() -> dict[str, float]:
        for part in parts:
            part()
        return {"units": work.STEPS}

    return run


bbb_wide = partial(bbb_one, work.WIDE, work.WIDE_BATCH)

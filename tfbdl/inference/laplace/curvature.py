"""Curvatures of -log p(y | f(x)) in the weights: directions of the Jacobian, or all of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfbdl.arguments import option
from tfbdl.inference.laplace.information import OfClasses, Rooted
from tfbdl.inference.laplace.jacobian import Cotangents, rows
from tfbdl.inference.laplace.output_fisher import information, information_root
from tfbdl.likelihoods import Likelihood

CURVATURES = ("ggn", "ef", "mc_fisher", "hessian")


def checked_curvature(kind: str, structure: str) -> str:
    """`kind`, if it is one of `CURVATURES` and goes with a Hessian structure.

    Raises:
        ValueError: if it does not.
    """
    if option("curvature", kind, CURVATURES) == "hessian" and structure != "full":
        raise ValueError(f"curvature='hessian' is for hessian_structure='full', not {structure!r}")
    return kind


def cotangents(
    kind: str,
    likelihood: Likelihood,
    y: tf.Tensor,
    key: tf.Tensor,
    some: tuple[tf.Tensor, int] | None = None,
) -> Cotangents:
    """Directions s in the space of the outputs with H = sum over examples and s of J^T s s^T J.

    Args:
        kind: "ggn": columns of a root of the Fisher information of the outputs; of the information
            in y where that is not known. "ef": the gradient
            of log p(y | f), alone. "mc_fisher": the same of one y drawn from p(y | f).
        likelihood: p(y | f).
        y: targets.
        key: the key of the noise of "mc_fisher".
        some: the first direction and the number of them, for "ggn"; None for all.
    """
    if kind == "ggn" and some is not None:
        return lambda outputs: _some_columns(likelihood, y, outputs, *some)
    if kind == "ggn":
        return lambda outputs: tf.transpose(information_root(likelihood, y, outputs), [2, 0, 1])
    if kind == "ef":
        return lambda outputs: _score(likelihood, y, outputs)
    return lambda outputs: _score(
        likelihood, tf.stop_gradient(likelihood.sample(key, outputs)), outputs
    )


def _score(likelihood: Likelihood, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
    """The gradient of log p(y | f) in f, shape (1, B, F)."""
    with tf.GradientTape() as tape:
        tape.watch(outputs)
        log_prob = likelihood.log_prob(y, outputs)
    return rows(tape.gradient(log_prob, outputs))[tf.newaxis]


def _some_columns(
    likelihood: Likelihood, y: tf.Tensor, outputs: tf.Tensor, start: tf.Tensor, count: int
) -> tf.Tensor:
    """Some columns of a root of the information, zeros behind the last, shape (count, B, F)."""
    known = information(likelihood, outputs)
    columns = start + tf.range(count)
    if known is None or isinstance(known, Rooted):
        root = information_root(likelihood, y, outputs)
        root = tf.pad(root, [[0, 0], [0, 0], [0, count]])
        return tf.transpose(tf.gather(root, columns, axis=2), [2, 0, 1])
    num, total = outputs.shape[0], math.prod(outputs.shape[1:])
    values = tf.reshape(known[0], [num, -1, known[0].shape[1]])  # (B, T, O)
    positions, size = values.shape[1:]
    here = tf.gather(values, tf.minimum(columns // size, positions - 1), axis=1)  # (B, count, O)
    unit = tf.one_hot(columns % size, size, dtype=outputs.dtype)
    root = tf.sqrt(tf.reduce_sum(here * unit, axis=2, keepdims=True))
    column = root * (unit - here) if isinstance(known, OfClasses) else root * unit
    place = tf.one_hot(columns // size, positions, dtype=outputs.dtype)  # 0 behind the last
    return tf.reshape(tf.einsum("bko,kt->kbto", column, place), [count, num, total])


def hessian(
    function: Callable[[tf.Tensor], tf.Tensor], at: tf.Tensor, over: Callable[..., Any]
) -> tf.Tensor:
    """The second derivatives of a scalar function of p numbers, shape (p, p), row by row.

    Args:
        function: a function of a tensor of shape (p,).
        at: where.
        over: maps a function over the rows of a matrix (`Jacobian.map`).
    """

    def row(direction: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as second:
            second.watch(at)
            with tf.GradientTape() as first:
                first.watch(at)
                value = function(at)
            slope = tf.reduce_sum(first.gradient(value, at) * direction)
        return second.gradient(slope, at, unconnected_gradients="zero")

    return over(row, tf.eye(at.shape[0], dtype=at.dtype), at.dtype)

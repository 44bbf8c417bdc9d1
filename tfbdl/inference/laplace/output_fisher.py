"""The Fisher information that y carries about the outputs of a network.

The generalised Gauss-Newton matrix is J^T F J with F = E_y[-d^2 log p(y | f) / df^2], which is the
Hessian itself for the families whose outputs are natural parameters (Martens 2020, section 9), and
never indefinite for the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import singledispatch

import tensorflow as tf

from tfbdl import likelihoods
from tfbdl.inference.laplace.information import Independent, Information, OfClasses
from tfbdl.keras_private import keras_mask
from tfbdl.likelihoods import Likelihood
from tfbdl.likelihoods.base import positive
from tfbdl.likelihoods.positions import with_mask
from tfbdl.likelihoods.stirling import trigamma_rest

Link = Callable[[tf.Tensor], tf.Tensor]
_SMALLEST = 1e-30


def information_root(likelihood: Likelihood, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
    """R with R R^T = F, shape (B, F, F), for outputs of shape (B, ...) with F numbers each.

    For a family whose F is not known here, -d^2 log p(y | f) / df^2 at the y that was observed
    stands for it, by automatic differentiation, less the directions in which that is negative: the
    generalised Gauss-Newton matrix of Schraudolph (2002) kept from being indefinite.

    Args:
        likelihood: a likelihood of logits, where it has classes.
        y: targets.
        outputs: the outputs of the network.
    """
    root = fisher_root(likelihood, outputs)
    return _observed_root(likelihood, y, outputs) if root is None else root


@singledispatch
def fisher_root(likelihood: Likelihood, outputs: tf.Tensor) -> tf.Tensor | None:
    """R with R R^T = E_y[-d^2 log p(y | f) / df^2]; None for families that are not known here."""
    known = information(likelihood, outputs)
    if known is None:
        return None
    size = num_of_position(outputs.shape)
    places = math.prod(outputs.shape[1:]) // size
    r = tf.reshape(known.root(), [-1, places, size, size])
    blocks = tf.einsum("btij,ts->btisj", r, tf.eye(places, dtype=r.dtype))
    return tf.reshape(blocks, [-1, places * size, places * size])


@singledispatch
def information(likelihood: Likelihood, outputs: tf.Tensor) -> Information | None:
    """E_y[-d^2 log p(y | f) / df^2] at each position; None for families that are not known here.

    Args:
        likelihood: a likelihood of logits, where it has classes.
        outputs: the outputs of the network, shape (B, ..., O), whose R positions are along all axes
            but the last.
    """
    return None


@information.register
def _(likelihood: likelihoods.Categorical, outputs: tf.Tensor) -> OfClasses:
    p = _positions(tf.nn.softmax(outputs))
    return OfClasses(p, tf.ones_like(p[:, 0]))


@information.register
def _(likelihood: likelihoods.Bernoulli, outputs: tf.Tensor) -> Independent:
    return Independent(_positions(tf.sigmoid(outputs) * tf.sigmoid(-outputs)))


@information.register
def _(likelihood: likelihoods.ContinuousBernoulli, outputs: tf.Tensor) -> Independent:
    return Independent(_positions(likelihood.variance(outputs)))


@information.register
def _(likelihood: likelihoods.Poisson, outputs: tf.Tensor) -> Independent:
    return Independent(_positions(tf.exp(outputs)))


@information.register(likelihoods.Normal)
@information.register(likelihoods.LogNormal)
def _(likelihood: likelihoods.Normal | likelihoods.LogNormal, outputs: tf.Tensor) -> Independent:
    """1 / sigma^2 for the mean, 2 / sigma^2 for sigma."""
    return _of_location_and_scale(likelihood, outputs, 1.0, 2.0)


@information.register
def _(likelihood: likelihoods.StudentT, outputs: tf.Tensor) -> Independent:
    """(Lange, Little, Taylor 1989, appendix B)."""
    df = likelihood.df
    return _of_location_and_scale(likelihood, outputs, (df + 1) / (df + 3), 2 * df / (df + 3))


@information.register
def _(likelihood: likelihoods.Gamma, outputs: tf.Tensor) -> Independent:
    """The shape a for log means, psi'(a) - 1 / a for a, uncorrelated (Cox and Reid 1987)."""
    if likelihood.shape != "predicted":
        return Independent(_positions(tf.zeros_like(outputs) + likelihood.shape))
    raw = tf.split(outputs, 2, axis=-1)[1]
    a = positive(raw)
    both = [a, trigamma_rest(a) * (tf.sigmoid(raw) / a) ** 2]
    return Independent(_positions(tf.concat(both, axis=-1)))


def _of_location_and_scale(
    likelihood: likelihoods.Normal | likelihoods.LogNormal | likelihoods.StudentT,
    outputs: tf.Tensor,
    of_location: float,
    of_scale: float,
) -> Independent:
    """The information of_location / scale^2 and of_scale / scale^2, uncorrelated."""
    precision = 1.0 / likelihood.distribution(outputs).scale ** 2
    if likelihood.scale != "predicted":
        return Independent(_positions(tf.zeros_like(outputs) + of_location * precision))
    slope = tf.sigmoid(tf.split(outputs, 2, axis=-1)[1])
    both = [of_location * precision, of_scale * precision * slope**2]
    return Independent(_positions(tf.concat(both, axis=-1)))


def _positions(values: tf.Tensor) -> tf.Tensor:
    """Values of shape (B, ..., O) as (R, O); of shape (B,) as (B, 1)."""
    return tf.reshape(values, [-1, num_of_position(values.shape)])


def _observed_root(likelihood: Likelihood, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
    with tf.GradientTape(persistent=True) as second:
        second.watch(outputs)
        with tf.GradientTape() as first:
            first.watch(outputs)
            log_prob = likelihood.log_prob(y, outputs)
        score = first.gradient(log_prob, outputs)
        numbers = tf.unstack(tf.reshape(score, [-1, tf.size(outputs[0])]), axis=1)
    rows = [second.gradient(s, outputs, unconnected_gradients="zero") for s in numbers]
    information = -tf.stack([tf.reshape(row, [-1, len(rows)]) for row in rows], axis=1)
    values, vectors = tf.linalg.eigh(0.5 * (information + tf.linalg.matrix_transpose(information)))
    return vectors * tf.sqrt(tf.maximum(values, 0.0))[:, tf.newaxis]


def num_of_position(shape: tf.TensorShape) -> int:
    """O, the numbers of each position of outputs of a shape (B, ..., O), or (B,)."""
    return shape[-1] if shape.rank > 1 else 1


def in_logits(likelihood: Likelihood) -> tuple[Likelihood, Link]:
    """The same law with logits for outputs, and how those come of the outputs.

    Raises:
        ValueError: if it has no curvature.
    """
    if not likelihood.has_curvature:
        raise ValueError(
            f"likelihood={likelihood!r} is no density, and has no curvature for Laplace; take "
            "another, or DeepEnsemble or dropout with this one"
        )
    if isinstance(likelihood, likelihoods.Categorical) and not likelihood.from_logits:
        return likelihoods.Categorical(ignore_class=likelihood.ignore_class), _masked_as_given(_log)
    if isinstance(likelihood, likelihoods.Bernoulli) and not likelihood.from_logits:
        return likelihoods.Bernoulli(), _masked_as_given(_logit)
    return likelihood, lambda outputs: outputs


def _masked_as_given(link: Link) -> Link:
    """A link whose outputs have the mask of what it is given."""
    return lambda p: with_mask(link(p), keras_mask(p))


def _log(p: tf.Tensor) -> tf.Tensor:
    return tf.math.log(tf.maximum(p, _SMALLEST))


def _logit(p: tf.Tensor) -> tf.Tensor:
    return _log(p) - _log(1.0 - p)

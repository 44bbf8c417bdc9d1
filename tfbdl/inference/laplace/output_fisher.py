"""The Fisher information that y carries about the outputs of a network.

The generalised Gauss-Newton matrix is J^T F J with F = E_y[-d^2 log p(y | f) / df^2], which is the
Hessian itself for the families whose outputs are natural parameters (Martens 2020, section 9), and
never indefinite for the others.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch

import tensorflow as tf

from tfbdl import likelihoods
from tfbdl.likelihoods import Likelihood

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
    return None


@fisher_root.register
def _(likelihood: likelihoods.Categorical, outputs: tf.Tensor) -> tf.Tensor:
    """diag(p) - p p^T = R R^T with R = diag(sqrt p) - p sqrt(p)^T, for each softmax."""
    p = tf.nn.softmax(outputs)
    root = tf.sqrt(p)
    r = tf.linalg.diag(root) - p[..., :, tf.newaxis] * root[..., tf.newaxis, :]
    classes = outputs.shape[-1]
    places = tf.size(outputs[0]) // classes
    r = tf.reshape(r, [-1, places, classes, classes])
    blocks = tf.einsum("btij,ts->btisj", r, tf.eye(places, dtype=r.dtype))
    return tf.reshape(blocks, [-1, places * classes, places * classes])


@fisher_root.register
def _(likelihood: likelihoods.Bernoulli, outputs: tf.Tensor) -> tf.Tensor:
    p = tf.sigmoid(outputs)
    return _diagonal(tf.sqrt(p * tf.sigmoid(-outputs)))


@fisher_root.register
def _(likelihood: likelihoods.ContinuousBernoulli, outputs: tf.Tensor) -> tf.Tensor:
    return _diagonal(tf.sqrt(likelihood.variance(outputs)))


@fisher_root.register
def _(likelihood: likelihoods.Poisson, outputs: tf.Tensor) -> tf.Tensor:
    return _diagonal(tf.exp(0.5 * outputs))


@fisher_root.register(likelihoods.Normal)
@fisher_root.register(likelihoods.LogNormal)
def _(likelihood: likelihoods.Normal | likelihoods.LogNormal, outputs: tf.Tensor) -> tf.Tensor:
    """1 / sigma^2 for the mean, 2 / sigma^2 for sigma."""
    return _of_location_and_scale(likelihood, outputs, 1.0, 2.0)


@fisher_root.register
def _(likelihood: likelihoods.StudentT, outputs: tf.Tensor) -> tf.Tensor:
    """(Lange, Little, Taylor 1989, appendix B)."""
    df = likelihood.df
    return _of_location_and_scale(likelihood, outputs, (df + 1) / (df + 3), 2 * df / (df + 3))


def _of_location_and_scale(
    likelihood: likelihoods.Normal | likelihoods.LogNormal | likelihoods.StudentT,
    outputs: tf.Tensor,
    of_location: float,
    of_scale: float,
) -> tf.Tensor:
    """A root of the information of_location / scale^2 and of_scale / scale^2, uncorrelated."""
    scale = likelihood.distribution(outputs).scale
    if likelihood.scale != "predicted":
        return _diagonal(tf.zeros_like(outputs) + of_location**0.5 / scale)
    raw = tf.split(outputs, 2, axis=-1)[1]
    roots = [of_location**0.5 / scale, of_scale**0.5 / scale * tf.sigmoid(raw)]
    return _diagonal(tf.concat(roots, axis=-1))


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


def _diagonal(root: tf.Tensor) -> tf.Tensor:
    return tf.linalg.diag(tf.reshape(root, [-1, tf.size(root[0])]))


def in_logits(likelihood: Likelihood) -> tuple[Likelihood, Link]:
    """The same law with logits for outputs, and how those come of the outputs."""
    if isinstance(likelihood, likelihoods.Categorical) and not likelihood.from_logits:
        return likelihoods.Categorical(), lambda p: tf.math.log(tf.maximum(p, _SMALLEST))
    if isinstance(likelihood, likelihoods.Bernoulli) and not likelihood.from_logits:
        return likelihoods.Bernoulli(), _logit
    return likelihood, lambda outputs: outputs


def _logit(p: tf.Tensor) -> tf.Tensor:
    return tf.math.log(tf.maximum(p, _SMALLEST)) - tf.math.log(tf.maximum(1.0 - p, _SMALLEST))

"""The families, each with a prior that goes with it, and their laws by NumPy and SciPy."""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
import scipy.special
import scipy.stats
import tensorflow as tf

from tfbdl import posteriors, priors, random

KEY = tf.constant(123, tf.int64)
SHAPE = (3, 4)
NORMAL = ("mean_field", "full_covariance", "matrix_normal", "per_output", "low_rank")
OTHERS = ("logistic", "laplace")
CONTINUOUS = {**dict.fromkeys(NORMAL + OTHERS, 1.0), "multiplicative": "log_uniform"}
FAMILIES = {**CONTINUOUS, "point": 1.0, "prior": 1.0, "relaxed_bernoulli": "bernoulli"}


def make(
    family: Any, prior: Any = None, shape: Any = SHAPE, dtype: str = "float64", **kwargs: Any
) -> Any:
    """A posterior of `family` over a weight of `shape`, its parameters away from their start.

    Numbers below a diagonal near 0.1 move less, so that covariances can be inverted in float32.
    """
    keras.utils.set_random_seed(0)
    owner = keras.layers.Layer(dtype=dtype)
    rng = np.random.default_rng(0)
    prior = priors.get(FAMILIES[family] if prior is None else prior)
    start = keras.initializers.GlorotUniform(0)
    q = posteriors.get(family).create(owner, "kernel", shape, start, prior, **kwargs)
    for variable in q.trainable_variables:
        spread = 0.05 if "below" in variable.name else 0.3
        variable.assign(variable + rng.normal(0, spread, variable.shape))
    return q


def keys(num: Any) -> Any:
    return random.split(KEY, num)


def samples(q: Any, num: Any) -> Any:
    """`num` weights, shape (num, D), in row-major order."""
    draw = tf.function(lambda keys: tf.vectorized_map(q.sample, keys))
    return draw(keys(num)).numpy().reshape(num, -1).astype(np.float64)


class Law(NamedTuple):
    """Law of a weight of D elements: mean (D,), covariance (D, D), and SciPy's distributions."""

    mean: np.ndarray
    covariance: np.ndarray
    logpdf: Callable[[np.ndarray], float]
    marginals: list[Any]
    entropy: float


def law(q: Any) -> Any:
    """What a continuous q is, from its variables alone, in float64."""
    value = {v.name: np.asarray(v.value, np.float64) for v in q.variables}
    mu = value["mu"].ravel()
    if isinstance(q, (posteriors.MeanFieldNormal, posteriors.InverseCDF)):
        return independent(q, mu, softplus(value["rho"]).ravel())
    if isinstance(q, posteriors.MultiplicativeNormal):
        alpha = np.exp(np.minimum(value["log_alpha"], 0)).ravel()
        return independent(q, mu, np.sqrt(alpha) * np.abs(mu))
    if isinstance(q, posteriors.FullCovarianceNormal):
        factor = triangular(q.factor.rho, q.factor.below)
        covariance = factor @ factor.T
    elif isinstance(q, posteriors.MatrixNormal):
        row, column = (
            triangular(factor.rho, factor.below) for factor in (q.row_factor, q.column_factor)
        )
        covariance = np.kron(row @ row.T, column @ column.T)
        return normal(mu, covariance, matrix_logpdf(mu, row @ row.T, column @ column.T))
    elif isinstance(q, posteriors.PerOutputNormal):
        rho, below = q.factors.rho.numpy(), q.factors.below
        units = np.eye(len(rho))
        factors = [triangular(rho[u], None if below is None else below[u]) for u in range(len(rho))]
        covariance = sum(np.kron(f @ f.T, np.diag(u)) for f, u in zip(factors, units, strict=True))
    else:
        covariance = np.diag(softplus(value["rho"]) ** 2) + value["v"] @ value["v"].T
    return normal(mu, covariance)


def normal(mu: Any, covariance: Any, logpdf: Any = None) -> Any:
    joint = scipy.stats.multivariate_normal(mu, covariance)
    marginals = [
        scipy.stats.norm(m, s) for m, s in zip(mu, np.sqrt(np.diag(covariance)), strict=True)
    ]
    return Law(mu, covariance, logpdf or joint.logpdf, marginals, float(joint.entropy()))


def matrix_logpdf(mu: Any, rows: Any, columns: Any) -> Any:
    shape = (len(rows), len(columns))
    joint = scipy.stats.matrix_normal(mu.reshape(shape), rows, columns)
    return lambda w: joint.logpdf(w.reshape(shape))


def independent(q: Any, mu: Any, sigma: Any) -> Any:
    kind, scale = {
        posteriors.Logistic: (scipy.stats.logistic, np.sqrt(3) / np.pi),
        posteriors.Laplace: (scipy.stats.laplace, np.sqrt(0.5)),
    }.get(type(q), (scipy.stats.norm, 1.0))
    marginals = [kind(m, scale * s) for m, s in zip(mu, sigma, strict=True)]
    entropy = sum(float(m.entropy()) for m in marginals)
    return Law(
        mu,
        np.diag(sigma**2),
        lambda w: sum(m.logpdf(v) for m, v in zip(marginals, w, strict=True)),
        marginals,
        entropy,
    )


def triangular(rho: Any, below: Any) -> Any:
    """As `tfp.math.fill_triangular` lays it out: `below` wound into rows from the last one up."""
    n = rho.shape[0]
    matrix = np.diag(softplus(np.asarray(rho, np.float64)))
    if n > 1:
        below = np.asarray(below, np.float64)
        packed = np.concatenate([below[n - 1 :], below[::-1]]).reshape(n - 1, n - 1)
        matrix[1:, :-1] += np.tril(packed)
    return matrix


def softplus(x: Any) -> Any:
    return np.logaddexp(0, x)

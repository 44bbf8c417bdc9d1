"""Slow and obvious references for curvature, in float64: one example and one output at a time."""

import functools
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl import likelihoods
from tfbdl.flat_model import FlatModel, in_precision
from tfbdl.inference import Laplace

RNG = np.random.default_rng(0)
NUM = 11
X = RNG.normal(size=(NUM, 3))
DELTA = 0.8


def network(
    units: Any = (4,),
    outputs: int = 3,
    activation: str = "tanh",
    use_bias: bool = True,
    last: Any = None,
) -> Any:
    keras.utils.set_random_seed(1)
    stack = [keras.layers.Dense(u, activation, use_bias=use_bias) for u in units]
    last = keras.layers.Dense(outputs, last, use_bias=use_bias, name="last")
    return randomised(keras.Sequential([keras.Input((3,)), *stack, last]))


def randomised(model: Any) -> Any:
    """All weights drawn anew, biases too."""
    for number, v in enumerate(model.trainable_variables):
        v.assign(np.random.default_rng(number).normal(size=v.shape) * 0.7)
    return model


CASES = {
    "normal": (likelihoods.Normal(0.7), 1, RNG.normal(size=(NUM, 1))),
    "categorical": (likelihoods.Categorical(), 3, RNG.integers(0, 3, NUM)),
    "bernoulli": (likelihoods.Bernoulli(), 2, RNG.integers(0, 2, (NUM, 2))),
    "poisson": (likelihoods.Poisson(), 1, RNG.poisson(2.0, (NUM, 1))),
    "heteroscedastic": (likelihoods.Normal("predicted"), 2, RNG.normal(size=(NUM, 1))),
    "student": (likelihoods.StudentT(5.0, 0.6), 1, RNG.normal(size=(NUM, 1))),
    "student_scale": (likelihoods.StudentT(5.0, "predicted"), 2, RNG.normal(size=(NUM, 1))),
    "gamma": (likelihoods.Gamma(1.5), 1, RNG.gamma(1.5, size=(NUM, 1))),
    "grey": (likelihoods.ContinuousBernoulli(), 1, RNG.uniform(size=(NUM, 1))),
}


def case(name: str) -> Any:
    """A likelihood, a network and targets."""
    likelihood, outputs, y = CASES[name]
    return likelihood, network(outputs=outputs), y


def fitted(model: Any, likelihood: Any, y: Any, x: Any = X, **arguments: Any) -> Any:
    """A Laplace approximation in float64; of all weights, in full, where nothing else is said."""
    settings = {
        "subset_of_weights": "all",
        "hessian_structure": "full",
        "prior_precision": DELTA,
        "dtype": "float64",
        "jit_compile": False,
        **arguments,
    }
    batch_size = settings.pop("batch_size", 4)
    return Laplace(model, likelihood, **settings).fit(x, y, batch_size=batch_size)


@functools.cache
def fitted_case(name: str, **arguments: Any) -> Any:
    """`fitted` of a case, made once; not to be changed."""
    likelihood, model, y = case(name)
    return fitted(model, likelihood, y, **arguments)


def precision(laplace: Any) -> Any:
    """The posterior's precision, shape (P, P), from its covariance over all directions.

    The draws of unit noises are the columns of a root of the covariance.
    """
    size = laplace._subset.size
    noise = tf.eye(size, dtype=tf.float64)
    root = laplace._result.precision.sample(noise, laplace._posterior)
    return np.linalg.inv(root.T @ root)


def curvature(laplace: Any, delta: Any = DELTA) -> Any:
    return precision(laplace) - delta * np.eye(laplace._subset.size)


def jacobians(model: Any, x: Any) -> Any:
    """J of each example, shape (N, F, D), from one gradient at a time, in float64."""
    flat, theta = wide(model)

    @tf.function(autograph=False)
    def gradient(one: Any, k: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(theta)
            value = tf.reshape(flat(theta, one[None]), [-1])[k]
        return tape.gradient(value, theta, unconnected_gradients="zero")

    size = int(tf.size(flat(theta, x[:1])))
    rows = [[gradient(tf.constant(one), tf.constant(k)) for k in range(size)] for one in x]
    return np.array(rows)


def outputs(model: Any, x: Any) -> Any:
    """The outputs in float64, shape (N, ...)."""
    flat, theta = wide(model)
    return flat(theta, tf.constant(x)).numpy()


def wide(model: Any) -> Any:
    """The model as a function of theta in float64."""
    flat = FlatModel(in_precision(model, "float64"))
    return flat, flat.theta


def scores(likelihood: Any, y: Any, f: Any) -> Any:
    """Gradients of log p(y | f) in f, shape (N, F)."""
    f = tf.constant(f)
    with tf.GradientTape() as tape:
        tape.watch(f)
        value = likelihood.log_prob(y, f)
    return tape.gradient(value, f).numpy().reshape(len(f), -1)


def information(likelihood: Any, f: Any) -> Any:
    """E_y of score score^T, shape (N, F, F), summed or integrated over y."""
    return expected(likelihood, f, lambda s: s[..., :, None] * s[..., None, :])


def expected(likelihood: Any, f: Any, function: Any) -> Any:
    """E_y of a function of the scores, from shape (K, N, F) of K values of y to (K, N, ...)."""
    nodes, weights = _support(likelihood, f.shape[1])
    y, repeated = np.repeat(nodes, len(f), axis=0), np.tile(f, (len(nodes), 1))
    p = np.exp(likelihood.log_prob(tf.constant(y), tf.constant(repeated))).reshape(-1, len(f))
    values = function(scores(likelihood, y, repeated).reshape(-1, *f.shape))
    return np.einsum("k,kn,kn...->n...", weights, p, values)


def _support(likelihood: Any, size: Any) -> Any:
    """Values of y, and weights with which a sum over them is a sum or an integral over all y."""
    if isinstance(likelihood, likelihoods.Categorical):
        return np.arange(size), np.ones(size)
    if isinstance(likelihood, (likelihoods.Bernoulli, likelihoods.Poisson)):
        count = 2 if isinstance(likelihood, likelihoods.Bernoulli) else 60
        values = np.array(list(np.ndindex(*[count] * size)), float)
        return values, np.ones(len(values))
    if isinstance(likelihood, likelihoods.ContinuousBernoulli):
        nodes, weights = np.polynomial.legendre.leggauss(40)
        return 0.5 + 0.5 * nodes[:, None], 0.5 * weights
    if isinstance(likelihood, likelihoods.Gamma):
        y = np.exp(np.linspace(-200, 12, 8001))
        return y[:, None], y * 212 / 8000
    y = np.tan(np.linspace(-np.pi / 2, np.pi / 2, 2002)[1:-1])
    return y[:, None], (1 + y**2) * np.pi / 2001


def ggn(model: Any, likelihood: Any, x: Any = X) -> Any:
    """Sum of J^T F J, shape (D, D)."""
    j = jacobians(model, x)
    f = information(likelihood, outputs(model, x))
    return np.einsum("nki,nkl,nlj->ij", j, f, j)


def empirical_fisher(model: Any, likelihood: Any, y: Any, x: Any = X) -> Any:
    """Sum of the gradients' squares, shape (D, D)."""
    g = np.einsum("nk,nki->ni", scores(likelihood, y, outputs(model, x)), jacobians(model, x))
    return g.T @ g


def hessian(model: Any, likelihood: Any, y: Any, x: Any = X) -> Any:
    """The Hessian of -log p(y | theta), by central differences of its gradient, shape (D, D)."""
    flat, theta = wide(model)

    @tf.function(autograph=False)
    def gradient(theta: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(theta)
            value = -tf.reduce_sum(likelihood.log_prob(tf.constant(y), flat(theta, x)))
        return tape.gradient(value, theta)

    steps = 1e-5 * np.eye(flat.size)
    return np.stack([(gradient(theta + h) - gradient(theta - h)) / 2e-5 for h in steps])


def curvature_of(kind: Any, model: Any, likelihood: Any, y: Any) -> Any:
    """The matrix that a kind of curvature is, shape (D, D)."""
    if kind == "ggn":
        return ggn(model, likelihood)
    if kind == "ef":
        return empirical_fisher(model, likelihood, y)
    return hessian(model, likelihood, y)

"""Slow and obvious references for curvature, in float64: one example and one output at a time."""

import keras
import numpy as np
import scipy.integrate
import tensorflow as tf

from tfbdl import likelihoods
from tfbdl.flat_model import FlatModel, in_precision

RNG = np.random.default_rng(0)
NUM = 11
X = RNG.normal(size=(NUM, 3))


def network(units=(4,), outputs=3, activation="tanh", use_bias=True, last=None):
    keras.utils.set_random_seed(1)
    stack = [keras.layers.Dense(u, activation, use_bias=use_bias) for u in units]
    model = keras.Sequential(
        [keras.Input((3,)), *stack, keras.layers.Dense(outputs, last, use_bias=use_bias)]
    )
    for v in model.trainable_variables:
        v.assign(np.random.default_rng(len(v.path)).normal(size=v.shape) * 0.7)
    return model


CASES = {
    "normal": (likelihoods.Normal(0.7), 1, RNG.normal(size=(NUM, 1))),
    "categorical": (likelihoods.Categorical(), 3, RNG.integers(0, 3, NUM)),
    "bernoulli": (likelihoods.Bernoulli(), 2, RNG.integers(0, 2, (NUM, 2))),
    "poisson": (likelihoods.Poisson(), 2, RNG.poisson(2.0, (NUM, 2))),
    "heteroscedastic": (likelihoods.Normal("predicted"), 2, RNG.normal(size=(NUM, 1))),
    "student": (likelihoods.StudentT(5.0, 0.6), 1, RNG.normal(size=(NUM, 1))),
    "student_scale": (likelihoods.StudentT(5.0, "predicted"), 2, RNG.normal(size=(NUM, 1))),
    "grey": (likelihoods.ContinuousBernoulli(), 1, RNG.uniform(size=(NUM, 1))),
}


def case(name):
    """A likelihood, a network and targets."""
    likelihood, outputs, y = CASES[name]
    return likelihood, network(outputs=outputs), y


def jacobians(model, x):
    """J of each example, shape (N, F, D), from one gradient at a time, in float64."""
    flat, theta = wide(model)

    @tf.function(autograph=False)
    def gradient(one, k):
        with tf.GradientTape() as tape:
            tape.watch(theta)
            value = tf.reshape(flat(theta, one[None]), [-1])[k]
        return tape.gradient(value, theta, unconnected_gradients="zero")

    size = int(tf.size(flat(theta, x[:1])))
    rows = [[gradient(tf.constant(one), tf.constant(k)) for k in range(size)] for one in x]
    return np.array(rows)


def outputs(model, x):
    """The outputs in float64, shape (N, ...)."""
    flat, theta = wide(model)
    return flat(theta, tf.constant(x)).numpy()


def wide(model):
    """The model as a function of theta in float64."""
    flat = FlatModel(in_precision(model, "float64"))
    return flat, flat.theta


def scores(likelihood, y, f):
    """Gradients of log p(y | f) in f, shape (N, F)."""
    f = tf.constant(f)
    with tf.GradientTape() as tape:
        tape.watch(f)
        value = likelihood.log_prob(y, f)
    return tape.gradient(value, f).numpy().reshape(len(f), -1)


def information(likelihood, f):
    """E_y of score score^T, shape (N, F, F), summed or integrated over y."""
    n, size = f.shape

    def term(y):
        y = np.tile(y, (n, 1)) if np.ndim(y) else np.full(n, y)
        p = np.exp(likelihood.log_prob(tf.constant(y), tf.constant(f)))
        s = scores(likelihood, y, f)
        return p[:, None, None] * s[:, :, None] * s[:, None, :]

    if isinstance(likelihood, likelihoods.Categorical):
        return sum(term(c) for c in range(size))
    if isinstance(likelihood, (likelihoods.Bernoulli, likelihoods.Poisson)):
        count = 2 if isinstance(likelihood, likelihoods.Bernoulli) else 40
        return sum(term(np.array(pair, float)) for pair in np.ndindex(*[count] * size))
    low, high = (
        (0, 1) if isinstance(likelihood, likelihoods.ContinuousBernoulli) else (-np.inf, np.inf)
    )
    return scipy.integrate.quad_vec(lambda y: term(np.array([y])), low, high, epsrel=1e-9)[0]


def ggn(model, likelihood, x):
    """Sum of J^T F J, shape (D, D)."""
    j = jacobians(model, x)
    f = outputs(model, x)
    return np.einsum("nki,nkl,nlj->ij", j, information(likelihood, f), j)

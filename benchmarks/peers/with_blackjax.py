"""BlackJAX."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import work
from blackjax.base import SamplingAlgorithm

Round = Callable[[], dict[str, float]]


def parts(theta: jax.Array, *shapes: tuple[int, ...]) -> list[jax.Array]:
    """The weights of a vector."""
    sizes = [int(np.prod(shape)) for shape in shapes]
    pieces = jnp.split(theta, np.cumsum(sizes)[:-1])
    return [piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)]


class LogDensity(NamedTuple):
    """A function of D numbers."""

    of: Callable[[jax.Array], jax.Array]
    size: int


def log_density(name: str, x: np.ndarray, y: np.ndarray) -> LogDensity:
    """The log density of one of `work.POSTERIORS`.

    The softplus of the last parameter of a regression is its noise, from Gamma(1/2, 1).
    """
    sizes, activation, use_bias = work.POSTERIORS[name]
    is_regression = not np.issubdtype(y.dtype, np.integer)
    activate = {"tanh": jnp.tanh, "relu": jax.nn.relu}[activation]
    shapes: list[tuple[int, ...]] = []
    for pair in itertools.pairwise(sizes):
        shapes += [pair, pair[1:]] if use_bias else [pair]
    size = sum(int(np.prod(shape)) for shape in shapes)
    inputs, targets = jnp.asarray(x), jnp.asarray(y)

    def of(theta: jax.Array) -> jax.Array:
        weights, f = parts(theta[:size], *shapes), inputs
        kernels = weights[:: 1 + use_bias]
        biases = weights[1::2] if use_bias else [0.0] * len(kernels)
        for i, (kernel, bias) in enumerate(zip(kernels, biases, strict=True)):
            f = (activate(f) if i else f) @ kernel + bias
        log_prior = -0.5 * jnp.sum(theta[:size] ** 2)
        if not is_regression:
            return log_prior + jax.nn.log_softmax(f)[jnp.arange(len(y)), targets].sum()
        raw = theta[size]
        scale = jax.nn.softplus(raw)
        log_prior += -0.5 * jnp.log(scale) - scale + jax.nn.log_sigmoid(raw)
        return log_prior - len(x) * jnp.log(scale) - 0.5 * jnp.sum(((targets - f) / scale) ** 2)

    return LogDensity(of, size + is_regression)


def chain(density: LogDensity, samples: int, make: Any, gradients: int = 1) -> Round:
    """A chain with fixed steps; each round the same.

    `make` makes a kernel with unit masses; each of its integration steps takes so many gradients.
    """
    log_density, size = density
    kernel = make(log_density, inverse_mass_matrix=jnp.ones(size))
    start = kernel.init(jnp.asarray(work.start(size)), jax.random.key(1))

    @jax.jit
    def sample(state: Any, key: jax.Array) -> Any:
        def step(state: Any, key: jax.Array) -> Any:
            state, info = kernel.step(key, state)
            return state, (state.position, info.num_integration_steps)

        return jax.lax.scan(step, state, jax.random.split(key, samples))[1]

    def run() -> dict[str, Any]:
        theta, steps = jax.block_until_ready(sample(start, jax.random.key(0)))
        return {"units": float(gradients * steps.sum()), "samples": np.asarray(theta)}

    return run


chain_46 = partial(chain, log_density("curve", *work.curve()), work.SAMPLES_46)
chain_small = partial(chain, log_density("images", *work.images(1000)), work.SAMPLES_SMALL)


def hmc_46() -> Round:
    """HMC on the curve."""
    return chain_46(
        partial(blackjax.hmc, step_size=work.STEP_46, num_integration_steps=work.TRAJECTORY_46)
    )


def nuts_46() -> Round:
    """NUTS on the curve."""
    return chain_46(partial(blackjax.nuts, step_size=work.STEP_46, max_num_doublings=work.DEPTH_46))


def hmc_small() -> Round:
    """HMC on images."""
    settings = {"step_size": work.STEP_SMALL, "num_integration_steps": work.TRAJECTORY_SMALL}
    return chain_small(partial(blackjax.hmc, **settings))


def nuts_small() -> Round:
    """NUTS on images."""
    settings = {"step_size": work.STEP_SMALL, "max_num_doublings": work.DEPTH_SMALL}
    return chain_small(partial(blackjax.nuts, **settings))


class Steps(NamedTuple):
    """Steps from sample to sample."""

    num_integration_steps: int


def mclmc(step_size: float, length: float, every: int) -> Any:
    """A kernel of that many steps of MCLMC; this package's points move at speed 1, not sqrt(D)."""

    def make(log_density: Any, inverse_mass_matrix: jax.Array) -> SamplingAlgorithm:
        speed = len(inverse_mass_matrix) ** 0.5
        kernel = blackjax.mclmc(
            log_density,
            L=speed * length,
            step_size=speed * step_size,
            inverse_mass_matrix=inverse_mass_matrix,
        )

        def one(state: Any, key: jax.Array) -> Any:
            return kernel.step(key, state)[0], None

        def step(key: jax.Array, state: Any) -> Any:
            state, _ = jax.lax.scan(one, state, jax.random.split(key, every))
            return state, Steps(every)

        return SamplingAlgorithm(kernel.init, step)

    return make


def mclmc_46() -> Round:
    """MCLMC on the curve."""
    return chain_46(mclmc(work.MCLMC_46, work.DECOHERENCE_46, work.ISOKINETIC_46), gradients=2)


def mclmc_small() -> Round:
    """MCLMC on images."""
    settings = work.MCLMC_SMALL, work.DECOHERENCE_SMALL, work.ISOKINETIC_SMALL
    return chain_small(mclmc(*settings), gradients=2)


def mams_46() -> Round:
    """MAMS on the curve; speeds as in `mclmc`."""

    def make(log_density: Any, inverse_mass_matrix: jax.Array) -> SamplingAlgorithm:
        return blackjax.adjusted_mclmc(
            log_density,
            step_size=len(inverse_mass_matrix) ** 0.5 * work.MAMS_46,
            integration_steps_params=(work.ISOKINETIC_46,),
            inverse_mass_matrix=inverse_mass_matrix,
        )

    return chain_46(make, gradients=2)


def trajectories(length: float) -> Any:
    """A kernel of MAMS with trajectories of U(0.5, 1.5) times that length; speeds as in `mclmc`."""

    def make(log_density: Any, step_size: jax.Array, inverse_mass_matrix: jax.Array) -> Any:
        def num_steps(key: jax.Array) -> jax.Array:
            drawn = length * jax.random.uniform(key, minval=0.5, maxval=1.5)
            return jnp.clip(jnp.ceil(drawn / step_size), 1, work.MOST_STEPS).astype(int)

        return blackjax.adjusted_mclmc_dynamic(
            log_density,
            step_size=len(inverse_mass_matrix) ** 0.5 * step_size,
            inverse_mass_matrix=inverse_mass_matrix,
            integration_steps_fn=num_steps,
        )

    return make


def isokinetic(length: float) -> Any:
    """A kernel of MCLMC."""

    def make(log_density: Any, step_size: jax.Array, inverse_mass_matrix: jax.Array) -> Any:
        return mclmc(step_size, length, work.THINNING["mclmc"])(log_density, inverse_mass_matrix)

    return make


def chains(path: str) -> Round:
    """Chains that go on from where the file of their settings says."""
    with np.load(path) as given:
        settings = dict(given)
    kernel, length = str(settings["kernel"]), float(settings["length"])
    density = log_density(str(settings["name"]), settings["x"], settings["y"])
    make = {
        "nuts": blackjax.nuts,
        "mams": trajectories(length),
        "mclmc": isokinetic(length),
    }[kernel.removesuffix("_diagonal")]
    theta = jnp.asarray(settings["theta"])
    squares = jnp.broadcast_to(settings["scale"] ** 2, theta.shape)
    tuned = jnp.asarray(settings["step_size"]), squares

    def init(theta: jax.Array, key: jax.Array, step_size: jax.Array, squares: jax.Array) -> Any:
        return make(density.of, step_size=step_size, inverse_mass_matrix=squares).init(theta, key)

    def step(state: Any, key: jax.Array, step_size: jax.Array, squares: jax.Array) -> Any:
        one = make(density.of, step_size=step_size, inverse_mass_matrix=squares)
        state, info = one.step(key, state)
        return state, (state.position, info.num_integration_steps)

    @jax.jit
    def sample(states: Any, key: jax.Array) -> Any:
        def all_chains(states: Any, key: jax.Array) -> Any:
            return jax.vmap(step)(states, jax.random.split(key, len(theta)), *tuned)

        keys = jax.random.split(key, work.samples_a_round(kernel))
        return jax.lax.scan(all_chains, states, keys)

    first, key = jax.random.split(jax.random.key(0))
    states = jax.vmap(init)(theta, jax.random.split(first, len(theta)), *tuned)
    gradients = 1 if kernel.startswith("nuts") else 2

    def run() -> dict[str, Any]:
        nonlocal states, key
        of_round, key = jax.random.split(key)
        states, (drawn, steps) = jax.block_until_ready(sample(states, of_round))
        return {"units": float(gradients * steps.sum()), "samples": np.asarray(drawn)}

    return run

"""BlackJAX."""

from __future__ import annotations

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


def log_density_46() -> tuple[Callable[[jax.Array], jax.Array], int]:
    """The log density on the curve.

    The softplus of the last parameter is the noise scale, from Gamma(1/2, 1).
    """
    x, y = map(jnp.asarray, work.curve())
    shapes = list(zip(work.TANH[:-1], work.TANH[1:], strict=True))

    def log_density(theta: jax.Array) -> jax.Array:
        *weights, raw = parts(theta, *shapes, ())
        f = x
        for i, w in enumerate(weights):
            f = (jnp.tanh(f) if i else f) @ w
        scale = jax.nn.softplus(raw)
        likelihood = -len(x) * jnp.log(scale) - 0.5 * jnp.sum(((y - f) / scale) ** 2)
        prior = -0.5 * jnp.log(scale) - scale + jax.nn.log_sigmoid(raw)
        return likelihood + prior - 0.5 * jnp.sum(theta[:-1] ** 2)

    return log_density, 46


def log_density_small() -> tuple[Callable[[jax.Array], jax.Array], int]:
    """The log density on images."""
    x, y = map(jnp.asarray, work.images(1000))
    inputs, units, classes = work.SMALL
    shapes = ((inputs, units), (units,), (units, classes), (classes,))

    def log_density(theta: jax.Array) -> jax.Array:
        w0, b0, w1, b1 = parts(theta, *shapes)
        logits = jnp.tanh(x @ w0 + b0) @ w1 + b1
        log_p = jax.nn.log_softmax(logits)[jnp.arange(len(y)), y]
        return log_p.sum() - 0.5 * jnp.sum(theta**2)

    return log_density, sum(int(np.prod(shape)) for shape in shapes)


def chain(of: Any, samples: int, make: Any, gradients: int = 1) -> Round:
    """A chain with fixed steps; each round the same.

    `make` makes a kernel with unit masses; each of its integration steps takes so many gradients.
    """
    log_density, size = of()
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


chain_46 = partial(chain, log_density_46, work.SAMPLES_46)
chain_small = partial(chain, log_density_small, work.SAMPLES_SMALL)


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

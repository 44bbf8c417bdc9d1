"""BlackJAX."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import work

Round = Callable[[], dict[str, float]]


def parts(theta: jax.Array, *shapes: tuple[int, ...]) -> list[jax.Array]:
    """The weights of a vector."""
    sizes = [int(np.prod(shape)) for shape in shapes]
    pieces = jnp.split(theta, np.cumsum(sizes)[:-1])
    return [piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)]


def log_density_46() -> tuple[Callable[[jax.Array], jax.Array], int]:
    """On the curve; the last parameter is the logarithm of the noise precision."""
    x, y = map(jnp.asarray, work.curve())
    shapes = list(zip(work.TANH[:-1], work.TANH[1:], strict=True))

    def log_density(theta: jax.Array) -> jax.Array:
        *weights, log_precision = parts(theta, *shapes, ())
        f = x
        for i, w in enumerate(weights):
            f = (jnp.tanh(f) if i else f) @ w
        precision = jnp.exp(log_precision)
        likelihood = 0.5 * len(x) * log_precision - 0.5 * precision * jnp.sum((y - f) ** 2)
        return likelihood - 0.5 * jnp.sum(theta[:-1] ** 2) + 0.5 * log_precision - precision

    return log_density, 46


def log_density_small() -> tuple[Callable[[jax.Array], jax.Array], int]:
    """On images."""
    x, y = map(jnp.asarray, work.images(1000))
    inputs, units, classes = work.SMALL
    shapes = ((inputs, units), (units,), (units, classes), (classes,))

    def log_density(theta: jax.Array) -> jax.Array:
        w0, b0, w1, b1 = parts(theta, *shapes)
        logits = jnp.tanh(x @ w0 + b0) @ w1 + b1
        log_p = jax.nn.log_softmax(logits)[jnp.arange(len(y)), y]
        return log_p.sum() - 0.5 * jnp.sum(theta**2)

    return log_density, sum(int(np.prod(shape)) for shape in shapes)


def chain(of: Any, samples: int, algorithm: Any, step_size: float, **settings: int) -> Round:
    """A chain with fixed steps; each round the same."""
    log_density, size = of()
    kernel = algorithm(log_density, step_size, jnp.ones(size), **settings)
    start = kernel.init(jnp.asarray(work.start(size)))

    @jax.jit
    def sample(state: Any, key: jax.Array) -> Any:
        def step(state: Any, key: jax.Array) -> Any:
            state, info = kernel.step(key, state)
            return state, (state.position, info.num_integration_steps)

        return jax.lax.scan(step, state, jax.random.split(key, samples))[1]

    def run() -> dict[str, Any]:
        theta, steps = jax.block_until_ready(sample(start, jax.random.key(0)))
        return {"units": float(steps.sum()), "samples": np.asarray(theta)}

    return run


chain_46 = partial(chain, log_density_46, work.SAMPLES_46)
chain_small = partial(chain, log_density_small, work.SAMPLES_SMALL)


def hmc_46() -> Round:
    """HMC on the curve."""
    return chain_46(blackjax.hmc, work.STEP_46, num_integration_steps=work.TRAJECTORY_46)


def nuts_46() -> Round:
    """NUTS on the curve."""
    return chain_46(blackjax.nuts, work.STEP_46, max_num_doublings=work.DEPTH_46)


def hmc_small() -> Round:
    """HMC on images."""
    return chain_small(blackjax.hmc, work.STEP_SMALL, num_integration_steps=work.TRAJECTORY_SMALL)


def nuts_small() -> Round:
    """NUTS on images."""
    return chain_small(blackjax.nuts, work.STEP_SMALL, max_num_doublings=work.DEPTH_SMALL)

"""NumPyro: variational inference with an automatic guide, and chains."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import work
from numpyro.infer import HMC, MCMC, NUTS, SVI, Trace_ELBO, TraceMeanField_ELBO
from numpyro.infer.autoguide import AutoNormal

Round = Callable[[], dict[str, float]]


def weights(name: str, *shape: int) -> jax.Array:
    """Weights of which each is N(0, 1)."""
    return numpyro.sample(name, dist.Normal(0, 1).expand(shape).to_event(len(shape)))


def classifier(x: jax.Array, y: jax.Array, num_data: int, sizes: tuple[int, ...]) -> None:
    """ReLU layers and labels; x is a batch of `num_data`."""
    for i, (inputs, units) in enumerate(itertools.pairwise(sizes)):
        x = (jax.nn.relu(x) if i else x) @ weights(f"w{i}", inputs, units) + weights(f"b{i}", units)
    with numpyro.plate("data", num_data, subsample_size=len(x)):
        numpyro.sample("y", dist.Categorical(logits=x), obs=y)


def bbb_one(sizes: tuple[int, ...] = work.NETWORK, batch: int = work.BATCH) -> Round:
    """Steps of mean-field inference, all of a round in one compiled scan."""
    n = work.STEPS * batch
    x, y = work.images(n)
    data = jnp.asarray(x.reshape(work.STEPS, batch, -1)), jnp.asarray(y.reshape(work.STEPS, batch))
    guide = AutoNormal(classifier, init_scale=0.05)
    svi = SVI(classifier, guide, numpyro.optim.Adam(work.LEARNING_RATE), TraceMeanField_ELBO())
    state = svi.init(jax.random.key(0), data[0][0], data[1][0], n, sizes)
    epoch = jax.jit(lambda s: jax.lax.scan(lambda s, d: svi.update(s, *d, n, sizes), s, data))

    def run() -> dict[str, float]:
        nonlocal state
        state, losses = epoch(state)
        losses.block_until_ready()
        return {"units": work.STEPS}

    return run


def bbb_wide() -> Round:
    """Steps in the wide network."""
    return bbb_one(work.WIDE, work.WIDE_BATCH)


def vae(num_data: int = 1000) -> Round:
    """An epoch of a plain VAE."""
    sizes = {"encoder": (784, 500, 500, 40), "decoder": (20, 500, 500, 784)}

    def network(name: str, x: jax.Array) -> jax.Array:
        for i, (inputs, units) in enumerate(zip(sizes[name][:-1], sizes[name][1:], strict=True)):
            start = 0.05 * jax.random.normal(jax.random.key(i), (inputs, units))
            w, b = (
                numpyro.param(f"{name}{i}", start),
                numpyro.param(f"{name}b{i}", jnp.zeros(units)),
            )
            x = (jax.nn.relu(x) if i else x) @ w + b
        return x

    def model(x: jax.Array) -> None:
        with numpyro.plate("data", len(x)):
            z = numpyro.sample("z", dist.Normal(0, 1).expand([20]).to_event(1))
            logits = network("decoder", z)
            numpyro.factor("x", -jnp.sum(jnp.logaddexp(0, logits) - x * logits, axis=-1))

    def guide(x: jax.Array) -> None:
        mu, log_sigma = jnp.split(network("encoder", x), 2, axis=-1)
        with numpyro.plate("data", len(x)):
            numpyro.sample("z", dist.Normal(mu, jnp.exp(log_sigma)).to_event(1))

    data = jnp.asarray(work.images(num_data)[0].reshape(-1, work.BATCH, 784))
    svi = SVI(model, guide, numpyro.optim.Adam(work.LEARNING_RATE), Trace_ELBO())
    state = svi.init(jax.random.key(0), data[0])
    epoch = jax.jit(lambda s: jax.lax.scan(svi.update, s, data))

    def run() -> dict[str, float]:
        nonlocal state
        state, losses = epoch(state)
        losses.block_until_ready()
        return {"units": 1}

    return run


vae_full = partial(vae, 60_000)


def curve_model(x: jax.Array, y: jax.Array) -> None:
    """46 parameters."""
    for i, (inputs, units) in enumerate(zip(work.TANH[:-1], work.TANH[1:], strict=True)):
        x = (jnp.tanh(x) if i else x) @ weights(f"w{i}", inputs, units)
    scale = numpyro.sample("scale", dist.Gamma(0.5, 1.0))
    with numpyro.plate("data", len(x)):
        numpyro.sample("y", dist.Normal(x[:, 0], scale), obs=y[:, 0])


def small_model(x: jax.Array, y: jax.Array) -> None:
    """A hidden layer of tanh units."""
    inputs, units, classes = work.SMALL
    hidden = jnp.tanh(x @ weights("w0", inputs, units) + weights("b0", units))
    logits = hidden @ weights("w1", units, classes) + weights("b1", classes)
    with numpyro.plate("data", len(x)):
        numpyro.sample("y", dist.Categorical(logits=logits), obs=y)


def chain(model: Callable[..., None], shapes: Any, data: Any, samples: int, kernel: Any) -> Round:
    """A chain with fixed steps; each round the same."""
    mcmc = MCMC(
        kernel(model, adapt_step_size=False, adapt_mass_matrix=False),
        num_warmup=0,
        num_samples=samples,
        progress_bar=False,
        jit_model_args=True,
    )
    sizes = {name: int(np.prod(shape)) for name, shape in shapes.items()}
    pieces = np.split(work.start(sum(sizes.values())), np.cumsum(list(sizes.values()))[:-1])
    start = {name: p.reshape(shapes[name]) for name, p in zip(shapes, pieces, strict=True)}

    def run() -> dict[str, Any]:
        mcmc.run(jax.random.key(0), *data, init_params=start, extra_fields=("num_steps",))
        draws = mcmc.get_samples()
        theta = np.concatenate([np.reshape(draws[v], (samples, -1)) for v in shapes], axis=1)
        return {"units": float(mcmc.get_extra_fields()["num_steps"].sum()), "samples": theta}

    return run


def chain_46(kernel: Any) -> Round:
    """A chain on the curve."""
    shapes = {"w0": (3, 5), "w1": (5, 5), "w2": (5, 1), "scale": ()}
    return chain(curve_model, shapes, work.curve(), work.SAMPLES_46, kernel)


def chain_small(kernel: Any) -> Round:
    """A chain on images."""
    inputs, units, classes = work.SMALL
    shapes = {"w0": (inputs, units), "b0": (units,), "w1": (units, classes), "b1": (classes,)}
    return chain(small_model, shapes, work.images(1000), work.SAMPLES_SMALL, kernel)


def trajectories(step_size: float, num_steps: int) -> Any:
    """HMC with that many leapfrog steps."""
    return partial(HMC, step_size=step_size, num_steps=num_steps, trajectory_length=None)


hmc_46 = partial(chain_46, trajectories(work.STEP_46, work.TRAJECTORY_46))
nuts_46 = partial(chain_46, partial(NUTS, step_size=work.STEP_46, max_tree_depth=work.DEPTH_46))
hmc_small = partial(chain_small, trajectories(work.STEP_SMALL, work.TRAJECTORY_SMALL))
nuts_small = partial(
    chain_small, partial(NUTS, step_size=work.STEP_SMALL, max_tree_depth=work.DEPTH_SMALL)
)

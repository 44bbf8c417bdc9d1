"""Posterior inference, one method a function; `predicted` asks what any of them has found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import keras
import numpy as np
from problems import Problem

import tfbdl
from tfbdl.inference import (
    MAP,
    MCMC,
    SWAG,
    DeepEnsemble,
    Laplace,
    NeuralLinear,
    PosteriorSamples,
)
from tfbdl.inference.kernels import Kernel
from tfbdl.layers import BayesDense, ConcreteDropout, MCDropout
from tfbdl.likelihoods import Normal
from tfbdl.optimizers import CyclicalSchedule
from tfbdl.predictive import Prediction

STEPS_AN_EPOCH = 500
"""So that a line of `train.log`, and a checkpoint, stand for some work."""
BURN_IN = 0.2
"""The part of a run of stochastic gradients whose weights are not kept."""
KEPT = 200
"""Samples that such a run keeps, if it has as many epochs."""
CYCLES = 10
NETWORKS = 5
"""Of a deep ensemble."""
RATE = 0.1
"""At which MC dropout drops hidden units, and Concrete dropout starts."""

Posterior: TypeAlias = keras.Model | MCMC | MAP | Laplace | NeuralLinear
Method: TypeAlias = Callable[[Problem, "Run"], Posterior]


@dataclass(frozen=True)
class Run:
    """How long a method runs, and where.

    Attributes:
        epochs: of all that trains or samples by stochastic gradients, 500 steps each.
        chain_steps: of Markov chains, in the warm-up and after it.
        num_chains: C.
        seed: of starts, noise and order.
        savedir: folder of logs, checkpoints and samples, from which it goes on; None for none.
    """

    epochs: int
    chain_steps: int
    num_chains: int
    seed: int
    savedir: Path | None = None

    def folder(self, name: str) -> Path | None:
        """That of a part."""
        return None if self.savedir is None else self.savedir / name


def predicted(
    posterior: Posterior, x: np.ndarray, num_samples: int, *, functions: bool = False
) -> Prediction:
    """The predictive distribution at x.

    Args:
        posterior: what a method has found.
        x: inputs.
        num_samples: functions, where they are drawn; of samples at most all.
        functions: whether those are kept.
    """
    keep: dict[str, Any] = {"seed": 0, "return_samples": functions}
    if isinstance(posterior, (Laplace, NeuralLinear)):
        return posterior.predict(x, n_samples=num_samples, **keep)
    if isinstance(posterior, MCMC):
        posterior = posterior.ensemble()
    elif isinstance(posterior, MAP):
        posterior = posterior.model
    return tfbdl.predict(posterior, x, num_samples, verbose=0, **keep)


def trained(
    problem: Problem, model: keras.Model, optimizer: Any, run: Run, *callbacks: Any
) -> keras.Model:
    """The model, trained on mean loss, with epochs of as many passes as `STEPS_AN_EPOCH` take."""
    model.compile(optimizer, problem.likelihood)
    tfbdl.train(model, *repeated(problem), callbacks=callbacks, **settings(problem, run))
    return model


def repeated(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """The data of an epoch."""
    times = -(-STEPS_AN_EPOCH * problem.batch_size // problem.num_data)
    return np.repeat(problem.x, times, axis=0), np.repeat(problem.y, times, axis=0)


def settings(problem: Problem, run: Run) -> dict[str, Any]:
    """Arguments of `tfbdl.train`."""
    return {
        "epochs": run.epochs,
        "batch_size": problem.batch_size,
        "savedir": run.savedir,
        "seed": run.seed,
        "verbose": 0,
    }


def adam(run: Run) -> keras.optimizers.Adam:
    """From 1e-2 to 0 along a cosine."""
    steps = STEPS_AN_EPOCH * run.epochs
    return keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(1e-2, steps))


def mode(problem: Problem, run: Run) -> MAP:
    """The most probable weights, from a draw of the prior, by L-BFGS."""
    return MAP(problem.log_posterior(), initial="prior", max_iterations=5000, seed=run.seed).run()


def at_mode(problem: Problem, run: Run, decay: float = 0.0) -> keras.Model:
    """The network with these weights."""
    network = problem.network(run.seed, decay)
    mode(problem, run).assign(network)
    return network


def markov_chains(problem: Problem, kernel: Kernel, thinning: int, run: Run) -> MCMC:
    """Chains that start at draws from the prior."""
    return MCMC(
        problem.log_posterior(),
        kernel,
        num_warmup=run.chain_steps * thinning,
        num_samples=run.chain_steps,
        num_chains=run.num_chains,
        thinning=thinning,
        seed=run.seed,
        savedir=run.folder("chains"),
    ).run()


def stochastic_gradients(
    problem: Problem, optimizer: keras.optimizers.Optimizer, run: Run
) -> keras.Model:
    """The weights along a run of a sampler of `tfbdl.optimizers`, which has the prior."""
    burn_in = int(BURN_IN * run.epochs)
    every = max((run.epochs - burn_in) // KEPT, 1)
    samples = PosteriorSamples(burn_in, every, savedir=run.folder("samples"))
    trained(problem, problem.network(run.seed), optimizer, run, samples)
    return samples.ensemble()


def cycles(rate: float, run: Run) -> CyclicalSchedule:
    """A learning rate in `CYCLES` cycles, of which the second halves sample."""
    steps = STEPS_AN_EPOCH * run.epochs // CYCLES
    return CyclicalSchedule(rate, steps, exploration=0.5)


def mean_field(problem: Problem, run: Run) -> keras.Model:
    """Bayes by Backprop: a normal q(w) for each weight on its own."""

    def layer(units: int, seed: int) -> BayesDense:
        estimator = "local_reparameterization"
        return BayesDense(
            units, num_data=problem.num_data, prior=1.0, estimator=estimator, seed=seed
        )

    keras.utils.set_random_seed(run.seed)
    layers = layer(problem.units, run.seed), layer(problem.outputs, run.seed + 1)
    return trained(problem, problem.stack(*layers), adam(run), run)


def mc_dropout(problem: Problem, run: Run) -> keras.Model:
    """Dropout of hidden units; a kept weight V / keep has the prior N(0, 1), as in part III."""
    keras.utils.set_random_seed(run.seed)
    hidden = problem.dense(problem.units, decay=1.0)
    last = problem.dense(problem.outputs, decay=1.0 / (1.0 - RATE))
    model = problem.stack(hidden, MCDropout(RATE, seed=run.seed), last)
    return trained(problem, model, adam(run), run)


def concrete_dropout(problem: Problem, run: Run) -> keras.Model:
    """The same with a learned rate."""
    keras.utils.set_random_seed(run.seed)
    last = ConcreteDropout(
        keras.layers.Dense(problem.outputs),
        num_data=problem.num_data,
        lengthscale=1.0,
        initial_rate=RATE,
        seed=run.seed,
    )
    model = problem.stack(problem.dense(problem.units, decay=1.0), last)
    return trained(problem, model, adam(run), run)


def laplace(problem: Problem, run: Run, subset: str = "all", structure: str = "full") -> Laplace:
    """A normal distribution around the mode, by the curvature there."""
    network = at_mode(problem, run)
    posterior = Laplace(network, problem.likelihood, subset, structure, prior_precision=1.0)
    return posterior.fit(problem.x, problem.y)


def neural_linear(problem: Problem, run: Run) -> NeuralLinear:
    """The exact posterior of V and c, with W and b at the mode; for normal noise alone.

    Raises:
        ValueError: if the likelihood is another, which has no conjugate prior.
    """
    if not isinstance(problem.likelihood, Normal):
        raise ValueError(f"likelihood={type(problem.likelihood).__name__} must be Normal")
    noise = float(problem.likelihood.scale)
    return NeuralLinear(at_mode(problem, run), sigma_noise=noise).fit(problem.x, problem.y)


def deep_ensemble(problem: Problem, run: Run) -> keras.Model:
    """Modes found by stochastic gradients from `NETWORKS` starts."""

    def build() -> keras.Model:
        hidden, last = problem.dense(problem.units, 1.0), problem.dense(problem.outputs, 1.0)
        model = problem.stack(hidden, last)
        model.compile(adam(run), problem.likelihood)
        return model

    ensemble = DeepEnsemble(build, NETWORKS, seed=NETWORKS * run.seed)
    arguments = settings(problem, run)
    arguments.pop("seed")
    return ensemble.fit(*repeated(problem), **arguments).ensemble()


def swag(problem: Problem, run: Run, rate: float) -> keras.Model:
    """The path of gradient descent at a constant rate, from the mode, as a normal distribution."""
    path = PosteriorSamples(savedir=run.folder("samples"))
    network = at_mode(problem, run, decay=1.0)
    trained(problem, network, keras.optimizers.SGD(rate), run, path)
    return SWAG(path).ensemble(KEPT, seed=run.seed)

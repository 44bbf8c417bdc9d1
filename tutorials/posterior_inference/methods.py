"""Posterior inference, one method a function of a problem and of how long to run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import keras

from tfbdl.inference import (
    MAP,
    MCLMC,
    MCMC,
    SGMCMC,
    SWAG,
    DeepEnsemble,
    Laplace,
    MeanFieldVI,
    NeuralLinear,
)
from tfbdl.inference.mcmc.kernels import Kernel
from tfbdl.layers import BayesDense, ConcreteDropout, MCDropout, VariationalLastLayer
from tfbdl.likelihoods import Expected, Normal
from tfbdl.optimizers import IVON, CyclicalSchedule
from tutorials.posterior_inference.problems import Problem
from tutorials.posterior_inference.running import Run, adam, repeated, settings, trained

BURN_IN = 0.2
"""The part of a run of stochastic gradients whose weights are not kept."""
KEPT = 200
"""Samples that such a run keeps, if it has as many epochs."""
CYCLES = 10
NETWORKS = 5
"""Networks of a deep ensemble."""
RATE = 0.1
"""The rate at which MC dropout drops hidden units, and Concrete dropout starts."""


def mode(problem: Problem, run: Run) -> MAP:
    """The most probable weights, from a draw of the prior, by L-BFGS in double precision."""
    target = problem.log_posterior("float64")
    return MAP(target, initial="prior", seed=run.seed).fit()


def at_mode(problem: Problem, run: Run, *, decay: bool = False) -> keras.Model:
    """The network with these weights."""
    network = problem.network(run.seed, decay=decay)
    mode(problem, run).assign(network)
    return network


def markov_chains(
    problem: Problem,
    kernel: Kernel,
    thinning: int,
    run: Run,
    *,
    initial: Any = "prior",
    num_warmup: int | None = None,
) -> MCMC:
    """Chains that start at draws from the prior, and warm up for as long as they sample."""
    chains = MCMC(
        problem.log_posterior(),
        kernel=kernel,
        num_warmup=num_warmup or run.chain_steps * thinning,
        num_samples=run.chain_steps,
        num_chains=run.num_chains,
        thinning=thinning,
        initial=initial,
        seed=run.seed,
    )
    return chains.fit(savedir=run.folder("chains"))


def mile(problem: Problem, thinning: int, run: Run) -> MCMC:
    """Microcanonical chains from the members of a deep ensemble (Sommer et al. 2025).

    They start where the posterior is large, and warm up for a step a sample.
    """
    members, steps = deep_ensemble(problem, run), run.chain_steps
    return markov_chains(problem, MCLMC(), thinning, run, initial=members, num_warmup=steps)


def stochastic_gradients(
    problem: Problem, optimizer: keras.optimizers.Optimizer, run: Run, thinning: int = 1
) -> SGMCMC:
    """The weights along a run of a sampler of `tfbdl.optimizers`, which has the prior.

    One in `thinning` of the kept samples stays.
    """
    network = problem.network(run.seed)
    network.compile(optimizer, problem.likelihood)
    burn_in = int(BURN_IN * run.epochs)
    every = thinning * max((run.epochs - burn_in) // KEPT, 1)
    sampler = SGMCMC(network, start=burn_in, every=every, seed=run.seed)
    return sampler.fit(*repeated(problem), **settings(problem, run))


def cycles(rate: float, run: Run) -> CyclicalSchedule:
    """A learning rate in `CYCLES` cycles; the second half of each samples."""
    return CyclicalSchedule(rate, run.steps // CYCLES, exploration=0.5)


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


def ivon(problem: Problem, run: Run) -> MeanFieldVI:
    """The same family by an optimizer that keeps a curvature for each weight (Shen et al. 2024)."""
    rate = keras.optimizers.schedules.CosineDecay(0.1, run.steps)
    network = problem.network(run.seed)
    optimizer = IVON(rate, num_data=problem.num_data, prior=1.0, beta_2=0.9999, seed=run.seed)
    network.compile(optimizer, problem.likelihood)
    method = MeanFieldVI(network, seed=run.seed)
    return method.fit(*repeated(problem), **settings(problem, run))


def last_layer(problem: Problem, run: Run) -> keras.Model:
    """A posterior of V and c, fitted with W and b in closed form (VBLL; Harrison et al. 2024)."""
    keras.utils.set_random_seed(run.seed)
    last = VariationalLastLayer(problem.outputs, num_data=problem.num_data, seed=run.seed)
    model = problem.stack(problem.dense(problem.units, decay=True), last)
    expected = replace(problem, likelihood=Expected(problem.likelihood))
    return trained(expected, model, adam(run), run)


def mc_dropout(problem: Problem, run: Run) -> keras.Model:
    """Dropout of hidden units; a weight that is kept has the prior, as in part III."""
    keras.utils.set_random_seed(run.seed)
    hidden = problem.dense(problem.units, decay=True)
    last = problem.dense(problem.outputs, decay=True, keep=1.0 - RATE)
    model = problem.stack(hidden, MCDropout(RATE, seed=run.seed), last)
    return trained(problem, model, adam(run), run)


def concrete_dropout(problem: Problem, run: Run) -> keras.Model:
    """The same with a learned rate."""
    keras.utils.set_random_seed(run.seed)
    last = ConcreteDropout(
        keras.layers.Dense(problem.outputs, bias_regularizer=problem.penalty()),
        num_data=problem.num_data,
        lengthscale=1.0,
        initial_rate=RATE,
        seed=run.seed,
    )
    model = problem.stack(problem.dense(problem.units, decay=True), last)
    return trained(problem, model, adam(run), run)


def laplace(problem: Problem, run: Run, subset: str = "all", structure: str = "full") -> Laplace:
    """A normal distribution around the mode, by the curvature there."""
    network = at_mode(problem, run)
    posterior = Laplace(
        network,
        problem.likelihood,
        subset_of_weights=subset,
        hessian_structure=structure,
        prior_precision=1.0,
    )
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


def deep_ensemble(problem: Problem, run: Run) -> DeepEnsemble:
    """Modes found by stochastic gradients from `NETWORKS` starts."""

    def build() -> keras.Model:
        layers = [problem.dense(n, decay=True) for n in (problem.units, problem.outputs)]
        model = problem.stack(*layers)
        model.compile(adam(run), problem.likelihood)
        return model

    ensemble = DeepEnsemble(build, NETWORKS, seed=NETWORKS * run.seed)
    return ensemble.fit(*repeated(problem), **settings(problem, run))


def swag(problem: Problem, run: Run, rate: float) -> SWAG:
    """The path of gradient descent at a constant rate, from the mode, as a normal distribution."""
    network = at_mode(problem, run, decay=True)
    network.compile(keras.optimizers.SGD(rate), problem.likelihood)
    return SWAG(network, seed=run.seed).fit(*repeated(problem), **settings(problem, run))

"""Markov chain Monte Carlo over the weights of any Keras model."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tfbdl import arguments
from tfbdl.arguments import integer, number, positive_integer
from tfbdl.inference import kernels
from tfbdl.inference.adaptation import Adaptation
from tfbdl.inference.chain_run import ChainRun
from tfbdl.inference.kernels import Kernel
from tfbdl.inference.log_posterior import LogPosterior, in_type
from tfbdl.inference.progress import Progress
from tfbdl.inference.samples import Samples
from tfbdl.inference.starts import fit_to_target, initial_points
from tfbdl.inference.summary import Quantity, Summary, by_weight
from tfbdl.inference.transitions import Draws, Transitions
from tfbdl.models import Ensemble
from tfbdl.run_folder import held
from tfbdl.spread import Spread
from tfbdl.training import workers

BLOCK_BYTES = 2**26
"""Of samples that one compiled call holds."""


class MCMC:
    """Chains whose samples are draws from a posterior over weights.

    All chains move at once, in compiled calls of many steps, with the transitions of `tfp.mcmc`.
    Each has a step size and metric of its own. A run is a function of its seed, the number of
    chains, and the number of replicas they are spread over.

    Args:
        target: a `LogPosterior`, or any function of theta, shape (C, D), to its log density up to
            a constant, (C,), in nats, with a gradient in TensorFlow.
        kernel: a name, or an object with its settings: "hmc" `HMC`, "nuts" `NUTS`, "mala" `MALA`,
            "langevin" `Langevin` (unadjusted), "rwmh" `RandomWalk`, "flip" `Flip` (binary weights).
        num_warmup: steps before the samples, in which step sizes and metrics are tuned.
        num_samples: S, of each chain.
        num_chains: C. Several show whether they agree.
        thinning: steps from sample to sample.
        initial: where chains start: "prior" draws from it (which spreads them, as R-hat wants),
            "model" takes the weights that the model has; or points of shape (D,) or (C, D).
        jitter: standard deviation of normal noise on the starts.
        seed: of all noise; an integer of 64 bits.
        savedir: a folder for samples and checkpoints. Samples are then memory maps of files. A run
            found there goes on as if it had not stopped, and beyond its end if `num_samples` is
            more. None keeps all in memory.
        strategy: over whose replicas the chains are spread, such as `MirroredStrategy`.
        jit_compile: whether XLA compiles the calls; by default unless it convolves on a
            CPU, where XLA is slow.
        verbose: 0 for no progress bar; it shows in terminals only.

    Attributes:
        kernel: with what the target says of it filled in.
        step_size: of each chain after warm-up, shape (C,).

    Raises:
        ValueError: if an argument is out of its range, the kernel does not fit the prior, or a
            chain starts where the density is not finite.
    """

    def __init__(
        self,
        target: LogPosterior | Callable[[tf.Tensor], tf.Tensor],
        kernel: str | Kernel = "hmc",
        *,
        num_warmup: int = 1000,
        num_samples: int = 1000,
        num_chains: int = 4,
        thinning: int = 1,
        initial: Any = "prior",
        jitter: float = 0.0,
        seed: int = 0,
        savedir: str | os.PathLike[str] | None = None,
        strategy: tf.distribute.Strategy | None = None,
        jit_compile: bool | None = None,
        verbose: int = 1,
    ) -> None:
        self.target = target
        self.kernel = fit_to_target(kernels.get(kernel), target)
        if integer("num_warmup", num_warmup) < 0:
            raise ValueError(f"num_warmup={num_warmup} must be at least 0")
        self.num_warmup = num_warmup
        self.num_samples = positive_integer("num_samples", num_samples)
        self.num_chains = positive_integer("num_chains", num_chains)
        self.thinning = positive_integer("thinning", thinning)
        self.seed = arguments.seed("seed", seed)
        number("jitter", jitter, lambda j: 0 <= j < float("inf"), "at least 0")
        self.savedir = None if savedir is None else Path(savedir)
        self.verbose = verbose
        if strategy is not None and workers.are_several(strategy):
            raise ValueError(
                "strategy spans several processes; chains need none of the others: run MCMC in "
                "each, with a seed and savedir of its own"
            )
        spread = Spread(strategy, jit_compile)
        if num_chains % spread.num_replicas:
            raise ValueError(
                f"num_chains={num_chains} must be a multiple of the strategy's "
                f"{spread.num_replicas} replicas"
            )
        theta = initial_points(target, initial, num_chains, jitter, seed)
        transitions = Transitions(
            target,
            self.kernel,
            Adaptation(self.kernel, num_warmup),
            block=int(np.clip(BLOCK_BYTES // theta.nbytes, 1, 1000)),
        )
        self._chains = ChainRun(
            transitions,
            spread,
            num_warmup=num_warmup,
            num_samples=num_samples,
            thinning=thinning,
        )
        self._start = self._chains.start(theta, seed)
        self._draws: Draws | None = None

    def run(self) -> MCMC:
        """Samples, or goes on where a run in `savedir` was; returns the object itself.

        Raises:
            SamplingError: if a chain moves nowhere, or out of the finite numbers.
            ValueError: if `savedir` holds another run.
            OSError: if it cannot be written, or another process writes into it.
        """
        with held(self.savedir):
            return self._run()

    def _run(self) -> MCMC:
        samples = Samples(Draws.like(self._start), self.num_samples, self.savedir, self._settings())
        position = self._start
        if samples.position is None:
            samples.save(position, 0)
        else:
            position = samples.resumed(position)
        with Progress(self.verbose) as progress:
            position = self._chains.to_the_end(position, samples, progress)
        self._draws = samples.arrays
        self.step_size = position.tuning.step_size
        return self

    @property
    def draws(self) -> Draws:
        """The samples, and what came with them.

        Raises:
            ValueError: if `run` has not been called.
        """
        if self._draws is None:
            raise ValueError("there are no samples yet; call run()")
        return self._draws

    @property
    def theta(self) -> np.ndarray:
        """Samples of the weights, shape (S, C, D)."""
        return self.draws.theta

    def ensemble(self) -> Ensemble:
        """The network with all S C samples of its weights, for `tfbdl.predict`.

        They come in random order, so that the first few are spread over chains and samples.

        Raises:
            ValueError: if the target is no `LogPosterior`, or `run` has not been called.
        """
        target = self._log_posterior()
        theta = self.theta.reshape(-1, target.size)
        order = arguments.generator("seed", self.seed).permutation(len(theta))
        ensemble = Ensemble(target.flat.model, theta[order])
        ensemble.compile(loss=target.likelihood)
        return ensemble

    def outputs(self, x: Any) -> np.ndarray:
        """The network's outputs at x, (N, ...), for each sample: shape (S, C, N, ...).

        Raises:
            ValueError: if the target is no `LogPosterior`, or `run` has not been called.
        """
        target = self._log_posterior()
        x = in_type(x, target.dtype)

        @tf.function
        def of_chains(theta: tf.Tensor) -> tf.Tensor:
            return tf.map_fn(lambda one: target.flat(one, x), theta)

        return np.stack([of_chains(tf.constant(theta)).numpy() for theta in self.theta])

    def summary(self, x: Any = None) -> Summary:
        """Moments and diagnostics of the weights and, if x is given, of the outputs at x.

        Weights of a network that are exchanged for each other give the same function: chains that
        agree on the outputs may well not agree on the weights.

        Args:
            x: inputs, shape (N, ...), in the structure in which the model takes them.

        Raises:
            ValueError: if there are fewer than 4 samples, or `run` has not been called.
        """
        weights = {"theta": self.theta}
        if isinstance(self.target, LogPosterior):
            weights = by_weight(self.theta, self.target.flat)
        quantities = {name: Quantity.of(w) for name, w in weights.items()}
        if x is not None:
            quantities["f(x)"] = Quantity.of(self.outputs(x))
        return Summary(
            quantities,
            accept_prob=np.mean(self.draws.accept_prob, axis=0),
            num_divergent=int(np.sum(self.draws.diverging)),
            num_samples=self.num_samples * self.num_chains,
            num_gradients=int(np.sum(self.draws.num_gradients, dtype=np.int64)),
            step_size=self.step_size,
        )

    def _log_posterior(self) -> LogPosterior:
        if not isinstance(self.target, LogPosterior):
            raise ValueError("target is a function, which has no network; give a LogPosterior")
        return self.target

    def _settings(self) -> dict[str, Any]:
        """What makes a run the same run."""
        state = self._start.state
        return {
            "kernel": repr(self.kernel),
            "num_warmup": self.num_warmup,
            "num_chains": self.num_chains,
            "thinning": self.thinning,
            "seed": self.seed,
            "replicas": len(self._start.key),
            "size": state.theta.shape[1],
            "dtype": str(state.theta.dtype),
            "log density at the start": state.log_prob.tolist(),
        }
